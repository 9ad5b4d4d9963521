"""Do the tests notice small changes? Make mutants of the source, and list those that survive.

    python -m tests.faults.mutants [-n N] [--seed S] [--jobs 2] [--again] [--only PATH] [--subtle]

    draw N places of the source by the seed -> for each, in a copy: change it, run the tests that
    belong to its module, put it back -> list the survivors

The changes are the nearest other operators (mutations.py), or with `--subtle` the mistakes that a
good engineer makes (subtle.py).

The tests of a module are, in two runs: those of its name and those of its folder that import it;
then the rest of its folder, the machines, the transcripts and some lives of the simulation. The
first that fails ends it. Results are appended to a file as they come (build/mutants.jsonl), each
under a hash of the whole changed source: a second run goes on where the first was stopped, and a
module that has changed is tried anew. `--again` tries survivors again, after tests were written.

A mutant that behaves like the original is judged in equivalent_mutants.toml, by its file, the text
of its line and the text it becomes, so that a line that moved is found again.

One rule: a mutant counts as found only by a test that passes without it, or by never ending.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import re
import resource
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from tests.faults import subtle
from tests.faults.mutation import Mutation, difference
from tests.faults.planted import Proof
from tests.faults.runs import (
    ALL,
    NOT_ENDED,
    QUICK,
    ROOT,
    NotPassing,
    PureCopy,
    copied,
    ending,
    failures,
    stop,
)

ROOMS: Final = ("journal", "kestrelpy/core", "kestrelpy/protocol", "kestrelpy/server")
# Not the command line, the fleet, Spark and the examples: most of their tests run processes, some a
# JVM, so that one mutant would take many minutes.
SUBTLE_ROOMS: Final = (
    *ROOMS, "kestrelpy/client", "kestrelpy/config", "kestrelpy/http", "kestrelpy/kombu",
    "kestrelpy/operations", "kestrelpy/wire",
)  # fmt: skip
EQUIVALENTS: Final = ROOT / "tests/faults/equivalent_mutants.toml"
RESULTS: Final = ROOT / "build/mutants.jsonl"
# Together some seconds; which lives they are is nothing but their number.
LIVES: Final = tuple(
    f"tests/simulation/test_simulation.py::test_every_promise_holds[{n}]" for n in range(2)
)
JOBS_MAX: Final = 2  # a run starts daemons and syncs: more of them make each other late
RUN_SECONDS: Final = 600  # a run that takes longer does not end
MEMORY_MAX: Final = 4 << 30  # a loop that never ends would take all there is
SURVIVED: Final = ""
BROKE_OFF: Final = "(pytest broke off)"


@dataclass(frozen=True)
class Mutant:
    """One changed file; `id` changes when any part of the file changes."""

    id: str
    path: str
    line: int
    old: str
    new: str
    text: str


@dataclass(frozen=True)
class Result:
    """What became of a mutant: the test that found it, or SURVIVED."""

    id: str
    path: str
    line: int
    old: str
    new: str
    by: str
    seconds: float


@dataclass(frozen=True)
class Runs:
    """The tests for one module: those that run first, and those that run only if the first pass."""

    first: list[str]
    then: list[str]


# -- which mutants ---------------------------------------------------------------------------


def sources(root: Path = ROOT, rooms: Sequence[str] = ROOMS) -> dict[str, str]:
    """Return the text of every module by its path."""
    paths = sorted(path for room in rooms for path in (root / room).rglob("*.py"))
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


def equivalents(text: str) -> dict[tuple[str, str, str], str]:
    """Return the reasons why a mutant is judged equivalent, by its file, old and new text."""
    listed = tomllib.loads(text).get("equivalent", [])
    return {(each["file"], each["old"], each["new"]): each["reason"] for each in listed}


class Changes(Protocol):
    """What makes mutants: `mutations` or `subtle`."""

    def mutations(self, path: str, text: str) -> list[Mutation]: ...

    def mutated(self, text: str, mutation: Mutation) -> str | None: ...

    def drawn(
        self, found: Iterable[Mutation], texts: dict[str, str], seed: int
    ) -> list[Mutation]: ...


def nearest() -> Changes:
    """Return the changes to the nearest other operator: the extra `mutants` brings them."""
    from tests.faults import mutations  # noqa: PLC0415

    return mutations


def sample(
    texts: Mapping[str, str],
    count: int,
    seed: int,
    equivalent: Mapping[tuple[str, str, str], str],
    changes: Changes,
) -> list[Mutant]:
    """Return `count` mutants: the same for the same seed and sources; a larger count adds some."""
    return list(_first(count, mutants(texts, seed, equivalent, changes)))


def mutants(
    texts: Mapping[str, str],
    seed: int,
    equivalent: Mapping[tuple[str, str, str], str],
    changes: Changes,
) -> Iterator[Mutant]:
    """Yield mutants in the seed's order, without those judged equivalent."""
    found = [each for path, text in texts.items() for each in changes.mutations(path, text)]
    for mutation in changes.drawn(found, dict(texts), seed):
        mutant = _made(mutation, texts[mutation.path], changes)
        if mutant is not None and (mutant.path, mutant.old, mutant.new) not in equivalent:
            yield mutant


