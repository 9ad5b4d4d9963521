"""A message has these members and no other, and its body byte for byte."""

from __future__ import annotations

import msgspec
import pytest

from kestrelpy.http.zaqar.ids import ClaimId
from kestrelpy.http.zaqar.shown import as_json, href, message
from kestrelpy.operations import SeenItem
from tests.support.core_harness import make_queue


@pytest.mark.parametrize("body", [b"1", b'"a"', b'{"a": [1, 2]}', b"null", b" 1.50 "])
def test_json_is_shown_as_it_is(body: bytes) -> None:
    assert msgspec.json.encode({"body": as_json(body)}) == b'{"body":%b}' % body


@pytest.mark.parametrize("body", [b"", b"abc", b"\xff", b'"\xff"', b"NaN", b"{", b"[" * 2000])
def test_anything_else_is_base64(body: bytes) -> None:
    assert list(as_json(body)) == ["base64"]


def test_a_message_has_its_members_in_sequence() -> None:
    queue = make_queue()
    queue.put(b"x")
    seen = SeenItem(1, 1000, 61_000, b"{}", 2)
    shown = message(queue.queue, "/v2/queues/q", seen, 4500)
    assert list(shown) == ["id", "href", "ttl", "age", "body", "claim_count", "checksum"]
    assert (shown["ttl"], shown["age"], shown["claim_count"]) == (60, 3, 2)
    assert shown["checksum"] == "MD5:99914b932bd37a50b983c5e7c90ae93b"
    assert shown["href"] == f"/v2/queues/q/messages/{shown['id']}"


def test_the_claim_comes_last_in_a_path() -> None:
    assert href("/q", "1-2", ClaimId(3, 4)) == "/q/messages/1-2?claim_id=3-4"


def test_an_item_that_never_expires_has_the_longest_ttl() -> None:
    queue = make_queue()
    queue.put(b"x")
    assert message(queue.queue, "/q", SeenItem(1, 1000, 0, b"1", 0), 1000)["ttl"] == 1_209_600
