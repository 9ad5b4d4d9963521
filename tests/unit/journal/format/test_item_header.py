"""The header of an item in its put is read as it was written, tag by tag."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.format.item_header import ItemHeader, item_header_of
from journal.format.kinds import Tag
from journal.format.meta import decode_meta, encode_meta
from journal.format.schedule import Watermark, watermark_of_put
from journal.format.transfer import Origin

ORIGINS = st.builds(
    Origin, st.binary(min_size=1, max_size=9).filter(lambda b: b":" not in b),
    st.binary(min_size=1, max_size=9), st.integers(1, 1 << 52), st.integers(1, 1 << 40),
    st.just(0), st.just(0),
)  # fmt: skip


@st.composite
def stamps(draw: st.DrawFn) -> ItemHeader:
    id_ = draw(st.binary(max_size=200))
    scope = draw(st.binary(max_size=9)) if id_ else b""
    epoch = draw(st.integers(0, 1 << 52)) if scope else 0
    version = draw(st.integers(0, 1 << 52))
    previous = draw(st.integers(0, 1 << 52)) if version else 0
    client = draw(st.binary(max_size=9))
    texts = ((Tag.CLIENT, client),) if client else ()
    return ItemHeader(id_, scope, epoch, version, previous, draw(st.none() | ORIGINS), texts)


@given(stamps(), st.integers(0, 1 << 50))
def test_a_header_is_read_as_it_was_written(header: ItemHeader, expires_ms: int) -> None:
    before = encode_meta({Tag.EXPIRES_MS: expires_ms}) if expires_ms else b""

    read = item_header_of(before + header.meta)

    assert read == (header if any(header) else None)


@given(stamps())
def test_its_tags_rise_and_stand_once_each(header: ItemHeader) -> None:
    tags = list(decode_meta(header.meta))

    assert tags == sorted(set(tags))


def test_a_text_with_a_high_tag_stands_after_the_other_tags() -> None:
    # RUNS_MS stands for the tag of a text: all texts so far have a lower one than PREVIOUS.
    header = ItemHeader(version=3, previous=2, texts=((Tag.RUNS_MS, bytes(8)),))

    assert [*decode_meta(header.meta)] == [Tag.VERSION, Tag.PREVIOUS, Tag.RUNS_MS]


def test_the_time_of_a_schedule_is_no_id_and_an_id_is_no_time_of_a_schedule() -> None:
    tick = Watermark(b"nightly", 7)
    sent = ItemHeader(b"order-1", b"nightly", 7)

    assert item_header_of(tick.meta) is None
    assert watermark_of_put(sent.meta) is None
    assert item_header_of(tick.meta + ItemHeader(version=3).meta) == ItemHeader(version=3)
    assert watermark_of_put(tick.meta + ItemHeader(version=3).meta) == tick
