"""A program that runs on a terminal: its output there, and the keys that are pressed."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.process.cli.command import Command

SECONDS = 60.0
SOURCE = str(Path(__file__).parents[3])


class Terminal:
    """Runs a command with a terminal as its standard input and output."""

    def __init__(self, words: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self._main, other = pty.openpty()
        self.text = ""
        self.process = subprocess.Popen(
            words, stdin=other, stdout=other, stderr=other, cwd=folder, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "50", **environment},
        )  # fmt: skip
        os.close(other)

    def press(self, keys: str) -> None:
        """Type these."""
        os.write(self._main, keys.encode())

    def until(self, pattern: str) -> str:
        """Read until the pattern is there; return all up to now, and begin anew."""
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, f"{pattern} did not come: {self.text!r}"
            if not self._read(0.1) and self.process.poll() is not None:
                assert re.search(pattern, self.text), f"{pattern} did not come: {self.text!r}"
        text, self.text = self.text, ""
        return text

    def end(self) -> int:
        """Read to the end; return the exit code."""
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._main], [], [], seconds)
        try:
            data = os.read(self._main, 65536) if ready else b""
        except OSError:  # its other end is closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)


def on_terminal(kestrelpy: Command, *words: str, **environment: str) -> Terminal:
    """Run `kestrelpy ...` on a terminal of its own."""
    return Terminal(
        [sys.executable, "-m", "kestrelpy", *words], kestrelpy.folder,
        {"PYTHONPATH": SOURCE, "KESTRELPY_SERVER": kestrelpy.server, **environment},
    )  # fmt: skip
