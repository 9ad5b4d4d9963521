"""Wrong logins from one thread that hangs up keep no other client out, over both wires."""

from __future__ import annotations

import socket
import struct
from base64 import b64encode
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.guarded import PASSWORD, user

_RESET = struct.pack("ii", 1, 0)


def memcache_login(name: bytes, secret: bytes) -> bytes:
    return b"set any 0 0 %d\r\n%b %b\r\n" % (len(name + secret) + 1, name, secret)


def http_login(name: bytes, secret: bytes) -> bytes:
    said = b64encode(name + b":" + secret)
    return b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %b\r\n\r\n" % said


@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize("wire", ["memcache", "http"])
def test_a_login_succeeds_beside_a_flood_of_wrong_ones(
    tmp_path: Path, wire: str, is_reset: bool
) -> None:
    login = memcache_login if wire == "memcache" else http_login
    with DaemonProcess(tmp_path / "data", config=user("anna"), http_port="0") as daemon:
        port = daemon.port if wire == "memcache" else int(daemon.http_port)

        def connect() -> socket.socket:
            return socket.create_connection(("127.0.0.1", port), 20)

        for number in range(400):
            with connect() as wrong:
                wrong.sendall(login(b"anna", b"%d" % number))
                if is_reset:
                    wrong.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        with connect() as right:
            right.sendall(login(b"anna", PASSWORD.encode()))
            said = right.recv(100)
        assert said.startswith((b"STORED", b"HTTP/1.1 200"))
