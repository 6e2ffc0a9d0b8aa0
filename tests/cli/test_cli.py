"""The command line as a person and as a script meet it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import numpy as np
import pytest
from command import command_line, environment, run, run_process
from waiting import CEILING, Clock, wait_until

import scorevi

MODEL = """
import numpy as np
import scorevi

target = scorevi.from_function(lambda x: [1.0, -2.0] - x, 2, names=["alpha", "beta"], batched=True)
half = scorevi.from_function(
    lambda x: np.where(x[:, :1] > 0, -x, np.nan), 2, batched=True)
broken = scorevi.from_function(lambda x: x * np.nan, 2, batched=True)
odd = scorevi.from_function(lambda x: -x, 2, names=["beta[age]", "[/oops]"], batched=True)
flat = scorevi.from_function(np.zeros_like, 2, batched=True)
number = 3

def make():
    return target

def score(x):
    return -x

def log_density(x):
    return -0.5 * ((x - 1.0) ** 2).sum()

def endless():
    from pathlib import Path
    calls = []
    def score(x):
        calls.append(x)
        if len(calls) == 50:
            Path("under-way").touch()
        return -x
    return scorevi.from_function(score, 2, batched=True)

def stopped():
    import signal
    return scorevi.from_function(lambda x: signal.raise_signal(signal.SIGINT), 2, batched=True)
def own_words():
    raise ValueError("the `dim` of my `data` is odd")

def crash():
    raise RuntimeError("no such\\ndata")
