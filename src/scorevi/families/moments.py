"""A Gaussian's mean with its covariance or a root of that, as a user gave them: checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scorevi.base.arrays import Array, as_float_array


def checked(mean: ArrayLike, factor: ArrayLike) -> tuple[Array, Array, float]:
    """Check what a user gave, and compute log|det factor|."""
    factor = as_float_array("factor", factor, (None, None))
    mean = as_float_array("mean", mean, (factor.shape[0],))
    if factor.shape[0] != factor.shape[1] or factor.shape[0] == 0:
        raise ValueError(f"`factor` must be square; got shape {factor.shape}.")
    sign, log_det = np.linalg.slogdet(factor)
    if sign == 0:
        raise ValueError("`factor` must be invertible; it is singular.")
    return mean, factor, float(log_det)


def factor_of(mean: ArrayLike, covariance: ArrayLike) -> tuple[Array, Array]:
    """Check mean and covariance, and return the mean and the lower triangular root."""
    mean = as_float_array("mean", mean, (None,))
    dim = mean.shape[0]
    if dim == 0:
        raise ValueError("`mean` must have at least one entry; got shape (0,).")
    covariance = as_float_array("covariance", covariance, (dim, dim))
    variance = np.diag(covariance)
    if (variance <= 0).any():
        worst = int(np.argmin(variance))
        raise ValueError(
            "`covariance` must be positive definite; "
            f"its diagonal entry {worst} is {variance[worst]:.3g}."
        )
    # On the scale of correlations the checks mean the same whatever the units are.
    scale = np.sqrt(variance)
    correlation = covariance / scale / scale[:, None]
    asymmetry = float(np.abs(correlation - correlation.T).max())
    if asymmetry > 1e-8:
        raise ValueError(
            "`covariance` must be symmetric; it differs from its transpose by up to "
            f"{asymmetry:.3g} on the scale of correlations. "
            "If that is rounding, pass (covariance + covariance.T) / 2."
        )
    try:
        root = np.linalg.cholesky((correlation + correlation.T) / 2)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(correlation)[0])
        raise ValueError(
            "`covariance` must be positive definite; its correlation matrix has an "
            f"eigenvalue of {smallest:.3g}."
        ) from None
    return mean, np.asarray(root * scale[:, None], dtype=np.float64)
