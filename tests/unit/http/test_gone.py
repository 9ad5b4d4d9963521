"""A client that is gone at any moment leaves nothing: no lease, no wait, no memory, no line."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.guard import Guard
from tests.support.at_a_wait import AtAWait
from tests.support.http_client import Web, web
from tests.support.zaqar import CLIENT

ROUNDS_MAX = 100
# Bodies are read from the disk, which is one more thing to wait for.
CONFIG = "[queue_defaults]\nmax_memory = 1\n"
HEAD = f"Host: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: acme\r\n".encode()


STREAMED = "the figures"
LAST_CHUNK = b"\r\n0\r\n\r\n"
ASKS: dict[str, tuple[str, bytes]] = {
    "an item": ("POST /queues/jobs/items", b"x"),
    "leases": ("POST /queues/jobs/leases?count=3", b""),
    "leases that wait": ("POST /queues/none/leases?wait=20ms", b""),
    "an event": ("POST /streams/acc-2", b"x"),
    "a stream": ("GET /streams/acc-1?limit=3", b""),
    "a category": ("GET /categories/acc?limit=3", b""),
    "a category that waits": ("GET /categories/none?wait=20ms", b""),
    "messages": ("POST /v2/queues/jobs/messages", b'{"messages":[{"body":1},{"body":2}]}'),
    "a listing": ("GET /v2/queues/jobs/messages?echo=true", b""),
    "a listing that waits": ("GET /v2/queues/none/messages?wait=0", b""),
    "a claim": ("POST /v2/queues/jobs/claims?limit=3", b""),
    "a pop": ("DELETE /v2/queues/jobs/messages?pop=2", b""),
    "metadata": ('PUT /v2/queues/new', b'{"a": 1}'),
    "the figures": ("GET /stats.json", b""),
    "metrics": ("GET /metrics?queue=jobs", b""),
    "items of an operator": ("GET /admin/queues/jobs/items", b""),
    "one item of an operator": ("GET /admin/queues/jobs/items/1", b""),
    "a purge": ("POST /admin/queues/jobs/purge", b'{"all": true}'),
    "a move": ("POST /admin/queues/jobs/move", b'{"count": 1, "target": "moved"}'),
    "a flush": ("POST /admin/queues/new/flush", b""),
    "a reload": ("POST /admin/reload", b""),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKS)
async def test_a_client_that_is_gone_at_any_moment_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    line, body = ASKS[name]
    head = b"%b HTTP/1.1\r\n%bContent-Type: application/json\r\nConnection: close\r\n" % (
        line.encode(), HEAD
    )  # fmt: skip
    request = head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    real = Guard.__call__
    async with web(tmp_path, CONFIG) as server:
        await fill(server)
        await clean(server)
        for nth in range(1, ROUNDS_MAX):
            cuts = list[AtAWait]()

            async def cut(
                guard: Guard, scope: Any, receive: Any, send: Any,
                nth: int = nth, cuts: list[AtAWait] = cuts,
            ) -> None:  # fmt: skip
                steps = real(guard, scope, receive, send)
                cuts.append(AtAWait(steps, nth, scope["connection"].transport.abort))
                await cuts[0]

            monkeypatch.setattr(Guard, "__call__", cut)
            said = await ask(server, request)
            monkeypatch.setattr(Guard, "__call__", real)
            if cuts[0].count < nth:
                assert said.startswith(b"HTTP/1.1 20"), said
                break
            assert said == b"" or (name == STREAMED and not said.endswith(LAST_CHUNK)), said
            await clean(server)
        else:
            raise AssertionError("it is never answered")
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


async def fill(server: Web) -> None:
    """Make what is asked for."""
    for path in ("/queues/jobs/items", "/streams/acc-1"):
        for _ in range(5):
            assert (await server.client.post(path, content=b"x")).status_code == 201
    headers = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
    body = {"messages": [{"body": n} for n in range(200)]}
    url = "/v2/queues/jobs/messages"
    assert (await server.client.post(url, json=body, headers=headers)).status_code == 201
    assert (await server.client.put("/v2/queues/new", headers=headers)).status_code == 201
    await server.client.post("/queues/new/items", content=b"x")


async def ask(server: Web, request: bytes) -> bytes:
    """Send the request; return the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def clean(server: Web) -> None:
    """Wait until nothing is left of the request."""
    daemon = server.server.daemon
    assert daemon is not None
    left = ""
    for _ in range(500):
        queues = daemon.broker.queues.values()
        listener = daemon._http._listener
        assert listener is not None
        leases = sum(len(each.reader.leases) for each in queues)
        waiters = sum(each.reader.waiters.count for each in queues)
        left = f"leases {leases}, waiters {waiters}, memory {listener._memory.used}"
        if left == "leases 0, waiters 0, memory 0":
            return
        await asyncio.sleep(0.01)
    raise AssertionError(left)