"""


SECONDS = re.compile(r', [\d.]+ m?s\b|"seconds": [\d.e-]+')


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


@pytest.mark.slow
def test_demo_prints_the_parameters_and_saves_a_picture(folder):
    pytest.importorskip("matplotlib")
    result = run_process(folder, "demo")
    assert result.returncode == 0, result.stderr
    for word in ("parameter", "mean", "sd", "5%", "95%", "mu", "tau", "theta[7]", "status:"):
        assert word in result.stdout
    assert "verdict:    pass" in result.stdout
    assert (folder / "scorevi-demo.png").read_bytes()[:4] == b"\x89PNG"
    assert "\x1b" not in result.stdout + result.stderr
    assert result.stderr == ""
    again = run(folder, "demo", "--json", "--picture", "again.png")
    assert json.loads(again.stdout)["files"] == {"picture": "again.png"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "model.py:target", "--rows", "1"],
        ["fit", "model.py:broken", "--json"],
        ["fit", "model.py:crash"],
        ["fit"],
    ],
)
def test_a_process_says_what_the_tests_here_hear(folder, arguments):
    """Most of them call the command line in their own process, which is twenty times as fast."""
    here, there = run(folder, *arguments), run_process(folder, *arguments)
    assert here.returncode == there.returncode
    for one, two in ((here.stdout, there.stdout), (here.stderr, there.stderr)):
        assert SECONDS.sub("", one) == SECONDS.sub("", two)


def test_in_a_terminal_there_is_a_progress_bar(folder):
    main, child = pty.openpty()
    command = command_line(["fit", "model.py:target", "--no-stop", "--max-gradients", 2000])
    with subprocess.Popen(
        command, cwd=folder, stdin=child, stdout=child, stderr=child, env=environment()
    ) as process:
        os.close(child)
        shown = b""
        while select.select([main], [], [], CEILING)[0]:
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert process.wait(CEILING) == 0
    os.close(main)
    assert b"fitting" in shown
    assert b"2,000 gradients" in shown
    assert b"\x1b[" in shown
    assert b"alpha" in shown


def test_fit_saves_and_show_shows(folder):
    result = run(
        folder, "fit", "model.py:target", "--max-gradients", 300, "--no-stop", "--seed", 3,
        "--out", "fit.npz",
        "--draws", "draws.csv", "--num-draws", 50,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "alpha" in result.stdout
    assert "fit.npz" in result.stdout
    fit = scorevi.load(folder / "fit.npz")
    assert fit.num_gradients == 300
    assert fit.seed == 3
    np.testing.assert_allclose(fit.mean, [1.0, -2.0], atol=1e-6)
    lines = (folder / "draws.csv").read_text().splitlines()
    assert lines[0] == "alpha,beta"
    assert len(lines) == 51
    for name in ("fit.npz", "fit"):
        shown = run(folder, "show", name)
        assert shown.returncode == 0
        assert shown.stdout.splitlines()[1] == result.stdout.splitlines()[1]


def test_json_is_json(folder):
    result = run(folder, "fit", "model.py:target", "--json")
    answer = json.loads(result.stdout)
    assert answer["status"] == "converged"
    assert answer["verdict"]["word"] == "warn"
    assert answer["elbo"] is None
    assert [row["name"] for row in answer["parameters"]] == ["alpha", "beta"]
    assert answer["parameters"][0]["mean"] == pytest.approx(1.0)


@pytest.mark.jax
def test_a_jax_log_density_needs_only_its_dimension(folder):
    pytest.importorskip("jax")
    arguments = ("--dim", 3, "--initial", "mode", "--json")
    result = run(folder, "fit", "model:log_density", *arguments)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert [row["mean"] for row in answer["parameters"]] == pytest.approx([1.0] * 3)


def test_a_function_that_makes_the_target_and_a_point_to_start_from(folder):
    result = run(folder, "fit", "model.py:make", "--initial", "0.5,-1", "--rows", 1)
    assert result.returncode == 0
    assert "... and 1 more; --rows 0 shows all" in result.stdout


@pytest.mark.parametrize(("name", "word"), [("broken", "bad-scores"), ("flat", "diverged")])
def test_a_failed_fit_exits_with_1_and_says_so(folder, name, word):
    options = ["--solver", "gsm", "--out", "fit.npz", "--draws", "draws.csv"]
    result = run(folder, "fit", f"model.py:{name}", *options)
    assert result.returncode == 1
    assert f"status:     {word}" in result.stdout
    assert "NOT FITTED" in result.stdout
    assert "Traceback" not in result.stderr
    assert "Warning" not in result.stderr
    # What has diverged was something before; what never had a score was nothing.
    nothing = name == "broken"
    assert (folder / "fit.npz").exists() is not nothing
    assert ("--out fit.npz was not written: nothing was fitted" in result.stderr) is nothing
    assert run(folder, "show", "fit.npz").returncode == (2 if nothing else 1)
    assert not (folder / "draws.csv").exists()
    assert "--draws draws.csv was not written: nothing was fitted" in result.stderr


@pytest.mark.parametrize(("name", "seconds", "code"), [("target", 1e-9, 1), ("stopped", 60, 130)])
def test_what_ended_before_its_first_update_leaves_no_file(folder, name, seconds, code):
    options = ["--out", "fit.npz", "--draws", "draws.csv", "--max-seconds", seconds]
    result = run(folder, "fit", f"model.py:{name}", *options)
    assert result.returncode == code
    assert "NOT FITTED" in result.stdout
    assert "holds what was reached" not in result.stdout
    assert not list(folder.glob("*.npz")) + list(folder.glob("*.csv"))
    for option in ("--out fit.npz", "--draws draws.csv"):
        assert f"scorevi: note: {option} was not written: nothing was fitted." in result.stderr


def test_bad_scores_are_reported(folder):
    result = run(folder, "fit", "model.py:half")
    assert "bad scores:" in result.stdout
    assert "the score is NaN" in result.stdout


def test_ctrl_c_prints_what_there_is_and_exits_with_130(folder):
    command = command_line(["fit", "model.py:endless", "--max-gradients", 10**12, "--no-stop"])
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        wait_until((folder / "under-way").exists, "the 50th score", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=CEILING)
    assert process.returncode == 130, err
    assert b"interrupted" in out
    assert b"theta[0]" in out
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "model.py"],
            "TARGET must be model.stan, module:name or file.py:name; got 'model.py'",
        ),
        (["fit", "nothing.py:x"], "there is no file nothing.py"),
        (["fit", "nothing:x"], "there is no module 'nothing'"),
        (["fit", "model.py:nothing"], "model.py has no 'nothing'; it has np, scorevi, target"),
        (["fit", "model.py:number"], "`target` must be a target"),
        (["fit", "model.py:number"], "or an object with the members dim and score; got int"),
        (["fit", "model.py:own_words"], "the `dim` of my `data` is odd"),
        (["fit", "model.py:score"], "is a function of 1 argument(s). If it is a log density"),
        (["fit", "model.py:crash"], "RuntimeError: no such data (--debug shows where)"),
        (["fit", "model.py:target", "--max-gradients", "0"], "--max-gradients must be a whole"),
        (["fit", "model.py:target", "--batch-size", "0"], "--batch-size must be a whole"),
        (["fit", "model.py:target", "--initial", "nowhere"], "--initial must be one of auto, mode"),
        (
            ["fit", "model.py:target", "--initial", "1,2,3"],
            "--initial must have shape (2,); got (3,)",
        ),
        (
            ["fit", "model.py:target", "--out", "no/fit.npz"],
            "--out must lie in an existing folder; there is no no.",
        ),
        (["fit", "model.py:target", "--out", "fit.nc"], "--out must end in .npz; got fit.nc"),
        (["fit", "model.py:target", "--draws", "x.txt"], "--draws must end in one of .nc, .csv"),
        (
            ["fit", "model.py:target", "--draws", "no/x.nc"],
            "--draws must lie in an existing folder; there is no no.",
        ),
        (["fit", "model.py:target", "--observed", "y"], "--observed is for a Stan program"),
        (["compile", "gp.json"], "PROGRAM must end in .stan; got gp.json"),
        (
            ["compile", "gp.stan", "--out", "gp.txt"],
            "--out must end in .so or .dylib; got gp.txt",
        ),
        (["compile", "gp.stan"], "PROGRAM must be a Stan program or a path to one; there is no"),
        (["fit", "numpy:ndarray"], "numpy:ndarray is a class; give an object of it"),
        (["show", "model.py"], "PATH must be a file written by Fit.save"),
        (["show", "nothing.npz"], "PATH must be a file; there is none at nothing.npz"),
    ],
)
def test_errors_are_one_line_and_exit_with_2(folder, arguments, message):
    result = run(folder, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("scorevi: error: ")
    assert result.stdout == ""


def test_debug_shows_the_traceback(folder):
    for line in (["--debug", "fit", "model.py:crash"], ["fit", "model.py:crash", "--debug"]):
        result = run(folder, *line)
        assert result.returncode == 2
        assert "Traceback" in result.stderr
        assert "RuntimeError" in result.stderr


def test_names_are_printed_as_they_are(folder):
    result = run(folder, "fit", "model.py:odd")
    assert "beta[age]" in result.stdout
    assert "[/oops]" in result.stdout


def test_a_file_that_cannot_be_written_is_said_though_the_fit_is_printed(folder):
    for name in ("target", "flat"):
        options = ["--solver", "gsm", "--out", "/proc/fit.npz"]
        result = run(folder, "fit", f"model.py:{name}", *options)
        assert result.returncode == 2
        assert "could not be written: /proc/fit.npz" in result.stderr
        assert "status:" in result.stdout


def test_with_a_limit_in_time_alone_there_is_none_in_gradients(folder, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", Clock(tick=2e-4))
    result = run(folder, "fit", "model.py:target", "--max-seconds", 1, "--no-stop", "--json")
    answer = json.loads(result.stdout)
    assert answer["status"] == "time"
    assert answer["num_gradients"] > 2000


def test_help_keeps_its_lines(folder):
    shown = run(folder, "fit", "--help").stdout
    assert "\\b" not in shown
    assert "    - an object with `dim` and `score`\n" in shown


def test_usage_errors_and_help(folder):
    result = run(folder, "fit", "model.py:target", "--solver", "nuts")
    assert result.returncode == 2
    assert result.stderr.startswith("scorevi fit: error: Invalid value for '--solver': 'nuts'")
    assert len(result.stderr.splitlines()) == 1
    assert run(folder, "fit").stderr == (
        "scorevi fit: error: Missing argument 'TARGET'. (see --help)\n"
    )
    assert "Usage:" in run(folder).stderr
    for command in ([], ["fit"], ["show"], ["demo"]):
        shown = run(folder, *command, "--help")
        assert shown.returncode == 0
        assert "Usage:" in shown.stdout
    assert "Exit codes:" in run(folder, "--help").stdout
    assert run(folder, "--version").stdout == f"scorevi, version {scorevi.__version__}\n"


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(folder):
    for form in ("", "--json"):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as closed:
            result = subprocess.run(
                command_line(["fit", "model.py:target", *form.split()]),
                cwd=folder,
                stdout=closed,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert result.returncode == -signal.SIGPIPE
        assert result.stderr == ""


@pytest.mark.jax
def test_what_a_log_density_raises_is_one_line(folder):
    pytest.importorskip("jax")
    result = run(folder, "fit", "json:loads", "--dim", 3)
    assert result.returncode == 2
    assert "`log_density` raised TypeError: the JSON object must be" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_saved_fit_is_drawn_and_reported(folder):
    line = ("fit", "model.py:target", "--out", "fit.npz", "--report", "own.html")
    made = run(folder, *line)
    assert made.returncode == 0
    assert "report:     own.html" in made.stdout
    drawn = run(folder, "plot", "fit.npz", "pairs", "--parameter", "alpha", "--parameter", "beta")
    assert (drawn.returncode, drawn.stdout) == (0, "fit-pairs.png\n"), drawn.stderr
    assert (folder / "fit-pairs.png").read_bytes()[:4] == b"\x89PNG"
    for kind in ("overview", "correlation"):
        assert run(folder, "plot", "fit", kind, "-o", f"{kind}.svg").stdout == f"{kind}.svg\n"
        assert "<svg" in (folder / f"{kind}.svg").read_text()
    told = run(folder, "report", "fit.npz", "-o", "a.html", "--title", "<Mine>")
    assert (told.returncode, told.stdout) == (0, "a.html\n"), told.stderr
    page = (folder / "a.html").read_text()
    assert "<h1>&lt;Mine&gt;</h1>" in page
    assert f"scorevi {' '.join(line)}" in page
    assert f"scorevi {' '.join(line)}" in (folder / "own.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plot", "none.npz"), "PATH must be a file; there is none at none.npz."),
        (("plot", "fit.npz", "pairs", "--parameter", "theta[0]"), "must be 2 to 8 names; got 1."),
        (("plot", "fit.npz", "-o", "a.xyz"), "--out must end in one of "),
        (("plot", "fit.npz", "course", "--parameter", "beta"), "`parameters` must be left out"),
        (("plot", "fit.npz", "weights"), "they come from fit.check(), and need the log density."),
        (("fit", "model.py:target", "--report", "a.pdf"), "--report must end in .html; got a.pdf."),
        (("report", "fit.npz", "-o", "a.pdf"), "--out must end in .html; got a.pdf."),
        (("report", "fit.npz", "-o", "x/a.html"), "--out must lie in an existing folder"),
    ],
)
def test_what_cannot_be_drawn_or_reported_is_said(folder, arguments, message):
    scorevi.fit(scorevi.Gaussian.standard(2)).save(folder / "fit.npz")
    result = run(folder, *arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_what_is_saved_and_no_fit_cannot_be_drawn(folder, monkeypatch):
    monkeypatch.setattr("scorevi.cli.looking.load", lambda path: scorevi.Gaussian.standard(2))
    for command in ("plot", "report"):
        result = run(folder, command, "other.npz")
        assert result.returncode == 2
        assert "PATH must be a saved fit; other.npz is a gaussian." in result.stderr
