"""Passwords and TLS of the engine, on a real server: reconnects take the new password, and each
mistake is one sentence.

The server from the wheel has no TLS: a front before it does, as a proxy of a provider would.

Promise: engine-trouble.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheError

from journal.engine import Create, EngineAway, Write
from journal.engine.postgres import PostgresEngine, make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.support.daemon import DaemonProcess
from tests.support.guarded import certificate
from tests.support.memory_engine import claimed

SECONDS = 60.0
SSL_REQUEST = struct.pack("!ii", 8, 80877103)


class TlsFront:
    """Takes TLS as PostgreSQL does, and passes what is inside on."""

    def __init__(self, port: int, folder: Path, name: str) -> None:
        self._there = ("127.0.0.1", port)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                inner, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(inner,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError), plain:
            assert plain.recv(8) == SSL_REQUEST
            plain.sendall(b"S")
            with (
                self._context.wrap_socket(plain, server_side=True) as outside,
                socket.create_connection(self._there) as inside,
            ):
                back = threading.Thread(target=_pump, args=(inside, outside), daemon=True)
                back.start()
                _pump(outside, inside)
                back.join(SECONDS)

    def close(self) -> None:
        self._listener.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with folder_of_servers() as folder:
        made = PostgresServer(folder)
        made.make()
        made.start()
        make_tables(made.address)
        made.ask("CREATE ROLE app LOGIN")
        make_tables(made.address, role="app")
        (made.data / "pg_hba.conf").write_text(
            "host all kestrel all trust\nhost all app all scram-sha-256\n"
        )
        made.ask("SELECT pg_reload_conf()")
        yield made
        made.stop()


@pytest.fixture
def passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: PostgresServer) -> Path:
    """The file of passwords that members of this test use."""
    server.ask("ALTER ROLE app PASSWORD 'first'")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "passwords"))
    write(tmp_path / "passwords", "first")
    return tmp_path / "passwords"


def write(file: Path, password: str) -> None:
    file.write_text(f"*:*:*:app:{password}\n")
    file.chmod(0o600)


def config(port: int, host: str = "127.0.0.1", more: str = "") -> str:
    address = f"postgresql://app@{host}:{port}/postgres{more}"
    return f'[fleet]\nengine = "{address}"\nsingle = true\nname = "a"\ntakeover = "2s"\n'


def stored(member: DaemonProcess, body: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(MemcacheError, OSError), closing(member.client()) as client:
            if client.set("jobs", body):
                return
        assert time.monotonic() < deadline, "".join(member.lines[-20:])
        time.sleep(0.05)


def says(member: DaemonProcess, words: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not any(words in line for line in member.lines):
        assert time.monotonic() < deadline, "".join(member.lines[-20:])
        time.sleep(0.05)


def cut_off(server: PostgresServer) -> None:
    """End the connections of the member, as a failover does."""
    server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")


@pytest.mark.slow
def test_a_password_that_changes_needs_no_restart(
    server: PostgresServer, passwords: Path, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "a", config=config(server.port)) as member:
        stored(member, "with the first password")
        server.ask("ALTER ROLE app PASSWORD 'second'")
        stored(member, "on the connections that there are")
        cut_off(server)
        says(member, "the password is wrong; ~/.pgpass or PGPASSFILE has it")
        write(passwords, "second")
        stored(member, "with the second password")
        assert member.stop() == 0
    assert not any("Traceback" in line or "first" in line for line in member.lines)


@pytest.mark.parametrize(
    ("host", "authority", "words"),
    [
        ("127.0.0.1", "server.pem", ""),
        ("127.0.0.1", "other.pem", "certificate verify failed: sslrootcert must name the file of"),
        ("localhost", "server.pem", 'does not match host name "localhost": name the server as its'),
        ("127.0.0.1", "none.pem", "none.pem\" does not exist: sslrootcert must name the file of"),
    ],
)
def test_the_server_is_who_its_certificate_says(
    server: PostgresServer, passwords: Path, tmp_path: Path, host: str, authority: str, words: str
) -> None:
    certificate(tmp_path, "server")
    certificate(tmp_path, "other")
    with closing(TlsFront(server.port, tmp_path, "server")) as front:
        address = f"postgresql://app@{host}:{front.port}/postgres?sslmode=verify-full"
        with closing(
            PostgresEngine(f"{address}&sslrootcert={tmp_path / authority}", is_single=True)
        ) as engine:
            if not words:
                at = claimed(engine, "a", max(engine.owners(), default=0) + 1)
                engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"over TLS")])
                assert engine.read(at.after(), 1, 0, 8) == b"over TLS"
                return
            with pytest.raises(EngineAway) as caught:
                engine.owners()
    assert words in str(caught.value.strerror)
    assert "\n" not in str(caught.value.strerror)


def test_a_server_without_tls_is_named_where_tls_is_asked_for(
    server: PostgresServer, passwords: Path
) -> None:
    with (
        closing(PostgresEngine(f"{server.address}?sslmode=require", is_single=True)) as engine,
        pytest.raises(EngineAway, match=r"does not support SSL.*: turn ssl on in the server"),
    ):
        engine.owners()


def test_a_member_answers_its_clients_over_tls(server: PostgresServer, tmp_path: Path) -> None:
    certificate(tmp_path, "server")
    made = f'tls_cert = "{tmp_path}/server.pem"\ntls_key = "{tmp_path}/server.key"\n'
    fleet = f'[fleet]\nengine = "{server.address}"\nsingle = true\nname = "tls"\ntakeover = "2s"\n'
    context = ssl.create_default_context(cafile=tmp_path / "server.pem")
    member = DaemonProcess(tmp_path / "a", config=f"[server]\n{made}{fleet}", http_port="0")
    with member, closing(member.socket()) as plain:
        outside = context.wrap_socket(plain, server_hostname="127.0.0.1")
        large = b"x" * 500_000
        for _ in range(3):
            outside.sendall(b"set tls 0 0 %d\r\n%b\r\nget tls\r\n" % (len(large), large))
            answer = b""
            while not answer.endswith(b"END\r\n"):
                data = outside.recv(1 << 16)
                assert data, answer[:100]
                answer += data
            assert answer == b"STORED\r\nVALUE tls 0 %d\r\n%b\r\nEND\r\n" % (len(large), large)
        port = int(member.http_port)
        web = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=20)
        for _ in range(3):
            web.request("POST", "/queues/tls/items", body=b"x")
            got = web.getresponse()
            assert (got.status, got.read()[:1]) == (201, b"{")
        web.close()
        assert member.stop() == 0
