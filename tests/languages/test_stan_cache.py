"""The cache of compiled programs: private, whole or not at all, bounded."""

import os
import platform
import signal
import subprocess
import sys
import time

import pytest

from scorevi.targets.stan import build, cache
from scorevi.targets.stan.toolchain import Toolchain

FILL = """
import sys, time
from pathlib import Path
from scorevi.targets.stan import cache

def fill(work):
    (work / "first").write_text("1")
    with open(sys.argv[1], "a") as log:
        log.write("filled\\n")
    time.sleep(float(sys.argv[2]))
    (work / "second").write_text("2")

path = cache.entry("models", "key", fill, keep=5)
assert (path / "first").exists() and (path / "second").exists()
print(path)
"""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SCOREVI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _start(log, seconds):
    command = [sys.executable, "-c", FILL, str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_of_two_processes_one_fills_and_both_find_it_whole(folder, tmp_path):
    log = tmp_path / "log"
    processes = [_start(log, 0.5) for _ in range(4)]
    outputs = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(outputs) == 1
    assert log.read_text() == "filled\n"


def test_a_killed_process_leaves_nothing_half_done(folder, tmp_path):
    log = tmp_path / "log"
    process = _start(log, 60)
    for _ in range(600):
        if log.exists() and log.read_text():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (folder / "models" / "key").exists()
    after = _start(log, 0)
    assert after.communicate(timeout=60)[0].strip() == str(folder / "models" / "key")
    # What it left is removed when it is old enough that nobody can be at work on it.
    (left,) = (folder / "models").glob(".part-*")
    os.utime(left, (0, 0))
    cache.entry("models", "other", lambda work: None, keep=5)
    assert not left.exists()


def test_a_failure_leaves_no_entry(folder):
    def fail(work):
        (work / "half").write_text("")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.entry("models", "key", fail, keep=5)
    assert cache.count("models", "") == 0
    assert not list((folder / "models").glob(".part-*"))


def test_the_entries_used_last_are_kept(folder):
    def nothing(work):
        del work

    for name in ("a", "b", "c"):
        os.utime(cache.entry("models", name, nothing, keep=3), (len(name), 1.0 + ord(name)))
    cache.entry("models", "a", nothing, keep=3)  # used again
    cache.entry("models", "d", nothing, keep=3)
    kept = {path.name for path in (folder / "models").iterdir() if path.is_dir()}
    assert kept == {"a", "c", "d"}


def test_the_cache_is_private(folder):
    assert cache.folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(ValueError, match="must belong to you and be writable by you alone"):
        cache.folder()


def test_a_cache_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCOREVI_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ValueError, match=r"cannot be used: Not a directory\. Set SCOREVI_CACHE"):
        cache.folder()


def test_without_the_variable_it_lies_where_caches_belong(monkeypatch, tmp_path):
    monkeypatch.delenv("SCOREVI_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in cache.folder().parents


ELSEWHERE = """
import os, signal, sys

class Nowhere:
    MISSING = {"fcntl", "grp", "pwd", "pty", "resource", "termios", "tty", "syslog"}

    def find_spec(self, name, path=None, target=None):
        if name in self.MISSING:
            raise ImportError(f"no module named {name}", name=name)

for name in Nowhere.MISSING:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Nowhere())
for name in ("getuid", "geteuid", "getgid", "getegid", "fork", "forkpty", "setsid", "killpg"):
    delattr(os, name)
for name in ("SIGKILL", "SIGPIPE", "SIGHUP", "SIGALRM"):
    delattr(signal, name)
import scorevi, scorevi.cli
from scorevi.targets.stan import cache

assert not Nowhere.MISSING & set(sys.modules)
path = cache.entry("models", "key", lambda work: (work / "file").write_text("1"), keep=5)
assert cache.entry("models", "key", None, keep=5) == path and (path / "file").exists()
fit = scorevi.fit(scorevi.Gaussian.standard(2), "gsm", max_gradients=20, checkpoint="c")
assert (scorevi.load(fit.save("fit")).mean == fit.mean).all()
assert sorted(os.listdir()) == ["c", "cache", "fit.npz"], os.listdir()
"""


def test_nothing_needs_what_only_unix_has(folder, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_where_nobody_has_a_number_the_folder_is_not_asked_whose_it_is(folder, monkeypatch):
    cache.folder().chmod(0o777)
    monkeypatch.delattr(os, "getuid")
    assert cache.folder() == folder


def test_keys_tell_machines_apart(monkeypatch, tmp_path):
    """A home folder may be shared between machines of several kinds."""
    toolchain = Toolchain(tmp_path, "1")
    (tmp_path / "make").mkdir()

    def keys():
        return toolchain.recipe, build._make_settings(tmp_path)

    first = keys()
    assert keys() == first
    monkeypatch.setattr(platform, "machine", lambda: "another")
    assert all(one != two for one, two in zip(first, keys(), strict=True))


def test_keys_of_bridgestans_toolchain_tell_compilers_apart(monkeypatch, tmp_path):
    (tmp_path / "make").mkdir()
    compiler = tmp_path / "c++"
    seen = []

    def look():
        seen.append(build._make_settings(tmp_path))

    look()
    for version in ("1", "2"):
        compiler.write_text(f"#!/bin/sh\necho {version}\n")
        compiler.chmod(0o700)
        monkeypatch.setenv("CXX", str(compiler))
        look()
    (tmp_path / "make" / "local").write_text("CXXFLAGS += -march=native\n")
    look()
    monkeypatch.setenv("CXXFLAGS", "-O1")
    look()
    monkeypatch.setenv("CXX", "/nowhere/c++")
    look()
    assert len(set(seen)) == len(seen)
