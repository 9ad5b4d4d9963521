"""The last time of each schedule, to records and back."""

from __future__ import annotations

import pytest

from journal.errors import NewerFormat
from journal.format.kinds import Kind, Tag
from journal.format.meta import encode_meta
from journal.format.record import Draft, Record
from journal.format.schedule import (
    Watermark,
    raise_watermark,
    watermark_drafts,
    watermark_of_ids,
    watermark_of_put,
    watermarks_in,
)

TIME_MS = 1_700_000_000_000
TICK = Watermark(b"tick", 1_700_000_000)


def recorded(draft: Draft) -> Record:
    return Record(*draft[:8], 7, 1, 64, 128)


def ids(**changes: object) -> Record:
    return recorded(TICK.draft(TIME_MS))._replace(**changes)


def test_a_put_of_a_schedule_says_for_which_time_it_is_beside_whatever_else() -> None:
    expires = encode_meta({Tag.EXPIRES_MS: 5})

    assert watermark_of_put(TICK.meta) == TICK
    assert watermark_of_put(expires + TICK.meta) == TICK
    assert watermark_of_put(Watermark(b"x", 0).meta) == (b"x", 0)


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {Tag.EXPIRES_MS: 5},
        {Tag.EXPIRES_MS: 5, Tag.KEY: b"key"},
        {Tag.ID: b"id", Tag.SCOPE: b"a client's", Tag.EPOCH: 9},
        {Tag.SCOPE: b"no epoch, and long enough"},
    ],
)
def test_other_puts_are_no_schedule_s(meta: dict[Tag, int | bytes]) -> None:
    assert watermark_of_put(encode_meta(meta)) is None


def test_a_record_of_its_own_says_the_same() -> None:
    assert watermark_of_ids(ids()) == TICK
    assert ids().kind == Kind.IDS


@pytest.mark.parametrize("changes", [{"small": 1}, {"number": 5}, {"body": bytes(24)}])
def test_remembered_ids_are_of_a_later_version(changes: dict[str, object]) -> None:
    with pytest.raises(NewerFormat, match="segment 1, byte 64: remembered ids are not known"):
        watermark_of_ids(ids(**changes))


def test_the_greatest_watermark_counts_whichever_comes_first() -> None:
    watermarks: dict[bytes, int] = {}
    for epoch in (5, 9, 7):
        raise_watermark(watermarks, Watermark(b"a", epoch))
    raise_watermark(watermarks, Watermark(b"b", 0))

    assert watermarks == {b"a": 9, b"b": 0}


def test_all_of_them_are_read_back_from_a_snapshot_s_frames() -> None:
    watermarks = {b"tick": 5, b"other \xff": 2**63}

    frames = [recorded(draft) for draft in watermark_drafts(watermarks, TIME_MS)]

    assert [frame.item for frame in frames] == [0, 0]
    assert watermarks_in(frames) == watermarks
    assert watermarks_in([recorded(Draft(Kind.PAUSED, 0, 0, 1, 0, b"", b"", 0, 0))]) == {}


def test_a_frame_that_says_nothing_is_damage() -> None:
    with pytest.raises(ValueError, match="a last time of no schedule"):
        watermarks_in([ids(meta=b"")])