def _made(mutation: Mutation, text: str, changes: Changes) -> Mutant | None:
    changed = changes.mutated(text, mutation)
    if changed is None:
        return None
    line, old, new = difference(text, changed)
    id_ = hashlib.sha256(f"{mutation.path}\n{changed}".encode()).hexdigest()[:16]
    return Mutant(id_, mutation.path, line, old, new, changed)


def _first(count: int, found: Iterator[Mutant]) -> Iterator[Mutant]:
    for _, each in zip(range(count), found, strict=False):
        yield each


# -- which tests -----------------------------------------------------------------------------


def runs_of(root: Path, path: str) -> Runs:
    """Return the tests of a module, the nearest first."""
    module, stem = path.removesuffix(".py").replace("/", "."), Path(path).stem
    imports = re.compile(
        rf"^\s*(?:from {re.escape(module)} import|import {re.escape(module)}\b"
        rf"|from {re.escape(module.rpartition('.')[0])} import .*\b{stem}\b)",
        re.MULTILINE,
    )
    folder = sorted((root / folder_of(path)).rglob("test_*.py"))
    named = [each for each in folder if f"{each.stem}_".startswith(f"test_{stem}_")]
    near = [each for each in folder if imports.search(each.read_text())]
    first = _names(root, dict.fromkeys((*named, *near)))
    rest = [each for each in _names(root, folder) if each not in first]
    return Runs(first, [*rest, *far(root, path)])


def far(root: Path, path: str) -> list[str]:
    """Return the tests beyond the module's folder that are run last."""
    is_journal = path.startswith("journal")
    machines = "tests/model/test_journal_machine.py" if is_journal else "tests/model"
    found = sorted((root / machines).glob("test_*.py")) or [root / machines]
    return [*_names(root, found), "tests/scenario/test_transcripts.py", *LIVES]


def folder_of(path: str) -> str:
    """Return the folder of the module's tests."""
    top, below = Path(path).parts[:2]
    return f"tests/unit/{below if top == 'kestrelpy' else top}"


def _names(root: Path, paths: Sequence[Path] | Mapping[Path, None]) -> list[str]:
    return [each.relative_to(root).as_posix() for each in paths]


# -- the runs --------------------------------------------------------------------------------


class Copy:
    """A copy of the repository in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = copied(folder)
        self.proof = Proof(PureCopy(self.root))
        self._time_s = int(time.time()) - 1_000_000

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Have the mutant in the source inside the block."""
        path = self.root / mutant.path
        text = path.read_text()
        self._write(path, mutant.text)
        try:
            yield
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Each text has a time of its own, so that no bytecode of another one is taken for it."""
        path.write_text(text)
        self._time_s += 1
        os.utime(path, (self._time_s, self._time_s))

    def failing(
        self, mutant: Mutant, tests: Sequence[str], mark: str, left_out: Sequence[str]
    ) -> list[str]:
        """Return the first test that fails, or what else shows that something is wrong."""
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        try:
            with self.changed(mutant):
                return failures(
                    self.root, tests, left_out, mark=mark, seconds=RUN_SECONDS,
                    environment={"TMPDIR": str(temporary)},
                )  # fmt: skip
        except NotPassing as error:
            # With everything deselected by the mark pytest ends with 5: nothing failed.
            return [] if str(error).startswith("pytest ended with 5:") else [BROKE_OFF]
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def parts(runs: Runs) -> list[tuple[list[str], str]]:
    """Return the runs of pytest for a module, each with its mark."""
    quick = [each for each in runs.then if each not in LIVES]
    found = [(runs.first, ALL), (quick, QUICK), (list(LIVES), ALL)]
    return [(tests, mark) for tests, mark in found if tests]


def tried(copy: Copy, mutant: Mutant) -> Result:
    """Run the tests of the mutant's module until one fails that passes without it."""
    begun = time.monotonic()
    by = SURVIVED
    for tests, mark in parts(runs_of(copy.root, mutant.path)):
        by = copy.proof.first(partial(copy.failing, mutant, tests, mark))
        if by != SURVIVED:
            break
    seconds = round(time.monotonic() - begun, 1)
    return Result(mutant.id, mutant.path, mutant.line, mutant.old, mutant.new, by, seconds)


