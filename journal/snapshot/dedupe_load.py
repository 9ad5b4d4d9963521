"""Chunks read back: which of them count, their entries, and which are lost.

    names ──▶ those a snapshot lists, or larger ones that stand for them ──▶ whole? ──▶ entries
                                                                              └──▶ named, set aside

One rule: no entry counts before all of its chunk is known to be whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from journal.errors import Damage, JournalError
from journal.files import MEDIUM_ERRORS, Files
from journal.format import CHUNK, FILE_HEADER_BYTES, Kind, Record, SegmentHeader
from journal.read import Cursor
from journal.sets import BARE_ID, ID, KEY, with_fingerprints
from journal.snapshot.dedupe_file import (
    ENTRIES,
    PRINTED,
    SUFFIX,
    SUFFIX_PART,
    Chunk,
    Summary,
    chunk_range,
    epoch_of,
)

_WINDOW_BYTES: Final = 2 << 20  # holds the longest frame
_LEFT_OVER: Final = SUFFIX + SUFFIX_PART
# The entries of a frame, by its kind and `small`.
_WIDTHS: Final = {
    (int(Kind.IDS), ENTRIES): BARE_ID, (int(Kind.IDS), PRINTED): ID, (int(Kind.KEYS), ENTRIES): KEY,
}  # fmt: skip


class ChunkDamaged(JournalError):
    """A chunk does not parse."""


def read_chunk(files: Files, folder: str, name: str, identity: bytes) -> tuple[Chunk, list[Record]]:
    """Return one chunk, and the frames of its entries. Raises ChunkDamaged, NewerFormat or OSError.
    """
    frames: list[Record] = []
    return check_chunk(files, folder, name, identity, frames.append), frames


def check_chunk(
    files: Files, folder: str, name: str, identity: bytes, take: Callable[[Record], None]
) -> Chunk:
    """Return the chunk if it is whole. `take` is given every frame of entries, before that is
    known; those of earlier versions with fingerprints of 0. Raises ChunkDamaged, NewerFormat or
    OSError.
    """
    path = os.path.join(folder, name)
    size = files.size(path)
    header = SegmentHeader.decode(files.read(path, 0, FILE_HEADER_BYTES), path)
    if header is None or header.role != CHUNK or header.capacity != size:
        raise ChunkDamaged(f"{path}: the file header is not readable, or not of this file")
    if header.identity != identity:
        raise ChunkDamaged(f"{path}: belongs to another journal")
    first, last = chunk_range(name) or (0, 0)
    made, end = Summary(first, last), FILE_HEADER_BYTES
    for count, frame in enumerate(_frames(files, path, header.journal, size)):
        end = frame.end
        if frame.lsn != last + 1:
            raise ChunkDamaged(f"{path}: damaged at byte {frame.offset}")
        if frame.kind == Kind.FOOTER:
            if frame.item != count or end != size:
                break
            return made.chunk(size)
        entry = _WIDTHS.get((frame.kind, frame.small))
        if entry is None or len(frame.body) != frame.number * entry.size:
            raise ChunkDamaged(f"{path}: damaged at byte {frame.offset}")
        made.see(frame.kind, frame.number, frame.time_ms, epoch_of(frame))
        if entry is BARE_ID:
            take(frame._replace(small=PRINTED, body=with_fingerprints(frame.body)))
        else:
            take(frame)
    raise ChunkDamaged(f"{path}: it ends at byte {end}, before its end")


def _frames(files: Files, path: str, journal: int, size: int) -> Iterator[Record]:
    """Yield every frame, read in windows, so that only one window is in memory."""
    read = partial(files.read, path)
    cursor = Cursor(read, journal, 0, FILE_HEADER_BYTES, size, _WINDOW_BYTES)
    while cursor.at < size:
        frame = cursor.take()
        if frame is None:
            raise ChunkDamaged(f"{path}: damaged at byte {cursor.at}")
        yield frame


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks that were read, the paths of superfluous ones, and the lost ones.

    `lost` are those that a snapshot lists and that are missing; without a snapshot, those that are
    not whole. `item_next`: the first item that a key in a newer file is known by; 0: there is none.
    """

    used: list[Chunk]
    obsolete: list[str]
    lost: list[Chunk]
    damages: list[Damage]
    item_next: int = 0

    def losses(self, item_last: int, time_ms: int) -> list[Chunk]:
        """Return the lost chunks, each with the last item that it may have known, at most this one,
        and the time it was written, at most now.
        """
        if self.item_next:
            item_last = min(item_last, self.item_next - 1)
        return [
            replace(
                chunk, item_lost=chunk.item_lost or item_last,
                ids_ms=chunk.ids_ms or time_ms, keys_ms=chunk.keys_ms or time_ms,
            )
            for chunk in self.lost
        ]  # fmt: skip


