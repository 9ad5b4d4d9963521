"""The world changes while a request of the memcache port is under way, at each of its events: the
answer, and what a start finds, are those of one sequence (`tests.support.one_sequence`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from kestrelpy.core.queue import ack_up_to
from kestrelpy.core.transfer import transfers
from kestrelpy.operations import queue_admin
from kestrelpy.protocol.verbs import get
from tests.support.one_sequence import BREAKS, Asking, Change, boss, is_over, put, reload
from tests.support.small_world import SECRET, Pipe, World, user
from tests.support.soak import Soak

CONFIG: Final[dict[str, Any]] = {
    "server": {
        "data_dir": "/data", "http_port": 0, "allow_flush_all": True, "max_open_reads": 4,
    },
    # All items but the first ones are on disk alone.
    "queue_defaults": {"max_memory": 1, "confirms": "synced"},
    "queues": {"dead": {"max_attempts": 1}},
    "aliases": {"both": {"to": ["jobs", "other"]}},
    "auth": {"boss": user(), "anna": user()},
}  # fmt: skip
LARGE: Final = b"L" * 1500  # the next segment has to be waited for
WAIT: Final = b"t=50"
LOGIN: Final = put(b"login", b"anna " + SECRET)
FILL: Final = (
    b"get jobs+kid", put(b"jobs/id=a", b"o1"), put(b"jobs/key=K", b"o2"), put(b"jobs", b"o3"),
    *(put(b"dead", b"d%d" % n) for n in range(3)),
    *(b"get dead/open", b"get dead/abort") * 3,
    put(b"old", b"x1", expiry=1), put(b"old", b"x2", expiry=1), put(b"old", b"x3"),
    put(b"late/delay=1h", b"l1"), put(b"other", b"p1"),
)  # fmt: skip
# Each request, after the earlier requests of its client.
ASKS: Final[dict[str, tuple[bytes, ...]]] = {
    "set": (put(b"jobs", b"o4"),),
    "set for room": (put(b"jobs", LARGE), put(b"jobs", LARGE[:-1])),
    "set with noreply": (put(b"jobs", b"o4", more=b" noreply"),),
    "add with a new id": (put(b"jobs/id=b", b"o4", b"add"),),
    "set with an id again": (put(b"jobs/id=a", b"o1"),),
    "set of a new queue": (put(b"fresh", b"f1"),),
    "set of an alias": (put(b"both", b"b1"),),
    "set of an alias for room": (put(b"both", LARGE), put(b"both", LARGE[:-1])),
    "cas": (put(b"jobs/key=K", b"o4", b"cas", more=b" 1"),),
    "get": (b"get jobs",),
    "get from disk": (b"get jobs/open", b"get jobs/close/open"),
    "open by token": (b"get jobs/open", b"gets jobs/open/lease=1m"),
    "get of many": (b"get jobs/peek other/open old/peek dead/peek/dead jobs/peek",),
    "peek": (b"get jobs/peek",),
    "peek after": (b"get jobs/peek/after=0/n=5",),
    "peek full": (b"gets jobs/peek/after=0/n=5/full",),
    "peek after, waiting": (put(b"other", b"p2"), b"get other/peek/after=1/n=1/" + WAIT),
    "observe behind the end": (b"get jobs/peek/after=3/" + WAIT,),
    "get of a child": (b"get jobs+kid/open", b"get jobs+kid/close/open"),
    "get that waits": (b"get none/" + WAIT,),
    "open that waits": (b"get none/open/" + WAIT,),
    "observe that waits": (b"get none/peek/after=0/" + WAIT,),
    "open by token that waits": (b"gets none/open/lease=1m/" + WAIT,),
    "monitor": (b"monitor jobs 1 3",),
    "confirm": (b"monitor jobs 1 3", b"confirm jobs 2"),
    "hand-off": (b"get jobs/open", put(b"other/confirm", b"h1")),
    "hand-off to a new queue": (b"get jobs/open", put(b"fresh/confirm", b"h1")),
    "hand-off again": (b"get other/open", put(b"jobs/id=a/confirm", b"o1")),
    "hand-off again, before it is stored": (
        b"get other/open", put(b"jobs", b"o9") + b"\r\n" + put(b"jobs/id=a/confirm", b"o1"),
    ),
    "hand-off for room": (
        put(b"other", LARGE), b"get jobs/open", put(b"other/confirm", LARGE[:-1]),
    ),
    "abort": (b"get jobs/open", b"get jobs/abort"),
    "delete an item": (b"delete jobs/item=2",),
    "delete an id": (b"delete jobs/id=a",),
    "delete a dead letter": (b"delete dead/dead/item=1",),
    "delete": (b"delete jobs",),
    "delete a child": (b"delete jobs+kid",),
    "flush": (b"flush jobs",),
    "flush_all": (b"flush_all",),
    "flush_expired": (b"flush_expired old",),
    "upto": (b"delete jobs+kid/upto=3",),
    "a new child": (b"get other+son",),
    "a child from the first": (b"get jobs+son/from=0/peek",),
    "redrive": (b"redrive dead all",),
    "redrive to another queue": (b"redrive dead all other",),
    "move": (b"move jobs other 3",),
    "move to a new queue": (b"move jobs fresh 3",),
    "retry": (b"retry late 1",),
    "a look at an item": (b"stats jobs/item=2",),
    "reload": (b"reload",),
    "wrong login": (put(b"login", b"anna " + SECRET[:-1]),),
    "login": (LOGIN + b"\r\n" + put(b"jobs", b"o4"),),
    "login again": (LOGIN, LOGIN + b"\r\n" + put(b"jobs", b"o4")),
}  # fmt: skip
# These act item by item, or queue by queue, or do one thing and then another.
IN_STEPS: Final = (
    "get from disk", "a child from the first",
    "set of an alias", "set of an alias for room", "get of many", "monitor", "flush_all",
    "flush_expired", "upto", "hand-off again, before it is stored",
    "redrive", "redrive to another queue", "move", "move to a new queue",
)  # fmt: skip
# Requests that act in steps, one item or queue in each, with the records of a step under way.
ENDS_WITH: Final = {
    "flush_all": 0, "flush_expired": 0, "redrive": 0, "redrive to another queue": 3, "move": 3,
    "move to a new queue": 3,
}  # fmt: skip
# A client that is no user yet.
STRANGE: Final = ("login", "wrong login")


_NEW: Final = (
    put(b"jobs", b"n1"), put(b"none", b"n2"),
    *(put(b"other", body) for body in (b"n3", b"n8", b"n9")),
)  # fmt: skip
_DELETED: Final = boss(
    *(b"delete " + name for name in (b"jobs", b"dead", b"other", b"none", b"old", b"late"))
)
_MADE: Final = boss(*_NEW, put(b"dead", b"n4"))


def made_anew(world: World) -> None:
    _DELETED(world)
    _MADE(world)


CHANGES: Final[dict[str, Change]] = {
    "made anew": made_anew,
    "taken": boss(
        b"delete jobs/item=1", b"delete jobs/item=2", b"delete dead/dead/item=1",
        b"delete old/item=3", b"delete jobs+kid/upto=1", b"delete other/item=1",
    ),
    "no child": boss(b"delete jobs+kid", b"get jobs+kid", *_NEW),
    "flushed": boss(b"flush jobs", b"flush other", b"flush jobs+kid", _NEW[1]),
    "paused": boss(b"pause jobs", b"pause other", b"pause none", _NEW[1]),
    "readonly": boss(b"status readonly"),
    "quiescent": boss(b"status quiescent"),
    "reloaded": reload(
        {"queue_defaults": {"max_memory": 1, "max_items": 1, "max_attempts": 2, "lease": "1s",
                            "dead_letter_to": "other", "max_leased": 1, "confirms": "written"}},
    ),
    "revoked": reload({"auth": {"boss": user(), "anna": user(salt="BBBB")}}, boss(*_NEW)),
}  # fmt: skip
# Changes in two halves, with a request between them.
HALVES: Final = {"made anew": (_DELETED, _MADE)}
# Facts of a moment: they differ from event to event.
_OF_NOW: Final = re.compile(rb"STAT (why|age_ms|lease_left_ms) .*\r\n")
_NUMBERS: Final = re.compile(rb"^VALUE (\S+) 0 (\d+)( \d+)?\r", re.MULTILINE)




class Memcache(Asking):
    """The memcache port."""

    config, fills, asks, changes, halves = CONFIG, FILL, ASKS, CHANGES, HALVES
    in_steps, ends_with, steps = frozenset(IN_STEPS), ENDS_WITH, frozenset({"taken"})
    untold, refused = frozenset({"set with noreply"}), frozenset({"wrong login"})

    def connect(self, world: World, name: str) -> Pipe:
        return world.connect("" if name in STRANGE else "anna")

    def ask(
        self, world: World, client: Pipe, request: Any, nth: int = 0,
        change: Callable[[], None] = lambda: None,
    ) -> bytes:  # fmt: skip
        said = world.ask(client, request + b"\r\nmn\r\n", is_over, nth, change)
        return _NUMBERS.sub(rb"VALUE \1 \2\r", _OF_NOW.sub(b"", said)).removesuffix(b"MN\r\n")

    def is_refusal(self, said: bytes, change: str) -> bool:
        return change == "revoked" and said == b"CLIENT_ERROR unauthenticated\r\n"

    def end(self, world: World) -> None:
        boss(b"status up", b"resume jobs", b"resume other", b"resume none")(world)


DOOR: Final = Memcache()
# These have found something, each at one event alone.
FOUND: Final = [
    ("peek full", "made anew"), ("peek after, waiting", "made anew"), ("set for room", "revoked"),
    ("hand-off again, before it is stored", "made anew"), ("login", "revoked"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def one_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of long work is as short as can be."""
    for where, limit in (
        (queue_admin, "_REDRIVEN_PER_SLICE"), (queue_admin, "_SWEEP_STEPS"), (get, "STEP_KEYS"),
        (ack_up_to, "STEP_NUMBERS"), (transfers, "MOVES_MAX"), (transfers, "BEGUN_MAX"),
    ):  # fmt: skip
        monkeypatch.setattr(where, limit, 1)


@pytest.mark.parametrize(("name", "change"), sorted({*DOOR.few(CHANGES, 1), *FOUND}))
def test_a_change_comes_before_a_request_or_after_it(name: str, change: str) -> None:
    is_known = (name, change) in FOUND
    for nth in range(1, DOOR.events(name) + 1) if is_known else DOOR.some(name):
        DOOR.look(name, change, nth)


@pytest.mark.parametrize(("name", "how"), DOOR.few(BREAKS, 1))
def test_an_answer_is_true_whatever_breaks_meanwhile(name: str, how: str) -> None:
    for nth in DOOR.some(name):
        DOOR.look_at_break(name, how, nth)


# These have work under way when the request before them has its answer.
@pytest.mark.parametrize("name", ["hand-off for room", "set of an alias for room"])
def test_a_change_comes_at_the_last_event_and_at_none_behind_it(name: str) -> None:
    last = DOOR.events(name)
    DOOR.look(name, "flushed", last)
    with pytest.raises(AssertionError, match="no flushed came"):
        DOOR.look(name, "flushed", last + 1)


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
