"""Every route that takes JSON refuses what is none, or can be read in two ways, in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.http.app import make_app
from tests.support.http_client import web
from tests.support.zaqar import CLIENT

BAD: dict[str, bytes] = {
    "a member twice": b'{"x": 1, "x": 2}',
    "a member twice, deeper": b'{"x": [{"y": 1, "y": 2}]}',
    "a member twice in a list": b'[{"op": "add", "op": "add", "path": "/metadata/a", "value": 1}]',
    "NaN": b'{"x": NaN}', "Infinity": b'{"x": -Infinity}',
    "an integer beyond int64": b'{"x": 9223372036854775808}',
    "an integer of 5000 digits": b'{"x": ' + b"9" * 5000 + b"}",
    "deep lists": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"x":' * 20_000 + b"1" + b"}" * 20_000,
    "deep and without an end": b"[" * 100_000,
    "no UTF-8": b'{"x": "\xff"}', "UTF-16": '{"x": 1}'.encode("utf-16"),
    "a NUL": b'{"x": "\x00"}', "a NUL after it": b"{}\x00", "half a character": b'{"\\ud800": 1}',
    "half an object": b'{"x": ', "two objects": b"{}{}", "a number": b"7", "a text": b'"x"',
}  # fmt: skip
OPERATIONS = [
    (method.upper(), path, next(iter(said["requestBody"]["content"])))
    for path, methods in make_app().openapi()["paths"].items()
    for method, said in methods.items() if "requestBody" in said
]  # fmt: skip
# What is stored as it is: an item, an event.
OPAQUE = "application/octet-stream"
JSON = [(method, path, kind) for method, path, kind in OPERATIONS if kind != OPAQUE]


@pytest.mark.parametrize("name", BAD)
async def test_bad_json_is_refused_by_every_route(name: str, tmp_path: Path) -> None:
    assert len(JSON) >= 10
    async with web(tmp_path) as server:
        headers = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
        await server.client.post("/queues/jobs/items", content=b"x")
        await server.client.put("/v2/queues/jobs", headers=headers)
        for method, path, kind in JSON:
            path = path.replace("{queue}", "jobs").replace("{claim}", "1-1")
            said = await server.client.request(
                method, path, content=BAD[name], headers={**headers, "Content-Type": kind}
            )
            assert said.status_code == 400, (method, path, said.text)
            assert set(said.json()) == {"title", "description"}, path
            assert len(said.json()["description"]) < 300, path


@pytest.mark.parametrize("name", BAD)
async def test_an_item_is_stored_as_it_is(name: str, tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for method, path, kind in OPERATIONS:
            if kind == OPAQUE:
                path = path.replace("{queue}", "jobs").replace("{name}", "acc-1")
                said = await server.client.request(method, path, content=BAD[name])
                assert said.status_code == 201, path
        raw = {"Accept": OPAQUE}
        got = await server.client.post("/queues/jobs/leases", headers=raw)
        assert got.content == BAD[name]
