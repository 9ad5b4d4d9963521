"""A reload takes rights from clients with requests under way: nothing more reaches them."""

from __future__ import annotations

import os
import signal
import socket
from base64 import b64encode
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.guarded import PASSWORD, user

ROOT = user("root")
BEFORE = ROOT + user("worker", "write")
CHANGES = {
    "removed": (BEFORE, ROOT),
    "restricted to another queue": (BEFORE, ROOT + user("worker", "write", ["other"])),
    "restricted to reading": (BEFORE, ROOT + user("worker", "read")),
    "with another secret": (BEFORE, ROOT + user("worker", "write", secret="another")),
    "unknown, as [auth] is new": ("", BEFORE),
}
PARKED = (
    b"get jobs/t=1m", b"get jobs/open/t=1m", b"gets jobs/open/lease=1m/t=1m", b"get jobs/peek/t=1m",
    b"get jobs/peek/after=0/t=1m", b"get jobs+kid/open/t=1m", b"get jobs+kid/peek/t=1m",
    b"get absent/open/t=1m", b"get absent/peek/after=0/t=1m", b"monitor jobs 60",
)  # fmt: skip
_OWNER = b"Client-ID: 30387f00-39a0-11e2-be4d-a8d15f34b1b3\r\nX-Project-ID: one\r\n"
HTTP_PARKED = (
    ("POST", "/v2/queues/jobs/claims?wait=20", b"", _OWNER),
    ("POST", "/queues/jobs/leases?lease=1m&wait=60s", b"", b""),
    ("GET", "/categories/jobs?wait=60s", b"", b""),
    ("POST", "/queues/jobs/items", b"half", b""),  # the other half is still to come
    ("GET", "/events?view=overview", b"", b""),
)


class Peer:
    """A raw connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb")

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def line(self) -> bytes:
        return self._file.readline().strip()

    def ask(self, line: bytes) -> bytes:
        self.send(line + b"\r\n")
        return self.line()

    def log_in(self, name: str) -> bytes:
        body = f"{name} {PASSWORD}".encode()
        return self.ask(b"set any 0 0 %d\r\n%b" % (len(body), body))

    def rest(self) -> bytes:
        """Everything to the end of the connection, which the server closes."""
        return self._file.read()

    def is_silent(self) -> bool:
        """True if nothing has come that was not read."""
        self._sock.settimeout(0.1)
        try:
            return not self._sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self._sock.settimeout(20)


def connected(daemon: DaemonProcess, name: str, has_users: bool) -> Peer:
    peer = Peer(daemon.socket(20))
    if has_users:
        assert peer.log_in(name) == b"STORED"
    return peer


def reloaded(daemon: DaemonProcess, config: str) -> None:
    """Reload, and return when a new connection finds the new users."""
    daemon.config_file.write_text(config)
    began = len(daemon.lines)
    os.kill(daemon.pid, signal.SIGHUP)
    while not any("configuration reloaded" in line for line in daemon.lines[began:]):
        with daemon.socket(20) as sock:  # a round trip, no pause
            sock.sendall(b"version\r\n")
            assert sock.recv(100)


@pytest.mark.parametrize("change", CHANGES)
def test_what_waits_ends_without_an_item_and_leases_go_back(tmp_path: Path, change: str) -> None:
    before, after = CHANGES[change]
    with DaemonProcess(tmp_path / "data", config=before) as daemon:
        root = connected(daemon, "root", bool(before))
        assert root.ask(b"set held 0 0 1\r\nx") == b"STORED"
        assert root.ask(b"set jobs 0 0 0\r\n") == b"STORED"
        assert root.ask(b"get jobs+kid") == b"END"
        assert root.ask(b"get jobs/open").startswith(b"VALUE jobs")
        assert (root.line(), root.line()) == (b"", b"END")
        assert root.ask(b"get jobs/close") == b"END"
        holder = connected(daemon, "worker", bool(before))
        assert holder.ask(b"get held/open").startswith(b"VALUE held")
        assert (holder.line(), holder.line()) == (b"x", b"END")
        parked = [connected(daemon, "worker", bool(before)) for _ in PARKED]
        for peer, line in zip(parked, PARKED, strict=True):
            peer.send(line + b"\r\n")
        while figure(root, b"waiters") < 6:
            pass

        reloaded(daemon, after)

        for peer, line in zip(parked, PARKED, strict=True):
            assert peer.line() == b"CLIENT_ERROR unauthenticated", line
        root = connected(daemon, "root", True)
        assert root.ask(b"set jobs 0 0 6\r\nsecret") == b"STORED"
        assert root.ask(b"set absent 0 0 6\r\nsecret") == b"STORED"
        assert root.ask(b"get held/open").startswith(b"VALUE held"), "the lease went back"
        for peer, line in zip(parked, PARKED, strict=True):
            assert peer.is_silent(), line
            assert peer.ask(b"get jobs") == b"CLIENT_ERROR unauthenticated"
        assert holder.ask(b"get held/close") == b"CLIENT_ERROR unauthenticated"
        assert figure(root, b"open_transactions") == 0


def figure(root: Peer, name: bytes) -> int:
    """A figure of the queue `jobs` and its child, added up."""
    root.send(b"stats\r\n")
    found = 0
    while (line := root.line()) != b"END":
        key, _, value = line.removeprefix(b"STAT queue_").rpartition(b" ")
        if key in (b"jobs_" + name, b"jobs+kid_" + name, b"absent_" + name):
            found += int(value)
    return found


@pytest.mark.parametrize("change", ["removed", "unknown, as [auth] is new"])
def test_what_waits_over_http_ends_without_an_item(tmp_path: Path, change: str) -> None:
    before, after = CHANGES[change]
    with DaemonProcess(tmp_path / "data", config=before, http_port="0") as daemon:
        root = connected(daemon, "root", bool(before))
        assert root.ask(b"set jobs 0 0 0\r\n") == b"STORED"
        assert root.ask(b"flush jobs") == b"END"
        parked = list[Peer]()
        for method, path, body, more in HTTP_PARKED:
            sock = socket.create_connection(("127.0.0.1", int(daemon.http_port)), 20)
            said = b64encode(f"worker:{PASSWORD}".encode())
            length = len(body) * 2
            sock.sendall(
                b"%b %b HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %b\r\n"
                b"Content-Length: %d\r\n%b\r\n%b"
                % (method.encode(), path.encode(), said, length, more, body)
            )  # fmt: skip
            parked.append(Peer(sock))
        stream = parked[-1]
        while not stream.line().startswith(b"event: whole"):
            pass
        while figure(root, b"waiters") < 2:
            pass

        reloaded(daemon, after)
        root = connected(daemon, "root", True)
        assert root.ask(b"set jobs 0 0 6\r\nsecret") == b"STORED"
        assert root.ask(b"set fresh-queue 0 0 1\r\nx") == b"STORED"

        assert b"fresh-queue" not in stream.rest()
        for peer, (_, path, body, _) in zip(parked[:-1], HTTP_PARKED, strict=False):
            peer.send(body)
            status = peer.line()
            assert status.startswith(b"HTTP/1.1 401 "), (path, status)
        assert figure(root, b"items") == 1, "the half of a body became no item"
