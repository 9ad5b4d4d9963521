"""Do the tests find faults? Plant one at a time in a copy of the repository, and see who notices.

    python -m tests.faults.planted [--list NAME] [--only WORDS] [--missing] [--quick]
                                   [--dir DIR]

    copy the files -> for each fault: replace, test, put back -> does what failed pass without it?

The test that the report names for a fault is run first; the others only if that one passes.
Each fault's row in the report of its list is written as soon as it is known, so that a run that was
stopped goes on with `--missing`. Ends with 1 if no test found a fault that is not listed as known,
if a test found one that is, or if too many tests fail without any fault.

One rule: a fault counts as found only by a test that passes without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults.crossed_faults import CROSSED, KNOWN_CROSSED
from tests.faults.planted_faults import FAULTS, KNOWN, Fault

ROOT = Path(__file__).resolve().parents[2]
TEST_SECONDS = 120  # one test that takes longer has noticed something, too
RUN_SECONDS = 1200
RED_MAX = 40  # of tests that fail without a fault: more, and something else is wrong
ALL = "not soak and not sweep"
QUICK = "not slow and not soak and not sweep"
NOT_ENDED = "(the run did not end)"
NO_TEST = "**no test**"
_SUMMARY = "short test summary info"
# A line of the summary, never one of a log: those have their level filled up with blanks.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?$", re.MULTILINE)
_ROW = re.compile(r"^\| (?P<name>.+?) \| `(?P<path>[^`]+)` \| (?P<by>.+) \|$", re.MULTILINE)
_NAMED = re.compile(r"^`(?P<name>[^`\[]+)[^`]*` in `(?P<file>[^`]+)`$")
_HEAD = """# Faults that were planted, and the tests that found them

Written by `python -m tests.faults.planted{}`: in a copy of the repository one fault at a time is
put into the source, and the named test is the first that fails because of it. It passes without it.

"""


_RUNNING: set[int] = set()  # groups of processes
_STOPPED: list[bool] = []  # not empty: none is begun any more


class NotPlanted(Exception):
    """The text to replace does not stand exactly once in its file."""


class NotPassing(Exception):
    """Too many tests fail without any fault, or none ran: they cannot tell."""


@dataclass(frozen=True)
class FaultList:
    """Faults, those of them that no test finds with the reason, and where the report stands."""

    faults: Sequence[Fault]
    known: Mapping[str, str]
    report: Path
    words: str


LISTS = {
    "planted": FaultList(FAULTS, KNOWN, ROOT / "tests/faults/PLANTED.md", ""),
    "crossed": FaultList(
        CROSSED, KNOWN_CROSSED, ROOT / "tests/faults/CROSSED.md", " --list crossed"
    ),
}


@contextmanager
def planted(root: Path, fault: Fault) -> Iterator[None]:
    """Have the fault in the source inside the block. Raise NotPlanted."""
    path = root / fault.path
    text = path.read_text()
    count = text.count(fault.old)
    if count != 1:
        raise NotPlanted(f"{fault.path}: the text to replace stands there {count} times")
    path.write_text(text.replace(fault.old, fault.new))
    try:
        yield
    finally:
        path.write_text(text)


def in_order(root: Path, tests: Sequence[str]) -> list[str]:
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
) -> list[str]:
    """Return the first tests that fail, at most `most`; none: all pass.

    Raise NotPassing if none ran.
    """
    command = [
        sys.executable, "-m", "pytest", f"--maxfail={most}", "-q", "-rfE", "-m", mark,
        "-o", f"timeout={TEST_SECONDS}", *(f"--deselect={each}" for each in left_out),
        *in_order(root, tests),
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


def run(
    root: Path, faults: Sequence[Fault], tell: Callable[[Fault, str], None], mark: str = ALL,
    named: Callable[[Fault], str] = lambda _: "",
) -> list[str]:
    """Tell of each fault the test that found it, or ""; return the tests that fail without any.

    `named` returns the test that found it before, or "". Raise NotPlanted or NotPassing.
    """  # fmt: skip
    for fault in faults:  # a mistake in the list is found before anything takes time
        with planted(root, fault):
            pass
    proof = Proof(root)
    for fault in faults:
        found = proof.first(partial(_failing_again, root, fault, named(fault)))
        test = found or proof.first(partial(_failing, root, fault, mark, fault.tests))
        _say(f"{fault.name}: {test or 'NOT FOUND'}")
        tell(fault, test)
    return proof.red


def _failing_again(root: Path, fault: Fault, test: str, left_out: Sequence[str]) -> list[str]:
    """Return that test if it fails again; none if there is none, or if it is left out."""
    if not test or any(each.partition("[")[0] == test for each in left_out):
        return []
    return _failing(root, fault, ALL, [test], left_out)


def _failing(
    root: Path, fault: Fault, mark: str, tests: Sequence[str], left_out: Sequence[str]
) -> list[str]:
    with planted(root, fault):
        return failures(root, tests, left_out, mark=mark)


class Proof:
    """Which tests pass in this copy without any change: asked of those that fail with one.

    `red` are those that do not: they prove nothing, and are left out from then on.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._passing: set[str] = set()
        self.red: list[str] = []

    def first(self, failing: Callable[[Sequence[str]], list[str]]) -> str:
        """Return the first test that fails, `failing` says which, and passes here; "": none does.

        Raise NotPassing if too many fail without any change.
        """
        while True:
            test = next(iter(failing(self.red)), "")
            if not test or self._passes(test):
                return test
            _say(f"fails without a change, left out: {test}")
            self.red.append(test)
            if len(self.red) >= RED_MAX:
                raise NotPassing(f"without any change, these fail: {' '.join(self.red)}")

    def _passes(self, test: str) -> bool:
        test = test.partition("[")[0]  # pytest's summary may cut what stands in brackets
        if test in self._passing or not test.startswith("tests/"):  # a run that broke off, or hung
            return True
        if failures(self._root, [test]):
            return False
        self._passing.add(test)
        return True


