"""Meta commands: the request is that of the older verb, the reply is memcached's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.errors import Refused
from kestrelpy.protocol.parse.commands import Delete, Fetch, Formed, Store, Touch
from kestrelpy.protocol.parse.meta import SILENT, parse_meta, parse_meta_set
from kestrelpy.protocol.parse.parser import Parser

SHOWN = b"VALUE q/open 7 5 3 1000 61000 2 leased - -\r\nhello\r\nEND\r\n"


def parsed(line: bytes) -> Formed:
    words = line.split()
    return parse_meta(words[0], words)


def command(line: bytes) -> object:
    parser = Parser(lambda name: 1 << 20, {})
    parser.feed(line)
    return parser.next()


def test_mg_is_a_get_of_the_same_key() -> None:
    made = parsed(b"mg q/close/open/token=7/lease=5s v c").command
    older = command(b"gets q/close/open/token=7/lease=5s\r\n")
    assert isinstance(made, Fetch) and isinstance(older, Fetch)
    assert made.token == older.token
    assert made.targets[0].numbered and older.targets[0].numbered
    assert made.targets[0].options == older.targets[0].options
    assert made.targets[0].raw == older.targets[0].raw


def test_md_is_a_delete_and_t_alone_a_touch() -> None:
    deleted, touched = parsed(b"md q/token=7").command, parsed(b"mg q/token=7 T60").command
    assert isinstance(deleted, Delete) and (deleted.name, deleted.token) == (b"q", 7)
    assert isinstance(touched, Touch) and (touched.token, touched.seconds) == (7, 60)


@pytest.mark.parametrize(
    ("meta", "older"),
    [
        (b"ms q 1 F7 T60", b"set q 7 60 1"), (b"ms q/id=5 1 ME", b"add q/id=5 0 0 1"),
        (b"ms a/key=K 1 MR", b"replace a/key=K 0 0 1"),
        (b"ms a/key=K 1 C3", b"cas a/key=K 0 0 1 3"),
    ],
)  # fmt: skip
def test_ms_is_the_storing_verb_of_its_mode(meta: bytes, older: bytes) -> None:
    made, other = command(meta + b"\r\nx\r\n"), command(older + b"\r\nx\r\n")
    assert isinstance(made, Store) and isinstance(other, Store)
    for name in ("verb", "flags", "expiry", "size", "noreply", "expected", "key", "id"):
        assert getattr(made.line, name) == getattr(other.line, name), name
    assert made.line.form is not None and other.line.form is None


def test_an_item_is_shown_with_the_flags_in_sequence() -> None:
    form = parsed(b"mg q/open O1 v t s f c k h l").form
    form.unix_ms = 2000
    assert form.reply(SHOWN) == b"VA 5 O1 t59 s5 f7 c3 kq/open h1 l1\r\nhello\r\n"
    assert parsed(b"mg q/peek s").form.reply(SHOWN) == b"HD s5\r\n"


def test_errors_and_empty_replies_stay_as_they_are() -> None:
    form = parsed(b"mg q v q").form
    for data in (b"", b"SERVER_ERROR disk full\r\n", b"CLIENT_ERROR no\r\n", b"ERROR\r\n"):
        assert form.reply(data) == data
    assert form.reply(form.reply(SHOWN)) == form.reply(SHOWN)


def test_quiet_hides_a_miss_of_mg_and_a_success_of_the_others() -> None:
    assert parsed(b"mg q v q").form.reply(b"END\r\n") is SILENT
    assert parsed(b"mg q/close q").form.reply(b"END\r\n") == b"HD\r\n"
    assert parsed(b"md q q").form.reply(b"DELETED\r\n") is SILENT
    assert parsed(b"md q q").form.reply(b"NOT_FOUND\r\n") == b"NF\r\n"
    stores = parse_meta_set([b"ms", b"q", b"1", b"q"])[2]
    assert stores.reply(b"STORED\r\n") is SILENT
    assert stores.reply(b"NOT_STORED\r\n") == b"NS\r\n"


WORDS = st.lists(st.binary(min_size=1, max_size=4), max_size=5)


@given(WORDS, st.sampled_from([b"mg", b"md", b"ma"]))
def test_any_words_are_a_request_or_one_refusal(words: list[bytes], verb: bytes) -> None:
    try:
        made = parse_meta(verb, [verb, *words])
    except Refused as refused:
        assert refused.line().isascii()
    else:
        assert made.form.reply(SHOWN)[:3] in (b"VA ", b"HD ", b"HD\r")
