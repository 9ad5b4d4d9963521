"""Builders for tests of moves: a data directory in memory, a run that may be killed at a step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from random import Random
from typing import Any
from unittest import mock

from journal.engine import Commits, EngineFiles, Member
from journal.files import Disk
from kestrelpy.fleet import Moved, MoveIn, MoveOut, claim_unowned
from kestrelpy.fleet.move_in import inventory
from tests.support.journals import fresh
from tests.support.memory_disk import MemoryDisk
from tests.support.memory_engine import MemoryEngine

FOLDER, PLACE = "/data", "memory/1"


class Killed(BaseException):
    """The end of the process."""


class Calls:
    """The number of calls that are left, and whether the last one still takes effect."""

    def __init__(self, left: int, is_done: bool) -> None:
        self.left, self.is_done = left, is_done

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.is_done:
                raise Killed
            is_last = self.left == 0
            try:
                return call(*words, **named)
            finally:
                if is_last:
                    raise Killed

        return run


def half_of(run: Callable[[Calls], object]) -> Calls:
    """Return half as many calls as a whole run takes."""
    many = 1 << 20
    calls = Calls(many, True)
    run(calls)
    return Calls((many - calls.left) // 2, True)


class Mortal:
    """A wrapper that counts each call of the inner object."""

    def __init__(self, inner: Any, calls: Calls) -> None:
        self._inner, self._calls = inner, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._calls.counted(found) if callable(found) else found


def made(seed: int = 1) -> MemoryDisk:
    """A data directory of two queues, with what a start removes or makes anew."""
    disk, random = MemoryDisk(), Random(seed)
    for folder, count in (("jobs.1", 5), ("mail.1", 1)):
        writer = fresh(disk, folder=f"{FOLDER}/{folder}")
        writer.put_all(*(random.randbytes(random.randint(1, 900)) for _ in range(count)))
        writer.close()
    for path, data in (
        ("server-id", b"0123456789abcdef"), ("lock", b""), ("tokens.new", b"half"),
        ("jobs.9~removed/x", b"gone"), ("cache-1/7", b"cached"),
    ):  # fmt: skip
        whole = os.path.join(FOLDER, path)
        disk.make_folder(os.path.dirname(whole))
        disk.create(whole, data, len(data)).close()
    return disk


def contents(disk: MemoryDisk, folder: str = FOLDER) -> dict[str, bytes]:
    """Return the bytes of the moved files."""
    return {each.path: disk.read(f"{folder}/{each.path}") for each in inventory(disk, folder)}


def commits_of(
    engine: Any, takeover_s: float, may_resume: bool, is_living: bool = False
) -> Commits:
    """The commits of a mover, without a thread."""

    def pause(_: float) -> None:
        if is_living:  # the owner commits meanwhile
            owner = engine.owners()[1]
            engine._slices[1].seq = owner.seq + 1

    seconds = TAKEOVER_S if is_living else takeover_s
    claim = claim_unowned(engine, Member("mover"), seconds, may_resume=may_resume, pause=pause)
    return Commits(engine, claim, pause=lambda _: None)


TAKEOVER_S = 60.0


def bring_in(
    engine: MemoryEngine, disk: MemoryDisk, calls: Calls | None = None, *, takeover_s: float = 0.0,
    is_living: bool = False, before_compare: Callable[[], None] | None = None,
) -> Moved:  # fmt: skip
    """Move a folder in, until the calls are used up."""
    mortal: Any = engine if calls is None else Mortal(engine, calls)
    commits = commits_of(mortal, takeover_s, True, is_living)
    move = MoveIn(mortal, commits, disk, FOLDER, _sane())
    listed, times = move._listed, iter((None, None, before_compare))

    def then() -> Any:
        if (act := next(times, None)) is not None:
            act()
        return listed()

    with tempfile.TemporaryDirectory() as cache, mock.patch.object(move, "_listed", then):

        def copy(commits: Commits) -> EngineFiles:
            files = EngineFiles(mortal, PLACE, os.path.join(cache, "read"), 1 << 20, Disk())
            files.take_over(commits)
            return files

        return move.run(copy, PLACE)


def bring_out(engine: MemoryEngine, disk: MemoryDisk, calls: Calls | None = None) -> Moved:
    """Move the slice out to the folder of `disk`, until the calls are used up."""
    mortal: Any = engine if calls is None else Mortal(engine, calls)
    files: Any = disk if calls is None else Mortal(disk, calls)
    commits = commits_of(mortal, 0.0, False)
    moved = MoveOut(mortal, commits, files, FOLDER, PLACE, _sane()).run()
    commits.close()
    mortal.release(commits.claim)
    return moved


def _sane() -> Callable[[int, int], None]:
    """A progress that goes forward and ends at its end."""
    before = 0

    def show(done: int, total: int) -> None:
        nonlocal before
        assert before <= done <= total
        before = done

    return show
