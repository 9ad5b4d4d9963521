"""Each record as a line that a person who knows queues understands."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from journal.format.describe import flush_spared, sentence, shown
from journal.format.key import text_of
from journal.format.kinds import Kind, Tag
from journal.format.meta import Meta, encode_meta
from journal.format.record import Draft, Record
from tests.golden.layout import draft


def record(one: Draft) -> Record:
    return Record(*one[:8], lsn=1, segment=1, offset=64, end=200)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (draft(Kind.PUT, 1, 1, 0, b"hello"), "put 1 hello"),
        (draft(Kind.PUT, 1, 1, 0, b"x", {Tag.EXPIRES_MS: 9}), "put 1 x expires_ms=9"),
        (draft(Kind.PUT, 3, 2, 0, b"x", reader=4), "put 3 x reader=4"),
        (draft(Kind.DONE, 1, 99, 1), "done 1"),
        (draft(Kind.RETURNED, 2, 9, 3, meta={Tag.REASON: b"abort"}), "returned 2 attempts 3 abort"),
        (draft(Kind.DEAD, 2, 99, 4, meta={Tag.REASON: b"lease"}), "dead 2 attempts 4 lease"),
        (draft(Kind.EXPIRED, 5), "expired 5"),
        (draft(Kind.DISCARDED, 6), "discarded 6"),
        (draft(Kind.FLUSHED, 7), "flushed 7"),
        (draft(Kind.FLUSHED, 7, body=struct.pack("<2Q", 3, 5)), "flushed 7 sparing 3 5"),
        (draft(Kind.TOKENS, 0, 1000), "tokens below 1000"),
        (draft(Kind.LIVE, 0, 2, 0), "live 2 entries"),
        (draft(Kind.ATTEMPTS, 0, 3, 1), "attempts 3 pages"),
        (draft(Kind.SEGMENTS, 7, 640, 2), "segments 7 2 entries, the log goes on at byte 640"),
        (draft(Kind.BATCH, 500, 41, 3), "batch of 3, synced up to 41"),
        (draft(Kind.CHECKPOINT, 4, 5, meta={Tag.NAME: b"q"}),
         "checkpoint next item 4 next place 5 name=q"),
        (draft(Kind.FOOTER, 4, 5, 1, meta={Tag.COUNTS: struct.pack("<BIBI", 3, 2, 99, 1)}),
         "footer 4 records last place 5 live 1 counts=put:2,kind 99:1"),
        (draft(Kind.RELEASED, 2, 8), "released 2 place 8"),
        (draft(Kind.LEASED, 2, 8, meta={Tag.DEADLINE_MS: 5}), "leased 2 token 8 deadline_ms=5"),
        (draft(Kind.UPTO, 0, 8, reader=1), "upto marker 8 reader=1"),
        (draft(Kind.UPTO, 0, 8, 0, bytes([7, *bytes(7)])), "upto marker 8 sparing 7"),
        (draft(Kind.READER, 0, 3, reader=2), "reader behind marker 3 reader=2"),
        (draft(Kind.READER, 0, 3, 1, reader=2), "reader takes nothing more reader=2"),
        (draft(Kind.PAUSED, small=1), "paused on"),
        (draft(Kind.PAUSED), "paused off"),
        (draft(Kind.DONE_MANY, small=2), "done many 2 entries"),
        (draft(Kind.MOVED, 1, meta={Tag.TARGET: b"s:q:5"}), "moved 1 target=s:q:5"),
        (draft(77, 5), "kind 77 item 5 (not known to this version)"),
    ],
)  # fmt: skip
def test_a_record_reads_as_a_sentence(one: Draft, expected: str) -> None:
    assert sentence(record(one)) == expected


def test_a_long_flush_names_ten_and_counts_the_rest() -> None:
    body = struct.pack("<12Q", *range(1, 13))
    assert sentence(record(draft(Kind.FLUSHED, 20, body=body))) == (
        "flushed 20 sparing 1 2 3 4 5 6 7 8 9 10 and 2 more"
    )
    assert flush_spared(record(draft(Kind.FLUSHED, 20, body=body))) == tuple(range(1, 13))


def test_a_long_body_is_cut_and_measured_unless_asked_for() -> None:
    one = record(draft(Kind.PUT, 1, 1, 0, b"a" * 50))
    assert sentence(one) == f"put 1 {'a' * 40}... (50 bytes)"
    assert sentence(one, 1000) == f"put 1 {'a' * 50}"


def test_no_control_character_of_a_client_reaches_the_terminal() -> None:
    assert shown(b"a\x1b[31mb\r\n\xff\xc3\xbc", 100) == "a.[31mb..\\xff\u00fc"


def test_meta_that_is_not_known_is_said_and_nothing_fails() -> None:
    newer = Draft(Kind.PUT, 1, 1, 0, 0, struct.pack("<BH", 99, 0), b"x", 0, 0)
    assert sentence(record(newer)) == "put 1 x (meta tag 99 is not known to this version)"


def test_every_kind_and_every_tag_has_a_sentence() -> None:
    meta: Meta = dict.fromkeys(Tag, b"\1\0\0\0\0\0\0\0")
    for kind in Kind:
        text = sentence(record(draft(kind, 1, 2, 3, meta=meta)))
        missing = [t.name for t in Tag if t != Tag.REASON and f"{t.name.lower()}=" not in text]
        assert not missing or kind == Kind.BATCH, (kind, missing)


@given(st.integers(0, 255), st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 60))
def test_whatever_a_record_holds_its_sentence_is_one_printable_line(
    kind: int, meta: bytes, body: bytes, bytes_max: int
) -> None:
    one = Draft(kind, 1, 2, 3, 4, meta, body, 5, 0)
    text = sentence(record(one), bytes_max)
    assert text.isprintable()
    assert text


def test_a_key_is_shown_as_a_producer_names_it() -> None:
    meta = encode_meta({Tag.KEY: text_of(b"A") + text_of(b"b c")})
    one = Draft(Kind.PUT, 1, 1, 0, 0, meta, b"x", 0, 0)
    assert sentence(record(one)) == "put 1 x key=A,b%20c"


def test_names_in_meta_are_shown_like_bodies() -> None:
    meta = encode_meta({Tag.KEY: b"\x01\x00A"})
    one = Draft(Kind.PUT, 1, 1, 0, 0, meta, b"x", 0, 0)
    assert sentence(record(one)) == "put 1 x key=..A"
