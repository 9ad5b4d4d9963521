"""The watermark of each schedule, by its records: the latest run time already enqueued.

    PUT with SCOPE and EPOCH, synced like any other ──▶ up to EPOCH nothing of SCOPE is put again
         │ its segment may go when the item is done
         └──▶ IDS with the same two, in a newer segment and in snapshots

So a run is enqueued if and only if its own record is in the log, whatever crashes around it.

One rule: of a scope only the greatest epoch counts, in whichever order its records are met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from journal.errors import NewerFormat
from journal.format.kinds import Kind, Tag
from journal.format.meta import Meta, decode_meta, encode_meta
from journal.format.record import Draft, Record

# The meta of a put with nothing but an expiry has this size: there are many, and each is looked at.
_EXPIRY_META_BYTES: Final = 11


class Watermark(NamedTuple):
    """A run time of a schedule: `scope` is its name, `epoch` in seconds since 1970."""

    scope: bytes
    epoch: int

    @property
    def meta(self) -> bytes:
        """Its tags in a record, after the lower ones."""
        return encode_meta({Tag.SCOPE: self.scope, Tag.EPOCH: self.epoch})

    def draft(self, time_ms: int) -> Draft:
        """Return a record of it, where there is no put that has it."""
        return Draft(Kind.IDS, 0, 0, 0, time_ms, self.meta, b"", 0, 0)


def watermark_of_put(meta: bytes) -> Watermark | None:
    """Return the watermark of a put that a schedule made; None: a client made it."""
    if len(meta) <= _EXPIRY_META_BYTES:
        return None
    said = decode_meta(meta)
    return None if Tag.ID in said else _watermark(said)


def watermark_of_ids(record: Record) -> Watermark | None:
    """Return the watermark of an IDS record; None: it has none. Raises NewerFormat for one with
    ids.
    """
    if record.small or record.number or record.body:
        raise NewerFormat(
            f"segment {record.segment}, byte {record.offset}: remembered ids are not known to this "
            "version of kestrelpy"
        )
    return _watermark(decode_meta(record.meta))


def raise_watermark(watermarks: dict[bytes, int], watermark: Watermark) -> None:
    """Raise the watermark of its schedule to this one, if it is greater."""
    if watermark.epoch > watermarks.get(watermark.scope, -1):
        watermarks[watermark.scope] = watermark.epoch


def watermark_drafts(watermarks: Mapping[bytes, int], time_ms: int) -> Iterator[Draft]:
    """Yield them as records of a snapshot."""
    for scope in sorted(watermarks):
        yield Watermark(scope, watermarks[scope]).draft(time_ms)


def watermarks_in(frames: Iterable[Record]) -> dict[bytes, int]:
    """Do the inverse, for all frames of a snapshot. Raises ValueError for one that makes no sense.
    """
    found: dict[bytes, int] = {}
    for frame in frames:
        if frame.kind == Kind.IDS and not frame.small:
            watermark = watermark_of_ids(frame)
            if watermark is None:
                raise ValueError("a last time of no schedule")
            raise_watermark(found, watermark)
    return found


def _watermark(said: Meta) -> Watermark | None:
    scope, epoch = said.get(Tag.SCOPE), said.get(Tag.EPOCH)
    return Watermark(scope, epoch) if isinstance(scope, bytes) and isinstance(epoch, int) else None
