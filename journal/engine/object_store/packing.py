"""What entries wrote is gathered into packs, and a snapshot says where everything is.

    entries 1..500 ──▶ packs of up to 8 MiB ──▶ snapshot ──▶ the next entry names it ──▶ 1..500
                                                                                       may go
A pack of which less than half is needed is written anew with the rest, and so are many small ones.

One rule: nothing is deleted before an entry of this owner has named the snapshot without it. An
owner that was replaced writes no entry, so it deletes nothing that its successor needs.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Final

from journal.engine.object_store.reading import Wanted, read_all
from journal.engine.object_store.slice_files import (
    FilesSnapshot,
    PackedPart,
    SliceFiles,
    StoredFile,
    flattened,
    laid_over,
)
from journal.engine.object_store.slice_log import SliceLog

DUE_ENTRIES: Final = 500
DUE_BYTES: Final = 16 << 20
PACK_BYTES: Final = 8 << 20
_SMALL_BYTES: Final = 1 << 20
_SMALL_MAX: Final = 16  # packs smaller than that: above it they are joined
_REWRITTEN_BYTES_MAX: Final = 32 << 20  # of old packs, in one snapshot


@dataclass
class _Packs:
    """New packs, filled one after the other."""

    log: SliceLog
    made: dict[str, int] = field(default_factory=dict)
    _name: str = ""
    _filling: bytearray = field(default_factory=bytearray)

    def add(self, begin: int, data: bytes) -> list[PackedPart]:
        """Take bytes of a file; return where they will be."""
        extents = []
        for at in range(0, len(data), PACK_BYTES):
            part = data[at : at + PACK_BYTES]
            if len(self._filling) + len(part) > PACK_BYTES:
                self.write()
            self._name = self._name or uuid.uuid4().hex
            extents.append(PackedPart(begin + at, len(part), self._name, len(self._filling)))
            self._filling += part
        return extents

    def write(self) -> None:
        """Write the pack that is being filled; raise EngineAway."""
        if self._name:
            self.log.bucket.put(f"{self.log.place.packs}/{self._name}", bytes(self._filling))
            self.made[self._name] = len(self._filling)
        self._name = ""
        self._filling.clear()


def is_due(log: SliceLog) -> bool:
    """True if the entries since the last snapshot are many, or large."""
    if log.row is None or log.next_snapshot is not None:
        return False
    return log.row.position - log.base >= DUE_ENTRIES or log.files.recent_bytes >= DUE_BYTES


def write_snapshot(log: SliceLog, sweeps: bool = False) -> None:
    """Write packs and a snapshot for the next entry to name; raise EngineAway.

    `sweeps`: look also for objects that former owners have left.
    """
    with log.lock:
        row = log.row
        assert row is not None
        before = log.files
        files = {number: _copy(each) for number, each in before.files.items()}
        old_packs, recent_bytes, claims = dict(before.packs), before.recent_bytes, [*log.claims]
        base = log.base
    packs = _Packs(log)
    renewed = _worn(files, old_packs)
    _fetch(log, files, renewed, packs)
    for each in files.values():
        for begin, data in flattened(each.recent):
            end = begin + len(data)
            each.packed = laid_over(each.packed, [(begin, end)]) + packs.add(begin, data)
        each.packed = _joined(sorted(each.packed))
        each.recent = []
    packs.write()
    used = {extent.pack for each in files.values() for extent in each.packed}
    kept = {name: size for name, size in (old_packs | packs.made).items() if name in used}
    name = uuid.uuid4().hex
    snapshot = FilesSnapshot(row.position, claims, SliceFiles(files, kept))
    log.bucket.put(f"{log.place.snapshots}/{name}", snapshot.pack())
    place = log.place
    leaving = [f"{place.packs}/{each}" for each in (old_packs | packs.made) if each not in kept]
    leaving += [place.entry(at) for at in range(base + 1, row.position + 1) if at not in claims]
    leaving += [f"{place.snapshots}/{row.snapshot}"] if row.snapshot else []
    leaving += _strays(log, kept, name, row.position, {*claims}) if sweeps else []
    with log.lock:
        if log.row is None or log.row.epoch != row.epoch or log.files is not before:
            return  # loaded anew meanwhile
        for number, each in files.items():
            now = before.files.get(number)
            if now is not None:
                now.packed = each.packed
                now.recent = [one for one in now.recent if one.position > row.position]
        before.packs = kept
        before.recent_bytes -= recent_bytes
        log.next_snapshot, log.leaving = (name, row.position), leaving


def _copy(each: StoredFile) -> StoredFile:
    return StoredFile(each.path, each.made_bytes, each.end, [*each.packed], [*each.recent])


def _worn(files: dict[int, StoredFile], packs: dict[str, int]) -> set[str]:
    """Return the packs to write anew."""
    needed = dict.fromkeys(packs, 0)
    for each in files.values():
        for extent in each.packed:
            needed[extent.pack] += extent.size
    worn = {name for name, size in packs.items() if needed[name] * 2 < size}
    small = [name for name, size in packs.items() if size < _SMALL_BYTES]
    if len(small) > _SMALL_MAX:
        worn.update(small)
    chosen, total = set[str](), 0
    for name in sorted(worn, key=needed.__getitem__):
        total += needed[name]
        if needed[name] and total <= _REWRITTEN_BYTES_MAX:
            chosen.add(name)
    return chosen


def _fetch(
    log: SliceLog, files: dict[int, StoredFile], renewed: set[str], packs: _Packs
) -> None:
    """Put what is needed of these packs into new ones."""
    for number, each in files.items():
        old = [extent for extent in each.packed if extent.pack in renewed]
        wishes = [Wanted(number, extent.begin, extent.size, [extent], []) for extent in old]
        if not wishes:
            continue
        each.packed = [extent for extent in each.packed if extent.pack not in renewed]
        for piece in read_all(log.bucket, log.place, wishes):
            each.packed += packs.add(piece.offset, piece.data)
        each.packed.sort()


def _joined(extents: list[PackedPart]) -> list[PackedPart]:
    """Return extents with those joined that follow each other in the file and in the pack."""
    joined = list[PackedPart]()
    for each in extents:
        last = joined[-1] if joined else None
        if (
            last is not None and last.end == each.begin and last.pack == each.pack
            and last.at + last.size == each.at
        ):  # fmt: skip
            joined[-1] = last._replace(size=last.size + each.size)
        else:
            joined.append(each)
    return joined


def _strays(
    log: SliceLog, kept: dict[str, int], snapshot: str, base: int, claims: set[int]
) -> list[str]:
    """Return objects that no snapshot and no entry names. They were there before the next entry,
    so no later owner has written them."""
    place, bucket = log.place, log.bucket
    known = {f"{place.packs}/{each}" for each in kept} | {f"{place.snapshots}/{snapshot}"}
    written = bucket.listed(place.packs) + bucket.listed(place.snapshots)
    entries = [each.key for each in bucket.listed(place.log)]
    return [each.key for each in written if each.key not in known] + [
        key for key in entries
        if place.position(key) <= base and place.position(key) not in claims
    ]  # fmt: skip
