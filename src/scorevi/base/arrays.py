"""Array types, and the checks of user input that every entry point shares."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = Any
"""An array of NumPy or of JAX: solvers are written once for both."""

Seed: TypeAlias = "int | np.random.SeedSequence | np.random.Generator | None"


def namespace(array: AnyArray) -> Any:
    """Return the array library (``numpy`` or ``jax.numpy``) that ``array`` belongs to."""
    return np if type(array) is np.ndarray else array.__array_namespace__()


def as_float_array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """Convert user input to a finite ``float64`` array of a given shape.

    Parameters
    ----------
    name
        The argument's name, for the message.
    value
        What the user gave.
    shape
        The shape expected; ``None`` in it admits any length.
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "buif":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be an array of real numbers; got {_describe(value)}."
        ) from None
    matches = array.ndim == len(shape) and all(
        want is None or want == got for want, got in zip(shape, array.shape, strict=True)
    )
    if not matches:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        wanted = f"({wanted},)" if len(shape) == 1 else f"({wanted})"
        raise ValueError(f"`{name}` must have shape {wanted}; got {array.shape}.")
    if not np.isfinite(array).all():
        bad = int(np.size(array) - np.isfinite(array).sum())
        raise ValueError(f"`{name}` must be finite; {bad} of its entries are NaN or infinite.")
    return array


def as_count(name: str, value: Any, *, optional: bool = False, least: int = 1) -> int:
    """Check that a user's ``value`` is a whole number of at least ``least``."""
    wanted = f"`{name}` must be a whole number >= {least}{' or None' if optional else ''}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        raise ValueError(f"{wanted}; got {_describe(value)}.")
    if isinstance(value, (float, np.floating)) and not float(value).is_integer():
        raise ValueError(f"{wanted}; got {value}.")
    if int(value) < least:
        raise ValueError(f"{wanted}; got {value}.")
    return int(value)


def as_seconds(name: str, value: Any) -> float | None:
    """Check that a user's ``value`` is a time above zero; None stands for no limit."""
    if value is None:
        return None
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not value > 0:
        raise ValueError(f"`{name}` must be a positive number; got {value!r}.")
    return float(value)


def is_positive(value: Any) -> bool:
    """Return whether a user's ``value`` is one finite number above zero."""
    if isinstance(value, (bool, np.bool_, str)) or np.ndim(value) != 0:
        return False
    try:
        return 0.0 < float(value) < float("inf")
    except (TypeError, ValueError, OverflowError):
        return False


def as_rng(seed: Seed) -> np.random.Generator:
    """Return a generator for any accepted form of seed; a Generator is used as it is."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(seed_entropy(seed))


def seed_entropy(seed: Seed) -> int:
    """Turn any accepted form of seed into one non-negative integer.

    Examples
    --------
    >>> seed_entropy(3)
    3
    """
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if seed is None:
        seed = np.random.SeedSequence()
    if isinstance(seed, np.random.SeedSequence):
        return int.from_bytes(seed.generate_state(2, np.uint64).tobytes(), "little")
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(
            "`seed` must be a whole number >= 0, a SeedSequence, a Generator or None; "
            f"got {_describe(seed)}."
        )
    return int(seed)


def _describe(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
