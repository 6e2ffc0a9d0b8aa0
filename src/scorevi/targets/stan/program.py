"""A Stan program as text: read, translated to C++, and described."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scorevi.targets.stan.toolchain import CompileError, Toolchain

_SYNTAX_SECONDS = 300


@dataclass(frozen=True)
class Program:
    """A Stan program and where it looks for what it includes."""

    name: str
    """What messages call it: the file's name, or ``program``."""
    code: str
    """The source."""
    include_paths: tuple[Path, ...] = ()
    """Folders that hold included files."""

    @classmethod
    def read(
        cls, program: str | os.PathLike[str], include_paths: Sequence[str | os.PathLike[str]] = ()
    ) -> Program:
        """Take a path to a ``.stan`` file, or source text.

        A file's own folder is the last one that is searched for what it includes.
        """
        if isinstance(include_paths, (str, os.PathLike)):
            include_paths = (include_paths,)
        folders = tuple(Path(path).absolute() for path in include_paths)
        for folder in folders:
            if not folder.is_dir():
                raise ValueError(f"`include_paths` must be folders; there is none at {folder}.")
        if is_source(program):
            return cls("program.stan", str(program), folders)
        path = Path(program)
        if not path.is_file():
            raise ValueError(
                f"`program` must be a Stan program or a path to one; there is no file {path}."
            )
        try:
            code = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"`program` could not be read: {path}: {error}.") from None
        return cls(path.name, code, (*folders, path.absolute().parent))

    def to_cpp(self, toolchain: Toolchain) -> str:
        """Translate to C++; raises CompileError with stanc's message, its line and caret."""
        return self._stanc(toolchain, "--print-cpp", "--name", "scorevi_model")

    def describe(self, toolchain: Toolchain) -> dict[str, Any]:
        """Return stanc's account of the program: its inputs, and their types."""
        description: dict[str, Any] = json.loads(self._stanc(toolchain, "--info"))
        return description

    def _stanc(self, toolchain: Toolchain, *options: str) -> str:
        with tempfile.TemporaryDirectory(prefix="scorevi-") as folder:
            path = Path(folder) / "program.stan"
            path.write_text(self.code, encoding="utf-8")
            command = [str(toolchain.stanc), *options, f"--filename-in-msg={self.name}"]
            if self.include_paths:
                command.append(f"--include-paths={','.join(map(str, self.include_paths))}")
            run = subprocess.run(
                [*command, str(path)],
                capture_output=True,
                text=True,
                timeout=_SYNTAX_SECONDS,
                check=False,
            )
        if run.returncode == 0:
            return run.stdout
        advice = ""
        if "include" in run.stderr and "ould not find" in run.stderr:
            advice = "\nSay where included files are with `include_paths`."
        raise CompileError(f"`program` is not a valid Stan program.\n{run.stderr.strip()}{advice}")


def is_source(program: Any) -> bool:
    """Whether this is the text of a program rather than a path."""
    return isinstance(program, str) and ("{" in program or "\n" in program)
