"""An engine in memory with the verbs of `journal.engine`: fences, faults, unknown outcomes.

One rule: the model is at least as unkind as a real engine that keeps its word. Every later claim
finds all of an acknowledged commit; of any other commit it finds all or nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from journal.engine import (
    Claim,
    Commits,
    Create,
    Engine,
    EngineAway,
    EngineFiles,
    EngineFull,
    Fenced,
    FileFacts,
    Layout,
    Member,
    Op,
    Owner,
    Piece,
    Rename,
    Seat,
    Takeover,
    Write,
)
from journal.files import Disk

# The fate of a commit: the connection is lost before it is done, or after; there is no room.
Fate = Literal["", "not done", "done", "full"]
_ASLEEP_SECONDS: Final = 60.0  # at most, so that no thread is left


@dataclass
class _File:
    path: str
    data: bytearray
    made_bytes: int
    end: int = 0  # of what was written


@dataclass
class _Slice:
    epoch: int = 0
    seq: int = 0
    owner: Member = field(default_factory=lambda: Member(""))
    committed_s: float = 0.0
    has_released: bool = False
    files: dict[int, _File] = field(default_factory=dict)
    asked: int = 0  # the epoch whose owner was asked to release it
    is_importing: bool = False


class MemoryEngine:
    """`Engine` in memory. `fate` says what happens to each commit; `clock` is the engine's own."""

    def __init__(
        self,
        fate: Callable[[], Fate] = lambda: "",
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.fate = fate
        self.clock = clock
        self.is_away = False
        self.commits: list[tuple[Op, ...]] = []
        self.reads: list[tuple[int, int, int]] = []  # file, offset, size
        self.seats: dict[Member, Seat] = {}
        self.noted: list[Takeover] = []
        self.layout: Layout | None = None  # None: nobody has said it
        self._slices: dict[int, _Slice] = {}
        self._lock = threading.Lock()

    def claim(
        self, number: int, member: Member, seen: int, seq: int | None = None
    ) -> Claim:
        self._answer()
        found = self._slices.setdefault(number, _Slice())
        with self._lock:
            if found.epoch != seen:
                raise Fenced(number, seen, f"{found.owner.name} claimed the slice first")
            if seq not in (None, found.seq):
                raise Fenced(number, seen, f"{found.owner.name} has committed")
            found.epoch += 1
        found.owner, found.has_released = member, False
        found.committed_s = self.clock()
        return Claim(number, found.epoch, found.seq)

    def commit(self, at: Claim, ops: Sequence[Op]) -> None:
        self._answer()
        fate = self.fate()
        if fate == "not done":
            raise EngineAway("memory", "the connection was lost")
        found = self._owned(at)
        if found.seq == at.seq + 1:
            return  # it was done the first time
        if fate == "full":
            raise EngineFull("memory", "no room")
        if found.seq != at.seq:
            raise AssertionError(f"commit {at.seq} of a slice at {found.seq}")
        for op in ops:
            _apply(found.files, op)
        found.seq += 1
        found.committed_s = self.clock()
        self.commits.append(tuple(ops))
        if fate == "done":
            raise EngineAway("memory", "the connection was lost")

    def release(self, at: Claim) -> None:
        self._answer()
        self._owned(at).has_released = True

    def files(self, at: Claim) -> list[FileFacts]:
        self._answer()
        files = self._owned(at).files
        return [
            FileFacts(number, file.path, len(file.data), file.end) for number, file in files.items()
        ]

    def edges(self, at: Claim, front: int, back: int) -> list[Piece]:
        self._answer()
        found = list[Piece]()
        for number, file in self._owned(at).files.items():
            first = min(front, file.made_bytes)
            found.append(Piece(number, 0, bytes(file.data[:first])))
            begin = file.made_bytes - back
            if begin >= first:
                found.append(Piece(number, begin, bytes(file.data[begin : begin + back])))
        return found

    def read(self, at: Claim, file: int, offset: int, size: int) -> bytes:
        self._answer()
        self.reads.append((file, offset, size))
        stored = self._owned(at).files.get(file)
        data = bytes(stored.data[offset : offset + size]) if stored is not None else b""
        return data.ljust(size, b"\0")

    def owners(self) -> dict[int, Owner]:
        self._answer()
        now = self.clock()
        return {
            number: Owner(each.owner, each.epoch, each.seq, now - each.committed_s,
                          each.has_released, each.asked == each.epoch, each.is_importing,
                          self.seats[each.owner].takeover_s if each.owner in self.seats else 0.0)
            for number, each in self._slices.items()
        }  # fmt: skip

    def note(
        self, member: Member, takeover_s: float, waits: Sequence[int] | None = None
    ) -> None:
        self._answer()
        before = self.seats.get(member)
        is_drained = before is not None and before.is_drained
        ready = tuple(waits) if waits is not None else before.waits if before is not None else ()
        self.seats[member] = Seat(member, takeover_s, self.clock(), is_drained, ready)

    def members(self) -> list[Seat]:
        self._answer()
        now = self.clock()
        return [
            each._replace(age_s=now - each.age_s)
            for each in sorted(self.seats.values(), key=lambda each: each.member)
        ]

    def note_takeover(self, takeover: Takeover) -> None:
        self._answer()
        self.noted.insert(0, takeover)

    def takeovers(self) -> list[Takeover]:
        self._answer()
        return list(self.noted)

    def agree(self, layout: Layout) -> Layout:
        self._answer()
        self.layout = self.layout or layout
        return self.layout

    def drain(self, member: Member, is_drained: bool) -> None:
        """Say whether a member is to own slices: not a verb."""
        self.seats[member] = self.seats[member]._replace(is_drained=is_drained)

    def ask_release(self, number: int) -> None:
        """Ask the owner to release the slice: not a verb."""
        self._slices[number].asked = self._slices[number].epoch

    def begin_import(self, at: Claim) -> None:
        self._answer()
        self._owned(at).is_importing = True

    def end_import(self, at: Claim) -> None:
        self._answer()
        found = self._owned(at)
        found.is_importing, found.has_released = False, True

    def close(self) -> None:
        """Nothing to let go of."""

    def contents(self, number: int) -> dict[str, bytes]:
        """Return the files by their paths: not a verb."""
        return {file.path: bytes(file.data) for file in self._slices[number].files.values()}

    def _answer(self) -> None:
        if self.is_away:
            raise EngineAway("memory", "it does not answer")

    def _owned(self, at: Claim) -> _Slice:
        found = self._slices[at.slice]
        if found.epoch != at.epoch:
            raise Fenced(at.slice, at.epoch, f"{found.owner.name} claimed the slice")
        return found


def _apply(files: dict[int, _File], op: Op) -> None:
    if isinstance(op, Create):
        assert op.file not in files, "a number is used once"
        files[op.file] = _File(op.path, bytearray(op.size), op.size)
    elif isinstance(op, Rename):
        files[op.file].path = op.path
    elif isinstance(op, Write):
        data = files[op.file].data
        files[op.file].end = max(files[op.file].end, op.offset + len(op.data))
        if len(data) < op.offset:
            data.extend(bytes(op.offset - len(data)))
        data[op.offset : op.offset + len(op.data)] = op.data
    else:
        del files[op.file]


class SilentEngine(MemoryEngine):
    """It is asleep until `wakes` is set; `asked` is set when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.wakes = threading.Event(), threading.Event()

    def _answer(self) -> None:
        self.asked.set()
        self.wakes.wait(_ASLEEP_SECONDS)
        super()._answer()


def claimed(engine: Engine, name: str, number: int = 1) -> Claim:
    """Claim a slice from any owner."""
    owner = engine.owners().get(number)
    return engine.claim(number, Member(name), 0 if owner is None else owner.epoch)


@contextmanager
def engine_files(
    engine: Engine, folder: str, name: str = "a", beat_s: float = 0.0, number: int = 1,
    cache_bytes: int = 64 << 20,
) -> Iterator[EngineFiles]:  # fmt: skip
    """Claim a slice as the data directory `folder`, with a cache next to that."""
    commits = Commits(engine, claimed(engine, name, number), beat_s, pause=lambda _: None)
    cache = f"{os.path.normpath(folder)}.cache-{name}"
    try:
        files = EngineFiles(engine, folder, cache, cache_bytes, Disk())
        files.take_over(commits)
        yield files
    finally:
        commits.close()
