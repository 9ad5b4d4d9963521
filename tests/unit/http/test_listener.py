"""The limits of a request before a route sees it: size, time, connections."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from kestrelpy.http import listener
from tests.support.http_client import web

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (HEAD + b"a: " + b"x" * 33000 + b"\r\n\r\n", 431),
        (HEAD + b"".join(b"a%d: b\r\n" % n for n in range(9000)) + b"\r\n", 431),
        (HEAD + b"a: " + b"x" * 200_000, 431),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"POST /queues/a/items HTTP/1.1\r\nHost: localhost\r\n"
         b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ],
)  # fmt: skip
async def test_too_much_or_nonsense_is_refused_and_the_connection_ends(
    tmp_path: Path, data: bytes, status: int
) -> None:
    async with web(tmp_path) as server:
        said = await server.raw(data)
        assert said.startswith(b"HTTP/1.1 %d " % status), said[:200]
        assert b'"description"' in said
        assert (await server.client.get("/")).status_code == 200


@pytest.mark.parametrize(
    "trailer",
    ["Idempotency-Key: a", "Authorization: Basic eDp5", "Host: other", "X-Project-ID: acme", "a: b",
     "If-None-Match: *", "Content-Type: text/plain"],
)  # fmt: skip
@pytest.mark.parametrize("is_at_once", [True, False])
async def test_fields_after_a_body_are_no_headers(
    tmp_path: Path, trailer: str, is_at_once: bool
) -> None:
    head = b"POST /queues/a/items HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"1\r\nx\r\n0\r\n%b\r\n\r\n" % trailer.encode()
    async with web(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for part in (head + body,) if is_at_once else (head, body):
            writer.write(part)
            await asyncio.sleep(0)
        said = await reader.read()
        writer.close()
        assert said.startswith(b"HTTP/1.1 400 "), said[:200]
        assert b"(a trailer) are not read" in said
        assert not server.daemon.broker.queues


async def test_a_head_or_a_body_that_does_not_come_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PATIENCE_SECONDS", 0.2)
    async with web(tmp_path) as server:
        assert (await server.raw(HEAD)).startswith(b"HTTP/1.1 408 ")
        begun = b"POST /queues/a/items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"
        assert (await server.raw(begun)).startswith(b"HTTP/1.1 408 ")
        assert (await server.client.get("/")).status_code == 200


async def test_requests_in_one_packet_are_answered_in_sequence(tmp_path: Path) -> None:
    post = b"POST /queues/jobs/items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
    async with web(tmp_path) as server:
        last = b"Connection: close\r\n"
        said = await server.raw(b"".join(
            b"%b%b\r\n%d" % (post, last if n == 5 else b"", n) for n in range(6)
        ))  # fmt: skip
        bodies = [part[:8] for part in said.split(b"\r\n\r\n")[1:]]
        assert bodies == [b'{"id":%d}' % n for n in range(1, 7)]


async def test_a_server_that_stops_ends_waits_and_answers_them(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        waits = asyncio.ensure_future(server.client.post("/queues/jobs/leases?wait=60s"))
        await asyncio.sleep(0.2)
        assert server.server.daemon is not None
        await server.server.daemon.stop()
        said = await waits
        assert said.status_code == 503
        assert said.json()["description"] == "the server stops: ask again later"


async def test_a_client_that_reads_nothing_of_its_answer_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "STALL_SECONDS", 0.2)
    async with web(tmp_path) as server:
        for _ in range(4):
            await server.client.post("/streams/long-1", content=b"x" * (1 << 20))
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        ask = b"GET /categories/long HTTP/1.1\r\nHost: localhost\r\n\r\n"
        sock.sendall(ask * 4)
        daemon = server.server.daemon
        assert daemon is not None
        for count in (2, 1):  # it comes, and only the other client stays
            for _ in range(500):
                if daemon._http.connections == count:
                    break
                await asyncio.sleep(0.01)
            else:
                raise AssertionError(f"never {count} connections")
        sock.close()
