"""GET /admin/find: hits with their links, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from tests.support.http_client import web


async def test_what_a_text_names_has_the_path_of_its_page(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items?id=order-7&key=A", content=b"x")
        found = (await server.client.get("/admin/find?text=order-7")).json()
        (hit,) = found["hits"]
        assert hit == {
            "kind": "id", "queue": "jobs", "item": 1, "state": "ready",
            "link": "/admin/queues/jobs/items/1",
        }  # fmt: skip
        assert found["is_whole"] is True
        assert (await server.client.get(hit["link"])).json()["key"] == "A"
        (queue,) = (await server.client.get("/admin/find?text=job")).json()["hits"]
        assert (queue["kind"], queue["link"]) == ("queue", "/admin/queues/jobs")


async def test_a_text_has_between_1_and_256_characters(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for text in ("", "x" * 257):
            refused = await server.client.get("/admin/find", params={"text": text})
            assert refused.status_code == 400
            assert "text" in refused.json()["description"]
