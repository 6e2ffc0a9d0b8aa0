"""Benchmarks: ratios measured in one run on one thread. ``make bench`` runs them."""
