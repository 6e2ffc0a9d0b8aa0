"""A logistic regression with ten observations a dimension."""

from __future__ import annotations

import numpy as np


def observations(dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a design, (10 D, D), and outcomes, 0 or 1."""
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((10 * dim, dim)) * (3.0 / np.sqrt(dim))
    chance = 1.0 / (1.0 + np.exp(-design @ rng.standard_normal(dim)))
    return design, (rng.random(len(design)) < chance).astype(float)
