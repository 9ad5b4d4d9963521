"""The small state a segment opens with, so that it can be read without those before it.

One rule: a checkpoint is bounded. What grows with use (ids, versions, what is delayed or dead)
does not belong here.
"""

from __future__ import annotations

from dataclasses import dataclass

from journal.record import Draft, Kind, Meta, Record, Tag, decode_meta, encode_meta


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Counters of a queue at the moment its segment was opened.

    `next_item` and `next_place` are the numbers the next put takes; lease tokens below `tokens`
    may have been issued; `total_items` counts every put since the queue was made.
    """

    name: bytes
    next_item: int = 1
    next_place: int = 1
    tokens: int = 1
    total_items: int = 0

    def draft(self, time_ms: int) -> Draft:
        """The record that says so."""
        meta: Meta = {Tag.NAME: self.name, Tag.TOKENS: self.tokens, Tag.TOTAL: self.total_items}
        return Draft(
            Kind.CHECKPOINT, self.next_item, self.next_place, 0, time_ms, encode_meta(meta), b"", 0, 0
        )

    @classmethod
    def from_record(cls, record: Record) -> Checkpoint:
        """The inverse of `draft`."""
        meta = decode_meta(record.meta)
        name, tokens, total = meta.get(Tag.NAME, b""), meta.get(Tag.TOKENS), meta.get(Tag.TOTAL)
        return cls(
            name=name if isinstance(name, bytes) else b"",
            next_item=record.item,
            next_place=record.number,
            tokens=tokens if isinstance(tokens, int) else 1,
            total_items=total if isinstance(total, int) else 0,
        )
