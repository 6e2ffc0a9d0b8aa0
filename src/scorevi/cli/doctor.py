"""``scorevi doctor``: what works here, and the one command that gets the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
from threadpoolctl import threadpool_info

from scorevi._version import __version__
from scorevi.base.extras import extras, require
from scorevi.cli.options import json_option
from scorevi.cli.output import EXIT_FAILED
from scorevi.families import Gaussian
from scorevi.fit import fit
from scorevi.targets.stan.toolchain import Toolchain, find_compiler, version_of

_GIVES = {
    "jax": "log densities in JAX",
    "numpyro": "NumPyro models",
    "pymc": "PyMC models",
    "stan": "Stan programs",
    "arviz": "ArviZ, and files for it",
    "tables": "pandas and Parquet",
    "plots": "pictures",
    "sample": "exact draws",
    "sample-jax": "exact draws in compiled JAX",
    "dask": "data on many machines",
}
_COMPANIONS = ("platformdirs", "filelock", "stanio")
"""What comes with others, and has nothing to say of its own."""
_SHORT = 100


class Finding(NamedTuple):
    """What was found of one thing."""

    state: str
    """``works``, ``missing`` or ``broken``."""
    what: str
    detail: str
    remedy: str = ""
    """The command that gets it; of an extra, its name."""


@click.command()
@json_option
def doctor(json_: bool) -> None:
    """Say what works here: versions, extras, compiler, threads; and what gets the rest.

    Everything that is installed is imported, which takes some seconds. Exits with 1 where
    something is broken, and with 0 where it is only missing.
    """
    facts = _facts()
    findings = [_core(), *(_extra(extra, modules) for extra, modules in extras().items())]
    findings.append(_compiler())
    rest = _rest(findings)
    if json_:
        told = {"facts": facts, "findings": [f._asdict() for f in findings], "rest": rest}
        click.echo(json.dumps(told, indent=2))
    else:
        for name, fact in facts.items():
            click.echo(f"{name + ':':10}{fact}")
        click.echo()
        for finding in findings:
            click.echo(f"{finding.state:9}{finding.what:31}{finding.detail}".rstrip())
        click.echo()
        for line in rest or ["All is here."]:
            click.echo(line)
    if any(finding.state == "broken" for finding in findings):
        sys.exit(EXIT_FAILED)


def _facts() -> dict[str, str]:
    """Return versions, cores and threads."""
    numeric = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy"))
    pools = {
        f"{pool.get('internal_api', '?')} {pool.get('version') or ''}".strip(): pool["num_threads"]
        for pool in threadpool_info()
        if pool.get("user_api") == "blas"
    }
    blas = ", ".join(f"{name} with {count} thread(s)" for name, count in pools.items())
    return {
        "scorevi": f"{__version__}, in {Path(__file__).parents[1]}",
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "numbers": numeric,
        "BLAS": f"{blas or 'not known'}; steps in fewer than 700 dimensions use one",
        "cores": str(os.cpu_count()),
    }


def _core() -> Finding:
    """Make a fit whose answer is known."""
    begin = time.perf_counter()
    try:
        made = fit(Gaussian.from_moments([1.0, 2.0], [[2.0, 0.6], [0.6, 1.0]]), progress=False)
        right = abs(made.mean - [1.0, 2.0]).max() < 1e-6
    except Exception as error:
        return Finding("broken", "a fit", _told(error))
    spent = f"{time.perf_counter() - begin:.2f} s"
    return Finding("works" if right else "broken", "a fit", spent if right else "a wrong answer")


def _extra(extra: str, modules: list[str]) -> Finding:
    what = _GIVES.get(extra, extra)
    absent = [module for module in modules if importlib.util.find_spec(module) is None]
    if absent:
        return Finding("missing", what, f"needs {', '.join(absent)}", extra)
    try:
        for module in modules:
            if module != "httpstan":  # half a web server would start
                require(module)
    except Exception as error:
        return Finding("broken", what, _told(error), extra)
    shown = (module for module in modules if module not in _COMPANIONS)
    return Finding("works", what, ", ".join(f"{name} {_version(name)}" for name in shown))


def _compiler() -> Finding:
    what = "a C++ compiler, for Stan"
    found = find_compiler()
    if found is None:
        try:
            Toolchain.find().compiler  # noqa: B018  (its message says what to install)
        except Exception as error:
            return Finding("missing", what, str(error))
        return Finding("missing", what, "none was found")
    said = version_of(found).partition("\n")[0]
    return Finding("works", what, said or " ".join(found))


def _rest(findings: list[Finding]) -> list[str]:
    """Return the one command that gets what is missing or broken, and what pip cannot."""
    wanted = [f.remedy for f in findings if f.state != "works" and f.remedy]
    lines = [f"To get the rest: pip install 'scorevi[{','.join(wanted)}]'"] if wanted else []
    return lines + [f.detail for f in findings if f.state == "missing" and not f.remedy]


def _version(module: str) -> str:
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


def _told(error: Any) -> str:
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) <= _SHORT else text[: _SHORT - 3] + "..."
