"""The meta of a record to bytes and back; other bytes are refused with a clear sentence."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import NewerFormat
from journal.format.kinds import Tag
from journal.format.meta import Meta, decode_meta, encode_meta, ended, ended_bytes

U64 = st.integers(0, (1 << 64) - 1)
# A strategy for each tag's own type.
METAS = st.dictionaries(
    st.sampled_from(Tag), st.none(), max_size=8
).flatmap(
    lambda tags: st.fixed_dictionaries(
        {tag: U64 if is_number(tag) else st.binary(max_size=30) for tag in sorted(tags)}
    )
)  # fmt: skip


def is_number(tag: Tag) -> bool:
    return type(decode_meta(encode_meta({tag: bytes(8)}))[tag]) is int


@given(METAS)
def test_meta_is_read_as_it_was_written(meta: Meta) -> None:
    assert decode_meta(encode_meta(meta)) == meta


@given(st.binary(max_size=60))
def test_meta_that_is_none_is_a_clear_refusal(data: bytes) -> None:
    try:
        decode_meta(data)
    except (ValueError, NewerFormat) as error:
        assert "meta" in str(error)


def test_a_number_in_meta_that_has_not_8_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="meta tag 1 is a number and has 3 bytes"):
        decode_meta(struct.pack("<BH", Tag.EXPIRES_MS, 3) + b"abc")


def test_meta_that_ends_early_is_refused() -> None:
    whole = encode_meta({Tag.KEY: b"key"})
    for cut in range(1, len(whole)):
        with pytest.raises(ValueError, match="meta ends within"):
            decode_meta(whole[:cut])


def test_an_unknown_tag_below_128_is_newer_and_one_from_128_on_is_passed_over() -> None:
    known = encode_meta({Tag.KEY: b"key"})
    with pytest.raises(NewerFormat, match="meta tag 99 is not known"):
        decode_meta(struct.pack("<BH", 99, 2) + b"ab" + known)
    assert decode_meta(struct.pack("<BH", 200, 2) + b"ab" + known) == {Tag.KEY: b"key"}


@pytest.mark.parametrize("body_bytes", [0, 1, 255, (1 << 24) - 1, 1 << 24, 1 << 40])
def test_the_end_of_an_item_says_the_size_of_its_body(body_bytes: int) -> None:
    assert ended_bytes(*ended(3, body_bytes)) == body_bytes


def test_an_end_with_other_meta_alone_ends_no_bytes() -> None:
    assert ended_bytes(3, encode_meta({Tag.DEADLINE_MS: 5})) == 0
