"""Real faults for a real process: a small disk that fills, system calls that fail or hang.

    SmallDisk   a tmpfs of its own; `fill` takes all that is left, `make_room` gives it back
    Tracer      strace on a running daemon: injects into the calls that touch one file, counts them

One rule: where the machine does not allow it (no root, no strace) the test is skipped, with the
reason printed, never passed over in silence.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

_FILLER = "filler"
_PIECES = (1 << 16, 1 << 12)  # large ones first, then what is left, page by page


# -- a disk that fills ---------------------------------------------------------------------------


class SmallDisk:
    """A mounted file system with little room."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def free_bytes(self) -> int:
        """Return the bytes that an ordinary program may still take."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all room but `leave_bytes`."""
        with open(self.folder / _FILLER, "ab", buffering=0) as file:
            for size in _PIECES:
                with contextlib.suppress(OSError):
                    while self.free_bytes >= leave_bytes + size and self.free_bytes > 0:
                        file.write(bytes(size))

    def make_room(self) -> None:
        """Give back what `fill` took."""
        (self.folder / _FILLER).unlink()


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int, *more: str) -> Iterator[SmallDisk]:
    """A tmpfs on `folder`, with `more` options; skips the test where nothing may be mounted."""
    folder.mkdir()
    options = ",".join((f"size={size_bytes}", "mode=755", *more))
    command = ["mount", "-t", "tmpfs", "-o", options, "kestrelpy", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = "" if mounted.returncode == 0 else f"cannot mount: {mounted.stderr.strip()}"
    except OSError as error:
        reason = f"cannot mount: {error.strerror}"
    if reason:
        skip(reason)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


# -- system calls that fail ----------------------------------------------------------------------


@functools.cache
def why_no_trace() -> str:
    """Why strace cannot be used here; empty if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-f", "-e", "inject=fdatasync:error=EIO", "true"],
        capture_output=True, check=False,
    )  # fmt: skip
    return "" if tried.returncode == 0 else "strace may not trace here"


def skip(reason: str) -> None:
    """Skip this test and print why."""
    print(reason)
    pytest.skip(reason)


class Tracer:
    """strace on a process that runs: `with Tracer(...)` attaches, the end of the block detaches."""

    def __init__(self, pid: int, out: Path, path: Path, inject: str, *also: str) -> None:
        """`inject` in strace's words (`fdatasync:error=EIO:when=1`), into calls that touch `path`.

        Calls named in `also` are written down too.
        """
        self.path = path
        self._out = out
        calls = ",".join([inject.partition(":")[0], *also])
        self._command = [
            "strace", "-f", "-p", str(pid), "-y", "-P", str(path), "-e", f"trace={calls}",
            "-e", f"inject={inject}", "-o", str(out),
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    def also_on(self, *paths: Path) -> None:
        """Inject into calls on these files too; before it is attached."""
        for path in paths:
            self._command += ["-P", str(path)]

    def __enter__(self) -> Self:
        if reason := why_no_trace():
            skip(reason)
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = ""
        for line in self._process.stderr:
            said += line
            if "attached" in line:
                return self
        raise AssertionError(f"strace ended: {said}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    def detach(self) -> None:
        """Let the process go on alone; the file then has the whole trace."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None

    def calls(self) -> list[str]:
        """The calls on the file in the order in which they began: `pwrite64`, `fdatasync!`.

        With a mark of exclamation where a fault was injected. Only after `detach`.
        """
        assert self._process is None
        found: list[str] = []
        unfinished: dict[str, int] = {}
        for line in self._out.read_text().splitlines():
            thread, _, said = line.partition(" ")
            mark = "!" if "(INJECTED)" in said or "(DELAYED)" in said else ""
            if began := re.match(r"\s*(\w+)\(", said):
                found.append(began[1] + mark)
                unfinished[thread] = len(found) - 1
            elif "resumed>" in said and mark:
                found[unfinished[thread]] += mark
        return found
