"""Bytes of the files of a slice, of memory and of packs.

One rule: what is read belongs to one moment of the log; a pack is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from journal.engine.engine import EngineAway, Piece
from journal.engine.object_store.bucket import ObjectBucket
from journal.engine.object_store.slice_files import PackedPart, Recent, SliceFiles
from journal.engine.object_store.slice_log import SliceLog, SlicePlace, side_by_side

GONE: Final = "a pack is gone: another owner has replaced it"


class Wanted(NamedTuple):
    """Some bytes of a file, and where they are."""

    file: int
    begin: int
    size: int
    packed: list[PackedPart]
    recent: list[Recent]


def wanted(files: SliceFiles, file: int, begin: int, size: int) -> Wanted:
    """Return where these bytes of a file are; of a file that is gone nowhere."""
    stored, end = files.files.get(file), begin + size
    if stored is None:
        return Wanted(file, begin, size, [], [])
    packed = [
        each.cut(max(each.begin, begin), min(each.end, end))
        for each in stored.packed if each.begin < end and each.end > begin
    ]  # fmt: skip
    recent = [each for each in stored.recent if each.begin < end and each.end > begin]
    return Wanted(file, begin, size, packed, recent)


def read_all(bucket: ObjectBucket, place: SlicePlace, wishes: Sequence[Wanted]) -> list[Piece]:
    """Return these bytes, zeros where none were written; raise EngineAway."""
    by_pack = dict[str, list[PackedPart]]()
    for wish in wishes:
        for extent in wish.packed:
            by_pack.setdefault(extent.pack, []).append(extent)

    def fetch(pack: str) -> list[bytes]:
        ranges = [(each.at, each.at + each.size) for each in by_pack[pack]]
        try:
            return bucket.parts(f"{place.packs}/{pack}", ranges)
        except FileNotFoundError:
            raise EngineAway(bucket.name, GONE) from None

    answers = side_by_side(fetch, by_pack)
    fetched = {pack: iter(parts) for pack, parts in zip(by_pack, answers, strict=True)}
    pieces = []
    for wish in wishes:
        found = bytearray(wish.size)
        for extent in wish.packed:
            place_at = extent.begin - wish.begin
            found[place_at : place_at + extent.size] = next(fetched[extent.pack])
        for each in wish.recent:
            data = each.data[max(wish.begin - each.begin, 0) : wish.begin + wish.size - each.begin]
            place_at = max(each.begin - wish.begin, 0)
            found[place_at : place_at + len(data)] = data
        pieces.append(Piece(wish.file, wish.begin, bytes(found)))
    return pieces


def edges_wanted(log: SliceLog, front: int, back: int) -> list[Wanted]:
    """Return where the edges of every file are: see `Engine.edges`."""
    found = list[Wanted]()
    with log.lock:
        for number, each in log.files.files.items():
            first = min(front, each.made_bytes)
            found.append(wanted(log.files, number, 0, first))
            if each.made_bytes - back >= first:
                found.append(wanted(log.files, number, each.made_bytes - back, back))
    return found
