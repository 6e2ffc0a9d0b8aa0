"""What turns a Stan program into a library: stanc and headers of httpstan, and a C++ compiler."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scorevi.base.extras import missing

_COMPILERS = ("g++", "c++", "clang++")
_ADVICE = {
    "darwin": "xcode-select --install",
    "linux": "apt install g++, dnf install gcc-c++, or conda install gxx",
}
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-pthread",
    "-w",
    "-I{root}/include",
    # The library is not to remember where the headers were.
    "-fmacro-prefix-map={root}=httpstan",
    # Models are loaded side by side; nothing of one may be seen by another.
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-DSTAN_THREADS",
    "-D_REENTRANT",
    "-DBOOST_DISABLE_ASSERTS",
    "-DBOOST_PHOENIX_NO_VARIADIC_EXPRESSION",
)
_SUNDIALS = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial")


class CompileError(ValueError):
    """A program that could not be compiled; the message has the compiler's own lines in it."""


@dataclass(frozen=True)
class Toolchain:
    """httpstan's files and the C++ compiler that goes with them."""

    root: Path
    """Where httpstan is installed."""
    version: str
    """The version of httpstan, which stands for those of stanc and of Stan's headers."""

    @classmethod
    def find(cls) -> Toolchain:
        """Find httpstan without importing it, which would start half a web server."""
        spec = importlib.util.find_spec("httpstan")
        if spec is None or not spec.submodule_search_locations:
            raise missing("httpstan")
        root = Path(next(iter(spec.submodule_search_locations)))
        return cls(root, importlib.metadata.version("httpstan"))

    @property
    def stanc(self) -> Path:
        """Stan's compiler to C++."""
        return self.root / "stanc"

    @cached_property
    def compiler(self) -> tuple[str, ...]:
        """The C++ compiler: that of the environment variable CXX, or the first one found."""
        found = find_compiler()
        if found is not None:
            return found
        asked = os.environ.get("CXX", "").strip()
        looked = f"CXX={asked}" if asked else ", ".join(_COMPILERS)
        advice = _ADVICE.get(sys.platform, "a C++17 compiler for this system")
        raise CompileError(
            f"A Stan program needs a C++ compiler, and none was found (looked for {looked}). "
            f"Install one ({advice}), or set CXX to where it is."
        )

    @cached_property
    def compiler_version(self) -> str:
        """What the compiler says of itself; other words mean another compiler."""
        return version_of(self.compiler)

    @property
    def compile(self) -> tuple[str, ...]:
        """How to compile; the same for the model, the shim and the precompiled header.

        Options that CXX has come last, where they win.
        """
        words = self.compiler
        program = tuple(itertools.takewhile(lambda word: not word.startswith("-"), words))
        flags = (flag.format(root=self.root) for flag in _FLAGS)
        return (*program, *flags, *words[len(program) :])

    @property
    def recipe(self) -> tuple[str, ...]:
        """All that decides what comes out, wherever the toolchain lies."""
        return (self.version, self.compiler_version, *self.compiler, *_FLAGS, *machine())

    @property
    def tbb(self) -> Path:
        """The one shared library that a model needs beside those of the system."""
        name = "libtbb.dylib" if sys.platform == "darwin" else "libtbb.so.2"
        return self.root / "lib" / name

    def link_flags(self, exports: Path) -> tuple[str, ...]:
        """How to link a model whose copy of TBB lies beside it, wherever that is."""
        libraries = [f"-L{self.root / 'lib'}", *(f"-l{name}" for name in _SUNDIALS), str(self.tbb)]
        if sys.platform == "darwin":
            return ("-dynamiclib", *libraries, "-Wl,-rpath,@loader_path")
        return (
            "-shared",
            f"-Wl,--version-script={exports}",
            *libraries,
            "-Wl,-z,origin",
            "-Wl,-rpath,$ORIGIN",
        )


def find_compiler() -> tuple[str, ...] | None:
    """Return the command of the C++ compiler that CXX names, or of the first one found."""
    asked = shlex.split(os.environ.get("CXX", ""))
    for command in [asked] if asked else [[name] for name in _COMPILERS]:
        path = shutil.which(command[0])
        if path is not None:
            return (path, *command[1:])
    return None


def version_of(compiler: Sequence[str]) -> str:
    """Return what a compiler says of itself."""
    command = [*compiler, "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stdout


def machine() -> tuple[str, ...]:
    """Return what a compiled library runs on: a folder may be shared between machines."""
    return (sys.platform, platform.machine())
