"""The world changes while a request of HTTP is under way, at each of its events: of items, leases,
streams, the messaging API, the operator's page and its jobs. The answer, and what a start finds,
are those of one sequence (`tests.support.one_sequence`).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from kestrelpy.core.transfer import transfers
from kestrelpy.http.admin import moving
from kestrelpy.http.admin.jobs import Job
from kestrelpy.http.zaqar import messages
from kestrelpy.operations import queue_admin
from tests.support.one_sequence import BREAKS, Asking, Change, boss, put, reload
from tests.support.small_world import SECRET, Pipe, World, user
from tests.support.soak import Soak
from tests.support.zaqar import CLIENT, OTHER, PATCH_TYPE

CONFIG: Final[dict[str, Any]] = {
    "server": {"data_dir": "/data", "http_port": 0, "max_open_reads": 4},
    # All items but the first ones are on disk alone.
    "queue_defaults": {"max_memory": 1, "confirms": "synced"},
    "queues": {"dead": {"max_attempts": 1}},
    "auth": {"boss": user(), "anna": user()},
}  # fmt: skip
LARGE: Final = "L" * 1500  # the next segment has to be waited for
FILL: Final = (
    b"get jobs+kid", put(b"jobs/id=a", b"o1"), put(b"jobs/key=K", b"o2"), put(b"jobs", b"o3"),
    *(put(b"dead", b"d%d" % n) for n in range(3)),
    *(b"get dead/open", b"get dead/abort") * 3,
    put(b"late/delay=1h", b"l1"), put(b"other", b"p1"), b"get acme:jobs+kid",
)  # fmt: skip
Asked = tuple[str, Any]
_QUEUE, _V2, _ADMIN = "/queues/jobs", "/v2/queues/jobs", "/admin/queues"
_LEASES: Final = f"POST {_QUEUE}/leases?count=3"
_CLAIM: Final = f"POST {_V2}/claims?limit=3"
_LISTING: Final = f"GET {_V2}/messages?include_claimed=1"
MESSAGES: Final = {"messages": [{"ttl": 300, "body": f"m{n}"} for n in range(4)]}
# Each request with its body, after the earlier requests of its client. {token}, {claim} and
# {message} are the first ones of the earlier answers.
ASKS: Final[dict[str, tuple[Asked, ...]]] = {
    "an item": ((f"POST {_QUEUE}/items", "o4"),),
    "an item for room": ((f"POST {_QUEUE}/items", LARGE),
                         (f"POST {_QUEUE}/items?expires=1h", LARGE[:-1])),
    "an item with a new id": ((f"POST {_QUEUE}/items?id=b", "o4"),),
    "an id again": ((f"POST {_QUEUE}/items?id=a", "o1"),),
    "an id with another body": ((f"POST {_QUEUE}/items?id=a", "o5"),),
    "an item of a new queue": (("POST /queues/fresh/items", "f1"),),
    "a delayed item": ((f"POST {_QUEUE}/items?delay=1h", "o4"),),
    "leases": ((_LEASES, ""),),
    "leases of a child": (("POST /queues/jobs%2Bkid/leases?count=2", ""),),
    "leases of a new child": (("POST /queues/jobs%2Bson/leases", ""),),
    "leases that wait": (("POST /queues/none/leases?wait=50ms", ""),),
    "renew": ((_LEASES, ""), (f"PATCH {_QUEUE}/leases/{{token}}?lease=1m", "")),
    "defer": ((_LEASES, ""), (f"PATCH {_QUEUE}/leases/{{token}}?delay=1h", "")),
    "confirm": ((_LEASES, ""), (f"DELETE {_QUEUE}/leases/{{token}}", "")),
    "abort": ((_LEASES, ""), (f"DELETE {_QUEUE}/leases/{{token}}?abort", "")),
    "bury": ((_LEASES, ""), (f"DELETE {_QUEUE}/leases/{{token}}?bury=why", "")),
    "an event": (("POST /streams/acc-1", "e4"),),
    "the next event": (('POST /streams/acc-1 If-Match: "3"', "e4"),),
    "an event of another version": (('POST /streams/acc-1 If-Match: "2"', "e4"),),
    "the first event": (("POST /streams/acc-9 If-None-Match: *", "e4"),),
    "an event for room": (("POST /streams/acc-1", LARGE), ("POST /streams/acc-1", LARGE[:-1])),
    "an event again": (("POST /streams/acc-1?id=i", "e4"), ("POST /streams/acc-1?id=i", "e4")),
    "a stream": (("GET /streams/acc-1?limit=3", ""),),
    "the end of a stream": (("GET /streams/acc-1?from_version=last", ""),),
    "a category": (("GET /categories/acc?limit=3", ""),),
    "a member": (("GET /categories/acc?member=0&size=2", ""),),
    "a category that waits": (("GET /categories/none?wait=50ms", ""),),
    "messages": ((f"POST {_V2}/messages", {"messages": [{"body": "m5"}, {"body": "m6"}]}),),
    "messages for room": (
        (f"POST {_V2}/messages", {"messages": [{"body": LARGE}]}),
        (f"POST {_V2}/messages", {"messages": [{"body": "m5"}, {"body": LARGE[:-1]}]}),
    ),
    "messages of a new queue": (("POST /v2/queues/fresh/messages", {"messages": [{"body": 1}]}),),
    "a listing": ((f"GET {_V2}/messages?limit=3", ""),),
    "a listing that waits": (("GET /v2/queues/none/messages?wait=1", ""),),
    "messages by their ids": ((_LISTING, ""), (f"GET {_V2}/messages?ids={{ids}}", "")),
    "a message": ((_LISTING, ""), (f"GET {_V2}/messages/{{message}}", "")),
    "delete a message": ((_LISTING, ""), (f"DELETE {_V2}/messages/{{message}}", "")),
    "delete messages": ((_LISTING, ""), (f"DELETE {_V2}/messages?ids={{ids}}", "")),
    "delete a claimed message": (
        (_CLAIM, ""), (_LISTING, ""), (f"DELETE {_V2}/messages/{{message}}?claim_id={{claim}}", ""),
    ),
    "delete claimed messages": (
        (_CLAIM, ""), (_LISTING, ""),
        (f"DELETE {_V2}/messages?ids={{ids}}&claim_ids={{claim}}", ""),
    ),
    "pop": ((f"DELETE {_V2}/messages?pop=3", ""),),
    "a claim": ((_CLAIM, ""),),
    "a claim that waits": (("POST /v2/queues/none/claims", ""),),
    "show a claim": ((_CLAIM, ""), (f"GET {_V2}/claims/{{claim}}", "")),
    "renew a claim": ((_CLAIM, ""), (f"PATCH {_V2}/claims/{{claim}}", {"ttl": 100, "grace": 90})),
    "release a claim": ((_CLAIM, ""), (f"DELETE {_V2}/claims/{{claim}}", "")),
    "a queue": (("PUT /v2/queues/fresh", {"_max_messages_post_size": 1000}),),
    "metadata": ((f"PUT {_V2}", {"_default_message_ttl": 100}),),
    "a patch": ((f"PATCH {_V2} Content-Type: {PATCH_TYPE}",
                 [{"op": "add", "path": "/metadata/a", "value": 1}]),),
    "purge messages": ((f"POST {_V2}/purge", ""),),
    "delete a queue of messages": ((f"DELETE {_V2}", ""),),
    "figures of messages": ((f"GET {_V2}/stats", ""),),
    "items": ((f"GET {_ADMIN}/jobs/items", ""),),
    "an item of an operator": ((f"GET {_ADMIN}/jobs/items/2", ""),),
    "a body": ((f"GET {_ADMIN}/jobs/items/2/body", ""),),
    "a life": ((f"GET {_ADMIN}/jobs/items/2/life?journal=true", ""),),
    "dead letters": ((f"GET {_ADMIN}/dead/dead", ""),),
    "keys": ((f"GET {_ADMIN}/jobs/keys", ""),),
    "remove an item": ((f"DELETE {_ADMIN}/jobs/items/2", ""),),
    "remove a dead letter": ((f"DELETE {_ADMIN}/dead/items/1", ""),),
    "retry": ((f"POST {_ADMIN}/late/items/1/retry", ""),),
    "pause": ((f"POST {_ADMIN}/jobs/pause", ""),),
    "flush": ((f"POST {_ADMIN}/jobs/flush", ""),),
    "delete": ((f"DELETE {_ADMIN}/jobs", ""),),
    "delete a child": ((f"DELETE {_ADMIN}/jobs%2Bkid", ""),),
    "renew of an operator": ((_LEASES, ""), (f"PATCH {_ADMIN}/jobs/leases/1?lease=1m", "")),
    "end a lease": ((_LEASES, ""), (f"DELETE {_ADMIN}/jobs/leases/1", "")),
    "redrive": ((f"POST {_ADMIN}/dead/redrive", {"all": True}),),
    "redrive as a job": ((f"POST {_ADMIN}/dead/redrive", {"all": True, "rate": 1000}),),
    "redrive to another queue": (
        (f"POST {_ADMIN}/dead/redrive", {"all": True, "target": "other"}),
    ),
    "purge": ((f"POST {_ADMIN}/dead/purge", {"all": True}),),
    "move": ((f"POST {_ADMIN}/jobs/move", {"count": 3, "target": "other"}),),
    "move as a job": ((f"POST {_ADMIN}/jobs/move", {"all": True, "target": "other", "rate": 900}),),
    "move dead letters": (
        (f"POST {_ADMIN}/dead/move", {"all": True, "state": "dead", "target": "fresh"}),
    ),
    "a view": (("GET /views?view=queue&queue=jobs", ""),),
    "metrics of a queue": (("GET /metrics?queue=jobs", ""),),
    "reload": (("POST /admin/reload", ""),),
}  # fmt: skip
IN_STEPS: Final = frozenset((
    "leases", "leases of a child", "leases of a new child", "messages", "messages for room",
    "delete messages", "delete claimed messages", "pop", "a claim", "redrive", "redrive as a job",
    "redrive to another queue", "purge", "move", "move as a job", "move dead letters",
    "messages by their ids", "a life",
))  # fmt: skip
ENDS_WITH: Final = {"redrive": 1, "redrive as a job": 1, "purge": 1, "messages": 1,
                    "redrive to another queue": 3, "move": 3, "move as a job": 3,
                    "move dead letters": 3}  # fmt: skip


def request(name: str, line: str, body: Any) -> bytes:
    """The bytes of a request by this user; behind its path there may be a header."""
    method, path, *header = line.split(" ", 2)
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    basic = b64encode(f"{name}:{SECRET.decode()}".encode()).decode()
    head = [
        f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Basic {basic}",
        f"Client-ID: {CLIENT if name == 'anna' else OTHER}", "X-Project-ID: acme",
        f"Content-Length: {len(data)}", *header,
    ]  # fmt: skip
    if not header and not isinstance(body, str):
        head.append("Content-Type: application/json")
    return "\r\n".join([*head, "", ""]).encode() + data


def is_whole(said: bytes) -> bool:
    """True if an answer has come whole."""
    head, end, body = said.partition(b"\r\n\r\n")
    if not end:
        return False
    if (size := re.search(rb"content-length: (\d+)", head)) is not None:
        return len(body) >= int(size[1])
    return body.endswith(b"0\r\n\r\n") or head.startswith(b"HTTP/1.1 204")


def http_boss(*asked: Asked) -> Change:
    """Another client asks for these, each on a connection of its own."""

    def change(world: World) -> None:
        for line, body in asked:
            world.connect_http().say(request("boss", line, body))

    return change


def both(*changes: Change) -> Change:
    def change(world: World) -> None:
        for each in changes:
            each(world)

    return change


_MESSAGE: Final = {"messages": [{"ttl": 300, "body": "n5"}]}
_NEW: Final = boss(
    put(b"jobs", b"n1"), put(b"none", b"n2"), put(b"other", b"n3"), put(b"acc/key=1", b"n4"),
    put(b"acme:none", b'"n6"'),
)
_DELETED: Final = boss(
    *(b"delete " + name for name in (
        b"jobs", b"dead", b"other", b"none", b"late", b"acc", b"acme:jobs", b"acme:none",
    ))
)  # fmt: skip
_MADE: Final = both(_NEW, boss(put(b"dead", b"n7"), put(b"acme:jobs", b'"n5"')))


def ends_leases(word: bytes, most: int | None = None) -> Change:
    """Return a change that confirms or releases the leases by token, or the first of each queue."""

    def change(world: World) -> None:
        lines = [
            b"get %b/%b/token=%d" % (name, word, lease.token)
            for name, queue in world.daemon.broker.queues.items()
            for lease in [*queue.reader.leases.all()][:most]
            if lease.by_token
        ]
        boss(*lines, put(b"none", b"n2"), put(b"acme:none", b'"n6"'))(world)

    return change


CHANGES: Final[dict[str, Change]] = {
    "made anew": both(_DELETED, _MADE),
    "taken": boss(
        b"delete jobs/item=1", b"delete jobs/item=2", b"delete dead/dead/item=1",
        b"delete jobs+kid/upto=1", b"delete other/item=1", b"delete acc/item=2",
        b"delete acme:jobs/item=1", b"delete acme:jobs/item=2",
    ),
    "given back": ends_leases(b"abort"),
    "confirmed": ends_leases(b"close"),
    "one confirmed": ends_leases(b"close", 1),
    "flushed": boss(
        b"flush jobs", b"flush other", b"flush jobs+kid", b"flush acme:jobs", b"flush acc"
    ),
    "paused": boss(b"pause jobs", b"pause other", b"pause none", b"pause acme:jobs"),
    "readonly": boss(b"status readonly"),
    "quiescent": boss(b"status quiescent"),
    "reloaded": reload(
        {"queue_defaults": {"max_memory": 1, "max_items": 1, "max_attempts": 2, "lease": "1s",
                            "dead_letter_to": "other", "max_leased": 1, "confirms": "written"}},
    ),
    "revoked": reload({"auth": {"boss": user()}}, _NEW),
    "may only read": reload({"auth": {"boss": user(), "anna": user("read")}}, _NEW),
}  # fmt: skip
HALVES: Final = {"made anew": (_DELETED, _MADE)}
# What differs from event to event.
_OF_NOW: Final = re.compile(r"(_ms|bytes)$|^(age|id|token|href|rel|next|created|by|marker|after)$")


def without_now(said: Any) -> Any:
    """Return an answer without the members that differ from event to event."""
    if isinstance(said, dict):
        return {name: without_now(each) for name, each in said.items() if not _OF_NOW.search(name)}
    return [without_now(each) for each in said] if isinstance(said, list) else said


class Http(Asking):
    """The HTTP port."""

    config, fills, asks, changes, halves = CONFIG, FILL, ASKS, CHANGES, HALVES
    untold = frozenset({"redrive as a job", "move as a job"})
    refused = frozenset({"an id with another body", "an event of another version"})
    in_steps, ends_with, steps = IN_STEPS, ENDS_WITH, frozenset({"taken"})

    def __init__(self) -> None:
        self.running = set[Job]()
        self._named: dict[str, str] = {}
        self.amid_body: Callable[[], None] | None = None  # the next request comes in two parts

    def fill(self, world: World) -> None:
        super().fill(world)
        client = world.connect_http()
        for line, body in (
            *((f"POST /streams/acc-{n}", f"e{n}") for n in (1, 2, 1, 1)),
            (f"POST {_V2}/messages", MESSAGES),
        ):
            said = world.ask(client, request("boss", line, body), is_whole)
            assert said.startswith(b"HTTP/1.1 201"), said

    def connect(self, world: World, name: str) -> Pipe:
        self._named = {}
        return world.connect_http()

    def ask(
        self, world: World, client: Pipe, asked: Any, nth: int = 0,
        change: Callable[[], None] = lambda: None,
    ) -> bytes:  # fmt: skip
        line, body = asked
        for name, value in self._named.items():
            line = line.replace(f"{{{name}}}", value)
        assert "{" not in line, (line, self._named)
        data, between = request("anna", line, body), self.amid_body
        if between is not None:
            self.amid_body = None
            client.say(data[:-1])
            world.rest()
            between()
            world.rest()
            data = data[-1:]
        said = world.ask(
            client, data,
            lambda said: is_whole(said) and not self.running, nth, change,
        )  # fmt: skip
        self._name(said)
        head, _, content = said.partition(b"\r\n\r\n")
        status = head[9:12]
        if content.startswith(b"{"):
            content = json.dumps(without_now(json.loads(content)), sort_keys=True).encode()
        if line.startswith(("GET /metrics", "GET /views")):
            content = b""  # figures of the moment
        return status + b" " + content

    def _name(self, said: bytes) -> None:
        for name, found in (
            ("token", re.findall(rb'"token":(\d+)', said)),
            ("claim", re.findall(rb"claims/(\d+-\d+)", said)),
            ("message", re.findall(rb"messages/(\d+-\d+)", said)),
        ):
            if found:
                self._named.setdefault(name, found[0].decode())
        if ids := re.findall(rb"messages/(\d+-\d+)", said):
            self._named["ids"] = ",".join(each.decode() for each in ids[:3])

    def is_refusal(self, said: bytes, change: str) -> bool:
        return change in ("revoked", "may only read") and said.startswith(b"401 ") and (
            b"may do that no more" in said
        )

    def is_mixed(self, said: bytes) -> bool:
        return bool(re.search(rb'"[oem]\d"', said) and re.search(rb'"n\d"', said))

    def end(self, world: World) -> None:
        boss(b"status up", *(
            b"resume " + name for name in (b"jobs", b"other", b"none", b"acme:jobs")
        ))(world)  # fmt: skip


DOOR: Final = Http()
# These have found something.
FOUND: Final = [(name, "made anew") for name in (
    "items", "leases", "a stream", "the end of a stream",
)]  # fmt: skip


@pytest.fixture(autouse=True)
def one_in_a_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make each step of long work as short as possible; a request is over when its job is."""
    for where, limit in (
        (queue_admin, "_REDRIVEN_PER_SLICE"), (moving, "BATCH"), (messages, "_STORED_PER_SLICE"),
        (transfers, "MOVES_MAX"), (transfers, "BEGUN_MAX"),
    ):  # fmt: skip
        monkeypatch.setattr(where, limit, 1)
    begins, run = Job.__init__, Job.run

    def begin(job: Job, *arguments: Any) -> None:
        DOOR.running.add(job)
        begins(job, *arguments)

    async def run_to_its_end(job: Job, steps: Any) -> None:
        await run(job, steps)
        DOOR.running.discard(job)

    monkeypatch.setattr(Job, "__init__", begin)
    monkeypatch.setattr(Job, "run", run_to_its_end)
    yield
    DOOR.running.clear()


