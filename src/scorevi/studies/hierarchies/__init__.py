"""Hierarchies of the shapes that people bring, with simulated data and long NUTS runs as truth.

Centered forms have funnels: their log density grows without bound as a scale goes to zero.

============================  ====================================================================
radon, radon-predictor        varying intercepts of 85 groups; with a predictor of the groups
clinics                       varying intercepts of 40 groups that hardly differ
cafes, schools                correlated intercepts and slopes
growth                        growth curves with vague priors of the precisions
plates, seeds, hospitals      binomial rates; the last two with vague priors of the precision
sites, population             Poisson counts with an effect for each observation
items                         item response theory of two parameters
meta-8, meta-40               meta-analysis
crossed                       two crossed factors
level                         a random walk seen through noise
horseshoe, horseshoe-wide     regression with a regularised horseshoe prior
process-normal, -poisson      Gaussian processes
two-normals                   a mixture with ordered labels
============================  ====================================================================

Names end in the form, ``-centered`` or ``-noncentered``, where a model has two; in ``-stan`` where
it is a Stan program.
"""

from scorevi.studies.hierarchies.suite import HELD_OUT, hierarchies

__all__ = ["HELD_OUT", "hierarchies"]
