"""How often the verdict is right: zoo, held-out targets, the eight posteriors, and hierarchies.

``python -m scorevi.studies.trust --out docs/trust.md`` fits and checks all of them, and writes the
tables between the marks of that file. A fit is wrong where the mean of some marginal is off by more
than 0.3 of its standard deviations, or some standard deviation by more than a factor of 1.5.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from scorevi.studies.shapes import groups, shapes
from scorevi.studies.trials import SUITES, Trial, cases, trials

_VERDICTS = ("pass", "warn", "fail")
_NEAR, _SHORT, _FAR = 0.3, 2.0, 3.0
"""Nats below the best Gaussian: where a fit should be, where it must not be called converged, and
where its verdict should fail."""


def confusion(found: Sequence[Trial]) -> str:
    """Return the table of verdicts against the truth, suite by suite."""
    judged = [trial for trial in found if trial.is_judged]
    counts = Counter((trial.suite, trial.wrong, trial.verdict) for trial in judged)
    lines = ["| targets | the fit is | pass | warn | fail |", "|---|---|---|---|---|"]
    for suite in SUITES:
        if any(trial.suite == suite for trial in judged):
            for wrong, word in ((False, "right"), (True, "wrong")):
                row = " | ".join(str(counts[suite, wrong, verdict]) for verdict in _VERDICTS)
                lines.append(f"| {suite} | {word} | {row} |")
    return "\n".join(lines)


def bars(found: Sequence[Trial]) -> str:
    """Return what is asked of fits and verdicts, and what they do."""
    known = [trial for trial in found if not math.isnan(trial.below)]
    judged = [trial for trial in found if trial.is_judged]
    far = [trial for trial in known if trial.below > _FAR]
    right = [trial for trial in judged if not trial.wrong]
    called = [trial for trial in known if trial.below > _SHORT and trial.status == "converged"]
    passed = [trial for trial in judged if trial.wrong and trial.verdict == "pass"]
    rows = [
        (
            f"at most {_NEAR} nats below the best Gaussian at the stop",
            _share([trial.below <= _NEAR for trial in known]),
        ),
        (f"more than {_SHORT:g} nats below, and `converged`", _some(called)),
        ("a wrong fit that passes", _some(passed)),
        (
            f"more than {_FAR:g} nats below: `fail`",
            _share([trial.verdict == "fail" for trial in far]),
        ),
        ("a right fit: `pass`", _share([trial.verdict == "pass" for trial in right])),
    ]
    return "\n".join(["| what | measured |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def _share(yes: Sequence[bool]) -> str:
    return f"{sum(yes)} of {len(yes)} ({sum(yes) / len(yes):.0%})" if yes else "none to tell"


def _some(found: Sequence[Trial]) -> str:
    return "; ".join(f"{trial.target}, seed {trial.seed}" for trial in found) or "none"


def details(found: Sequence[Trial]) -> str:
    """Return a line for each target."""
    lines = [
        "| target | gradients | nats below | mean off, sd | sd off, factor | right | "
        "pass / warn / fail |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(trial.target for trial in found):
        rows = [trial for trial in found if trial.target == name]
        counts = Counter(row.verdict for row in rows)
        gradients = sorted(row.gradients for row in rows)
        right = sum(not row.wrong for row in rows)
        below = [row.below for row in rows]
        tally = " / ".join(str(counts[verdict]) for verdict in _VERDICTS)
        judged = f"{right} of {len(rows)}" if rows[0].is_judged else "not known"
        nats = "" if math.isnan(below[0]) else f"{median(below):.2f}, at most {max(below):.2f}"
        lines.append(
            f"| {name} | {gradients[0]} to {gradients[-1]} | {nats} | "
            f"{_figure(max(row.mean_off for row in rows))} | "
            f"{_figure(max(row.sd_off for row in rows))} | {judged} | {tally} |"
        )
    return "\n".join(lines)


def _figure(value: float) -> str:
    if math.isnan(value):
        return "no truth"
    return f"{value:.2f}" if value < 100 else f"{value:.0e}"


def say(trial: Trial) -> str:
    """Return a trial in one line."""
    word = "wrong" if trial.wrong else "right"
    below = "" if math.isnan(trial.below) else f"{trial.below:.2f} nats below, "
    return (
        f"{word if trial.is_judged else '-----'} {trial.verdict:4} {trial.target}, seed "
        f"{trial.seed}: {trial.gradients} gradients ({trial.start} at the first update, "
        f"{trial.evaluations} for the verdict), {trial.status}, {below}mean "
        f"{_figure(trial.mean_off)}, sd {_figure(trial.sd_off)}, {trial.kind}, resampled "
        f"{_figure(trial.resampled[0])}, {_figure(trial.resampled[1])}; {trial.reason}"
    )


def write(path: Path, tables: dict[str, str]) -> None:
    """Put tables between the marks ``<!-- name -->`` and ``<!-- end -->`` of a file."""
    text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        mark, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(mark)
        if not found or end not in rest:
            raise ValueError(f"{path} has no place for the table: {mark.strip()} … {end}.")
        text = before + mark + table + "\n" + end + rest.partition(end)[2]
    path.write_text(text, encoding="utf-8")


def kept(path: Path, suites: tuple[str, ...], seeds: int) -> list[Trial]:
    """Return the trials in a file, of targets that have all of them."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [Trial(**json.loads(line)) for line in lines]
    counts = Counter((trial.suite, trial.target) for trial in found)
    return [
        trial
        for trial in found
        if trial.suite in suites and counts[trial.suite, trial.target] == seeds
    ]


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--suite", choices=SUITES, action="append", help="all by default")
    parser.add_argument("--only", default="", help="targets whose names contain this")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the file to put the tables into")
    parser.add_argument(
        "--keep",
        type=Path,
        help="a file to add each trial to, a line of JSON; targets that it has are not run again",
    )
    options = parser.parse_args()
    suites = tuple(options.suite or SUITES)
    found = [] if options.keep is None else kept(options.keep, suites, options.seeds)
    done = {(trial.suite, trial.target) for trial in found}
    for trial in trials(suites, options.seeds, options.only, options.processes, done):
        found.append(trial)
        print(say(trial), flush=True)
        if options.keep is not None:
            with options.keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(trial._asdict()) + "\n")
    order = [(suite, name) for suite in suites for name in cases(suite)]
    found.sort(key=lambda trial: (order.index((trial.suite, trial.target)), trial.seed))
    tables = {
        "bars": bars(found),
        "confusion": confusion(found),
        "targets": details(found),
        "groups": groups(found),
        "shapes": shapes(found),
    }
    if options.out is not None:
        write(options.out, tables)
    print("\n\n".join(["", *tables.values()]))


if __name__ == "__main__":
    main()
