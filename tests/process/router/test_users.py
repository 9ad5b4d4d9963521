"""Users of a server in slices: the router checks the login, and each slice the rights.

Promise: users.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrelpy.access import hash_secret
from kestrelpy.wire.dial import Access, connect
from tests.process.router.test_slices import eventually
from tests.support.daemon import DaemonProcess
from tests.support.guarded import certificate

SLICES = "[server]\nallow_shutdown = true\n[fleet]\nslices = 3\n"
QUEUES = (b"a", b"c", b"g")  # one in each slice


def user(name: str, secret: str, role: str, queues: str = '["*"]') -> str:
    hashed = hash_secret(secret.encode())
    return f'[auth.{name}]\nsecret = "{hashed}"\nrole = "{role}"\nqueues = {queues}\n'


ANNA = user("anna", "pear", "write", '["a", "c"]')
ROOT = user("root", "plum", "admin")


@pytest.fixture
def router(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=SLICES + ANNA + ROOT) as running:
        yield running


class Wire:
    """One connection."""

    def __init__(self, router: DaemonProcess) -> None:
        self.sock = router.socket(30.0)
        self.data = b""

    def ask(self, request: bytes, lines: int = 1) -> bytes:
        self.sock.sendall(request)
        return b"".join(self.line() for _ in range(lines))

    def line(self) -> bytes:
        while b"\n" not in self.data:
            piece = self.sock.recv(65536)
            assert piece, f"closed after {self.data!r}"
            self.data += piece
        line, _, self.data = self.data.partition(b"\n")
        return line + b"\n"

    def log_in(self, name: bytes, secret: bytes) -> bytes:
        body = b"%b %b" % (name, secret)
        return self.ask(b"set auth 0 0 %d\r\n%b\r\n" % (len(body), body))


REFUSED = b"CLIENT_ERROR unauthenticated\r\n"


def test_before_a_login_nothing_reaches_a_slice(router: DaemonProcess) -> None:
    wire = Wire(router)
    assert wire.ask(b"get a\r\nstats\r\nshutdown\r\nget a c\r\nflush_all\r\n", 5) == REFUSED * 5
    assert wire.ask(b"version\r\n").startswith(b"VERSION")
    assert wire.log_in(b"anna", b"wrong") == b"CLIENT_ERROR authentication failure\r\n"
    assert wire.ask(b"get a\r\n") == REFUSED
    assert wire.ask(b"set a 0 0 70000\r\n" + b"x" * 70_000 + b"\r\n").startswith(
        b"SERVER_ERROR item too"
    )
    assert wire.log_in(b"anna", b"pear") == b"STORED\r\n"
    assert wire.ask(b"get a\r\nget c\r\n", 2) == b"END\r\n" * 2
    assert not any((router.data_dir / "slices-3").glob("*/auth*"))


def test_each_slice_checks_the_rights(router: DaemonProcess) -> None:
    wire = Wire(router)
    assert wire.log_in(b"anna", b"pear") == b"STORED\r\n"
    for name in QUEUES:
        said = wire.ask(b"set %b 0 0 1\r\nx\r\n" % name)
        assert said.startswith(b"CLIENT_ERROR forbidden" if name == b"g" else b"STORED"), name
    assert wire.ask(b"get a/peek g/peek\r\n", 3).splitlines()[-1].startswith(b"CLIENT_ERROR forb")
    for request in (b"shutdown", b"flush_all", b"stats", b"status readonly", b"reload"):
        assert wire.ask(request + b"\r\n").startswith(b"CLIENT_ERROR forbidden"), request
    root = Wire(router)
    assert root.log_in(b"root", b"plum") == b"STORED\r\n"
    assert root.ask(b"set g 0 0 1\r\nx\r\nflush_all\r\n", 2) == b"STORED\r\nOK\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"client memcache x root\r\n", b"CLIENT memcache x root\r\n",
        b"client memcache x root noreply\r\n", b"client\r\n",
    ],
)
def test_no_client_becomes_another_one_by_saying_so(router: DaemonProcess, request_: bytes) -> None:
    wire = Wire(router)
    assert wire.log_in(b"anna", b"pear") == b"STORED\r\n"
    wire.sock.sendall(request_ + b"get g\r\nmn\r\n")
    said = []
    while not said or said[-1] != b"MN\r\n":
        said.append(wire.line())
    assert said[-2].startswith(b"CLIENT_ERROR forbidden")
    assert said[:-2] in ([], [b"ERROR\r\n"])
    stranger = Wire(router)
    assert stranger.ask(request_ + b"get g\r\n" if b"noreply" in request_ else request_)
    assert stranger.ask(b"get g\r\n").startswith((b"CLIENT_ERROR", b"ERROR"))


def test_a_slice_knows_the_client_itself(router: DaemonProcess) -> None:
    wire, root = Wire(router), Wire(router)
    assert root.log_in(b"root", b"plum") == wire.log_in(b"anna", b"pear") == b"STORED\r\n"
    assert wire.ask(b"set a 0 0 1\r\nx\r\nget a/open\r\n", 4).endswith(b"END\r\n")
    host, port = wire.sock.getsockname()
    assert f"_holder {host}:{port}\r\n".encode() in root.ask(b"stats a/open\r\n", 9)


def test_a_reload_takes_the_rights_away_in_every_slice(router: DaemonProcess) -> None:
    wires = [Wire(router) for _ in QUEUES]
    for wire, name in zip(wires, QUEUES, strict=True):
        assert wire.log_in(b"root", b"plum") == b"STORED\r\n"
        wire.sock.sendall(b"get %b/open/t=100s\r\n" % name)
    router.config_file.write_text(SLICES + ANNA + user("root", "other", "admin"))
    os.kill(router.pid, signal.SIGHUP)
    assert [wire.line() for wire in wires] == [REFUSED] * 3

    def is_another_user_now() -> bool:
        return wires[0].log_in(b"root", b"other") == b"STORED\r\n"

    eventually(is_another_user_now)
    assert wires[0].ask(b"set a 0 0 1\r\nx\r\nget g\r\n", 2) == b"STORED\r\nEND\r\n"
    assert wires[1].ask(b"get c\r\n") == REFUSED


def test_logins_can_begin_and_end_with_a_reload(router: DaemonProcess) -> None:
    wire = Wire(router)
    assert wire.log_in(b"root", b"plum") == b"STORED\r\n"
    assert wire.ask(b"get a\r\nget c\r\n", 2) == b"END\r\n" * 2
    router.config_file.write_text(SLICES)
    os.kill(router.pid, signal.SIGHUP)
    eventually(lambda: Wire(router).ask(b"get a\r\n") == b"END\r\n")
    eventually(lambda: Wire(router).ask(b"get g\r\n") == b"END\r\n")
    assert wire.ask(b"set g 0 0 1\r\nx\r\n") == b"STORED\r\n"
    router.config_file.write_text(SLICES + ROOT)
    os.kill(router.pid, signal.SIGHUP)
    eventually(lambda: Wire(router).ask(b"get a\r\n") == REFUSED)
    eventually(lambda: wire.ask(b"get g/peek\r\n") == REFUSED)


def test_the_unix_socket_needs_no_login(tmp_path: Path) -> None:
    config = SLICES.replace("[server]", '[server]\nsocket = "s"') + ANNA
    with DaemonProcess(tmp_path / "data", config=config) as router:
        with socket.socket(socket.AF_UNIX) as local:
            local.settimeout(30)
            local.connect(str(tmp_path / "s"))
            local.sendall(b"set g 0 0 1\r\nx\r\nflush_all\r\n")
            said = b""
            while said.count(b"\n") < 2:
                said += local.recv(1000)
            assert said == b"STORED\r\nOK\r\n"
        assert Wire(router).ask(b"client memcache x /\r\nget g\r\n", 2)[-len(REFUSED) :] == REFUSED


def test_tls_ends_at_the_router_and_a_reload_renews_it(tmp_path: Path) -> None:
    certificate(tmp_path, "server")
    config = SLICES.replace("[server]", '[server]\ntls_cert = "server.pem"\ntls_key = "server.key"')
    access = Access(user="root", password="plum", tls_ca=str(tmp_path / "server.pem"))
    with DaemonProcess(tmp_path / "data", config=config + ROOT) as router:
        with connect(("127.0.0.1", router.port), access, 30, 30) as client:
            client.sendall(b"set g 0 0 1\r\nx\r\nget g\r\n")
            said = b""
            while not said.endswith(b"END\r\n"):
                said += client.recv(1000)
            assert said == b"STORED\r\nVALUE g 0 1\r\nx\r\nEND\r\n"
        certificate(tmp_path, "server")
        os.kill(router.pid, signal.SIGHUP)

        def knows_the_new_one() -> bool:
            try:
                connect(("127.0.0.1", router.port), access, 30, 30).close()
            except OSError:
                return False
            return True

        eventually(knows_the_new_one)


def test_a_client_that_is_gone_ends_its_login(router: DaemonProcess) -> None:
    for how in (socket.SHUT_WR, socket.SHUT_RDWR):
        wire = Wire(router)
        wire.sock.sendall(b"set auth 0 0 9\r\nroot plum\r\nget a\r\n")
        wire.sock.shutdown(how)
    other = Wire(router)
    assert other.log_in(b"root", b"plum") == b"STORED\r\n"
    assert other.ask(b"get a\r\n") == b"END\r\n"
