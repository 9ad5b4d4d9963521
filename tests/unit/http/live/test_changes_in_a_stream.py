"""The world changes while a stream of events begins and goes on, at any event of the loop: the sent
events together make the view as it is now, and a client without the right is sent no more of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kestrelpy.http.live.watching import Live
from tests.support.one_sequence import is_over, put
from tests.support.small_world import Pipe, World
from tests.unit.http.test_changes_at_an_event import CHANGES, CONFIG, FILL, request

WATCH: Final = "GET /events?view=queue&queue=jobs"
LOOK: Final = "GET /views?view=queue&queue=jobs"
TICKS_US: Final = 2_500_000
# The fields of a view that do not change while nothing happens.
LASTING: Final = ("items", "leased", "dead", "delayed", "level", "paused", "name", "children")


@pytest.fixture(autouse=True)
def live_views(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Live]]:
    """The live views of the servers that began."""
    found, begin = list[Live](), Live.open

    def opened(live: Live) -> None:
        found.append(live)
        begin(live)

    monkeypatch.setattr(Live, "open", opened)
    yield found


def parts(said: bytes) -> bytes:
    """Return the whole chunks of the body of an answer, joined."""
    _, _, rest = said.partition(b"\r\n\r\n")
    body = b""
    while (found := re.match(rb"([0-9a-f]+)\r\n", rest)) is not None:
        size, begin = int(found[1], 16), found.end()
        body, rest = body + rest[begin : begin + size], rest[begin + size + 2 :]
    return body


def put_together(body: bytes) -> dict[str, Any]:
    """The view that the events of a stream make, one after the other."""
    view: dict[str, Any] = {}
    for kind, data in re.findall(rb"event: (\w+)\ndata: (.*)\n", body):
        said = json.loads(data)
        if kind != b"end":
            view = merged({} if kind == b"whole" else view, said)
    return view


def merged(view: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the object with a JSON merge patch applied."""
    view = dict(view)
    for name, value in patch.items():
        there = view.get(name)
        if value is None:
            view.pop(name, None)
        elif isinstance(value, dict) and isinstance(there, dict):
            view[name] = merged(there, value)
        else:
            view[name] = value
    return view


def lasting(view: dict[str, Any]) -> dict[str, Any]:
    """Return the lasting fields of the queue in a view."""
    queue = view.get("queue") or {}
    return {"error": view.get("error"), **{name: queue.get(name) for name in LASTING}}


def streams(world: World) -> tuple[Pipe, bytes]:
    """A client that is about to watch, and its request."""
    client = world.connect("boss")
    asked = b"".join(line + b"\r\n" for line in (*FILL, b"mn"))
    assert b"ERROR" not in world.ask(client, asked, is_over)
    return world.connect_http(), request("anna", WATCH, "")


def ticks(world: World) -> None:
    world.run(lambda: False, TICKS_US)


@pytest.mark.parametrize("nth", [9, 20])
@pytest.mark.parametrize("change", CHANGES)
def test_a_stream_shows_what_is_there_to_those_who_may_see_it(
    change: str, nth: int, live_views: list[Live]
) -> None:
    with World(CONFIG) as world:
        watcher, asked = streams(world)
        end = world.timeline.us + TICKS_US

        def is_late(said: bytes) -> bool:
            return world.timeline.us >= end

        world.ask(watcher, asked, is_late, nth, lambda: CHANGES[change](world))
        assert world.events >= nth, world.events
        ticks(world)
        told = bytes(watcher.sent)
        boss = world.connect_http()
        look = world.ask(boss, request("boss", LOOK, ""), lambda said: b"\r\n\r\n{" in said)
        there = lasting(json.loads(look.partition(b"\r\n\r\n")[2]))
        view = put_together(parts(told))
        has_ended = watcher.is_over or told.startswith(b"HTTP/1.1 401")
        if change == "revoked" or (change == "may only read" and has_ended):
            assert has_ended, told[:300]
            assert view.get("queue", {}).get("items", 3) == 3, "what came later is not shown"
            assert live_views[0]._streams == 0
        else:
            assert told.startswith(b"HTTP/1.1 200"), told[:300]
            assert lasting(view) == there
        world.hang_up()
        world.rest()
        assert (live_views[0]._streams, live_views[0]._watched) == (0, {})
        assert world.mistakes == []


def test_a_stream_ends_when_the_user_is_revoked_and_says_nothing_new() -> None:
    with World(CONFIG) as world:
        watcher, asked = streams(world)
        watcher.send(asked)
        ticks(world)
        before = len(watcher.sent)
        assert put_together(parts(bytes(watcher.sent)))["queue"]["items"] == 3
        CHANGES["revoked"](world)
        world.connect("boss").say(put(b"jobs", b"n9") + b"\r\n")
        ticks(world)
        assert watcher.is_over
        assert b'"items":' not in watcher.sent[before:]
