"""The daemon below a supervisor: it says when it serves, and a restart drops no connection."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from kestrelpy.wire.dial import Access, connect
from tests.support.guarded import PASSWORD, USERS, certificate
from tests.support.launcher import Launcher

SERVE = ("serve", "--data-dir", "data", "--port", "0", "--http-port", "off")


def asked(connection: socket.socket, request: bytes, end: bytes) -> bytes:
    connection.sendall(request)
    answer = b""
    while not answer.endswith(end):
        more = connection.recv(4096)
        assert more, answer
        answer += more
    return answer


def test_a_supervisor_hears_of_start_reload_and_stop(tmp_path: Path) -> None:
    with Launcher(tmp_path) as launcher:
        launcher.start(*SERVE)
        assert launcher.await_note("READY=1") == "READY=1\nSTATUS=ready: 0 queues, 0 items"
        assert launcher.notes[0].startswith("EXTEND_TIMEOUT_USEC=")
        launcher.send(signal.SIGHUP)
        launcher.await_note("RELOADING=1")
        assert launcher.await_note("READY=1") == "READY=1\nSTATUS=configuration reloaded"
        code, _ = launcher.stop()
        launcher.await_note("STOPPING=1")
        assert code == 0


def test_a_supervisor_hears_of_all_slices_as_of_one_daemon(tmp_path: Path) -> None:
    config = tmp_path / "kestrelpy.toml"
    config.write_text("[fleet]\nslices = 2\n")
    listener = socket.create_server(("127.0.0.1", 0))
    with Launcher(tmp_path, [listener]) as launcher:
        launcher.start(*SERVE, "--config", str(config), WATCHDOG_USEC="200000")
        assert launcher.await_note("READY=1") == "READY=1\nSTATUS=ready: 2 slices"
        launcher.await_note("WATCHDOG=1")
        with socket.create_connection(listener.getsockname(), 30) as client:
            assert asked(client, b"set q 0 0 1\r\na\r\n", b"\r\n") == b"STORED\r\n"
        launcher.send(signal.SIGHUP)
        launcher.await_note("RELOADING=1")
        assert launcher.await_note("READY=1") == "READY=1\nSTATUS=configuration reloaded"
        config.write_text("[server]\nprot = 1\n")
        launcher.send(signal.SIGHUP)
        assert "STATUS=configuration not reloaded: " in launcher.await_note("READY=1")
        code, out = launcher.stop()
        launcher.await_note("STOPPING=1")
        assert code == 0
        assert "handed over" in out


def test_a_reload_that_is_refused_is_over_all_the_same(tmp_path: Path) -> None:
    config = tmp_path / "kestrelpy.toml"
    config.write_text("")
    with Launcher(tmp_path) as launcher:
        launcher.start(*SERVE, "--config", str(config))
        launcher.await_note("READY=1")
        config.write_text("[server]\nprot = 1\n")
        launcher.send(signal.SIGHUP)
        launcher.await_note("RELOADING=1")
        assert "STATUS=configuration not reloaded: " in launcher.await_note("READY=1")
        assert launcher.stop()[0] == 0


def test_the_watchdog_hears_the_loop_until_it_hangs(tmp_path: Path) -> None:
    with Launcher(tmp_path) as launcher:
        launcher.start(*SERVE, WATCHDOG_USEC="200000")
        launcher.await_note("READY=1")
        for _ in range(3):
            launcher.await_note("WATCHDOG=1")
        launcher.send(signal.SIGSTOP)
        launcher._socket.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(100):
                launcher.await_note("WATCHDOG=1")
        launcher.send(signal.SIGCONT)
        assert launcher.stop()[0] == 0


def test_a_restart_drops_no_connection_attempt(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(tmp_path / "jobs.socket"))
    local.listen(64)
    with Launcher(tmp_path, [listener, local]) as launcher:
        launcher.start(*SERVE)
        launcher.await_note("READY=1")
        with socket.create_connection(listener.getsockname(), 30) as first:
            assert asked(first, b"set q 0 0 1\r\na\r\n", b"\r\n") == b"STORED\r\n"
        code, out = launcher.stop()
        assert code == 0
        port = listener.getsockname()[1]
        assert f"listening: memcache on 127.0.0.1:{port}, handed over\n" in out
        assert (tmp_path / "jobs.socket").is_socket()

        waiting = [socket.create_connection(listener.getsockname()) for _ in range(20)]
        beside = socket.socket(socket.AF_UNIX)
        beside.connect(str(tmp_path / "jobs.socket"))
        for each in (*waiting, beside):
            each.settimeout(30)
            each.sendall(b"get q/peek\r\n")
        launcher.start(*SERVE)

        for each in (*waiting, beside):
            assert asked(each, b"", b"END\r\n") == b"VALUE q/peek 0 1\r\na\r\nEND\r\n"
            each.close()
        assert launcher.stop()[0] == 0


def test_with_users_and_tls_the_unit_starts_reloads_and_its_unix_socket_is_open(
    tmp_path: Path,
) -> None:
    certificate(tmp_path, "server")
    config = tmp_path / "kestrelpy.toml"
    config.write_text(f'[server]\ntls_cert = "server.pem"\ntls_key = "server.key"\n{USERS}')
    listener = socket.create_server(("127.0.0.1", 0))
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(tmp_path / "jobs.socket"))
    local.listen(64)
    access = Access(user="anna", password=PASSWORD, tls_ca=str(tmp_path / "server.pem"))
    with Launcher(tmp_path, [listener, local]) as launcher:
        launcher.start(*SERVE, "--config", str(config), WATCHDOG_USEC="10000000")
        launcher.await_note("READY=1")
        launcher.await_note("WATCHDOG=1")
        launcher.send(signal.SIGHUP)
        assert "STATUS=configuration reloaded" in launcher.await_note("READY=1")
        with connect(str(tmp_path / "jobs.socket"), access, 30, 30) as beside:
            assert asked(beside, b"set q 0 0 1\r\na\r\n", b"\r\n") == b"STORED\r\n"
        with connect(listener.getsockname()[:2], access, 30, 30) as over_tls:
            assert asked(over_tls, b"get q\r\n", b"END\r\n").startswith(b"VALUE q 0 1")
        assert launcher.stop()[0] == 0


def test_a_descriptor_that_does_not_listen_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    with Launcher(tmp_path, [socket.socket()]) as launcher:
        launcher.start(*SERVE)
        code, out = launcher.ended()

        assert code == 2
        assert out == (
            "kestrelpy: LISTEN_FDS: descriptor 3: not a listening stream socket; a socket unit "
            "has ListenStream= and Accept=no\n"
        )


def test_a_notify_socket_that_is_gone_is_named_and_the_daemon_serves(tmp_path: Path) -> None:
    with Launcher(tmp_path) as launcher:
        launcher.start(*SERVE, NOTIFY_SOCKET=str(tmp_path / "gone"))
        assert launcher.process is not None and launcher.process.stdout is not None
        lines = [launcher.process.stdout.readline().decode() for _ in range(3)]
        code, _ = launcher.stop()

        assert code == 0
        assert sum("NOTIFY_SOCKET" in line for line in lines) == 1
