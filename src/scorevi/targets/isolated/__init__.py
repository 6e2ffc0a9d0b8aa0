"""Targets in processes of their own: a crash, a hang or a slow score is no longer ours.

Every point is evaluated by itself, in one of several worker processes. A worker that dies, or does
not answer in time, is replaced; its point has no score, for a reason that is reported, and the
other points are not touched. The result does not depend on the number of workers.

Workers are started afresh, not forked: a fork of a process with threads, as JAX and BLAS have
them, may hang. The target goes to them by ``cloudpickle``, which takes closures and lambdas.
"""

from scorevi.targets.isolated.target import IsolatedTarget, Isolation, evaluating

__all__ = ["IsolatedTarget", "Isolation", "evaluating"]