def rows_of(text: str) -> dict[tuple[str, str], str]:
    """Return by what each fault (its name and path) was found, as a report says it."""
    return {(row["name"], row["path"]): row["by"] for row in _ROW.finditer(text)}


def found_by(fault: Fault, test: str, known: Mapping[str, str]) -> str:
    """Return the last cell of the fault's row."""
    file, _, name = test.partition("::")
    if name:
        return f"`{name}` in `{file}`"
    if not test and fault.name in known:
        return f"no test, known: {known[fault.name]}"
    return test or NO_TEST


def named_test(by: str) -> str:
    """Return the test that a report's cell names, without what stands in brackets; "": none."""
    named = _NAMED.match(by)
    return f"{named['file']}::{named['name']}" if named else ""


def unfound(text: str) -> list[str]:
    """Return the faults of a report that no test found and that are not known."""
    return [name for (name, _), by in rows_of(text).items() if by == NO_TEST]


def report(
    faults: Sequence[Fault], rows: Mapping[tuple[str, str], str], red: Sequence[str], words: str
) -> str:
    """Return the table."""
    table = ["| fault | in | found by |", "|---|---|---|"]
    told = [fault for fault in faults if (fault.name, fault.path) in rows]
    table += [f"| {f.name} | `{f.path}` | {rows[f.name, f.path]} |" for f in told]
    bys = [rows[fault.name, fault.path] for fault in told]
    missed = sum(by == NO_TEST for by in bys)
    known = sum(by.startswith("no test, known: ") for by in bys)
    tail = f"\n{len(told)} planted, {missed} not found"
    tail += f", {known} known that no test finds.\n" if known else ".\n"
    if red:
        tail += f"\nLeft out, because they failed without a fault: {', '.join(red)}.\n"
    return _HEAD.format(words) + "\n".join(table) + "\n" + tail


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.planted")
    parser.add_argument("--list", metavar="NAME", default="planted", choices=LISTS, dest="listed")
    parser.add_argument("--only", metavar="WORDS", default="", help="faults whose name has these")
    parser.add_argument("--missing", action="store_true", help="faults no test is named for yet")
    parser.add_argument("--quick", action="store_true", help="with no test that is slow")
    parser.add_argument("--dir", type=Path, help="where the copy is made")
    wanted = parser.parse_args(words)
    listed: FaultList = LISTS[wanted.listed]
    rows = rows_of(listed.report.read_text()) if listed.report.exists() else {}
    faults = [each for each in listed.faults if wanted.only in each.name]
    if wanted.missing:
        faults = [each for each in faults if " in `" not in rows.get((each.name, each.path), "")]
    wrong: list[str] = []

    def tell(fault: Fault, test: str) -> None:
        rows[fault.name, fault.path] = found_by(fault, test, listed.known)
        listed.report.write_text(report(listed.faults, rows, (), listed.words))
        if bool(test) == (fault.name in listed.known):
            wrong.append(f"{fault.name}: {'known as not found' if test else 'no test'}")

    before = dict(rows)
    with ending(), tempfile.TemporaryDirectory(prefix="planted-", dir=wanted.dir) as folder:
        try:
            red = run(
                copied(Path(folder)), faults, tell, QUICK if wanted.quick else ALL,
                lambda fault: named_test(before.get((fault.name, fault.path), "")),
            )  # fmt: skip
        except (NotPlanted, NotPassing) as error:
            _say(str(error))
            return 1
    text = report(listed.faults, rows, red, listed.words)
    listed.report.write_text(text)
    print(text)
    for each in wrong:
        _say(each)
    return int(bool(wrong))


def _say(text: str) -> None:
    print(f"planted: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
