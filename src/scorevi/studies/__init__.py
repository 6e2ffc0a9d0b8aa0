"""Experiments: the paper's studies, and how often the verdict is right."""

STUDY_NAMES = (
    "intuition",
    "dimensions",
    "condition",
    "nongaussian",
    "posteriordb",
    "batch-size",
    "initialization",
    "clock",
)
"""What ``scorevi study`` can run, in the order of the paper."""
SOLVER_NAMES = ("gsm", "bbvi", "bam", "auto")
"""The solvers that take part."""
