"""What of a request reaches a slice, and what of an answer the client."""

from __future__ import annotations

from typing import Any

from kestrelpy.http.slices.asked import Asked, to_client
from kestrelpy.http.slices.ports import SlicesPort


def asked(router: SlicesPort, *headers: tuple[bytes, bytes], query: bytes = b"") -> Asked:
    scope: dict[str, Any] = {
        "method": "POST", "path": "/queues/a b/items", "raw_path": b"/queues/a%20b/items",
        "query_string": query, "headers": [(b"host", b"localhost"), *headers],
        "client": ("10.0.0.1", 77),
    }  # fmt: skip
    return Asked.of(scope, None, {"queue": "a b"}, router)


def test_headers_of_the_connection_stay_and_others_pass_unchanged(router: SlicesPort) -> None:
    found = asked(
        router, (b"authorization", b"Basic eA=="), (b"connection", b"close"),
        (b"kestrelpy-client", b"1.1.1.1:1"), (b"content-length", b"3"), (b"x-a", b"1"),
        (b"x-a", b"2"), query=b"id=%20x",
    )  # fmt: skip
    head = found.head(found.target)
    assert head == (
        b"POST /queues/a%20b/items?id=%20x HTTP/1.1\r\nhost: localhost\r\n"
        b"authorization: Basic eA==\r\ncontent-length: 3\r\nx-a: 1\r\nx-a: 2\r\n"
        b"kestrelpy-client: 10.0.0.1:77\r\n\r\n"
    )
    assert found.has_body


def test_a_chunked_body_stays_chunked_and_a_whole_one_has_a_length(router: SlicesPort) -> None:
    found = asked(router, (b"transfer-encoding", b"chunked"))
    assert b"transfer-encoding: chunked\r\n" in found.head(found.target)
    head = found.head(found.target, 5, "GET")
    assert b"transfer-encoding" not in head
    assert head.startswith(b"GET ")
    assert b"content-length: 5\r\n" in head


def test_a_body_of_no_bytes_is_none(router: SlicesPort) -> None:
    assert not asked(router, (b"content-length", b"0")).has_body
    assert not asked(router).has_body


def test_another_value_of_the_query_takes_the_place_of_the_first(router: SlicesPort) -> None:
    found = asked(router, query=b"limit=5&after=b%3A1")
    assert found.with_query(after="c:2") == b"/queues/a%20b/items?limit=5&after=c%3A2"


def test_headers_of_the_slices_connection_do_not_reach_the_client() -> None:
    assert to_client([(b"transfer-encoding", b"chunked"), (b"etag", b'"1"')]) == [
        (b"etag", b'"1"')
    ]
