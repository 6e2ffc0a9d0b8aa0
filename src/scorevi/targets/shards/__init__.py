"""Targets whose data lie on many workers: a prior, and a sum over shards.

A builder runs on a worker of a Dask cluster, loads its own part of the data there, and returns a
target. What it made stays there as an ordinary Dask future. For each batch the points go out, one
task a shard, and the scores and log densities come back, to be summed here in the order of the
shards. Where a worker is lost, Dask runs its builders on another one, and the tasks that were under
way: since the order of the sum is fixed, the result is the same to the last bit.
"""

from scorevi.targets.shards.making import from_shards
from scorevi.targets.shards.target import ShardedTarget

__all__ = ["ShardedTarget", "from_shards"]
