"""Actions on queues: done on disk, each with its line in the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.http_client import web


async def test_each_action_leaves_one_line_with_peer_action_and_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kestrelpy.admin")
    async with web(tmp_path) as server:
        for _ in range(3):
            await server.client.post("/queues/jobs/items", content=b"x")
        queue = "/admin/queues/jobs"
        assert (await server.client.post(f"{queue}/pause")).json() == {"count": 1}
        assert (await server.client.post("/queues/jobs/leases")).json() == {"leases": []}
        assert (await server.client.post(f"{queue}/resume")).json() == {"count": 1}
        assert (await server.client.post(f"{queue}/flush")).json() == {"count": 3}
        assert (await server.client.delete(queue)).json() == {"count": 0}
        assert (await server.client.delete(queue)).status_code == 404
    lines = [each.getMessage() for each in caplog.records if each.name == "kestrelpy.admin"]
    assert [line.split(": ", 1)[1] for line in lines] == [
        "pause jobs: 1", "resume jobs: 1", "flush jobs: 3", "delete jobs: 0",
    ]  # fmt: skip
    assert all(line.startswith("http 127.0.0.1:") for line in lines)


async def test_no_action_is_done_by_a_get(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        for action in ("pause", "flush", "redrive", "purge", "move"):
            assert (await server.client.get(f"/admin/queues/jobs/{action}")).status_code == 405
        for action in ("reload", "drain"):
            assert (await server.client.get(f"/admin/{action}")).status_code == 405
        assert (await server.client.get("/admin/queues/jobs")).json()["facts"]["items"] == 1
