"""Lines of other protocols: they are recognized, and the connection is closed."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.parse.foreign import FOREIGN, is_http, refuse_foreign, refuse_http


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1", b"POST /q HTTP/1.0", b"Host: x", b"HOST: x"])
def test_a_line_of_an_http_request_is_known(line: bytes) -> None:
    assert is_http(line.split())


@pytest.mark.parametrize("line", [b"get http", b"HTTP/2", b"set q 0 0 4", b"host"])
def test_a_request_is_not_taken_for_one(line: bytes) -> None:
    assert not is_http(line.split())


def test_the_connection_is_closed_without_a_word_and_the_log_says_why() -> None:
    for bad in (*map(refuse_foreign, FOREIGN), refuse_http("text")):
        assert bad.closes and bad.noreply and " refused" in bad.log
    said = "HTTP request refused on the text port: HTTP has a port of its own (http_port)"
    assert refuse_http("text").log == said