@pytest.mark.parametrize(("name", "change"), sorted({*DOOR.few(CHANGES, 1), *FOUND}))
def test_a_change_comes_before_a_request_or_after_it(name: str, change: str) -> None:
    for nth in DOOR.some(name):
        DOOR.look(name, change, nth)


@pytest.mark.parametrize(("name", "how"), DOOR.few(BREAKS, 1)[::2])
def test_an_answer_is_true_whatever_breaks_meanwhile(name: str, how: str) -> None:
    for nth in DOOR.some(name):
        DOOR.look_at_break(name, how, nth)


# Each request has a body: one part comes before the change, the rest after it.
IN_PARTS: Final = ("revoked", "may only read", "readonly", "made anew")
WITH_BODIES: Final = [name for name, asked in ASKS.items() if asked[-1][1]]


def look_amid_a_body(name: str, change: str) -> None:
    """Check that no part of a request is done before its body is whole: the change comes first."""
    with DOOR.filled(name) as (world, client):
        DOOR.amid_body = lambda: CHANGES[change](world)
        said = DOOR.ask(world, client, ASKS[name][-1])
        found = said, DOOR.over(world)
    expected = DOOR.after(name, change)
    if DOOR.is_refusal(said, change):
        assert found[1] == expected[1]
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("name", "change"),
    [(name, IN_PARTS[at % len(IN_PARTS)]) for at, name in enumerate(WITH_BODIES[::3])],
)
def test_a_change_in_the_middle_of_a_body_comes_before_the_request(name: str, change: str) -> None:
    look_amid_a_body(name, change)


@pytest.mark.sweep
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", WITH_BODIES)
def test_each_change_in_the_middle_of_a_body_comes_before_the_request(
    name: str, change: str
) -> None:
    look_amid_a_body(name, change)


@pytest.mark.sweep
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ASKS)
def test_each_change_comes_before_each_request_or_after_it(name: str, change: str) -> None:
    for nth in DOOR.where(name, change):
        DOOR.look(name, change, nth)


@pytest.mark.sweep
@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("name", ASKS)
def test_each_answer_is_true_whatever_breaks_meanwhile(name: str, how: str) -> None:
    for nth in DOOR.some(name):
        DOOR.look_at_break(name, how, nth)


@pytest.mark.soak
def test_the_same_at_each_event(soak: Soak) -> None:
    for number in soak.seeds():
        name = [*ASKS][number % len(ASKS)]
        change = [*CHANGES][number // len(ASKS) % len(CHANGES)]
        for nth in range(1, DOOR.events(name) + 1):
            DOOR.look(name, change, nth)