def read_chunks(
    files: Files, folder: str, identity: bytes, wanted: list[Chunk] | None,
    take: Callable[[Record], None], names: list[str] | None = None,
) -> Chunks:  # fmt: skip
    """Hand every frame of entries that counts to `take`, those of older chunks first.

    `wanted` are those that the snapshot lists; None: there is no snapshot, so all count. `names`
    are those of all files there, if the folder was listed before.
    """
    names = files.names(folder) if names is None else names
    found = [(bounds, n) for n in names if (bounds := chunk_range(n)) is not None]
    found.sort(key=lambda named: (named[0][0], -named[0][1]))
    used: list[Chunk] = []
    obsolete = [os.path.join(folder, n) for n in names if n.endswith(_LEFT_OVER)]
    reasons: dict[str, str] = {}
    for (first, last), name in found:
        path = os.path.join(folder, name)
        span = Chunk(first, last, 0)
        needed = wanted is None or any(first <= c.last and c.first <= last for c in wanted)
        if not needed or any(chunk.covers(span) for chunk in used):
            obsolete.append(path)
            continue
        try:
            chunk = check_chunk(files, folder, name, identity, _pass_over)
            check_chunk(files, folder, name, identity, take)
        except ChunkDamaged as error:
            reasons[path] = str(error)
            continue
        except OSError as error:
            if error.errno not in MEDIUM_ERRORS:
                raise
            reasons[path] = f"{path}: reading failed: {error.strerror}"
            continue
        used.append(chunk)
    spans = wanted
    if spans is None:  # its content is unknown: an id and a key at least
        spans = [Chunk(first, last, 0, ids=1, keys=1) for (first, last), _ in found]
    missing = [c for c in spans if not any(u.covers(c) for u in used)]
    named = missing if wanted is not None else None
    item_next = 0
    if wanted is not None and missing:
        item_next = _first_item(files, folder, identity, used, max(c.last for c in missing))
    return Chunks(used, obsolete, missing, _damages(folder, named, reasons), item_next)


def _first_item(
    files: Files, folder: str, identity: bytes, used: list[Chunk], lsn: int
) -> int:
    """Return the first item of a key in files of later records than this; 0: there is none."""
    items: list[int] = []

    def see(frame: Record) -> None:
        if frame.kind == Kind.KEYS:
            items.append(min(entry[2] for entry in KEY.iter_unpack(frame.body)))

    try:
        for chunk in used:
            if chunk.first > lsn and chunk.keys:
                check_chunk(files, folder, chunk.name, identity, see)
    except ChunkDamaged:  # it was whole a moment ago
        return 0
    except OSError as error:
        if error.errno not in MEDIUM_ERRORS:
            raise
        return 0
    return min(items, default=0)


def _pass_over(frame: Record) -> None:
    """Do nothing with a frame: it counts when all of its chunk is known to be whole."""


def _damages(
    folder: str, missing: list[Chunk] | None, reasons: dict[str, str]
) -> list[Damage]:
    """Yield the listed chunks that no whole one covers; without a list, each damaged one."""
    damages = []
    for chunk in missing or ():
        path = os.path.join(folder, chunk.name)
        why = reasons.pop(path, f"{path}: missing").partition(": ")[2]
        what = "remembered ids and keys' versions"
        if chunk.size:
            what = f"{chunk.ids} remembered ids and {chunk.keys} keys' versions"
        reason = (
            f"{why}: {what} are lost; such an "
            "id counts as not seen, and a condition on a key that was not written since is refused"
        )
        size = 0 if why == "missing" else chunk.size
        damages.append(Damage("corrupt", path, 0, size, reason, 1, 0))
    for path, why in reasons.items():
        if missing is None or missing:
            reason = f"{why.partition(': ')[2]}: remembered ids and keys' versions are lost"
            damages.append(Damage("corrupt", path, 0, 0, reason, 1, 0))
    return damages
