"""Fits of one Gaussian, which is what many tests are about, whatever a fit would go on to."""

from functools import partial

import scorevi

fit_gaussian = partial(scorevi.fit, family="gaussian")
iterate_gaussian = partial(scorevi.iterate, family="gaussian")
