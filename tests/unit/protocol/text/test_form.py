"""The words of the text protocol."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.text.form import NOTHING, ItemForm, PutForm, TextForm


@pytest.mark.parametrize(
    ("memcache", "text"),
    [
        (b"END\r\n", b"+0\n"), (b"DELETED\r\n", b"+0\n"), (b"NOT_FOUND\r\n", b"+0\n"),
        (b"UP\r\n", b":UP\n"), (b"VERSION 1.2.3\r\n", b":1.2.3\n"),
        (b"ERROR\r\n", b"-Not that many transactions open.\n"),
        (b"CLIENT_ERROR a b: c\r\n", b"-a b: c\n"), (b"SERVER_ERROR full\r\n", b"-full\n"),
        (b"", b""),
    ],
)  # fmt: skip
def test_each_reply_is_one_line_that_ends_in_lf(memcache: bytes, text: bytes) -> None:
    assert TextForm().reply(memcache) == text


def test_an_item_is_its_bytes_whatever_its_key_and_flags() -> None:
    form = ItemForm(b"q", 1)
    assert form.reply(b"VALUE q 7 3\r\n\r a\r\nEND\r\n") == b":\r a\n"
    assert form.reply(b"VALUE q 0 7\r\n\xff VALUE\r\nEND\r\n") == b":\xff VALUE\n"
    assert form.reply(b"END\r\n") == NOTHING
    assert not form.is_unfit


def test_an_item_with_a_line_end_is_an_error_that_names_its_queue() -> None:
    form = ItemForm(b"jobs", 1)
    said = form.reply(b"VALUE jobs 0 3\r\na\nb\r\nEND\r\n")
    assert said.startswith(b"-the next item of jobs has a line end in it")
    assert said.count(b"\n") == 1
    assert form.is_unfit


def test_a_put_counts_what_is_stored_and_says_why_nothing_is() -> None:
    form = PutForm()
    assert form.total() == b"+0\n"
    assert form.reply(b"STORED\r\n") == b""
    assert form.reply(b"SERVER_ERROR item too large\r\n") == b""
    assert form.total() == b"+1\n"
    refused, full = PutForm(), PutForm()
    refused.reply(b"SERVER_ERROR disk full\r\n")
    refused.reply(b"SERVER_ERROR and so on\r\n")
    assert refused.total() == b"-disk full\n"
    full.reply(b"NOT_STORED\r\n")
    assert full.total() == b"+0\n"
