"""An engine on an object store: each commit is one object, written only if its position is free.

`slice_log.py` says why no former owner can commit, and `packing.py` what becomes of old entries.
The owner has what was written since the last snapshot in memory; the rest is read from packs.

A standby asks for the entry behind the newest one that it knows. When there is none for a while, it
lists the log: the owner may have gone on so far that the next entry is deleted already.

One rule: an answered commit is an object that the store has acknowledged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from journal.engine.engine import (
    Claim,
    EngineAway,
    Fenced,
    FileFacts,
    Layout,
    Member,
    Op,
    Owner,
    Piece,
    Seat,
    Takeover,
)
from journal.engine.object_store.bucket import ObjectBucket
from journal.engine.object_store.entry import SliceRow
from journal.engine.object_store.made_store import HOW_TO_INIT, agreed, why_not_made, why_unsafe
from journal.engine.object_store.members import Members
from journal.engine.object_store.packing import DUE_BYTES, is_due, write_snapshot
from journal.engine.object_store.reading import edges_wanted, read_all, wanted
from journal.engine.object_store.slice_log import SliceLog, SlicePlace, front_of, newest
from journal.engine.object_store.takeovers import note_takeover, takeovers

log = logging.getLogger("kestrelpy.fleet")

# How long an object stays that is needed no more: a backup may still read it.
KEEP_SECONDS: Final = 3600.0
_LISTS_SECONDS: Final = 1.0  # a log without a new entry is listed so often
_SLICES_SECONDS: Final = 5.0  # the slices are
_ASKS_SECONDS: Final = 1.0  # a wish of an operator is looked for so often
_LOOKS_SECONDS: Final = 0.5  # the next entry of another owner is asked for so often
_BACKLOG_BYTES: Final = 8 * DUE_BYTES  # so much may wait for a snapshot
_STEP_MAX: Final = 256
_CLAIMS: Final = 20  # attempts, while the owner commits
_PACKS_SECONDS: Final = 1.0  # between two attempts to pack
_CLAIMED: Final = "another process has claimed the slice"


class _Tail(NamedTuple):
    """The newest entry of a slice that this process has seen."""

    row: SliceRow
    age_s: float  # when it was seen first, by both clocks
    seen_s: float
    looked_s: float  # when the entry behind it was asked for last
    listed_s: float  # when the log was listed last


class ObjectStoreEngine:
    """`Engine` on a bucket. For any thread; one at a time commits."""

    def __init__(
        self, bucket: ObjectBucket, clock: Callable[[], float] = time.monotonic,
        keep_s: float = KEEP_SECONDS, looks_s: float = _LOOKS_SECONDS, is_threaded: bool = True,
    ) -> None:  # fmt: skip
        """With `is_threaded` False the caller of a commit packs, for tests without threads."""
        self._is_threaded = is_threaded
        self.bucket = bucket
        self._clock = clock
        self._members = Members(self.bucket, clock)
        self._keep_s = keep_s
        self._looks_s = looks_s
        self._is_made = False
        self._logs: dict[int, SliceLog] = {}  # those that were claimed here, or asked for
        self._tails: dict[int, _Tail] = {}
        self._slices: tuple[float, set[int]] = (float("-inf"), set())
        self._asked: dict[int, tuple[float, int]] = {}  # when it was looked for, the epoch asked
        self._leaving: list[tuple[float, list[str]]] = []  # since when, objects to delete
        self._lock = threading.Lock()
        self._packing: threading.Thread | None = None
        self._packs_next_s = float("-inf")
        self._swept: set[Claim] = set()

    # -- claims -------------------------------------------------------------------------------

    def claim(
        self, number: int, member: Member, seen: int, seq: int | None = None
    ) -> Claim:
        self._check_made()
        why = why_unsafe(self.bucket)
        if why:
            raise EngineAway(self.bucket.name, why)
        for _ in range(_CLAIMS):
            found = SliceLog(self.bucket, number)
            found.load()
            row = found.row or SliceRow(0, 0, 0, member)
            if row.epoch != seen or seq not in (None, row.seq):
                self._slices = float("-inf"), set()
                raise Fenced(number, seen, f"{_CLAIMED}, or its owner committed")
            claim = row._replace(
                position=row.position + 1, epoch=row.epoch + 1, member=member, is_claim=True,
                has_released=False,
            )  # fmt: skip
            if found.claim(claim):
                with self._lock:
                    self._logs[number] = found
                self._saw(number, claim, 0.0)
                return claim.claim(number)
        raise Fenced(number, seen, "its owner commits again and again")

    def release(self, at: Claim) -> None:
        self._say(at, has_released=True)

    def begin_import(self, at: Claim) -> None:
        """Mark the slice: no daemon claims it. Raise Fenced or EngineAway."""
        self._say(at, is_importing=True)

    def end_import(self, at: Claim) -> None:
        """Take the mark away and release the slice. Raise Fenced or EngineAway."""
        self._say(at, is_importing=False, has_released=True)

    def _say(
        self, at: Claim, has_released: bool | None = None, is_importing: bool | None = None
    ) -> None:
        """Write a word of the owner; nothing, if it was said before."""
        found, row = self._owned(at)
        said = row._replace(
            has_released=row.has_released if has_released is None else has_released,
            is_importing=row.is_importing if is_importing is None else is_importing,
        )
        if said != row:
            self._append(found, _after(said))

    # -- commits ------------------------------------------------------------------------------

    def commit(self, at: Claim, ops: Sequence[Op]) -> None:
        found, row = self._owned(at)
        if row.seq == at.seq + 1:
            return  # it was done the first time
        if row.seq != at.seq:
            raise Fenced(at.slice, at.epoch, "the slice has other commits than this process")
        if ops and found.files.recent_bytes > _BACKLOG_BYTES:
            self._pack_if_due(found, at)
            self._wait_for_packs()
            if found.files.recent_bytes > _BACKLOG_BYTES:
                raise EngineAway(self.bucket.name, "what was written cannot be packed now")
        self._append(found, _after(row)._replace(seq=row.seq + 1), ops)
        self._pack_if_due(found, at)

    def _append(self, found: SliceLog, row: SliceRow, ops: Sequence[Op] = ()) -> None:
        try:
            found.append(row, ops)
        except Fenced:
            with self._lock:
                if self._logs.get(found.number) is found:
                    del self._logs[found.number]
            raise
        assert found.row is not None
        self._saw(found.number, found.row, 0.0)
        if found.left:
            left, found.left = found.left, []
            with self._lock:
                self._leaving.append((self._clock(), left))

    def _owned(self, at: Claim) -> tuple[SliceLog, SliceRow]:
        """Return the log of a slice that this claim owns; raise Fenced or EngineAway."""
        with self._lock:
            found = self._logs.get(at.slice)
        if found is None or found.row is None or _is_behind(found.row, at):
            self._check_made()
            found = SliceLog(self.bucket, at.slice)
            found.load()
            with self._lock:
                self._logs[at.slice] = found
        if found.row is None or _is_behind(found.row, at):
            raise EngineAway(self.bucket.name, "the store does not know of this claim")
        if found.row.epoch > at.epoch:
            raise Fenced(at.slice, at.epoch, _CLAIMED)
        return found, found.row

    # -- packs ----------------------------------------------------------------------------------

    def _pack_if_due(self, found: SliceLog, at: Claim) -> None:
        """Have a thread write a snapshot, if one is due."""
        if not is_due(found) or self._clock() < self._packs_next_s:
            return
        if self._packing is not None and self._packing.is_alive():
            return
        if not self._is_threaded:
            self._pack(found, at._replace(seq=0))
            return
        self._packs_next_s = self._clock() + _PACKS_SECONDS
        self._packing = threading.Thread(
            target=self._pack, args=(found, at._replace(seq=0)), name="kestrelpy-packs", daemon=True
        )
        self._packing.start()

    def _pack(self, found: SliceLog, at: Claim) -> None:
        try:
            write_snapshot(found, sweeps=at not in self._swept)
            self._swept.add(at)
            self._delete_left()
        except EngineAway as error:
            log.warning("what was written is packed later: %s", error.strerror)
        except Exception:  # the commits go on, until too much waits
            log.exception("what was written cannot be packed")

    def _delete_left(self) -> None:
        """Delete what has been needed no more for long enough."""
        now_s = self._clock()
        with self._lock:
            due = [keys for since_s, keys in self._leaving if now_s - since_s >= self._keep_s]
            self._leaving = [each for each in self._leaving if now_s - each[0] < self._keep_s]
        for keys in due:
            self.bucket.delete(keys)

    def _wait_for_packs(self) -> None:
        if self._packing is not None:
            self._packing.join()

    # -- reads ----------------------------------------------------------------------------------

    def files(self, at: Claim) -> list[FileFacts]:
        found = self._owned(at)[0]
        with found.lock:
            return found.files.facts()

    def edges(self, at: Claim, front: int, back: int) -> list[Piece]:
        found = self._owned(at)[0]
        return read_all(self.bucket, found.place, edges_wanted(found, front, back))

    def read(self, at: Claim, file: int, offset: int, size: int) -> bytes:
        found = self._owned(at)[0]
        with found.lock:
            wish = wanted(found.files, file, offset, size)
        return read_all(self.bucket, found.place, [wish])[0].data

    # -- members --------------------------------------------------------------------------------

    def owners(self) -> dict[int, Owner]:
        self._check_made()
        owners = {}
        for number in self._numbers():
            tail = self._look(number)
            if tail is not None:
                row = tail.row
                owners[number] = Owner(
                    row.member, row.epoch, row.seq, tail.age_s + self._clock() - tail.seen_s,
                    row.has_released, self._was_asked(number, row.epoch), row.is_importing,
                    self._members.takeover(row.member),
                )  # fmt: skip
        return owners

    def note(
        self, member: Member, takeover_s: float, waits: Sequence[int] | None = None
    ) -> None:
        self._check_made()
        self._members.note(member, takeover_s, waits)

    def members(self) -> list[Seat]:
        self._check_made()
        return self._members.seats()

    def note_takeover(self, takeover: Takeover) -> None:
        note_takeover(self.bucket, takeover)

    def takeovers(self) -> list[Takeover]:
        return takeovers(self.bucket)

    def agree(self, layout: Layout) -> Layout:
        self._check_made()
        return agreed(self.bucket, layout)

    def close(self) -> None:
        self._wait_for_packs()

    def _check_made(self) -> None:
        """Raise EngineAway unless `fleet init` has made the store for this version."""
        if not self._is_made:
            why = why_not_made(self.bucket)
            if why:
                raise EngineAway(self.bucket.name, f"{why}; {HOW_TO_INIT}")
            self._is_made = True

    def _numbers(self) -> list[int]:
        """Return the slices that are known; they are listed now and then."""
        listed_s, numbers = self._slices
        if self._clock() - listed_s >= _SLICES_SECONDS:
            numbers = {int(each) for each in self.bucket.folders("slices/") if each.isdecimal()}
            self._slices = self._clock(), numbers
        return sorted({*numbers, *self._tails})

    def _look(self, number: int) -> _Tail | None:
        """Return the newest entry of a slice; None: it has none."""
        place, tail = SlicePlace(number), self._tails.get(number)
        if tail is not None and (
            self._owns(tail.row, number) or self._clock() - tail.looked_s < self._looks_s
        ):
            return tail
        position, step = (tail.row.position if tail is not None else 0), 1
        while tail is not None and step <= _STEP_MAX:  # a busy owner is not followed step by step
            front = front_of(self.bucket, place, position + step)
            if front is None:
                break
            position, step = position + step, 2 * step
            self._saw(number, front[0], 0.0)
        tail = self._tails.get(number)
        if tail is not None:
            tail = self._tails[number] = tail._replace(looked_s=self._clock())
        if tail is not None and self._clock() - tail.listed_s < _LISTS_SECONDS:
            return tail
        later = newest(self.bucket, place, position)
        front = front_of(self.bucket, place, later) if later else None
        if front is not None:
            written_s = front[1].written_at.timestamp()
            self._saw(number, front[0], 0.0 if tail else max(time.time() - written_s, 0.0))
        elif tail is not None:
            self._tails[number] = tail._replace(listed_s=self._clock())
        return self._tails.get(number)

    def _owns(self, row: SliceRow, number: int) -> bool:
        """True if this process has written this entry: its next one says whether it still owns."""
        with self._lock:
            found = self._logs.get(number)
        return found is not None and found.is_own and found.row == row and not row.has_released

    def _saw(self, number: int, row: SliceRow, age_s: float) -> None:
        """Remember the newest entry; several threads may have seen one."""
        with self._lock:
            known, now_s = self._tails.get(number), self._clock()
            if known is None or known.row.position < row.position:
                self._tails[number] = _Tail(row, age_s, now_s, now_s, now_s)

    def _was_asked(self, number: int, epoch: int) -> bool:
        looked_s, asked = self._asked.get(number, (float("-inf"), 0))
        if asked != epoch and self._clock() - looked_s >= _ASKS_SECONDS:
            found = self.bucket.get(SlicePlace(number).asked(epoch), 1)
            asked = epoch if found is not None else 0
            self._asked[number] = self._clock(), asked
        return asked == epoch


def _is_behind(row: SliceRow, at: Claim) -> bool:
    """True if another process has written entries that this claim rests on."""
    return (row.epoch, row.seq) < (at.epoch, at.seq)


def _after(row: SliceRow) -> SliceRow:
    """Return the row of the next entry of the same owner."""
    return row._replace(position=row.position + 1, is_claim=False)
