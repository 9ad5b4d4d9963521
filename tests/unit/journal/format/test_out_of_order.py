"""A snapshot returns out-of-order items as they were; half an entry is refused."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest

from journal.format.kinds import Kind
from journal.format.out_of_order import (
    DelayedEntry,
    PlacedEntry,
    delayed_drafts,
    delayed_entries,
    placed_drafts,
    placed_entries,
)
from journal.format.record import Draft, Record
from journal.format.subscription_state import Beginning, named
from journal.sets.id_set import IdSet

DELAYS = [
    DelayedEntry(1, 1_700_000_000_000, 100),
    DelayedEntry(2, (1 << 53) - 1, 0, b"\1\3\0\0\0key"),
    DelayedEntry((1 << 53) - 1, 1, (1 << 32) - 1, b"k" * 65_000),
    DelayedEntry(4, 5, 6, b"12345678"),
    DelayedEntry(7, 8, 9, b"", 13),
    DelayedEntry(9, 11, 9, b"A", (1 << 53) - 1),
]
PLACES = [PlacedEntry(1, 0, 1, 5), PlacedEntry(2, 3, 3, 0), PlacedEntry((1 << 53) - 1, 1, 2, 3)]


def records(drafts: Iterable[Draft]) -> list[Record]:
    return [Record(*draft[:8], 1, 0, 0, 0) for draft in drafts]


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_entries_are_read_as_they_were_written(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.format.out_of_order._PIECE_BYTES", piece)
    held = {entry.item: entry.key for entry in DELAYS if entry.key}
    bare = [entry._replace(key=b"") for entry in DELAYS]
    frames = records([*delayed_drafts(bare, held, 0), *placed_drafts(PLACES, 0)])
    assert delayed_entries(frames) == (DELAYS, held, (1 << 53) - 12)
    assert placed_entries(frames) == PLACES
    assert len(frames) == {1: 9, 100: 3, 1 << 20: 2}[piece]


def test_entries_of_earlier_versions_are_dates() -> None:
    body = struct.pack("<4Q", 1, 2, 3, 1) + b"A" + bytes(7) + struct.pack("<4Q", 4, 5, 6, 0)
    frames = records([Draft(Kind.DELAYED, 0, 0, 2, 0, b"", body, 0, 0)])
    found = [DelayedEntry(1, 2, 3, b"A"), DelayedEntry(4, 5, 6)]
    assert delayed_entries(frames) == (found, {1: b"A"}, 0)


def test_a_child_begins_with_entries_of_any_version() -> None:
    live = IdSet.of([1, 2])
    delayed = [DelayedEntry(1, 10, 5, b"", 90), DelayedEntry(2, 11, 6)]
    draft = named(1, b"late", 0, 0, 0, Beginning(live, 11, [PlacedEntry(1, 0, 1, 5)], delayed))
    read = Beginning.decode(draft)
    assert read is not None and read.delayed == delayed
    old = b"".join(struct.pack("<3Q", *each[:3]) for each in delayed)
    cut = draft._replace(body=draft.body[: -2 * 32] + old)
    dates = [each._replace(runs_ms=0) for each in delayed]
    read = Beginning.decode(cut)
    assert read is not None and read.delayed == dates
    with pytest.raises(ValueError, match="multiple of"):
        Beginning.decode(draft._replace(body=draft.body[:-8]))


def test_an_item_that_is_available_again_holds_its_key_all_the_same() -> None:
    frames = records(delayed_drafts(DELAYS[:1], {99: b"A"}, 0))
    assert delayed_entries(frames) == (DELAYS[:1], {99: b"A"}, 0)


def test_no_items_out_of_order_take_no_frame() -> None:
    assert [*delayed_drafts([], {}, 0), *placed_drafts([], 0)] == []


@pytest.mark.parametrize("cut", [1, 8, 31, 32])
def test_half_of_an_entry_is_none(cut: int) -> None:
    for frame in records([*delayed_drafts(DELAYS[:2], {}, 0), *placed_drafts(PLACES, 0)]):
        half = frame._replace(body=frame.body[:-cut])
        with pytest.raises(ValueError, match="not whole"):
            delayed_entries([half])
            placed_entries([half])
