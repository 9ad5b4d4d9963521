"""Tests in a copy of the repository, run until one fails: on its sources, or on other ones.

One rule: nothing that a run started is left when it is over.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
TEST_SECONDS = 120  # a test that takes longer has found the fault as well
RUN_SECONDS = 1200
ALL = "not soak and not sweep"
SHORT = "not long and not soak and not sweep"  # of `make test`
QUICK = "not slow and not long and not soak and not sweep"  # of `make test-fast`
NOT_ENDED = "(the run did not end)"
_SUMMARY = "short test summary info"
# A line of the summary, never one of a log: those have their level filled up with blanks.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?$", re.MULTILINE)

_RUNNING: set[int] = set()  # groups of processes
_STOPPED: list[bool] = []  # not empty: none is begun any more


class NotPassing(Exception):
    """Too many tests fail without any fault, none ran, or the copy cannot run any: they cannot
    tell."""


def by_file(root: Path, tests: Sequence[str]) -> list[str]:
    """Return the tests with each folder as its files, and each file where it is first named."""
    found: dict[str, None] = {}
    for test in tests:
        path = root / test
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        found |= dict.fromkeys(each.relative_to(root).as_posix() for each in files)
    return list(found)


def failures(
    root: Path,
    tests: Sequence[str],
    left_out: Sequence[str] = (),
    most: int = 1,
    *,
    mark: str = ALL,
    seconds: float = RUN_SECONDS,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = (sys.executable, "-m", "pytest"),
) -> list[str]:
    """Return the first tests that fail, at most `most`; none: all pass.

    Raise NotPassing if none ran.
    """
    command = [
        *command, f"--maxfail={most}", "-q", "-rfE", "-m", mark,
        "-o", f"timeout={TEST_SECONDS}", *(f"--deselect={each}" for each in left_out),
        *by_file(root, tests),
    ]  # fmt: skip
    if _STOPPED:
        raise NotPassing("stopped")
    if environment is None:
        environment = {"PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)} | environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as ran:  # fmt: skip
        _RUNNING.add(ran.pid)
        try:
            out, err = ran.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return [NOT_ENDED]
        finally:
            end(ran.pid)  # daemons that a test left behind go as well
    if ran.returncode == 0:
        return []
    found = failed(out)
    if not found:
        raise NotPassing(f"pytest ended with {ran.returncode}: {out[-500:]}{err}")
    return found


def end(group: int) -> None:
    """Kill a run of pytest with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    _RUNNING.discard(group)


def stop() -> None:
    """Kill every run of pytest, and begin none any more."""
    _STOPPED.append(True)
    for group in list(_RUNNING):
        end(group)


@contextmanager
def ending() -> Iterator[None]:
    """End every run of pytest with the block, also when this process is told to end."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        yield
    finally:
        for group in list(_RUNNING):
            end(group)
        signal.signal(signal.SIGTERM, before)


def failed(out: str) -> list[str]:
    """Return the tests that failed, as the summary at the end of pytest's output names them."""
    return _FAILED.findall(out.rpartition(_SUMMARY)[2])


def copied(folder: Path) -> Path:
    """Copy every file that git knows or would take; return where the copy is."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    root = folder / "copy"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    return root


class Copy(Protocol):
    """A copy of the repository, and how tests run in it."""

    root: Path

    def failures(
        self, tests: Sequence[str], left_out: Sequence[str] = (), mark: str = ALL
    ) -> list[str]:
        """Return the first test that fails with the sources as they are now; none: all pass."""


@dataclass(frozen=True)
class PureCopy:
    """Runs tests on the sources of the copy themselves."""

    root: Path

    def failures(
        self, tests: Sequence[str], left_out: Sequence[str] = (), mark: str = ALL
    ) -> list[str]:
        return failures(self.root, tests, left_out, mark=mark)
