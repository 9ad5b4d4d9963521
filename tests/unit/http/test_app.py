"""The routes, put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.http.admin.common import NUMBER_MAX
from kestrelpy.http.admin.models import IDS_MAX
from kestrelpy.http.app import body_bytes_max, openapi
from tests.support.http_client import web


def test_the_interface_describes_each_route() -> None:
    paths = openapi()["paths"]
    assert {"/queues/{queue}/items", "/queues/{queue}/leases"} <= paths.keys()
    for path, methods in paths.items():
        for method, said in methods.items():
            assert said.get("summary"), f"{method} {path}"


def test_the_interface_declares_what_stands_before_the_routes() -> None:
    for path, methods in openapi()["paths"].items():
        for method, said in methods.items():
            statuses = {int(each) for each in said["responses"]}
            assert statuses >= {400, 401, 403, 408, 414, 417, 421, 431, 503}, f"{method} {path}"
            assert (413 in statuses) != path.startswith("/v2"), path


def test_only_items_may_be_large() -> None:
    assert body_bytes_max("/queues/a/items") > body_bytes_max("/queues/a/leases")
    assert body_bytes_max("/streams/a-1") > body_bytes_max("/queues/a/leases")
    assert body_bytes_max("/queues/a/leases") > body_bytes_max("/admin/queues/a/purge")


async def test_ten_thousand_ids_are_room_enough(tmp_path: Path) -> None:
    ids = list(range(NUMBER_MAX - IDS_MAX + 1, NUMBER_MAX + 1))
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        said = await server.client.post("/admin/queues/jobs/purge", json={"ids": ids})
        assert (said.status_code, said.json()["total"]) == (202, IDS_MAX)


@pytest.mark.parametrize("body", ['{%s}', '{"filter": {%s}}'])
async def test_an_object_of_many_members_is_refused_before_each_is_an_error(
    tmp_path: Path, body: str
) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        said = await server.client.post(
            "/admin/queues/jobs/purge", headers={"Content-Type": "application/json"},
            content=body % ",".join(f'"{n}": 0' for n in range(101)),
        )  # fmt: skip
        assert (said.status_code, said.json()["description"]) == (
            400, "an object has 101 members (limit 100)"
        )  # fmt: skip
