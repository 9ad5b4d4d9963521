"""The records about items: each says what ended, when it began, and how large it was."""

from __future__ import annotations

import struct

import pytest

from journal.format.kinds import Kind, Tag
from journal.format.meta import DELIVERY_MAX, decode_meta, ended_bytes
from journal.format.record import Draft, RawDraft
from journal.format.schedule import Watermark
from journal.sets import IdSet
from kestrelpy.core.item import Item, bare_item
from kestrelpy.core.log import records

ITEM = Item(7, 7, b"body", 0, 1000, 0, lsn=5, key=b"key")


def named(draft: RawDraft) -> Draft:
    return Draft(*draft)


def size_in(draft: Draft) -> int:
    return ended_bytes(draft.small, draft.meta)


@pytest.mark.parametrize("attempts", [0, 1, DELIVERY_MAX - 1, DELIVERY_MAX, 1000])
@pytest.mark.parametrize("size", [0, 4, records.SMALL_BODY_MAX, records.SMALL_BODY_MAX + 1])
def test_a_confirm_says_which_delivery_it_was_and_how_large_the_body(
    attempts: int, size: int
) -> None:
    done = named(records.done(bare_item(7, size), attempts, 900, 1000))

    assert (done.kind, done.item, done.number, done.time_ms) == (Kind.DONE, 7, 900, 1000)
    assert done.small & DELIVERY_MAX == min(attempts + 1, DELIVERY_MAX)
    assert size_in(done) == size


def test_a_confirm_names_the_put_that_it_ends() -> None:
    assert named(records.done(ITEM, 0, 900, 1000)).put_lsn == 5


def test_a_put_without_meta_has_none() -> None:
    put = named(records.put(Item(7, 7, b"body", 3, 1000, 0)))
    assert put == (Kind.PUT, 7, 7, 3, 1000, b"", b"body", 0, 0)


def test_a_put_says_when_it_is_due_and_for_which_time_of_a_schedule() -> None:
    item = Item(7, 0, b"body", 3, 1000, 0)
    later = named(records.put(item, 5000))
    assert (later.number, decode_meta(later.meta)) == (0, {Tag.DUE_MS: 5000})
    ticked = named(records.put(item, 0, Watermark(b"tick", 12)))
    assert decode_meta(ticked.meta) == {Tag.SCOPE: b"tick", Tag.EPOCH: 12}


def test_a_return_says_why_and_a_later_one_when_and_for_which_key() -> None:
    now = named(records.returned(ITEM, 2, 900, 1000, b"abort"))
    later = named(records.returned(ITEM, 2, 900, 1000, b"defer", due_ms=5000))

    assert (now.kind, now.item, now.number, now.small) == (Kind.RETURNED, 7, 900, 2)
    assert decode_meta(now.meta) == {Tag.REASON: b"abort"}
    assert decode_meta(later.meta) == {
        Tag.REASON: b"defer", Tag.DUE_MS: 5000, Tag.KEY: b"key", Tag.BYTES: 4,
    }  # fmt: skip


def test_a_return_of_an_item_without_a_key_names_none() -> None:
    later = named(records.returned(bare_item(7, 4), 0, 900, 1000, b"abort", due_ms=5000))
    assert Tag.KEY not in decode_meta(later.meta)


def test_a_death_says_why_after_how_many_attempts_and_how_large() -> None:
    dead = named(records.dead(ITEM, 3, 900, 1000, b"lease"))
    assert (dead.kind, dead.number, dead.small, dead.put_lsn) == (Kind.DEAD, 900, 3, 0)
    assert decode_meta(dead.meta) == {Tag.REASON: b"lease", Tag.BYTES: 4}


def test_items_that_end_undelivered_say_their_size() -> None:
    ends = [
        named(records.expired(ITEM, 1000)),
        named(records.discarded(ITEM, 1000)),
        named(records.cancelled(7, 4, 1000)),
    ]
    assert [d.kind for d in ends] == [Kind.EXPIRED, Kind.DISCARDED, Kind.CANCELLED]
    assert [size_in(d) for d in ends] == [4, 4, 4]
    assert all(d.item == 7 and d.put_lsn for d in ends), "each ends the item"


def test_a_release_names_its_place_and_tokens_their_end() -> None:
    released, tokens = named(records.released(7, 12, 1000)), named(records.tokens(64, 1000))
    assert (released.kind, released.item, released.number) == (Kind.RELEASED, 7, 12)
    assert (tokens.kind, tokens.item, tokens.number) == (Kind.TOKENS, 0, 64)


def test_a_flush_names_what_stays_rising_in_little_endian() -> None:
    flushed = named(records.flushed(9, IdSet.of([300, 2, 1 << 40]), 4, 1000))
    assert (flushed.kind, flushed.item, flushed.number) == (Kind.FLUSHED, 9, 4)
    assert flushed.body == struct.pack("<QQQ", 2, 300, 1 << 40)
    assert named(records.flushed(9, IdSet(), 0, 1000)).body == b""
