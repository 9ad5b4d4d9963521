"""Do the tests find faults? Plant one at a time in a copy of the repository, and see who notices.

    python -m tests.faults.planted [--list NAME] [--only WORDS] [--missing] [--quick | --short]
                                   [--sample N] [--dir DIR]

    copy the files -> for each fault: replace, test, put back -> does what failed pass without it?

The lists: `planted`, on the sources; `compiled`, those of `planted` in modules of the compiled
wheel, which is made again with each of them; `crossed`, where two features meet.

The test that the report names for a fault is run first; the others only if that one passes.
Each fault's row in the report of its list is written as soon as it is known, so that a run that was
stopped goes on with `--missing`. With `--short`, which tries what `make test` runs, and no long
test, the report stays as it is. Ends with 1 if no test found a fault that is not listed as known,
if a test found one that is, or if too many tests fail without any fault.

One rule: a fault counts as found only by a test that passes without it.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults.compiled_copy import CompiledCopy
from tests.faults.crossed_faults import CROSSED, KNOWN_CROSSED
from tests.faults.planted_faults import FAULTS, KNOWN, KNOWN_COMPILED, Fault
from tests.faults.runs import ALL, QUICK, ROOT, SHORT, Copy, NotPassing, PureCopy, copied, ending
from tests.support.compiled import build_hook

SAMPLE_SEED = 1
RED_MAX = 40  # of tests that fail without a fault: more, and something else is wrong
NO_TEST = "**no test**"
_ROW = re.compile(r"^\| (?P<name>.+?) \| `(?P<path>[^`]+)` \| (?P<by>.+) \|$", re.MULTILINE)
_NAMED = re.compile(r"^`(?P<name>[^`\[]+)[^`]*` in `(?P<file>[^`]+)`$")
_HEAD = """# Faults that were planted, and the tests that found them

Written by `python -m tests.faults.planted{}`: in a copy of the repository one fault at a time is
put into the source, and the named test is the first that fails because of it. It passes without it.

"""


class NotPlanted(Exception):
    """The text to replace does not stand exactly once in its file."""


@dataclass(frozen=True)
class FaultList:
    """Faults, those of them that no test finds with the reason, and where the report stands."""

    faults: Sequence[Fault]
    known: Mapping[str, str]
    report: Path
    words: str
    run_in: Callable[[Path], Copy] = PureCopy


def _compiled() -> list[Fault]:
    """The planted faults in modules that are compiled: the others are the same in both modes."""
    modules = set(build_hook().modules(ROOT))
    return [fault for fault in FAULTS if fault.path in modules]


LISTS = {
    "planted": FaultList(FAULTS, KNOWN, ROOT / "tests/faults/PLANTED.md", ""),
    "compiled": FaultList(
        _compiled(), KNOWN_COMPILED, ROOT / "tests/faults/COMPILED.md", " --list compiled",
        CompiledCopy,
    ),
    "crossed": FaultList(
        CROSSED, KNOWN_CROSSED, ROOT / "tests/faults/CROSSED.md", " --list crossed"
    ),
}  # fmt: skip


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


def run(
    copy: Copy, faults: Sequence[Fault], tell: Callable[[Fault, str], None], mark: str = ALL,
    named: Callable[[Fault], str] = lambda _: "",
) -> list[str]:
    """Tell of each fault the test that found it, or ""; return the tests that fail without any.

    `named` returns the test that found it before, or "". Raise NotPlanted or NotPassing.
    """  # fmt: skip
    for fault in faults:  # a mistake in the list is found before anything takes time
        with planted(copy.root, fault):
            pass
    proof = Proof(copy, mark)
    proof.try_all(sorted({test for fault in faults if (test := named(fault))}))
    for fault in faults:
        found = proof.first(partial(_failing_again, copy, fault, mark, named(fault)))
        test = found or proof.first(partial(_failing, copy, fault, mark, fault.tests))
        _say(f"{fault.name}: {test or 'NOT FOUND'}")
        tell(fault, test)
    return proof.red


def _failing_again(
    copy: Copy, fault: Fault, mark: str, test: str, left_out: Sequence[str]
) -> list[str]:
    """Return that test if it fails again; none if there is none, or if it is left out, by name or
    because its mark is."""
    if test and all(each.partition("[")[0] != test for each in left_out):
        with suppress(NotPassing):  # its mark leaves it out
            return _failing(copy, fault, mark, [test], left_out)
    return []


def _failing(
    copy: Copy, fault: Fault, mark: str, tests: Sequence[str], left_out: Sequence[str]
) -> list[str]:
    with planted(copy.root, fault):
        return copy.failures(tests, left_out, mark)


class Proof:
    """Which tests pass in this copy without any change: asked of those that fail with one.

    `red` are those that do not: they prove nothing, and are left out from then on.
    """

    def __init__(self, copy: Copy, mark: str = ALL) -> None:
        self._copy = copy
        self._mark = mark
        self._passing: set[str] = set()
        self.red: list[str] = []

    def try_all(self, tests: Sequence[str]) -> None:
        """Run these at once: if none fails, none has to be run alone without a change."""
        with suppress(NotPassing):  # one of them is not there any more
            if tests and not self._copy.failures(tests, mark=self._mark):
                self._passing.update(tests)

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
        if self._copy.failures([test], mark=self._mark):
            return False
        self._passing.add(test)
        return True


def rows_of(text: str) -> dict[tuple[str, str], str]:
    """Return by what each fault (its name and path) was found, as a report says it."""
    return {(row["name"], row["path"]): row["by"] for row in _ROW.finditer(text)}


def _rows_in(path: Path) -> dict[tuple[str, str], str]:
    return rows_of(path.read_text()) if path.exists() else {}


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
    parser.add_argument("--short", action="store_true", help="with the tests of make test")
    parser.add_argument("--sample", metavar="N", type=int, help="N of them, chosen by chance")
    parser.add_argument("--dir", type=Path, help="where the copy is made")
    wanted = parser.parse_args(words)
    listed: FaultList = LISTS[wanted.listed]
    rows = _rows_in(listed.report)
    before = _rows_in(LISTS["planted"].report) | rows  # what finds it in pure Python is run first
    faults = [each for each in listed.faults if wanted.only in each.name]
    if wanted.missing:
        faults = [each for each in faults if " in `" not in rows.get((each.name, each.path), "")]
    if wanted.sample is not None:
        faults = random.Random(SAMPLE_SEED).sample(faults, min(wanted.sample, len(faults)))
    mark = SHORT if wanted.short else QUICK if wanted.quick else ALL
    wrong: list[str] = []

    def tell(fault: Fault, test: str) -> None:
        rows[fault.name, fault.path] = found_by(fault, test, listed.known)
        if not wanted.short:
            listed.report.write_text(report(listed.faults, rows, (), listed.words))
        if bool(test) == (fault.name in listed.known):
            wrong.append(f"{fault.name}: {'known as not found' if test else 'no test'}")

    with ending(), tempfile.TemporaryDirectory(prefix="planted-", dir=wanted.dir) as folder:
        try:
            red = run(
                listed.run_in(copied(Path(folder))), faults, tell, mark,
                lambda fault: named_test(before.get((fault.name, fault.path), "")),
            )  # fmt: skip
        except (NotPlanted, NotPassing) as error:
            _say(str(error))
            return 1
    text = report(faults if wanted.short else listed.faults, rows, red, listed.words)
    if not wanted.short:
        listed.report.write_text(text)
    print(text)
    for each in wrong:
        _say(each)
    return int(bool(wrong))


def _say(text: str) -> None:
    print(f"planted: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
