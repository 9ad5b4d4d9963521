"""The small state that a segment opens with, so that it can be read without those before it.

One rule: a checkpoint is bounded. State that grows with use (ids, versions, delayed or dead items)
does not belong here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from journal.format.kinds import Kind, Tag
from journal.format.meta import Meta, decode_meta, encode_meta
from journal.format.record import Draft, Record

# How many tokens are skipped if a damaged record may have reserved some: more than were ever issued
# between two known reservations, and small enough for two million such skips below 2^53.
TOKENS_SKIPPED: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Counters of a queue at the moment its segment was opened.

    `next_item` and `next_place` are the numbers of the next put; lease tokens below `tokens` may
    have been issued; `total_items` counts every put since the queue was made, `live_items` those
    that are still there in any state. Its state may include records written after it: those up to
    the lsn `as_of` (0: not written yet).
    """

    name: bytes
    next_item: int = 1
    next_place: int = 1
    tokens: int = 1
    total_items: int = 0
    live_items: int = 0
    generation: int = 0
    server: bytes = b""
    as_of: int = 0

    def draft(self, time_ms: int, as_of: int) -> Draft:
        """Return the record of a state that includes every record up to `as_of`."""
        meta: Meta = {
            Tag.NAME: self.name,
            Tag.TOKENS: self.tokens,
            Tag.TOTAL: self.total_items,
            Tag.SERVER: self.server,
            Tag.GENERATION: self.generation,
            Tag.LIVE: self.live_items,
            Tag.AS_OF: as_of,
        }
        return Draft(
            Kind.CHECKPOINT, self.next_item, self.next_place, 0, time_ms,
            encode_meta(meta), b"", 0, 0,
        )  # fmt: skip

    @classmethod
    def from_record(cls, record: Record) -> Checkpoint:
        """Do the inverse of `draft`."""
        meta = decode_meta(record.meta)
        name, server = meta.get(Tag.NAME, b""), meta.get(Tag.SERVER, b"")
        return cls(
            name=name if isinstance(name, bytes) else b"",
            next_item=record.item,
            next_place=record.number,
            tokens=_number(meta, Tag.TOKENS, 1),
            total_items=_number(meta, Tag.TOTAL, 0),
            live_items=_number(meta, Tag.LIVE, 0),
            generation=_number(meta, Tag.GENERATION, 0),
            server=server if isinstance(server, bytes) else b"",
            as_of=_number(meta, Tag.AS_OF, 0),
        )


def _number(meta: Meta, tag: Tag, default: int) -> int:
    value = meta.get(tag)
    return value if isinstance(value, int) else default
