"""From what is typed on the command line to a target."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from scorevi.base.arrays import Array, as_float_array
from scorevi.targets import Target, as_target, from_jax, from_stan

_STAN_ENDINGS = (".stan", ".so", ".dylib")


def load_target(
    text: str, dim: int | None = None, *, by_value: bool = False, **stan: Any
) -> Target:
    """Return the target that ``model.stan``, ``module:name`` or ``file.py:name`` stands for.

    What else is given is for :func:`scorevi.from_stan`. What a file defines is sent to other
    processes ``by_value`` where they may not have the file.
    """
    if Path(text).suffix in _STAN_ENDINGS:
        if dim is not None:
            raise ValueError(f"--dim is for a log density in JAX; {text} is a Stan program.")
        return from_stan(Path(text), **stan)
    for option in ("data", "include_paths", "observed", "predictive"):
        if stan.get(option):
            raise ValueError(f"`{option}` is for a Stan program; got {text}.")
    thing = _named(text, by_value)
    if dim is not None:
        if not callable(thing):
            raise ValueError(f"--dim is for a log density; {text} is not a function.")
        return from_jax(thing, dim)
    if inspect.isclass(thing):
        raise ValueError(f"{text} is a class; give an object of it, or a function that makes one.")
    if inspect.isfunction(thing):
        if _required_arguments(thing):
            raise ValueError(
                f"{text} is a function of {_required_arguments(thing)} argument(s). If it is a "
                "log density in JAX, say --dim; else make a target of it in the file with "
                "scorevi.from_function."
            )
        thing = thing()
    return as_target(thing)


def load_function(text: str, *, by_value: bool = False) -> Any:
    """Return the function that ``module:name`` or ``file.py:name`` stands for."""
    function = _named(text, by_value, "FACTORY")
    if not callable(function):
        raise ValueError(f"FACTORY must be a function; {text} is {type(function).__name__}.")
    return function


def _named(text: str, by_value: bool, argument: str = "TARGET") -> Any:
    """Return what a module or file has under a name."""
    module_text, colon, name = text.rpartition(":")
    if not colon or not module_text or not name:
        kinds = "model.stan, module:name" if argument == "TARGET" else "module:name"
        raise ValueError(f"{argument} must be {kinds} or file.py:name; got {text!r}.")
    module = _import(module_text, by_value)
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            public = [key for key in vars(module) if not key.startswith("_")]
            known = ", ".join(public[:12]) or "nothing"
            raise ValueError(f"{module_text} has no {name!r}; it has {known}.")
        thing = getattr(thing, part)
    return thing


def load_point(text: str | None, ways: tuple[str, ...]) -> str | Array | None:
    """Read the command line's start: one of ``ways``, or numbers with commas between them."""
    if text is None or text in ways:
        return text
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--initial must be one of {', '.join(ways)}, or numbers with commas between them; "
            f"got {text!r}."
        ) from None
    return as_float_array("initial", numbers, (None,))


def _required_arguments(function: Any) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)


def _import(text: str, by_value: bool) -> ModuleType:
    path = Path(text)
    if path.suffix == ".py":
        if not path.is_file():
            raise ValueError(f"there is no file {path}.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        sys.path.insert(0, str(path.resolve().parent))
        if by_value:
            import cloudpickle

            # Before it runs: it may pickle what it defines.
            cloudpickle.register_pickle_by_value(module)
        spec.loader.exec_module(module)
        return module
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(text)
    except ModuleNotFoundError as error:
        if error.name is not None and text.startswith(error.name):
            raise ValueError(
                f"there is no module {text!r} here or among the installed ones."
            ) from None
        raise
