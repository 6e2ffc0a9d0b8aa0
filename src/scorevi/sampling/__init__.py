"""From a fit to draws of the posterior: by importance weights, or by NUTS in q's coordinates.

What is looked at first (:mod:`scorevi.sampling.looking`) decides between the two. Both go in
rounds, each a function of the seed, its number and what was drawn before, so that what is kept
between two of them is all that a run that was killed needs to go on, to the same bits.
"""
