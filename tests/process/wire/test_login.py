"""memcached's ASCII authentication and the rights of users, over a real daemon."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrelpy.access import hash_secret
from tests.support.daemon import DaemonProcess

HASH = hash_secret(b"letmein")
USERS = "".join(
    f'[auth.{name}]\nsecret = "{HASH}"\nrole = "{role}"\nqueues = {queues}\n'
    for name, role, queues in (
        ("reader", "read", '["jobs"]'), ("writer", "write", '["jobs", "later"]'),
        ("chief", "admin", '["jobs"]'), ("root", "admin", '["*"]'),
    )
)  # fmt: skip


class Client:
    """A raw client."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._sock = daemon.socket(20)
        self._file = self._sock.makefile("rb")

    def ask(self, line: bytes) -> bytes:
        self._sock.sendall(line + b"\r\n")
        return self._file.readline().strip()

    def log_in(self, user: bytes, secret: bytes = b"letmein") -> bytes:
        body = user + b" " + secret
        return self.ask(b"set any 0 0 %d\r\n%b" % (len(body), body))

    def rest(self) -> bytes:
        self._sock.shutdown(socket.SHUT_WR)
        return self._file.read()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=USERS) as running:
        yield running


def test_nothing_is_done_before_a_login(daemon: DaemonProcess) -> None:
    client = Client(daemon)
    for line in (
        b"get jobs", b"get jobs/open", b"add jobs 0 0 1\r\nx", b"stats", b"flush_all", b"shutdown",
        b"delete jobs", b"touch jobs 5", b"mg jobs v", b"status up", b"reload", b"dump_stats",
    ):  # fmt: skip
        assert client.ask(line) == b"CLIENT_ERROR unauthenticated", line
    assert client.ask(b"version").startswith(b"VERSION")
    assert client.log_in(b"root") == b"STORED"
    assert client.ask(b"get any") == b"END"  # the login was no item
    assert client.ask(b"get jobs") == b"END"


def test_a_wrong_secret_is_refused_and_the_right_one_taken(daemon: DaemonProcess) -> None:
    client = Client(daemon)
    for user, secret in ((b"writer", b"letmeout"), (b"nobody", b"letmein"), (b"", b"")):
        assert client.log_in(user, secret) == b"CLIENT_ERROR authentication failure"
        assert client.ask(b"get jobs") == b"CLIENT_ERROR unauthenticated"
    assert client.log_in(b"writer") == b"STORED"
    assert client.ask(b"set jobs 0 0 1\r\nx") == b"STORED"


def test_a_large_body_before_a_login_is_not_taken(daemon: DaemonProcess) -> None:
    client = Client(daemon)
    body = b"x" * 100_000
    assert client.ask(b"set any 0 0 %d\r\n%b" % (len(body), body)).startswith(
        b"SERVER_ERROR item too large"
    )
    assert client.log_in(b"writer") == b"STORED"


ALLOWED: dict[bytes, list[bytes]] = {
    b"set jobs 0 0 1\r\nx": [b"writer", b"chief", b"root"],
    b"set other 0 0 1\r\nx": [b"root"],
    b"get jobs/peek": [b"reader", b"writer", b"chief", b"root"],
    b"get other/peek": [b"root"],
    b"get jobs/open": [b"writer", b"chief", b"root"],
    b"get jobs": [b"writer", b"chief", b"root"],
    b"get jobs+child/peek": [b"root"],
    b"get jobs/peek other/peek": [b"root"],
    b"stats jobs": [b"reader", b"writer", b"chief", b"root"],
    b"stats": [b"root"],
    b"dump_config": [b"root"],
    b"delete jobs/token=5": [b"writer", b"chief", b"root"],
    b"touch jobs/token=5 9": [b"writer", b"chief", b"root"],
    b"flush jobs": [b"chief", b"root"],
    b"pause jobs": [b"chief", b"root"],
    b"delete jobs": [b"chief", b"root"],
    b"set jobs/declare 0 0 16\r\nmax_attempts = 3": [b"chief", b"root"],
    b"set later/confirm=jobs:5 0 0 1\r\nx": [b"writer", b"root"],
    b"mg jobs v": [b"writer", b"chief", b"root"],
    b"flush_all": [b"root"],
    b"redrive jobs all": [b"root"],
    b"status up": [b"root"],
    b"reload": [b"root"],
}


@pytest.mark.parametrize("line", ALLOWED)
def test_a_command_needs_its_role_in_its_queues(daemon: DaemonProcess, line: bytes) -> None:
    for user in (b"reader", b"writer", b"chief", b"root"):
        client = Client(daemon)
        assert client.log_in(user) == b"STORED"
        said = client.ask(line)
        assert said.startswith(b"CLIENT_ERROR forbidden") == (user not in ALLOWED[line]), (
            user, said
        )


def test_a_user_that_a_reload_takes_away_is_refused(daemon: DaemonProcess) -> None:
    writer, root = Client(daemon), Client(daemon)
    assert writer.log_in(b"writer") == b"STORED"
    assert root.log_in(b"root") == b"STORED"
    daemon.config_file.write_text(USERS.replace("[auth.writer]", "[auth.other]"))
    assert root.ask(b"reload").startswith(b"Reloaded")
    assert writer.ask(b"set jobs 0 0 1\r\nx") == b"CLIENT_ERROR unauthenticated"
    assert writer.ask(b"get jobs") == b"CLIENT_ERROR unauthenticated"
    assert writer.log_in(b"writer") == b"CLIENT_ERROR authentication failure"
    assert root.ask(b"get jobs") == b"END"


def test_an_item_of_a_user_whom_a_reload_has_changed_is_no_login(daemon: DaemonProcess) -> None:
    writer, root = Client(daemon), Client(daemon)
    assert writer.log_in(b"writer") == b"STORED"
    assert root.log_in(b"root") == b"STORED"
    daemon.config_file.write_text(USERS.replace('["jobs", "later"]', '["jobs"]'))
    assert root.ask(b"reload").startswith(b"Reloaded")
    body = b"x" * 100_000
    large = b"set jobs 0 0 %d\r\n%b" % (len(body), body)
    assert writer.ask(large) == b"CLIENT_ERROR unauthenticated"
    assert not any("a login by" in line for line in daemon.lines)
    assert writer.ask(large).startswith(b"SERVER_ERROR item too large")  # it has to log in first
    assert writer.log_in(b"writer") == b"STORED"
    assert writer.ask(large) == b"STORED"


def test_a_client_that_hangs_up_during_its_login_leaves_nothing(daemon: DaemonProcess) -> None:
    for _ in range(20):
        sock = daemon.socket()
        sock.sendall(b"set any 0 0 4\r\na bc\r\n")
        sock.close()
    client = Client(daemon)
    assert client.log_in(b"root") == b"STORED"
    assert client.ask(b"get jobs") == b"END"


def test_the_unix_socket_needs_no_login(tmp_path: Path) -> None:
    path = tmp_path / "s"
    config = f'[server]\nsocket = "{path}"\n{USERS}'
    with DaemonProcess(tmp_path / "data", config=config):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        sock.sendall(b"set jobs 0 0 1\r\nx\r\n")
        assert sock.recv(100) == b"STORED\r\n"
