"""Items out of order: those in a snapshot whose place is not their id.

    DELAYED   not due yet; with its key, if it still holds the key lock; due 0: it is available
              again, and holds its key lock all the same
    PLACED    its place or its marker is another number than its id (it was released, or redriven);
              or it is delayed and was available before

An item in order needs neither: id, marker and place are one number.

One rule: an entry repeats the log; the position of a body, and the rest of its put, are left to the
log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from journal.format.kinds import Kind
from journal.format.lease import heard_ms
from journal.format.record import ALIGN_BYTES, Draft, Record, padded

_DELAYED: Final = struct.Struct("<QQQQQ")
_OLD_DELAYED: Final = struct.Struct("<QQQQ")  # before version 8, without `runs_ms`
_WITH_RUNS: Final = 1  # `number` of frames whose entries have it
_PLACED: Final = struct.Struct("<QQQQ")
_PIECE_BYTES: Final = 1 << 20  # bodies are cut to about this size


class DelayedEntry(NamedTuple):
    """An item that is due at `due_ms`, wall clock (0: it was). It holds `key` (b"": none).

    `runs_ms` is the due time of a duration by the running clock; 0: it is a date.
    """

    item: int
    due_ms: int
    body_bytes: int
    key: bytes = b""
    runs_ms: int = 0


class PlacedEntry(NamedTuple):
    """An item with this `marker`, its first place. `place` 0: it is not in the ready list."""

    item: int
    place: int
    marker: int
    body_bytes: int


def delayed_drafts(
    entries: Iterable[DelayedEntry], held: Mapping[int, bytes], time_ms: int
) -> Iterator[Draft]:
    """Yield DELAYED frames of whole entries; `held` are keys by the items that hold them, due or
    not.
    """
    encoded = map(_delayed_bytes, _with_keys(entries, held))
    return _frames(Kind.DELAYED, encoded, time_ms, _WITH_RUNS)


def _with_keys(
    entries: Iterable[DelayedEntry], held: Mapping[int, bytes]
) -> Iterator[DelayedEntry]:
    left = dict(held)
    for entry in entries:
        yield entry._replace(key=left.pop(entry.item, entry.key)) if left else entry
    for item, key in left.items():
        yield DelayedEntry(item, 0, 0, key)


def placed_drafts(entries: Iterable[PlacedEntry], time_ms: int) -> Iterator[Draft]:
    """Yield PLACED frames of whole entries."""
    return _frames(Kind.PLACED, (_PLACED.pack(*each) for each in entries), time_ms)


def _frames(
    kind: Kind, encoded: Iterable[bytes], time_ms: int, number: int = 0
) -> Iterator[Draft]:
    some: list[bytes] = []
    size = 0
    for each in encoded:
        some.append(each)
        size += len(each)
        if size >= _PIECE_BYTES:
            yield Draft(kind, 0, number, len(some), time_ms, b"", b"".join(some), 0, 0)
            some, size = [], 0
    if some:
        yield Draft(kind, 0, number, len(some), time_ms, b"", b"".join(some), 0, 0)


def _delayed_bytes(entry: DelayedEntry) -> bytes:
    item, due_ms, body_bytes, key, runs_ms = entry
    packed = _DELAYED.pack(item, due_ms, body_bytes, len(key), runs_ms)
    return packed + key + bytes(-len(key) % ALIGN_BYTES) if key else packed


def delayed_entries(
    frames: Iterable[Record],
) -> tuple[list[DelayedEntry], dict[int, bytes], int]:
    """Do the inverse of `delayed_drafts`, among a snapshot's frames: the entries not due, all keys,
    and the running clock at that time (0: no entry is a duration).

    Raises ValueError for bytes that are no entries.
    """
    found: list[DelayedEntry] = []
    held: dict[int, bytes] = {}
    heard = 0
    for frame in frames:
        if frame.kind != Kind.DELAYED:
            continue
        body, at = frame.body, 0
        layout = _DELAYED if frame.number == _WITH_RUNS else _OLD_DELAYED
        for _ in range(frame.small):
            item, due_ms, body_bytes, key_bytes, runs_ms = (*_whole(layout, body, at), 0)[:5]
            at += layout.size
            if key_bytes:
                held[item] = body[at : at + key_bytes]
                if len(held[item]) != key_bytes:
                    raise ValueError("entries that are not whole")
            if due_ms:
                key = held.get(item, b"")
                found.append(DelayedEntry(item, due_ms, body_bytes, key, runs_ms))
                heard = max(heard, heard_ms(frame.time_ms, due_ms, runs_ms))
            at += padded(key_bytes)
        if at != len(body):
            raise ValueError("entries that are not whole")
    return found, held, heard


def placed_entries(frames: Iterable[Record]) -> list[PlacedEntry]:
    """Do the inverse of `placed_drafts`, among a snapshot's frames. Raises ValueError for no
    entries.
    """
    found: list[PlacedEntry] = []
    for frame in frames:
        if frame.kind != Kind.PLACED:
            continue
        if len(frame.body) != frame.small * _PLACED.size:
            raise ValueError("entries that are not whole")
        found += [PlacedEntry(*each) for each in _PLACED.iter_unpack(frame.body)]
    return found


def _whole(layout: struct.Struct, body: bytes, at: int) -> tuple[int, ...]:
    if at + layout.size > len(body):
        raise ValueError("entries that are not whole")
    return layout.unpack_from(body, at)
