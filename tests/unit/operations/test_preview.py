"""A preview of a redrive names the items that would go and those that would be refused; the redrive
then does the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kestrelpy.operations.preview import Preview
from tests.support.http_client import web
from tests.support.server_harness import ServerHarness


@pytest.fixture
def server() -> ServerHarness:
    """Dead letters 1 to 4 of `jobs`, of 1 to 4 bytes; item 5 is ready."""
    made = ServerHarness()
    for number in range(1, 6):
        made.say("a", b"set jobs 0 0 %d" % number, b"x" * number)
    for _ in range(4):
        made.say("a", b"get jobs/open")
        made.say("a", b"get jobs/abort/dead=why")
    return made


def seen(server: ServerHarness, target: bytes | None, *ids: int) -> tuple[int, dict[str, int]]:
    preview = Preview(server.queue("jobs"), server.broker, target)
    preview.look(ids)
    return preview.go, dict(preview.refused)


def test_what_is_not_dead_or_is_leased_does_not_go(server: ServerHarness) -> None:
    server.say("a", b"get jobs/dead/open")
    assert seen(server, None, 1, 2, 3, 9) == (2, {"it is leased": 1, "it is no dead letter": 1})


def test_a_target_refuses_what_is_too_large_or_has_no_room(server: ServerHarness) -> None:
    server.set_queue("small", max_item_size="2")
    assert seen(server, b"small", 1, 2, 3) == (
        2, {"it is larger than max_item_size of queue small": 1}
    )  # fmt: skip
    server.set_queue("two", max_items=2)
    server.say("a", b"set two 0 0 1", b"x")
    assert seen(server, b"two", 1, 2, 3) == (1, {"queue two is full": 2})
    server.set_queue("bytes", max_bytes="3")
    assert seen(server, b"bytes", 1, 2, 3) == (2, {"queue bytes is full": 1})
    server.set_queue("two", max_items=2, discard_old_when_full=True)
    assert seen(server, b"two", 1, 2, 3) == (3, {})


def test_ready_items_are_counted_against_the_room(server: ServerHarness) -> None:
    server.set_queue("two", max_items=2)
    preview = Preview(server.queue("jobs"), server.broker, b"two")
    preview.look_at_ready(5)
    assert (preview.go, dict(preview.refused)) == (2, {"queue two is full": 3})


async def test_a_preview_says_what_the_redrive_then_does(tmp_path: Path) -> None:
    config = "[queues.two]\nmax_items = 2\n"
    async with web(tmp_path, config) as server:
        for _ in range(3):
            await server.client.post("/queues/jobs/items", content=b"1")
            (lease,) = (await server.client.post("/queues/jobs/leases")).json()["leases"]
            await server.client.delete(f"/queues/jobs/leases/{lease['token']}?bury=bad")
        path, body = "/admin/queues/jobs/redrive", {"all": True, "target": "two"}
        said = await server.client.post(path, json={**body, "dry_run": True})
        before: dict[str, Any] = said.json()
        assert (before["done"], before["refused"]) == (
            2, [{"why": "queue two is full", "count": 1}]
        )  # fmt: skip
        after = (await server.client.post(path, json=body)).json()
        assert (after["done"], after["refused"]) == (2, [])
