"""Every route that takes JSON refuses what is none, or can be read in two ways, in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.http.app import openapi
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
    for path, methods in openapi()["paths"].items()
    for method, said in methods.items() if "requestBody" in said
]  # fmt: skip
# The first member of a valid body of each, and the rest of that body.
GOOD: dict[tuple[str, str], tuple[bytes, bytes]] = {
    ("POST", "/v2/queues/{queue}/messages"): (b'"messages": [{"body": 1}]', b""),
    ("POST", "/v2/queues/{queue}/claims"): (b'"ttl": 60', b', "grace": 60'),
    ("PATCH", "/v2/queues/{queue}/claims/{claim}"): (b'"ttl": 60', b""),
    ("PUT", "/v2/queues/{queue}"): (b'"a": 1', b""),
    ("PATCH", "/v2/queues/{queue}"): (b'"op": "add"', b', "path": "/metadata/b", "value": 1'),
    ("POST", "/v2/queues/{queue}/purge"): (b'"resource_types": []', b""),
    ("POST", "/admin/queues/{queue}/redrive"): (b'"all": true', b', "dry_run": true'),
    ("POST", "/admin/queues/{queue}/purge"): (b'"ids": [1]', b', "dry_run": true'),
    ("POST", "/admin/queues/{queue}/move"): (b'"count": 1', b', "target": "new", "dry_run": true'),
    ("POST", "/admin/queues/{queue}/flush"): (b'"dry_run": true', b""),
    ("POST", "/admin/queues/{queue}/acknowledge"): (b'"dry_run": true', b""),
    ("POST", "/admin/drain"): (b'"dry_run": true', b""),
    ("POST", "/admin/reload"): (b'"dry_run": true', b""),
    ("PATCH", "/admin/mode"): (b'"mode": "up"', b""),
}
# Bodies that are stored unchanged: an item, an event.
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


async def test_a_member_that_is_there_twice_is_refused_where_the_rest_is_allowed(
    tmp_path: Path,
) -> None:
    assert {(method, path) for method, path, _ in JSON} == GOOD.keys()
    async with web(tmp_path, "[server]\nallow_shutdown = true\n") as server:
        headers = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
        await server.client.post("/queues/jobs/items", content=b"x")
        for method, path, kind in JSON:
            first, rest = GOOD[method, path]
            path = path.replace("{queue}", "jobs").replace("{claim}", "1048577-1")
            whole = b"[{%b}]" if "json-patch" in kind else b"{%b}"
            for said, statuses in ((first, (200, 201, 204)), (first + b", " + first, (400,))):
                done = await server.client.request(
                    method, path, content=whole % (said + rest),
                    headers={**headers, "Content-Type": kind},
                )  # fmt: skip
                if "/claims/" in path and statuses != (400,):
                    statuses = (404,)  # there is no such claim
                assert done.status_code in statuses, (method, path, done.text)


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
