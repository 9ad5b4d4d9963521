"""Every route refuses what it does not declare: it is asked for it here, whichever route it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from journal.format.key import text_of
from kestrelpy.http.answers import HttpError
from kestrelpy.http.app import ROUTES
from kestrelpy.http.models import parameter
from kestrelpy.http.routing import OfRequest, Parameter, ReadBy, Route
from tests.support.http_client import Web, filled, web
from tests.support.zaqar import CLIENT

MESSAGING = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
PATCH = "application/openstack-messaging-v2.0-json-patch"
# The members without which a JSON body would be refused for another reason than an unknown member.
NEEDED: dict[str, Any] = {
    "POST /v2/queues/{queue}/messages": {"messages": [{"body": 1}]},
    "POST /admin/queues/{queue}/redrive": {"all": True},
    "POST /admin/queues/{queue}/purge": {"all": True},
    "POST /admin/queues/{queue}/move": {"count": 1, "target": "later"},
    "PATCH /admin/mode": {"mode": "readonly"},
}


class Asked(NamedTuple):
    """A request that must be refused, and a part of the sentence that says why."""

    method: str
    url: str
    why: str
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


def label(declared: Route) -> str:
    return declared.label


ALL = sorted((each for each in ROUTES if each.is_checked), key=label)


def needed(declared: Route) -> str:
    """The query without which the route refuses anything."""
    names = {"GET /admin/find": "text=x", "GET /views": "view=overview",
             "GET /events": "view=overview"}  # fmt: skip
    return names.get(declared.label, "")


def good(known: Parameter) -> str:
    """Return an allowed value."""
    if words := [each for each in known.checked.get("enum", ()) if each]:
        return str(words[0])
    return {"boolean": "true"}.get(known.checked.get("type", ""), "1")


def mistakes(declared: Route) -> Iterator[Asked]:
    """Yield requests that every route must refuse."""
    method, template = declared.label.split(" ", 1)
    path, base = filled(template), needed(declared)
    first = next(iter(declared.query), "")

    def url(more: str) -> str:
        return f"{path}?{'&'.join(filter(None, (base, more)))}"

    if not declared.is_open:
        for name in ("nosuch", "nosuch=1", "=1", "%ff=1", "_t=1"):
            yield Asked(method, url(name), "parameter")
        for name in ((first[:-1], first.upper(), f"{first}%20") if first else ()):
            if name not in declared.query:
                yield Asked(method, url(f"{name}=1"), "is no parameter of")
    for name, known in declared.query.items():
        value, has_it = good(known), base.startswith(f"{name}=")
        if not known.is_list:
            twice = f"{name}={value}" if has_it else f"{name}={value}&{name}={value}"
            yield Asked(method, url(twice), f"{name} is in the URL more than once")
        if not known.may_be_empty and not has_it:
            yield Asked(method, url(f"{name}="), f"{name} has no value")
            yield Asked(method, url(name), f"{name} has no value")
        if not known.is_bytes and not has_it:
            yield Asked(method, url(f"{name}=%ff"), name)
        if known.checked.get("type") == "integer":
            for bad in ("x", "1.0", "+1", "%201", "1_0", "-1", "1e3", "NaN", "%D9%A1", "9" * 20):
                yield Asked(method, url(f"{name}={bad}"), f"{name} is ")
        if known.checked.get("type") == "boolean" or "enum" in known.checked:
            for bad in ("yes", "on", "True", "TRUE", "t", "2", "-1", f"{value}x", value.upper()):
                if bad not in known.checked.get("enum", ()) and not has_it and bad != value:
                    yield Asked(method, url(f"{name}={bad}"), f"{name} is ")
    yield from mistaken_headers(declared, method, url(""))
    yield from mistaken_bodies(declared, method, url(""))


def mistaken_headers(declared: Route, method: str, url: str) -> Iterator[Asked]:
    """Headers of ours that are repeated, empty, or not read."""
    for title in declared.headers.values():
        if title != "Authorization":  # it is read before
            yield Asked(method, url, "", None, ((title, "1"), (title, "1")))
    yield Asked(method, url, "Content-Type is there more than once", None,
                (("Content-Type", "application/json"), ("Content-Type", "text/plain")))  # fmt: skip
    if method in ("GET", "HEAD"):
        return
    for coding in ("gzip", "br, gzip", ""):
        yield Asked(method, url, "bodies are read as they come", None,
                    (("Content-Encoding", coding),))  # fmt: skip
    for name in ("Idempotency-Key", "If-Match", "If-None-Match"):
        for near in (f"X-{name}", f"X_{name}", name.replace("-", "_"), name.replace("-", "_", 1)):
            yield Asked(method, url, near.title(), None, ((near, "1"),))
        if name.lower().encode() not in declared.headers:
            yield Asked(method, url, f"does not read the header {name}", None, ((name, "1"),))
        else:
            yield Asked(method, url, f"the header {name} has no value", None, ((name, ""),))


def mistaken_bodies(declared: Route, method: str, url: str) -> Iterator[Asked]:
    """A body where none is read, an unknown member, another media type."""
    is_json = declared.kinds and "application/octet-stream" not in declared.kinds
    if not declared.kinds:
        for body in ({"dry_run": True}, {}):
            yield Asked(method, url, "takes no body", body)
    elif is_json and not declared.is_messaging:
        body = NEEDED.get(declared.label, {})
        yield Asked(method, url, 'no member "nosuch"', {**body, "nosuch": 1})
        for kind in ("text/plain", "application/x-www-form-urlencoded", "", "application/jso"):
            yield Asked(method, url, "Content-Type", body, (("Content-Type", kind),))
        yield Asked(method, url, "JSON is UTF-8", body,
                    (("Content-Type", "application/json; charset=utf-16"),))  # fmt: skip
    elif is_json:
        if declared.kinds == (PATCH,):
            change = {"op": "add", "path": "/metadata/a", "value": 1, "nosuch": 1}
            yield Asked(method, url, "nosuch", [change], (("Content-Type", PATCH),))
        elif declared.label == "PUT /v2/queues/{queue}":  # metadata have any name but reserved ones
            yield Asked(method, url, "_nosuch", {"_nosuch": 1})
        else:
            body = NEEDED.get(declared.label, {})
            yield Asked(method, url, 'no member "nosuch"', {**body, "nosuch": 1})


async def asked(server: Web, each: Asked) -> httpx.Response:
    headers = [*MESSAGING.items()] if each.url.startswith("/v2") else []
    names = {name.lower() for name, _ in each.headers}
    headers = [pair for pair in headers if pair[0].lower() not in names]
    if each.body is not None and "content-type" not in names:
        headers.append(("Content-Type", "application/json"))
    request = server.client.build_request(each.method, each.url, headers=[*headers, *each.headers],
                                          json=each.body)  # fmt: skip
    return await server.client.send(request)


def state(server: Web) -> Any:
    """Return the state that an accepted request would have changed."""
    broker = server.daemon.broker
    return (
        {name: queue.log.lsn_appended for name, queue in broker.queues.items()},
        server.daemon.mode, server.daemon.is_leaving, len(server.daemon.actions.newest(100)),
    )  # fmt: skip


@pytest.mark.parametrize("declared", ALL, ids=label)
def test_every_route_refuses_what_it_does_not_declare(declared: Route) -> None:
    for each in mistakes(declared):
        if each.why.startswith("no member") or (declared.is_messaging and each.body is not None):
            continue  # the code that reads the body refuses it: see below
        path, _, query = each.url.partition("?")
        matched = declared.pattern.match(path)
        assert matched is not None
        scope = {
            "method": each.method, "path": path, "path_params": matched.groupdict(),
            "query_string": query.encode(), "body": json.dumps(each.body).encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in each.headers],
        }  # fmt: skip
        if each.body is None:
            scope["body"] = b""
        elif not each.headers:
            scope["headers"] = [(b"content-type", b"application/json")]
        with pytest.raises(HttpError) as error:
            declared.check(scope)
        assert error.value.status in (400, 415)
        assert each.why in str(error.value).replace("\\", "")


def one_of_each(declared: Route) -> list[Asked]:
    """The first unknown parameter, the first that is there twice, the first without a value, and
    the first body: the check itself is the same for the others."""
    found: dict[str, Asked] = {}
    for each in mistakes(declared):
        kind = next((kind for kind in ("param", "in the URL more", "no value", "member", "no body")
                     if kind in each.why), None)  # fmt: skip
        if kind is not None or each.body is not None:
            found.setdefault(kind or "body", each)
    return list(found.values())


async def test_no_route_does_anything_of_a_request_with_a_mistake(tmp_path: Path) -> None:
    config = "[server]\nallow_shutdown = true\n"
    async with web(tmp_path, config) as server:
        for path in ("/queues/jobs/items", "/streams/jobs-1"):
            await server.client.post(path, content=b"x")
        await server.client.post("/v2/queues/jobs/messages", headers=MESSAGING,
                                 json={"messages": [{"body": 1}]})  # fmt: skip
        await server.client.post("/queues/jobs/leases?lease=1h")
        before, complaints = state(server), list[str]()
        for declared in ALL:
            for each in one_of_each(declared):
                said = await asked(server, each)
                text = said.text.replace("\\", "") if each.method != "HEAD" else each.why
                if said.status_code not in (400, 415) or each.why not in text:
                    complaints.append(f"{each}: {said.status_code} {said.text[:200]}")
        assert not complaints, "\n".join(complaints[:40])
        assert state(server) == before


def test_the_routes_without_a_check_refuse_whatever_is_asked() -> None:
    others = [each for each in ROUTES if not each.is_checked]
    assert all(each.path.startswith("/v2/") for each in others)
    assert {each.handler.__name__ for each in others} == {"_absent"}


@pytest.mark.parametrize("declared", ALL, ids=label)
def test_a_route_declares_each_parameter_once(declared: Route) -> None:
    assert len(declared.query) == len({each.lower() for each in declared.query})
    for known in declared.query.values():
        assert known.checked.get("type") != "integer" or "maximum" in known.checked


@pytest.mark.parametrize(
    ("query", "id_"),
    [
        (b"id=ab", "ab"),
        (b"id=a+b", "a b"),
        (b"id=a%20b", "a b"),
        (b"i%64=a+b", "a b"),
        (b"id=a%2Bb", "a+b"),
        (b"&id=a=b&", "a=b"),
        (b"id=\xc3\xa4+b", "ä b"),
    ],
)
def test_a_value_is_read_as_a_url_means_it(query: bytes, id_: str) -> None:
    [put] = [each for each in ALL if each.label == "POST /queues/{queue}/items"]
    scope = {
        "method": "POST", "query_string": query, "path_params": {"queue": "jobs"}, "headers": []
    }  # fmt: skip
    assert put.check(scope) == {"id": id_}


async def test_an_id_and_a_key_are_the_same_however_their_url_is_written(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        url = "/queues/jobs/items?id={0}&key={0}"
        said = [await server.client.post(url.format(each), content=b"x") for each in
                ("a+b", "a%20b", "a%2Bb")]  # fmt: skip
        assert [each.status_code for each in said] == [201, 200, 201]
        keys = [item.key for item in server.daemon.broker.queues[b"jobs"].reader.ready]
        assert keys == [text_of(b"a b"), text_of(b"a+b")]


class _Sender(OfRequest):
    """The sender of a request, by a header of its own."""

    parameters = (parameter("Sender", {"type": "string"}, "Who sends it.", "header"),)

    def __init__(self, request: Request) -> None:
        self.name = request.headers["sender"]


def _doubled(request: Request, name: str) -> int:
    return 2 * int(request.scope["said"][name])


async def _send(
    sender: _Sender, count: Annotated[int, ReadBy(_doubled)] = 1
) -> Response:
    return Response(f"{sender.name} {count}".encode())


async def test_a_route_makes_an_argument_of_the_request_and_reads_one_by_its_function() -> None:
    route = Route("GET", "/send", _send)
    assert route.headers == {b"sender": "Sender"}
    for query, answer in ((b"", b"anna 1"), (b"count=4", b"anna 8")):
        scope = {"type": "http", "method": "GET", "path": "/send", "query_string": query,
                 "headers": [(b"sender", b"anna")]}  # fmt: skip
        assert (await route.answered(scope, {})).body == answer
