"""``scorevi study``: the experiments of the paper, and what became of its claims."""

from __future__ import annotations

import os
from pathlib import Path

import click

from scorevi._extras import require
from scorevi.cli.options import progress_option

_STUDIES = (
    "intuition",
    "dimensions",
    "condition",
    "nongaussian",
    "posteriordb",
    "batch-size",
    "initialization",
    "clock",
)
_SOLVERS = ("gsm", "bbvi", "bam", "auto")

_HELP = f"""Run the study NAME of the GSM-VI paper, or go on with it.

\b
NAME is one of
  {', '.join(_STUDIES[:4])},
  {', '.join(_STUDIES[4:])},
  all        every one of them
  scorecard  no runs: gather what is on disk into one page

Results go to a folder for each study: results.csv with a row for each run, checkpoint and metric,
the figure as PNG and SVG, and the lines of the scorecard. What is finished is not computed again.

\b
Examples:
  scorevi study dimensions --quick
  scorevi study posteriordb --posteriordb posteriordb/posterior_database
  scorevi study posteriordb --posterior radon_mn-radon_pooled
  scorevi study all && scorevi study scorecard
"""
