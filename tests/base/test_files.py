"""Files that appear whole, whatever happens to those who write them."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import gsm_fit

import scorevi
from scorevi.base.files import appearing, write_arrays
from scorevi.results.writing import write_draws


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [OSError, ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_goes_wrong_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with appearing(path) as part:
            part.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ["a.txt"]
    assert path.read_text() == "old"


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    for durable in (False, True):
        with pytest.raises(ValueError, match="allow_pickle"):
            write_arrays(
                tmp_path / "a.npz", {"a": np.array([object()], dtype=object)}, durable=durable
            )
    assert names(tmp_path) == []


def test_two_threads_at_once_do_not_meet(tmp_path):
    """Each is half way when the other begins."""
    path = tmp_path / "a.txt"
    barrier = threading.Barrier(2, timeout=60)
    parts = []

    def write(letter):
        with appearing(path) as part, part.open("w") as file:
            parts.append(part)
            file.write(letter * 1000)
            file.flush()
            barrier.wait()
            file.write(letter * 1000)
            file.flush()
            barrier.wait()

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(parts)) == 2
    assert path.read_text() in ("a" * 2000, "b" * 2000)
    assert names(tmp_path) == ["a.txt"]


KILLED = """
import os, signal, sys
from pathlib import Path
from scorevi.base.files import appearing

with appearing(Path(sys.argv[1])) as part:
    part.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_what_killed_processes_leave_goes_with_the_next_writing(tmp_path):
    path = tmp_path / "a.npz"
    command = [sys.executable, "-c", KILLED, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    for _ in range(2):
        with subprocess.Popen(command, **pipes) as process:
            assert process.stdout.readline() == "ready\n"
            process.kill()
    other = ".a.npz.b.0123456789ab.part"
    (tmp_path / other).write_text("another file's")
    assert len(names(tmp_path)) >= 2
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        write_arrays(path, {"a": np.ones(3)}, durable=True)
        # The part of the one that is still at work is left to it.
        assert len(names(tmp_path)) == 3
        process.communicate("")
    assert process.returncode == 0
    assert path.read_text() == "half"
    assert names(tmp_path) == [other, "a.npz"]


def test_a_checkpoint_leaves_no_parts_behind(tmp_path):
    path = tmp_path / "c"
    (tmp_path / ".c.0123456789ab.part").write_bytes(b"half a checkpoint")
    scorevi.fit(scorevi.Gaussian.standard(2), "gsm", checkpoint=path, max_gradients=20)
    assert names(tmp_path) == ["c"]


def test_a_file_is_as_readable_as_any_other(tmp_path):
    mask = os.umask(0o027)
    try:
        write_arrays(tmp_path / "a.npz", {"a": np.ones(1)})
    finally:
        os.umask(mask)
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o640


def test_a_folder_is_no_file_to_write(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("folder.npz", "folder.csv", "folder.png"):
        (tmp_path / name).mkdir()
    target = scorevi.Gaussian.standard(2)
    fit = gsm_fit(target, max_gradients=20)
    before = names(tmp_path)
    refused = r"`path` must be a file to write; there is a folder at .*folder"
    for path in (folder, tmp_path / "folder.npz"):
        with pytest.raises(ValueError, match=refused):
            fit.save(path)
    with pytest.raises(ValueError, match=refused):
        write_draws(fit, tmp_path / "folder.csv")
    with pytest.raises(ValueError, match=r"`checkpoint` must be a file to write"):
        scorevi.fit(target, checkpoint=folder)
    with pytest.raises(ValueError, match=r"`checkpoint` must be a file to write"):
        scorevi.fit(target, checkpoint=folder, resume=True)
    plots = pytest.importorskip("scorevi.results.plots")
    with pytest.raises(ValueError, match=refused):
        plots.save_picture(fit, tmp_path / "folder.png")
    assert names(tmp_path) == before
    folder.rmdir()
    with pytest.raises(ValueError, match=refused):
        fit.save(folder)
    assert names(tmp_path) == [name for name in before if name != "folder"]


def test_a_fit_is_found_without_the_ending_that_saving_added(tmp_path):
    fit = gsm_fit(scorevi.Gaussian.standard(2), max_gradients=20)
    fit.save(tmp_path / "fit")
    assert names(tmp_path) == ["fit.npz"]
    np.testing.assert_array_equal(scorevi.load(tmp_path / "fit").mean, fit.mean)
    np.testing.assert_array_equal(scorevi.load(str(tmp_path / "fit")).mean, fit.mean)
    with pytest.raises(ValueError, match=r"there is none at .*nowhere\."):
        scorevi.load(tmp_path / "nowhere")
    (tmp_path / "fit").write_text("another file")
    with pytest.raises(ValueError, match=r"must be a file written by Fit\.save"):
        scorevi.load(tmp_path / "fit")
