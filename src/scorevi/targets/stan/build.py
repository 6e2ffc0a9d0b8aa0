"""From a Stan program to a shared library with BridgeStan's interface, cached by content."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scorevi.base.extras import require
from scorevi.base.progress import activity
from scorevi.targets.stan import cache
from scorevi.targets.stan.interface import client, defines
from scorevi.targets.stan.program import Program
from scorevi.targets.stan.toolchain import (
    CompileError,
    Toolchain,
    find_compiler,
    machine,
    version_of,
)

_HERE = Path(__file__).parent
_SHIM, _EXPORTS = _HERE / "shim.cpp", _HERE / "exports.map"
_HEADER = "model.hpp"
_KEEP_MODELS, _KEEP_HEADERS, _KEEP_SHIMS = 200, 2, 4
_HEADER_PAYS_FROM = 2
"""Models compiled before. A precompiled header saves 20 s a model; to make it takes 40 s, once,
and 800 MB of disk, which is too much for one or two."""

_log = logging.getLogger("scorevi")


def compile_stan(
    program: str | os.PathLike[str],
    *,
    include_paths: Sequence[str | os.PathLike[str]] = (),
    progress: bool | None = None,
) -> Path:
    """Compile a Stan program to a shared library, or find it in the cache.

    Parameters
    ----------
    program
        A path to a ``.stan`` file, or source text.
    include_paths
        Folders that hold files which the program includes.
    progress
        Whether to say on standard error what is going on; None for only in a terminal.

    Returns
    -------
    Path
        The library, which BridgeStan's clients load. What else it needs lies beside it.
    """
    return build(Program.read(program, include_paths), progress)


def build(program: Program, progress: bool | None = None) -> Path:
    """Compile with the user's own BridgeStan if there is one, else with httpstan's toolchain."""
    own = _bridgestan_folder()
    if own is not None:
        return _build_by_bridgestan(program, own, progress)
    return _build_by_httpstan(program, Toolchain.find(), progress)


def copy_library(library: Path, out: Path) -> Path:
    """Copy a compiled library, and what lies beside it, to where the user wants them."""
    for path in library.parent.iterdir():
        if path.suffix != ".stan":
            shutil.copyfile(path, out if path == library else out.parent / path.name)
    return out


def _build_by_httpstan(program: Program, toolchain: Toolchain, progress: bool | None) -> Path:
    cpp = program.to_cpp(toolchain)  # includes are in it, so it is all that matters
    base = _digest(
        *toolchain.recipe,
        *defines(),
        _SHIM.read_text(),
        _EXPORTS.read_text(),
    )

    def fill(work: Path) -> None:
        with activity(f"Compiling {program.name} (half a minute, once)", progress):
            _log.info("compiling %s", program.name)
            shim = cache.entry("shims", base, lambda at: _shim(at, toolchain), _KEEP_SHIMS)
            header: tuple[str, ...] = ()
            if cache.count("models", base) >= _HEADER_PAYS_FROM:
                key = _digest(base, str(toolchain.root))
                made = cache.entry("headers", key, lambda at: _header(at, toolchain), _KEEP_HEADERS)
                header = ("-include", str(made / _HEADER))
            source = work / "model.cpp"
            source.write_text(cpp, encoding="utf-8")
            _run(toolchain, *header, "-c", str(source), "-o", str(work / "model.o"))
            # Beside the model, so that the library works wherever the two are moved together.
            _put_beside(toolchain.tbb, work)
            _run(
                toolchain,
                *(str(path) for path in (work / "model.o", shim / "shim.o")),
                *toolchain.link_flags(_EXPORTS),
                "-o",
                str(work / "model.so"),
            )
            for scrap in ("model.cpp", "model.o"):
                (work / scrap).unlink()

    return cache.entry("models", f"{base}-{_digest(cpp)}", fill, _KEEP_MODELS) / "model.so"


def _shim(work: Path, toolchain: Toolchain) -> None:
    _run(toolchain, *defines(), "-c", str(_SHIM), "-o", str(work / "shim.o"))


def _header(work: Path, toolchain: Toolchain) -> None:
    header = work / _HEADER
    header.write_text("#include <stan/model/model_header.hpp>\n")
    ending = ".pch" if "clang" in toolchain.compiler_version else ".gch"
    _run(toolchain, "-x", "c++-header", str(header), "-o", f"{header}{ending}")


def _run(toolchain: Toolchain, *arguments: str) -> None:
    command = [*toolchain.compile, *arguments]
    _log.debug("%s", " ".join(command))
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode:
        told = "\n".join(run.stderr.strip().splitlines()[-20:]) or "it gave no reason"
        raise CompileError(
            f"The C++ compiler {toolchain.compiler[0]} failed with code {run.returncode}; it "
            f"needs about 2 GB of memory.\n{told}"
        )


def _put_beside(library: Path, folder: Path) -> None:
    """Put a library into a folder, as a hard link where the file system allows."""
    try:
        os.link(library, folder / library.name)
    except OSError:
        shutil.copyfile(library, folder / library.name)


def _bridgestan_folder() -> Path | None:
    """Return where the user has installed BridgeStan, if so: its variable, then its usual place."""
    asked = os.environ.get("BRIDGESTAN")
    if asked:
        path = Path(asked)
        if not (path / "Makefile").is_file():
            raise ValueError(
                f"The environment variable BRIDGESTAN must be BridgeStan's folder, with its "
                f"Makefile; got {asked}. Unset it to compile without BridgeStan's sources."
            )
        return path
    require("bridgestan")
    path = Path.home() / ".bridgestan" / f"bridgestan-{importlib.metadata.version('bridgestan')}"
    return path if (path / "Makefile").is_file() else None


def _build_by_bridgestan(program: Program, folder: Path, progress: bool | None) -> Path:
    bridgestan = client()
    included = _included(program.code, program.include_paths, set())
    key = _digest(
        str(folder), bridgestan.__version__, *_make_settings(folder), program.code, *included
    )

    def fill(work: Path) -> None:
        source = work / "model.stan"
        source.write_text(program.code, encoding="utf-8")
        arguments = [f"--filename-in-msg={program.name}"]
        if program.include_paths:
            arguments.append(f"--include-paths={','.join(map(str, program.include_paths))}")
        with activity(f"Compiling {program.name} with BridgeStan in {folder}", progress):
            try:
                built = bridgestan.compile_model(
                    source, stanc_args=arguments, make_args=["STAN_THREADS=True"]
                )
            except RuntimeError as error:
                raise CompileError(f"`program` could not be compiled.\n{error}") from None
            built.rename(work / "model.so")

    return cache.entry("models", key, fill, _KEEP_MODELS) / "model.so"


def _make_settings(folder: Path) -> tuple[str, ...]:
    """Return all that decides what BridgeStan's own Makefile makes of a program, but for itself."""
    local = folder / "make" / "local"
    compiler = find_compiler() or ()
    return (
        *machine(),
        *compiler,
        version_of(compiler) if compiler else "",
        *(os.environ.get(name, "") for name in ("CXX", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")),
        local.read_text(encoding="utf-8", errors="replace") if local.is_file() else "",
    )


def _included(code: str, folders: Sequence[Path], seen: set[Path]) -> list[str]:
    """Return the texts that a program includes, and those that these include."""
    texts: list[str] = []
    for name in re.findall(r"^\s*#include\s+[<\"]?([^\s>\"]+)", code, flags=re.MULTILINE):
        path = next((at / name for at in folders if (at / name).is_file()), None)
        if path is not None and path not in seen:
            seen.add(path)
            text = path.read_text(encoding="utf-8")
            texts += [text, *_included(text, folders, seen)]
    return texts


def _digest(*parts: str) -> str:
    text = "\0".join(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
