"""Experiments: the paper's studies, one of ours, and how often the verdict is right."""

STUDY_NAMES = (
    "intuition",
    "dimensions",
    "condition",
    "nongaussian",
    "posteriordb",
    "batch-size",
    "initialization",
    "clock",
    "hierarchies",
)
"""What ``scorevi study`` can run: those of the paper, in its order, and the library's own."""
SOLVER_NAMES = ("gsm", "bbvi", "bam", "auto")
"""The solvers that take part."""