class Book:
    """The results so far, in a file of one line each; the last one of an id counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.results: dict[str, Result] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            self._take(Result(**json.loads(line)))

    def add(self, result: Result) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        self._take(result)

    def _take(self, result: Result) -> None:
        self.results[result.id] = result

    def open(self, chosen: Sequence[Mutant], *, again: bool) -> list[Mutant]:
        """Return the mutants that are still to be tried."""
        done = {id_ for id_, each in self.results.items() if each.by != SURVIVED or not again}
        return [each for each in chosen if each.id not in done]


def try_all(todo: Sequence[Mutant], book: Book, jobs: int, folder: Path) -> None:
    """Try each mutant in one of `jobs` copies. Raise NotPassing."""
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(jobs):
        (folder / str(number)).mkdir()
        copies.put(Copy(folder / str(number)))

    def go(mutant: Mutant) -> Result:
        copy = copies.get()
        try:
            return tried(copy, mutant)
        finally:
            copies.put(copy)

    pool = ThreadPoolExecutor(jobs)
    try:
        for number, result in enumerate(pool.map(go, todo), 1):
            book.add(result)
            end = f"found by {result.by}" if result.by else "SURVIVED"
            _say(f"{number}/{len(todo)} {result.path}:{result.line} {end} ({result.seconds} s)")
    except BaseException:
        stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def report(results: Sequence[Result]) -> str:
    """Return the survivors, and how many mutants there were."""
    told = []
    for each in sorted(results, key=lambda each: (each.path, each.line)):
        if each.by == SURVIVED:
            lines = [f"  - {line}" for line in each.old.splitlines()]
            lines += [f"  + {line}" for line in each.new.splitlines()]
            told.append("\n".join([f"{each.path}:{each.line}", *lines, ""]))
    spent = sum(each.seconds for each in results) / max(1, len(results))
    endless = sum(each.by == NOT_ENDED for each in results)
    return "\n".join(
        [*told, f"{len(results)} mutants, {len(told)} survived, {endless} never ended; "
                f"{spent:.1f} s each"]
    )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants")
    parser.add_argument("-n", type=int, default=300, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="which")
    parser.add_argument("--jobs", type=int, default=JOBS_MAX, choices=range(1, JOBS_MAX + 1))
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--only", default="", metavar="PATH", help="modules whose path begins so")
    parser.add_argument("--subtle", action="store_true", help="the mistakes of good engineers")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--dir", type=Path, help="where the copies are made")
    wanted = parser.parse_args(words)
    rooms = SUBTLE_ROOMS if wanted.subtle else ROOMS
    listed = sources(rooms=rooms).items()
    texts = {path: text for path, text in listed if path.startswith(wanted.only)}
    changes = subtle if wanted.subtle else nearest()
    chosen = sample(texts, wanted.n, wanted.seed, equivalents(EQUIVALENTS.read_text()), changes)
    book = Book(wanted.results)
    todo = book.open(chosen, again=wanted.again)
    _say(f"{len(chosen)} mutants of {len(texts)} modules, {len(todo)} to be tried")
    if todo:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        with tempfile.TemporaryDirectory(prefix="mutants-", dir=wanted.dir) as folder, ending():
            try:
                try_all(todo, book, wanted.jobs, Path(folder))
            except NotPassing as error:
                _say(str(error))
                return 1
    results = [book.results[each.id] for each in chosen]
    print(report(results))
    return int(any(each.by == SURVIVED for each in results))


def _say(text: str) -> None:
    print(f"mutants: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
