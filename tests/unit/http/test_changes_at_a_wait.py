"""The world changes while a request waits: at each of its waits a queue is deleted and made anew, a
lease is ended, its user loses the rights, or the disk fails.

For each change at each wait: the answer is whole and no mistake of the server, the new queue keeps
its items, no item is handed out under rights that were taken back, "stored" is on disk, and nothing
is left of the request.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kestrelpy.http.guard import Guard
from tests.support.at_a_wait import AtAWait
from tests.support.disks import HeldDisk
from tests.support.guarded import PASSWORD, user
from tests.support.http_client import Web, web
from tests.support.zaqar import CLIENT
from tests.unit.http.test_gone import ask

ROUNDS_MAX: Final = 100
# Bodies are read from the disk, which is one more thing to wait for.
CONFIG: Final = "[queue_defaults]\nmax_memory = 1\n"
HEAD: Final = f"Host: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: acme\r\n"
NEW: Final = b"made anew"
OLD: Final = b"of old"
# Each request, its body, and whether it may meet the new queue: it names nothing of the old one.
ASKS: Final[dict[str, tuple[str, bytes, bool]]] = {
    "an item": ("POST /queues/jobs/items", b"x", True),
    "leases": ("POST /queues/jobs/leases?count=3", b"", True),
    "a lease that waits": ("POST /queues/none/leases?wait=20ms", b"", True),
    "an event": ("POST /streams/acc-1", b"x", True),
    "a stream": ("GET /streams/acc-1?limit=3", b"", False),
    "a category": ("GET /categories/acc?limit=3", b"", False),
    "messages": ("POST /v2/queues/jobs/messages", b'{"messages":[{"body":1},{"body":2}]}', True),
    "a listing": ("GET /v2/queues/jobs/messages?echo=true", b"", False),
    "a claim": ("POST /v2/queues/jobs/claims?limit=3", b"", True),
    "a pop": ("DELETE /v2/queues/jobs/messages?pop=2", b"", True),
    "metadata": ("PUT /v2/queues/jobs", b'{"a": 1}', True),
    "items of an operator": ("GET /admin/queues/jobs/items", b"", False),
    "a purge": ("POST /admin/queues/jobs/purge", b'{"all": true}', False),
    "a move": ("POST /admin/queues/jobs/move", b'{"count": 3, "target": "moved"}', False),
    "a flush": ("POST /admin/queues/jobs/flush", b"", False),
    "metrics": ("GET /metrics?queue=jobs", b"", False),
}


def request(line: str, body: bytes, secret: str = "") -> bytes:
    """The bytes of a request that closes its connection."""
    head = f"{line} HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\nConnection: close\r\n"
    if secret:
        head += f"Authorization: Basic {base64.b64encode(secret.encode()).decode()}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def fill(server: Web, body: bytes, auth: Any = None) -> None:
    """Put three items of each kind."""
    for path in ("/queues/jobs/items", "/streams/acc-1"):
        for _ in range(3):
            done = await server.client.post(path, content=body, auth=auth)
            assert done.status_code == 201, done.text
    headers = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
    messages = {"messages": [{"body": body.decode()} for _ in range(3)]}
    url = "/v2/queues/jobs/messages"
    done = await server.client.post(url, json=messages, headers=headers, auth=auth)
    assert done.status_code == 201, done.text


async def delete_all(server: Web, auth: Any = None) -> None:
    """Delete every queue that there is."""
    for name in list(server.daemon.broker.queues):
        path = f"/admin/queues/{name.decode().replace(':', '%3A')}"
        done = await server.client.delete(path, auth=auth)
        assert done.status_code in (200, 204, 404), done.text


class Rounds:
    """Asks the same again and again; each time the change comes at the next wait."""

    def __init__(self, server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = server
        self._patch = monkeypatch
        self._real = Guard.__call__
        self.is_over = False  # True if the last request had no such wait

    async def ask(self, data: bytes, nth: int, change: Callable[[], Awaitable[None]]) -> bytes:
        """Ask, and have the change at the nth wait; return the answer."""
        runs = list[AtAWait]()
        real = self._real

        async def run(guard: Guard, scope: Any, receive: Any, send: Any) -> None:
            if runs:  # a request of the change itself
                await real(guard, scope, receive, send)
                return
            runs.append(AtAWait(real(guard, scope, receive, send), nth, change))
            await runs[0]

        self._patch.setattr(Guard, "__call__", run)
        try:
            said = await ask(self._server, data)
        finally:
            self._patch.setattr(Guard, "__call__", real)
        self.is_over = runs[0].count < nth
        return said


def status(said: bytes) -> int:
    """The status of an answer; 0: the connection was closed instead."""
    if not said:
        return 0
    assert said.startswith(b"HTTP/1.1 "), said
    return int(said[9:12])


def is_whole(said: bytes) -> bool:
    head, _, body = said.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) == int(line.partition(b":")[2])
    return body.endswith(b"0\r\n\r\n") or not body


def mistakes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("name", ASKS)
async def test_a_queue_is_made_anew_at_any_wait_of_a_request(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    line, body, may_meet_new = ASKS[name]
    async with web(tmp_path, CONFIG) as server:
        rounds = Rounds(server, monkeypatch)

        async def make_anew() -> None:
            await delete_all(server)
            await fill(server, NEW)

        for nth in range(1, ROUNDS_MAX):
            await delete_all(server)
            await fill(server, OLD)
            said = await rounds.ask(request(line, body), nth, make_anew)
            if rounds.is_over:
                break
            assert status(said) not in (0, 500), said
            assert is_whole(said), said
            assert not (NEW in said and OLD in said), said
            if not may_meet_new:
                counts = {
                    name: len(queue.reader.live)
                    for name, queue in server.daemon.broker.queues.items()
                    if name != b"moved"
                }
                assert set(counts.values()) <= {3}, (nth, counts, said)
        assert nth > 1
    assert mistakes(caplog) == []


BOSS: Final = ("boss", PASSWORD)
NO_LOGINS: Final = ("metrics",)
# These requests are answered all the same: they hand out items by a record that is there already.
DONE_BEFORE: Final = ("leases", "a claim", "a pop")


@pytest.mark.parametrize("name", [each for each in ASKS if each not in NO_LOGINS])
async def test_a_user_loses_the_rights_at_any_wait_of_a_request(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    line, body, _ = ASKS[name]
    boss, both = user("boss"), user("boss") + user("anna")
    async with web(tmp_path, CONFIG + both) as server:
        rounds = Rounds(server, monkeypatch)
        file = server.server.config_file
        new = dict[bytes, set[int]]()

        async def reload(config: str) -> None:
            file.write_text(CONFIG + config)
            done = await server.client.post("/admin/reload", auth=BOSS)
            assert done.status_code == 200, done.text

        async def revoke() -> None:
            await reload(boss)
            before = live(server)
            await fill(server, NEW, BOSS)
            done = await server.client.post("/queues/none/items", content=NEW, auth=BOSS)
            assert done.status_code == 201, done.text
            new.update({name: ids - before.get(name, set()) for name, ids in live(server).items()})

        for nth in range(1, ROUNDS_MAX):
            new.clear()
            await delete_all(server, BOSS)
            await reload(both)
            await fill(server, OLD, BOSS)
            data = request(line, body, f"anna:{PASSWORD}")
            said = await rounds.ask(data, nth, revoke)
            if rounds.is_over:
                break
            assert status(said) != 500, said
            assert is_whole(said), said
            assert NEW not in said
            assert OLD not in said or name in DONE_BEFORE, (nth, said)
            assert sum(len(ids) for ids in new.values()) == 10
            for queue, ids in new.items():
                assert ids <= live(server)[queue], (nth, said)
                assert not ids & leased(server, queue), (nth, said)
        assert nth > 1
    assert mistakes(caplog) == []


def live(server: Web) -> dict[bytes, set[int]]:
    """The items of each queue."""
    queues = server.daemon.broker.queues.items()
    return {name: set(queue.reader.live) for name, queue in queues if name != b"moved"}


def leased(server: Web, queue: bytes) -> set[int]:
    """Return the leased items of a queue."""
    reader = server.daemon.broker.queues[queue].reader
    return {lease.item.id for lease in reader.leases.all()}


# The items after a restart if the request was done: those of jobs, of acc, and the moved ones.
STORING: Final[dict[str, dict[bytes, int]]] = {
    "an item": {b"jobs": 4},
    "an event": {b"acc": 4},
    "messages": {b"acme:jobs": 5},
    "a move": {b"jobs": 0, b"moved": 3},
    "a flush": {b"jobs": 0},
}


@pytest.mark.parametrize("name", STORING)
async def test_the_disk_fails_at_any_wait_of_a_request(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, body, _ = ASKS[name]
    for nth in range(1, ROUNDS_MAX):
        folder, disk = tmp_path / str(nth), HeldDisk()
        folder.mkdir()

        async def fail(disk: HeldDisk = disk) -> None:
            disk.fails = True

        async with web(folder, CONFIG, disk) as server:
            rounds = Rounds(server, monkeypatch)
            await fill(server, OLD)
            before = counts(server)
            said = await rounds.ask(request(line, body), nth, fail)
            disk.fails = False
        assert status(said) not in (0, 500), said
        assert is_whole(said), said
        async with web(folder, CONFIG) as server:
            after = counts(server)
        done = before | STORING[name]
        assert after == done or (after in (before, before | {b"moved": 0}) and status(said) > 299)
        if rounds.is_over:
            assert after == done
            break
    assert nth > 1


def counts(server: Web) -> dict[bytes, int]:
    queues = server.daemon.broker.queues.items()
    return {name: len(queue.reader.live) for name, queue in queues}
