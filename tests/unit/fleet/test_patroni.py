"""The version of a Patroni, as its REST API says it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kestrelpy.fleet.patroni import NoPatroni, patroni_version, why_bad_patroni

URL = "http://kestrel:sekret@db1:8008"


@pytest.mark.parametrize("version", ["3.0.3", "3.1", "4.1.5", "4.1.5rc1", "unknown"])
def test_a_patroni_that_keeps_its_leaders_key_is_accepted(version: str) -> None:
    assert why_bad_patroni(version, URL) == ""


@pytest.mark.parametrize("version", ["3.0.2", "3.0", "2.1.7"])
def test_an_older_one_is_named_with_the_remedy(version: str) -> None:
    assert why_bad_patroni(version, URL) == (
        f"Patroni {version} at http://kestrel@db1:8008 loses acknowledged commits when its leader "
        "pauses: install 3.0.3 or newer"
    )


class _Answers(BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/patroni" else 404)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_says_its_version(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"state": "running", "patroni": {"version": "4.1.5", "scope": "q"}})
    monkeypatch.setattr(_Answers, "body", body.encode())

    assert patroni_version(url) == patroni_version(url + "/") == "4.1.5"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"patroni": 1}', b"<html>"])
def test_what_is_no_patroni_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(_Answers, "body", body)

    with pytest.raises(NoPatroni, match="does not answer as a Patroni does"):
        patroni_version(url)


def test_one_that_is_away_is_named_without_a_secret() -> None:
    with pytest.raises(NoPatroni, match=r"at http://k@127\.0\.0\.1:1 does not ans") as caught:
        patroni_version("http://k:sekret@127.0.0.1:1")
    assert "sekret" not in str(caught.value)
