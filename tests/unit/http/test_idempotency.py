"""`Idempotency-Key`: stored once in its stream or queue, answered like the first, or 422.

Promise: same-body.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.http_client import web

KEY = {"Idempotency-Key": "cmd-1"}
ONE, OTHER, ITEMS = "/streams/account-1", "/streams/account-2", "/queues/jobs/items"


def shown(said: httpx.Response) -> tuple[int, str | None]:
    return said.status_code, said.headers.get("etag")


async def test_one_id_for_two_streams_is_two_events(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        post, get = server.client.post, server.client.get
        assert shown(await post(ONE, content=b"debit", headers=KEY)) == (201, '"1"')
        assert shown(await post(f"{OTHER}?id=cmd-1", content=b"credit")) == (201, '"1"')

        events = (await get("/categories/account")).json()["events"]
    assert [each["body"] for each in events] == ["debit", "credit"]
    assert [each["idempotency_key"] for each in events] == ["cmd-1", "cmd-1"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_repetition_has_the_version_of_the_first(tmp_path: Path, restarts: bool) -> None:
    async with web(tmp_path) as server:
        for body, headers in ((b"a", {}), (b"b", KEY), (b"c", {})):
            await server.client.post(ONE, content=body, headers=headers)
        if not restarts:
            said = await server.client.post(ONE, content=b"b", headers=KEY)
    if restarts:
        async with web(tmp_path) as server:
            said = await server.client.post(ONE, content=b"b", headers=KEY)

    assert shown(said) == (200, '"2"')
    assert said.json() == {"duplicate": True, "id": 2, "version": 2}


async def test_a_repetition_of_an_event_that_only_the_disk_has(tmp_path: Path) -> None:
    async with web(tmp_path, "[queue_defaults]\nmax_memory = 1\n") as server:
        await server.client.post(ONE, content=b"b", headers=KEY)
        for number in range(30):
            await server.client.post(ONE, content=b"%d" % number)
        said = await server.client.post(ONE, content=b"b", headers=KEY)

    assert shown(said) == (200, '"1"')


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("path", "again"),
    [(ONE, ONE), (ITEMS, ITEMS), (f"{ITEMS}?key=A", f"{ITEMS}?key=A")],
)
async def test_the_same_id_with_another_body_is_422(
    tmp_path: Path, path: str, again: str, restarts: bool
) -> None:
    async with web(tmp_path) as server:
        assert (await server.client.post(path, content=b"a", headers=KEY)).status_code == 201
        if not restarts:
            said = await server.client.post(again, content=b"b", headers=KEY)
    if restarts:
        async with web(tmp_path) as server:
            said = await server.client.post(again, content=b"b", headers=KEY)

    assert said.status_code == 422
    assert said.json()["description"].startswith("id cmd-1 was stored in ")


@pytest.mark.parametrize(
    ("first", "second"), [("?key=A", "?key=B"), ("?key=A", ""), ("", "?key=A")]
)
async def test_the_same_id_with_another_key_of_a_queue_is_422(
    tmp_path: Path, first: str, second: str
) -> None:
    async with web(tmp_path) as server:
        post = server.client.post
        assert (await post(ITEMS + first, content=b"a", headers=KEY)).status_code == 201
        assert (await post(ITEMS + second, content=b"a", headers=KEY)).status_code == 422
        said = await post(ITEMS + first, content=b"a", headers=KEY)
    assert said.json()["id"] == 1


async def test_the_id_is_looked_at_before_the_version(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        post, first = server.client.post, {**KEY, "If-None-Match": "*"}
        assert shown(await post(ONE, content=b"a", headers=first)) == (201, '"1"')
        assert shown(await post(ONE, content=b"a", headers=first)) == (200, '"1"')
        assert (await post(ONE, content=b"b", headers=first)).status_code == 422
