"""Measuring solvers against known answers."""
