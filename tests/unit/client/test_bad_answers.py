"""A server that sends bytes that are no answer: an error that a worker waits out, as of a broken
connection."""

from __future__ import annotations

import socket
import threading

import pytest

from kestrelpy.client.connection import PASSING, BlockingConnection


@pytest.mark.parametrize(
    "answer",
    [
        b"VALUE q/open\r\nEND\r\n", b"VALUE q/open x 1 2\r\nb\r\nEND\r\n",
        b"VALUE q/open 0 1 2 3\r\nb\r\nEND\r\n", b"VALUE q/open 0 1 2\r\nb\r\nEND\r\n",
    ],
)  # fmt: skip
def test_an_item_that_cannot_be_read_is_an_error_of_the_connection(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                for each in (b"VERSION 1\r\n", answer):
                    peer.recv(4096)
                    peer.sendall(each)
                peer.recv(4096)

        threading.Thread(target=serve, daemon=True).start()
        connection = BlockingConnection(server.getsockname(), 20, 20)
        with pytest.raises(PASSING):
            connection.open("q/open")
        assert connection._client is None
