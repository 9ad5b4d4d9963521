"""A machine that is gone is noticed within minutes, and silence alone closes nothing."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from kestrelpy.wire import keepalive
from kestrelpy.wire.keepalive import keep_alive, keep_alive_between_members
from tests.support.running import Running

TIMES = {
    "TCP_KEEPIDLE": keepalive.IDLE_SECONDS, "TCP_KEEPALIVE": keepalive.IDLE_SECONDS,
    "TCP_KEEPINTVL": keepalive.INTERVAL_SECONDS, "TCP_KEEPCNT": keepalive.PROBES,
}  # fmt: skip


def assert_probed(sock: socket.socket) -> None:
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    known = {getattr(socket, name): value for name, value in TIMES.items() if hasattr(socket, name)}
    assert known
    for option, value in known.items():
        assert sock.getsockopt(socket.IPPROTO_TCP, option) == value


def test_a_dead_peer_is_found_before_routers_forget_it_and_within_five_minutes() -> None:
    assert keepalive.IDLE_SECONDS < 240
    assert keepalive.IDLE_SECONDS + keepalive.PROBES * keepalive.INTERVAL_SECONDS <= 300


def test_members_of_a_fleet_find_out_sooner_that_the_network_between_them_is_gone() -> None:
    with socket.socket() as sock:
        keep_alive_between_members(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        probes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert probes == keepalive.MEMBER_PROBES
    assert keepalive.MEMBER_SECONDS <= 10


def test_a_unix_socket_and_a_closed_one_are_left_alone() -> None:
    one, other = socket.socketpair()
    with one, other:
        keep_alive(one)
        assert not one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    closed = socket.socket()
    closed.close()
    keep_alive(closed)


@pytest.mark.parametrize("wire", ["memcache", "text", "http"])
async def test_every_tcp_port_probes_its_clients(tmp_path: Path, wire: str) -> None:
    ready = tmp_path / "d"
    ready.mkdir()
    running = Running(ready, config="[server]\ntext_port = 0\n", http_port="0")
    server = await running.start()
    daemon = server.daemon
    assert daemon is not None
    try:
        assert daemon.config.server.idle_timeout_ms is None
        line = next(line for line in server.lines if f"listening: {wire} " in line)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(line.rpartition(":")[2]))
        is_http = wire == "http"
        writer.write(
            b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" if is_http else b"version\r\n"
        )
        assert await reader.readline()
        if is_http:
            transport = next(iter(daemon._http.connected())).transport
        else:
            found = next(iter(daemon._connections))._transport
            assert found is not None
            transport = found
        assert_probed(transport.get_extra_info("socket"))
        writer.close()
    finally:
        await daemon.stop()
