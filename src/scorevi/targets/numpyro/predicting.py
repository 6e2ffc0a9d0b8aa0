"""Draws of data from a NumPyro model, given draws of its parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.variables import Constrain

_ROWS = 64
"""Rows of each call, which bounds the memory it takes."""


def drawn_like(
    jax: Any, sites: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], key: Any
) -> OrderedDict[str, Any]:
    """Return the values of sites that were drawn anew, in the shapes of the data.

    One distribution may stand for many data: then it is drawn from as many times.
    """
    values = OrderedDict()
    for number, (name, shape) in enumerate(shapes.items()):
        site = sites[name]
        values[name] = site["value"]
        if jax.numpy.shape(site["value"]) != shape:
            batch = shape[: len(shape) - site["fn"].event_dim]
            own = jax.random.fold_in(key, number)
            values[name] = site["fn"].expand(batch).sample(own)
    return values


@dataclass(frozen=True, eq=False)
class Predicting:
    """A function from draws (n, D) and a seed to draws of data, each of shape (n, *shape)."""

    constrain: Constrain
    draw: Callable[[Any, Any], Any]
    """From the values of the latent sites of one draw, and a key, to data by name."""

    def __call__(self, theta: Array, seed: int) -> dict[str, Array]:
        """Draw data at the rows of theta."""
        values = {name: np.asarray(value) for name, value in self.constrain(theta).items()}
        try:
            return self._drawn(values, len(theta), seed, double=True)
        except TypeError:
            # Some of NumPyro's samplers, the binomial's for one, mix whole numbers of two widths
            # in double precision; data that are drawn need it least of all.
            return self._drawn(values, len(theta), seed, double=False)

    def _drawn(
        self, values: Mapping[str, Array], count: int, seed: int, *, double: bool
    ) -> dict[str, Array]:
        jax = require("jax")
        word = np.random.SeedSequence(seed).generate_state(1, np.uint32)[0]
        parts = []
        with jax.enable_x64(double):
            keys = jax.random.split(jax.random.key(int(word)), count)
            for start in range(0, count, _ROWS):
                # Filled up with the last row, so that one size alone is compiled for.
                rows = np.minimum(np.arange(start, start + _ROWS), count - 1)
                part = {name: value[rows] for name, value in values.items()}
                parts.append(self._compiled(part, keys[rows]))
            joined = jax.tree.map(lambda *arrays: np.concatenate(arrays)[:count], *parts)
        return dict(joined)

    @cached_property
    def _compiled(self) -> Any:
        jax = require("jax")
        return jax.jit(jax.vmap(self.draw))
