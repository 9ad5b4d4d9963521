"""The log of a slice: one object for each entry, each written only if its position is free.

    log/…41  commit   epoch 7      the owner of epoch 7 writes at the next free position
    log/…42  claim    epoch 8      from here on that owner's next write finds its position taken
    log/…43  commit   epoch 8

A snapshot has the files after some entry. Entries up to there are deleted when an entry names the
snapshot, all but the claims: the position at which a former owner would go on has a claim, and so
it is taken for ever, however long that owner slept.

A claimer that slept could find a position free because its commit was deleted. Then a later entry
is there: a claim with an entry behind it is void.

One rule: a position is used once, and the position of a claim is never free again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from journal.engine.engine import EngineAway, EngineFull, Fenced, Op
from journal.engine.object_store.bucket import Found, ObjectBucket
from journal.engine.object_store.entry import (
    FRONT_BYTES,
    Damaged,
    SliceRow,
    pack,
    unpack,
    unpack_row,
)
from journal.engine.object_store.slice_files import SliceFiles, snapshot_of

AT_ONCE: Final = 16  # requests that a load makes side by side
_LOADS: Final = 5  # while the owner writes snapshots
_MOVED: Final = "the log moved on while it was read"
A = TypeVar("A")
B = TypeVar("B")


def side_by_side(ask: Callable[[A], B], each: Iterable[A]) -> list[B]:
    """Return what the requests return, in their order, several made at once."""
    wanted = [*each]
    if len(wanted) < 2:
        return [ask(one) for one in wanted]
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as pool:
        return [*pool.map(ask, wanted)]


class SlicePlace:
    """Where the objects of a slice are."""

    def __init__(self, number: int) -> None:
        self.folder = f"slices/{number}"
        self.log = f"{self.folder}/log"
        self.packs = f"{self.folder}/packs"
        self.snapshots = f"{self.folder}/snapshots"

    def entry(self, position: int) -> str:
        """Return the name of an entry: names are in the order of their positions."""
        return f"{self.log}/{position:020}"

    def asked(self, epoch: int) -> str:
        """Return the name of the wish that the owner of this epoch releases the slice."""
        return f"{self.folder}/asked/{epoch:020}"

    @staticmethod
    def position(key: str) -> int:
        """Return the position of an entry, of its name."""
        return int(key.rsplit("/", 1)[-1])


def front_of(
    bucket: ObjectBucket, place: SlicePlace, position: int
) -> tuple[SliceRow, Found] | None:
    """Return the row of an entry; None: there is none. Raise EngineAway."""
    key = place.entry(position)
    found = bucket.get(key, FRONT_BYTES)
    if found is None:
        return None
    try:
        return unpack_row(found.data), found
    except Damaged as error:
        raise EngineAway(f"{bucket.name}/{key}", str(error)) from None


def newest(bucket: ObjectBucket, place: SlicePlace, after: int = 0) -> int:
    """Return the position of the newest entry behind `after`; 0: there is none. Raise
    EngineAway."""
    entries = bucket.listed(place.log, place.entry(after) if after else "")
    return place.position(entries[-1].key) if entries else 0


class SliceLog:
    """A slice as its log says, up to `row`. `lock` guards what it has."""

    def __init__(self, bucket: ObjectBucket, number: int) -> None:
        self.bucket = bucket
        self.number = number
        self.place = SlicePlace(number)
        self.lock = threading.RLock()
        self.row: SliceRow | None = None  # None: nobody has claimed the slice
        self.files = SliceFiles()
        self.claims = list[int]()  # the positions of all of them
        self.base = 0  # the files of the newest snapshot are those after this entry
        # A snapshot that the next entry names, and the objects that are needed no more after that.
        self.next_snapshot: tuple[str, int] | None = None
        self.leaving = list[str]()
        self.left = list[str]()  # objects that may be deleted
        self.is_own = False  # this process has claimed it
        self._is_unsure = False  # the outcome of the last write is not known

    def load(self) -> None:
        """Read what the log has now; raise EngineAway."""
        for _ in range(_LOADS):
            try:
                self._load()
                return
            except FileNotFoundError:
                continue
        raise EngineAway(self.bucket.name, _MOVED)

    def _load(self) -> None:
        """Read it; raise FileNotFoundError if something was deleted meanwhile."""
        tail = newest(self.bucket, self.place)
        if not tail:
            return
        front = front_of(self.bucket, self.place, tail)
        if front is None:
            raise FileNotFoundError
        row = front[0]
        files, base, claims = SliceFiles(), 0, list[int]()
        try:
            if row.snapshot:
                base, claims, files = snapshot_of(self._get(self._snapshot(row.snapshot)))
            keys = [self.place.entry(each) for each in range(base + 1, tail + 1)]
            for data in side_by_side(self._get, keys):
                entry = unpack(data)
                row = entry.row
                files.apply(row.position, entry.batch)
                claims += [row.position] if row.is_claim else []
        except ValueError as error:
            raise EngineAway(f"{self.bucket.name}/{self.place.folder}", str(error)) from None
        with self.lock:
            self.row, self.files, self.base, self.claims = row, files, base, claims
            self.next_snapshot, self.leaving, self._is_unsure = None, [], False

    def _get(self, key: str) -> bytes:
        found = self.bucket.get(key)
        if found is None:
            raise FileNotFoundError
        return found.data

    def _snapshot(self, name: str) -> str:
        return f"{self.place.snapshots}/{name}"

    def claim(self, row: SliceRow) -> bool:
        """Write a claim behind what was loaded; False: it is void, another entry was there first.
        Raise EngineAway."""
        data = pack(row)
        if not self.bucket.put_new(self.place.entry(row.position), data):
            return False
        if newest(self.bucket, self.place, row.position):
            return False
        with self.lock:
            self.row, self.is_own = row, True
            self.claims.append(row.position)
        return True

    def append(self, row: SliceRow, ops: Sequence[Op] = ()) -> None:
        """Write an entry of the owner, or find that it was written before. Raise Fenced, EngineAway
        or EngineFull."""
        with self.lock:
            snapshot, leaving = self.next_snapshot, self.leaving
            was_unsure, self._is_unsure = self._is_unsure, True
        if snapshot is not None:
            row = row._replace(snapshot=snapshot[0])
        data = pack(row, ops)
        try:
            is_ours = self.bucket.put_new(self.place.entry(row.position), data)
        except EngineFull as error:
            if was_unsure:  # an earlier attempt may still be done
                raise EngineAway(self.bucket.name, error.strerror or "") from None
            self._is_unsure = False
            raise
        if not is_ours:
            row, data = self._found(row)
        with self.lock:
            self._is_unsure = False
            self.row = row
            self.files.apply(row.position, unpack(data).batch)
            if snapshot is not None and row.snapshot == snapshot[0]:
                self.base, self.next_snapshot = snapshot[1], None
                self.left += leaving
                self.leaving = []

    def _found(self, row: SliceRow) -> tuple[SliceRow, bytes]:
        """Return the entry that has this position, if it is the same; raise Fenced."""
        found = self.bucket.get(self.place.entry(row.position))
        if found is None:
            raise EngineAway(self.bucket.name, _MOVED)
        try:
            there = unpack(found.data).row
        except Damaged as error:
            raise EngineAway(self.place.entry(row.position), str(error)) from None
        if there._replace(snapshot="") != row._replace(snapshot=""):
            raise Fenced(self.number, row.epoch, "another process has claimed the slice")
        return there, found.data
