"""Do the tests find faults? Plant one at a time in a copy of the repository, and see who notices.

    python -m tests.faults.planted [--only WORDS] [--dir DIR]

    copy the files -> the tests pass there as they are -> for each fault: replace, test, put back

Writes tests/faults/PLANTED.md when every fault was planted. Ends with 1 if one was found by no
test, or too many tests fail without any.

One rule: a fault counts as found only by a test that passes without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.faults.planted_faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "tests/faults/PLANTED.md"
TEST_SECONDS = 120  # one test that takes longer has noticed something, too
RUN_SECONDS = 1200
RED_MAX = 40  # of tests that fail without a fault: more, and something else is wrong
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_HEAD = """# Faults that were planted, and the tests that found them

Written by `python -m tests.faults.planted`: in a copy of the repository one fault at a time is put
into the source, and the named test is the first that fails because of it. It passes without it.

"""


class NotPlanted(Exception):
    """The text to replace does not stand exactly once in its file."""


class NotPassing(Exception):
    """Too many tests fail without any fault, or none ran: they cannot tell."""


@contextmanager
def planted(root: Path, fault: Fault) -> Iterator[None]:
    """The fault is in the source inside the block; raises NotPlanted."""
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


def failures(
    root: Path, tests: Sequence[str], left_out: Sequence[str] = (), most: int = 1
) -> list[str]:
    """The first tests that fail, at most `most`; none: all pass. Raises NotPassing if none ran."""
    command = [
        sys.executable, "-m", "pytest", f"--maxfail={most}", "-q", "-rfE", "-m", "not soak",
        "-o", f"timeout={TEST_SECONDS}", *(f"--deselect={each}" for each in left_out), *tests,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True,
            timeout=RUN_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ["(the run did not end)"]
    if ran.returncode == 0:
        return []
    found = _FAILED.findall(ran.stdout)
    if not found:
        raise NotPassing(f"pytest ended with {ran.returncode}: {ran.stdout[-500:]}{ran.stderr}")
    return found


def copied(folder: Path) -> Path:
    """A copy of every file that git knows or would take; where it is."""
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


def run(root: Path, faults: Sequence[Fault]) -> tuple[list[tuple[Fault, str]], list[str]]:
    """Each fault with the test that found it, or ""; and the tests that fail without any.

    Raises NotPlanted or NotPassing.
    """
    for fault in faults:  # a mistake in the list is found before anything takes time
        with planted(root, fault):
            pass
    tests = sorted({test for fault in faults for test in fault.tests})
    _say(f"without a fault: {' '.join(tests)}")
    red = failures(root, tests, most=RED_MAX)
    if len(red) >= RED_MAX or any(not each.startswith("tests/") for each in red):
        raise NotPassing(f"without any fault, these fail: {' '.join(red)}")
    for each in red:
        _say(f"fails without a fault, left out: {each}")
    found = []
    for fault in faults:
        with planted(root, fault):
            found.append((fault, next(iter(failures(root, fault.tests, red)), "")))
        _say(f"{fault.name}: {found[-1][1] or 'NOT FOUND'}")
    return found, red


def report(found: Sequence[tuple[Fault, str]], red: Sequence[str] = ()) -> str:
    """The table."""
    rows = ["| fault | in | found by |", "|---|---|---|"]
    for fault, test in found:
        file, _, name = test.partition("::")
        by = f"`{name}` in `{file}`" if name else test or "**no test**"
        rows.append(f"| {fault.name} | `{fault.path}` | {by} |")
    missed = sum(not test for _, test in found)
    tail = [f"\n{len(found)} planted, {missed} not found.\n"]
    if red:
        tail.append(f"\nLeft out, because they failed without a fault: {', '.join(red)}.\n")
    return _HEAD + "\n".join(rows) + "\n" + "".join(tail)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.planted")
    parser.add_argument("--only", metavar="WORDS", default="", help="faults whose name has these")
    parser.add_argument("--dir", type=Path, help="where the copy is made")
    wanted = parser.parse_args(words)
    faults = [each for each in FAULTS if wanted.only in each.name]
    with tempfile.TemporaryDirectory(prefix="planted-", dir=wanted.dir) as folder:
        try:
            found, red = run(copied(Path(folder)), faults)
        except (NotPlanted, NotPassing) as error:
            _say(str(error))
            return 1
    text = report(found, red)
    print(text)
    if len(faults) == len(FAULTS):
        REPORT.write_text(text)
    return int(any(not test for _, test in found))


def _say(text: str) -> None:
    print(f"planted: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
