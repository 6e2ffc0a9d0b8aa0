"""Dask clusters: the user's own, one at an address, or processes that are started here."""

from scorevi.base.cluster.connecting import ClientLike, check_client, connected, is_client
from scorevi.base.cluster.waiting import first_of, gone, results_of, wait_for

__all__ = [
    "ClientLike",
    "check_client",
    "connected",
    "first_of",
    "gone",
    "is_client",
    "results_of",
    "wait_for",
]
