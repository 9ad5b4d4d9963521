"""Leases by token as records: what a restart must know to go on with them.

    LEASED item, token, delivery, began, deadline ──▶ RENEWED token, when, deadline ──▶ ...
                                                  ──▶ DONE, RETURNED, DEAD or FLUSHED ends it
    MOVING the same, and a target                 ──▶ MOVED; LEASED or RETURNED: it stays

An item that leaves for a queue of another server is leased to the mover, and the record of that
lease is MOVING: after a restart the item is leased to nobody else until the other server has said
whether it has the copy.

One rule: an entry says what the records say. A deadline is there twice, by the wall clock and by
the running clock; a lease made of an entry is bounded by its length: `deadline_ms - since_ms`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta, encode_meta
from journal.format.record import Draft, Record

# Plain numbers: their look-up in the enums would double the time.
_LEASED: Final = int(Kind.LEASED)
_RENEWED: Final = int(Kind.RENEWED)
_MOVING: Final = int(Kind.MOVING)
_DEADLINE_MS: Final = int(Tag.DEADLINE_MS)
_BYTES: Final = int(Tag.BYTES)
_EXPIRES_MS: Final = int(Tag.EXPIRES_MS)
_RUNS_MS: Final = int(Tag.RUNS_MS)
_new: Final = tuple.__new__  # half the cost of calling a named tuple
_DEADLINE: Final = struct.Struct("<BHQ")
_RENEWED_META: Final = struct.Struct("<BHQBHQ")
_LEASED_META: Final = struct.Struct("<BHQBHQBHQ")
_U64_BYTES: Final = 8


class LeaseEntry(NamedTuple):
    """A lease by token. `delivery` counts the deliveries of its item; the times are wall clock.
    `key` is the canonical key of its item: no other item of that key is leased meanwhile, even
    after a restart.

    It began at `began_ms`; its latest record is of `since_ms` and says `deadline_ms`. `expiry_ms`
    is the expiry of its item from then on; 0: its put says when it expires. `runs_ms` is the
    deadline by the running clock; 0: the record, of an earlier version, does not say it. `target`
    is the queue of another server, as `server:queue`, for which the item leaves; empty: it stays
    here. An item that no client holds leaves with token 0.
    """

    item: int
    token: int
    delivery: int
    began_ms: int
    body_bytes: int
    since_ms: int
    deadline_ms: int
    key: bytes = b""
    expiry_ms: int = 0
    runs_ms: int = 0
    target: bytes = b""

    @classmethod
    def begun(cls, record: Record) -> LeaseEntry:
        """Return the lease of a LEASED or MOVING record. Raises ValueError if the record does not
        say it."""
        deadline_ms, body_bytes, key, expiry_ms, runs_ms = _said(record.meta)
        if deadline_ms is None or body_bytes is None:
            raise ValueError(f"the lease of item {record.item} says no deadline or no size")
        return cls(
            record.item, record.number, record.small, record.time_ms, body_bytes,
            record.time_ms, deadline_ms, key, expiry_ms, runs_ms, _target_of(record),
        )  # fmt: skip

    def renewed(self, record: Record) -> LeaseEntry:
        """Return it as a RENEWED record says. Raises ValueError if that is of another lease."""
        said = decode_meta(record.meta)
        deadline_ms, expiry_ms = said.get(Tag.DEADLINE_MS), said.get(Tag.EXPIRES_MS, 0)
        is_its_own = (record.item, record.number) == (self.item, self.token)
        if not is_its_own or not isinstance(deadline_ms, int):
            raise ValueError(f"item {record.item} is not leased by token {record.number}")
        runs_ms = said.get(Tag.RUNS_MS, 0)
        return self.until(
            record.time_ms, deadline_ms, expiry_ms if isinstance(expiry_ms, int) else 0,
            runs_ms if isinstance(runs_ms, int) else 0,
        )  # fmt: skip

    def until(
        self, since_ms: int, deadline_ms: int, expiry_ms: int = 0, runs_ms: int = 0
    ) -> LeaseEntry:
        """Return the same lease with a new deadline; its item lives no shorter than before."""
        expiry_ms = max(expiry_ms, self.expiry_ms)
        return _new(LeaseEntry, (
            *self[:5], since_ms, deadline_ms, self.key, expiry_ms, runs_ms, self.target
        ))  # fmt: skip

    @property
    def heard_ms(self) -> int:
        """The running clock at its latest record; 0: the record does not say it."""
        return heard_ms(self.since_ms, self.deadline_ms, self.runs_ms)

    def leased(self) -> Draft:
        """Return the record that begins it."""
        (
            item, token, delivery, began_ms, body_bytes, _, deadline_ms, key, expiry_ms, runs_ms,
            target,
        ) = self  # fmt: skip
        meta = _LEASED_META.pack(
            _DEADLINE_MS, _U64_BYTES, deadline_ms, _BYTES, _U64_BYTES, body_bytes,
            _RUNS_MS, _U64_BYTES, runs_ms,
        )  # fmt: skip
        if not runs_ms:
            meta = meta[: -_DEADLINE.size]
        if key:
            meta = encode_meta({Tag.KEY: key}) + meta
        if expiry_ms:
            meta = _DEADLINE.pack(_EXPIRES_MS, _U64_BYTES, expiry_ms) + meta
        if target:
            meta += encode_meta({Tag.TARGET: target})
            return _new(Draft, (_MOVING, item, token, delivery, began_ms, meta, b"", 0, 0))
        return _new(Draft, (_LEASED, item, token, delivery, began_ms, meta, b"", 0, 0))

    def renewal(self) -> Draft:
        """Return the record of its latest deadline, after the first."""
        item, token, _, _, _, since_ms, deadline_ms, _, expiry_ms, runs_ms, _ = self
        meta = _RENEWED_META.pack(
            _DEADLINE_MS, _U64_BYTES, deadline_ms, _RUNS_MS, _U64_BYTES, runs_ms
        )
        if not runs_ms:
            meta = meta[: _DEADLINE.size]
        if expiry_ms:
            meta = _DEADLINE.pack(_EXPIRES_MS, _U64_BYTES, expiry_ms) + meta
        return _new(Draft, (_RENEWED, item, token, 0, since_ms, meta, b"", 0, 0))

    def drafts(self) -> list[Draft]:
        """Yield its records in a snapshot: both, if it was renewed, with its present deadline."""
        leased = self.leased()
        return [leased] if self.since_ms == self.began_ms else [leased, self.renewal()]


def heard_ms(time_ms: int, end_ms: int, runs_ms: int) -> int:
    """Return the running clock at `time_ms`, the time of a record that gives one end by two clocks:
    `end_ms` by the wall clock, `runs_ms` by the running clock (0: not given; then return 0)."""
    return max(runs_ms - (end_ms - time_ms), 0) if runs_ms else 0


def _target_of(record: Record) -> bytes:
    """Return for which queue an item leaves, as its MOVING record says; empty: it does not."""
    target = decode_meta(record.meta).get(Tag.TARGET) if record.kind == Kind.MOVING else None
    return target if isinstance(target, bytes) else b""


def _said(meta: bytes) -> tuple[int | None, int | None, bytes, int, int]:
    """Return deadline, bytes, key, the life of the item, and the deadline by the running clock; at
    once, where there is no more."""
    if len(meta) == _LEASED_META.size:
        tag, _, deadline_ms, other, _, body_bytes, last, _, runs_ms = _LEASED_META.unpack(meta)
        if (tag, other, last) == (_DEADLINE_MS, _BYTES, _RUNS_MS):
            return deadline_ms, body_bytes, b"", 0, runs_ms
    said = decode_meta(meta)
    found, size, key = said.get(Tag.DEADLINE_MS), said.get(Tag.BYTES), said.get(Tag.KEY)
    expiry_ms, runs_ms = said.get(Tag.EXPIRES_MS, 0), said.get(Tag.RUNS_MS, 0)
    return (
        found if isinstance(found, int) else None, size if isinstance(size, int) else None,
        key if isinstance(key, bytes) else b"", expiry_ms if isinstance(expiry_ms, int) else 0,
        runs_ms if isinstance(runs_ms, int) else 0,
    )  # fmt: skip


def lease_entries(frames: list[Record]) -> list[LeaseEntry]:
    """Do the inverse of `drafts`, for all of a snapshot. Raises ValueError for one that makes no
    sense.
    """
    found: list[LeaseEntry] = []
    for frame in frames:
        if frame.kind in (Kind.LEASED, Kind.MOVING):
            found.append(LeaseEntry.begun(frame))
        elif frame.kind == Kind.RENEWED:
            if not found:
                raise ValueError("a renewal of no lease")
            found[-1] = found[-1].renewed(frame)
    return found
