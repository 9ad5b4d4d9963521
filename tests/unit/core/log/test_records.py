"""The records of a subscription: each says what ended, when it began, and how large it was."""

from __future__ import annotations

import struct

import pytest

from journal.format.kinds import Kind, Tag
from journal.format.meta import DELIVERY_MAX, decode_meta, ended_bytes
from journal.format.record import Draft
from kestrelpy.core.item import Item, bare_item
from kestrelpy.core.log.records import SMALL_BODY_MAX, Records, packed
from tests.support.kept_log import KeptLog

ITEM = Item(7, 7, b"body", 0, 1000, 0, lsn=5, key=b"key")


def only(log: KeptLog) -> Draft:
    (draft,) = log.drafts
    return draft


def size_in(draft: Draft) -> int:
    return ended_bytes(draft.small, draft.meta)


@pytest.mark.parametrize("attempts", [0, 1, DELIVERY_MAX - 1, DELIVERY_MAX, 1000])
@pytest.mark.parametrize("size", [0, 4, SMALL_BODY_MAX, SMALL_BODY_MAX + 1])
def test_a_confirm_says_which_delivery_it_was_and_how_large_the_body(
    attempts: int, size: int
) -> None:
    log, item = KeptLog(), bare_item(7, size)

    assert log.done(item, attempts, 900, 1000) == 1

    done = only(log)
    assert (done.kind, done.item, done.number, done.time_ms) == (Kind.DONE, 7, 900, 1000)
    assert done.small & DELIVERY_MAX == min(attempts + 1, DELIVERY_MAX)
    assert size_in(done) == size


def test_a_confirm_names_the_put_that_it_ends() -> None:
    log = KeptLog()
    log.done(ITEM, 0, 900, 1000)
    assert only(log).put_lsn == 5


def test_a_return_says_why_and_a_later_one_when_and_for_which_key() -> None:
    log = KeptLog()

    log.returned(ITEM, 2, 900, 1000, b"abort")
    log.returned(ITEM, 2, 900, 1000, b"defer", due_ms=5000)

    now, later = log.drafts
    assert (now.kind, now.item, now.number, now.small) == (Kind.RETURNED, 7, 900, 2)
    assert decode_meta(now.meta) == {Tag.REASON: b"abort"}
    assert decode_meta(later.meta) == {
        Tag.REASON: b"defer", Tag.DUE_MS: 5000, Tag.KEY: b"key", Tag.BYTES: 4,
    }  # fmt: skip


def test_a_return_of_an_item_without_a_key_names_none() -> None:
    log = KeptLog()
    log.returned(bare_item(7, 4), 0, 900, 1000, b"abort", due_ms=5000)
    assert Tag.KEY not in decode_meta(only(log).meta)


def test_on_a_full_disk_returns_are_left_out_but_those_that_are_asked_for_always() -> None:
    log = KeptLog()
    log.done(ITEM, 0, 900, 1000)
    log.full = True

    assert log.returned(ITEM, 1, 900, 1000, b"abort") == 1
    assert len(log.drafts) == 1
    assert log.returned(ITEM, 1, 900, 1000, b"abort", always=True) == 2


def test_a_death_says_why_after_how_many_attempts_and_how_large() -> None:
    log = KeptLog()
    log.dead(ITEM, 3, 900, 1000, b"lease")
    dead = only(log)
    assert (dead.kind, dead.number, dead.small, dead.put_lsn) == (Kind.DEAD, 900, 3, 0)
    assert decode_meta(dead.meta) == {Tag.REASON: b"lease", Tag.BYTES: 4}


def test_items_that_end_undelivered_say_their_size() -> None:
    log = KeptLog()
    log.expired(ITEM, 1000)
    log.discarded(ITEM, 1000)
    log.cancelled(7, 4, 1000)
    assert [d.kind for d in log.drafts] == [Kind.EXPIRED, Kind.DISCARDED, Kind.CANCELLED]
    assert [size_in(d) for d in log.drafts] == [4, 4, 4]
    assert all(d.item == 7 and d.put_lsn for d in log.drafts), "each ends the item"


def test_a_release_names_its_place_and_tokens_their_end() -> None:
    log = KeptLog()
    log.released(7, 12, 1000)
    log.tokens(64, 1000)
    released, tokens = log.drafts
    assert (released.kind, released.item, released.number) == (Kind.RELEASED, 7, 12)
    assert (tokens.kind, tokens.item, tokens.number) == (Kind.TOKENS, 0, 64)


def test_ids_are_packed_rising_in_little_endian() -> None:
    assert packed({300, 2, 1 << 40}) == struct.pack("<QQQ", 2, 300, 1 << 40)
    assert packed([]) == b""


def test_who_makes_records_says_how_they_are_written() -> None:
    with pytest.raises(NotImplementedError):
        Records().tokens(1, 0)
