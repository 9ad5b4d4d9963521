"""A wait of a consumer for a daemon that answers nothing any more."""

from __future__ import annotations

import select
import socket

import pytest

pytest.importorskip("kombu", reason="kombu is not installed: pip install 'kestrelpy[celery]'")

from kestrelpy.kombu.fetcher import WAIT_SECONDS, Fetcher
from kestrelpy.kombu.outage import Outage
from kestrelpy.kombu.sockets import Server


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_wait_that_is_never_answered_is_asked_again_on_another_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, no_ack: bool
) -> None:
    """A machine that lost its power, or a router that forgot the connection, says nothing."""
    now = 1000.0
    monkeypatch.setattr("kestrelpy.kombu.fetcher.time.monotonic", lambda: now)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address: tuple[str, int] = silent.getsockname()
        waiting = Fetcher(Server(address), "q", "q", 30, no_ack, Outage("the daemon"))
        waiting.ask()
        first, _ = silent.accept()
        with first:
            now += WAIT_SECONDS + 29
            waiting.ask()
            assert waiting.is_asked
            assert not caplog.messages

            now += 1
            waiting.ask()
            assert not waiting.is_asked
            assert caplog.messages == [
                "the daemon: no answer within 50 s; trying again until it is back"
            ]
            now += 10
            waiting.ask()
            assert waiting.is_asked
            second, _ = silent.accept()
            with second:
                assert first.recv(100) == second.recv(100)
                assert first.recv(100) == b""  # it is closed: a late item returns to the queue
        waiting.end()


def test_an_item_that_cannot_be_read_is_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        waiting = Fetcher(Server(server.getsockname()), "q", "q", 30, False, Outage("the daemon"))
        waiting.ask()
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"VALUE q 0 1 x\r\nb\r\nEND\r\n")
            select.select([waiting], [], [], 30)
            assert waiting.read() is None
        assert not waiting.is_asked
        assert "bytes that are no answer" in caplog.messages[0]
        waiting.end()
