"""The world changes while a request of the memcache port is under way, at each of its events: a
queue is made anew, its items are taken, the server becomes read-only, the user is revoked, ...

    request, then the change ──▶ answer and state one     } at whichever event the change comes, the
    the change, then the request ──▶ answer and state two } outcome is one of these two

Work in steps may be cut between two steps: then each item is where one of the two has it. Nothing
has to be said of a request to have it looked at here, but what it is sent as.

One rule: a state is what a start finds after a power cut, so that no answer is ahead of the disk.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import pytest

from kestrelpy.core.queue import ack_up_to
from kestrelpy.core.transfer import transfers
from kestrelpy.operations import queue_admin
from kestrelpy.protocol.verbs import get
from tests.support.memory_disk import Fault
from tests.support.small_world import State, World, user
from tests.support.soak import Soak

CONFIG: Final[dict[str, Any]] = {
    "server": {
        "data_dir": "/data", "http_port": 0, "allow_flush_all": True, "max_open_reads": 4,
    },
    # What is behind the front is on disk.
    "queue_defaults": {"max_memory": 1, "confirms": "synced"},
    "queues": {"dead": {"max_attempts": 1}},
    "aliases": {"both": {"to": ["jobs", "other"]}},
    "auth": {"boss": user(), "anna": user()},
}  # fmt: skip
PASS_US: Final = 1_200_000
LARGE: Final = b"L" * 1500  # the next segment has to be waited for
ALL_OVER: Final = b"mn"  # its answer is the last
WAIT: Final = b"t=50"


def put(key: bytes, body: bytes, verb: bytes = b"set", expiry: int = 0, more: bytes = b"") -> bytes:
    """A set."""
    return b"%b %b 0 %d %d%b\r\n%b" % (verb, key, expiry, len(body), more, body)


FILL: Final = (
    b"get jobs+kid", put(b"jobs/id=a", b"o1"), put(b"jobs/key=K", b"o2"), put(b"jobs", b"o3"),
    *(put(b"dead", b"d%d" % n) for n in range(3)),
    *(b"get dead/open", b"get dead/abort") * 3,
    put(b"old", b"x1", expiry=1), put(b"old", b"x2", expiry=1), put(b"old", b"x3"),
    put(b"late/delay=1h", b"l1"), put(b"other", b"p1"),
)  # fmt: skip
# Each request, behind what its client has asked for before.
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
    "get of many": (b"get jobs/open other/open old/peek dead/peek/dead jobs/open",),
    "peek": (b"get jobs/peek",),
    "peek after": (b"get jobs/peek/after=0/max=5",),
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
    "retry": (b"retry late 1",),
    "a look at an item": (b"stats jobs/item=2",),
    "reload": (b"reload",),
}  # fmt: skip
# These act item by item, or queue by queue, or do one thing and then another.
IN_STEPS: Final = (
    "get from disk", "a child from the first",
    "set of an alias", "set of an alias for room", "get of many", "monitor", "flush_all",
    "flush_expired", "upto", "redrive", "redrive to another queue", "move",
)  # fmt: skip
# Of what acts in steps, one item or queue in each: the records of a step, which may be under way.
ENDS_WITH: Final = {
    "flush_all": 0, "flush_expired": 0, "redrive": 0, "redrive to another queue": 3, "move": 3,
}  # fmt: skip
Change = Callable[[World], None]


def boss(*lines: bytes) -> Change:
    """Another client asks for these, one after the other."""

    def change(world: World) -> None:
        boss_of(world).say(b"".join(line + b"\r\n" for line in lines))

    return change


def boss_of(world: World) -> Any:
    return world.connect("boss")


def reload(config: dict[str, Any], then: Change | None = None) -> Change:
    """Another configuration; what comes when it is in force."""

    def change(world: World) -> None:
        before = world.daemon.config
        world.configure(**config)
        boss(b"reload")(world)
        if then is not None:
            behind = then
            world.when(lambda: world.daemon.config is not before, lambda: behind(world))

    return change


_NEW: Final = (put(b"jobs", b"n1"), put(b"none", b"n2"), put(b"other", b"n3"))
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
# In whose middle a request may come.
HALVES: Final = {"made anew": (_DELETED, _MADE)}
# What is said of a moment: it differs from event to event.
_OF_NOW: Final = re.compile(rb"STAT (why|age_ms|lease_left_ms) .*\r\n")
_NUMBERS: Final = re.compile(rb"^VALUE (\S+) 0 (\d+)( \d+)?\r", re.MULTILINE)


def is_over(said: bytes) -> bool:
    return said.endswith(b"MN\r\n")


@contextmanager
def filled(name: str) -> Iterator[tuple[World, Any]]:
    """A server, and a client that has asked for all but its last request."""
    with World(CONFIG) as world:
        first = boss_of(world)
        asked = b"".join(line + b"\r\n" for line in (*FILL, ALL_OVER))
        assert b"ERROR" not in world.ask(first, asked, is_over)
        world.timeline.run_until(world.timeline.us + PASS_US)
        client = world.connect("anna")
        for line in ASKS[name][:-1]:
            assert b"ERROR" not in world.ask(client, line + b"\r\nmn\r\n", is_over)
        yield world, client


Outcome = tuple[bytes, State]


def ask(
    world: World, client: Any, name: str, nth: int = 0, change: Callable[[], None] = lambda: None
) -> bytes:
    said = world.ask(client, ASKS[name][-1] + b"\r\nmn\r\n", is_over, nth, change)
    return _NUMBERS.sub(rb"VALUE \1 \2\r", _OF_NOW.sub(b"", said)).removesuffix(b"MN\r\n")


def end(world: World) -> State:
    """Everything that was begun ends, all hang up; what a start finds then."""
    world.rest()
    boss(b"status up", b"resume jobs", b"resume other", b"resume none")(world)
    world.rest()
    world.hang_up()
    world.rest()
    assert world.mistakes == []
    assert world.under_way() == []
    return world.state()


@cache
def one_by_one(name: str, change: str) -> tuple[list[Outcome], int]:
    """The outcomes of the request before the change, after it, and in its middle; how many events
    there are."""
    with filled(name) as (world, client):
        said, events = ask(world, client, name), world.events
        CHANGES[change](world)
        before = said, end(world)
    with filled(name) as (world, client):
        CHANGES[change](world)
        world.rest()
        said = ask(world, client, name)
        outcomes = [before, (said, end(world))]
    if change in HALVES:
        first, second = HALVES[change]
        with filled(name) as (world, client):
            first(world)
            world.rest()
            said = ask(world, client, name)
            second(world)
            outcomes.append((said, end(world)))
    return outcomes, events


def is_between(state: State, one: State, other: State) -> bool:
    """True if each item is, in each place, as often as one of two states has it there."""
    counts = [_counted(each) for each in (state, one, other)]
    keys = {key for each in counts for key in each}
    return all(counts[0][key] in (counts[1][key], counts[2][key]) for key in keys)


def _counted(state: State) -> Counter[tuple[str, bool, bytes]]:
    found = Counter[tuple[str, bool, bytes]]()
    for name, lists in state.items():
        for at, bodies in enumerate(lists):
            found.update((name, bool(at), body) for body in bodies)
    return found


def appended(world: World) -> int:
    """How many records there are in all logs."""
    return sum(queue.log.lsn_appended for queue in world.daemon.broker.logged)


def look(name: str, change: str, nth: int) -> None:
    """The change comes at the nth event of the request: nothing is wrong."""
    outcomes, _ = one_by_one(name, change)
    records = 0
    with filled(name) as (world, client):

        def come() -> None:
            nonlocal records
            CHANGES[change](world)
            records = appended(world)

        said = ask(world, client, name, nth, come)
        more = appended(world) - records
        found = said, end(world)
    if change in ("readonly", "quiescent") and name in ENDS_WITH:
        most = ENDS_WITH[name]
        assert more <= most, f"{name}, {change} at event {nth}: {more} records after it"
    if found in outcomes:
        return
    (one, first), (other, second) = outcomes[:2]
    is_cut = name in IN_STEPS or said == b"CLIENT_ERROR unauthenticated\r\n" == other
    assert is_cut and is_between(found[1], first, second), (
        f"{name}, {change} at event {nth}: {found},\n  not {one, first},\n  nor {other, second}"
    )


@pytest.fixture(autouse=True)
def one_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of long work is as short as can be."""
    for where, limit in (
        (queue_admin, "_REDRIVEN_PER_SLICE"), (queue_admin, "_SWEEP_STEPS"), (get, "STEP_KEYS"),
        (ack_up_to, "STEP_NUMBERS"), (transfers, "MOVES_MAX"), (transfers, "BEGUN_MAX"),
    ):  # fmt: skip
        monkeypatch.setattr(where, limit, 1)


def some(name: str, events: int, change: str = "") -> list[int]:
    """Some of the events of a request: one in its middle, of what acts in steps two; where a mode
    has to stop it, all."""
    if name in ENDS_WITH and change in ("readonly", "quiescent"):
        return [*range(1, events + 1)]
    parts = 3 if name in IN_STEPS else 2
    return sorted({max(events * each // parts, 1) for each in range(1, parts)})


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ASKS)
def test_a_change_comes_before_a_request_or_after_it(name: str, change: str) -> None:
    _, events = one_by_one(name, change)
    for nth in some(name, events, change):
        look(name, change, nth)


@pytest.mark.soak
def test_the_same_at_each_event(soak: Soak) -> None:
    for number in soak.seeds():
        name = [*ASKS][number % len(ASKS)]
        change = [*CHANGES][number // len(ASKS) % len(CHANGES)]
        for nth in range(1, one_by_one(name, change)[1] + 1):
            look(name, change, nth)


# -- what breaks -------------------------------------------------------------------------------


def broken(name: str, how: str, nth: int) -> tuple[bytes, State]:
    """The disk or the client fails at the nth event; what was said, and what a start finds."""
    states = list[State]()
    with filled(name) as (world, client):

        def fail() -> None:
            if how == "hung up":
                client.hang_up()
            elif how == "power cut":
                states.append(world.state())
                client.hang_up()
            elif how == "full":
                for verb in ("create", "create_over"):
                    world.disk.faults.append(
                        Fault(verb, "*.segment", times=1 << 30, error=errno.ENOSPC)
                    )
            else:
                world.disk.faults.append(Fault("sync", "*.segment", times=1 << 30))

        said = ask(world, client, name, nth, fail)
        world.rest()
        world.hang_up()
        if how == "full":
            world.disk.faults.clear()
            world.run(lambda: False, PASS_US)
        world.rest()
        if how != "failed":  # of a journal that has failed the next start says what there is
            assert world.mistakes == []
            assert world.under_way() == []
        return said, states[0] if states else world.state()


@cache
def alone(name: str) -> tuple[bytes, State, State, int]:
    """What is said without any trouble, the states before and after it, and how many events."""
    with filled(name) as (world, client):
        world.rest()
        before = world.state()
        said, events = ask(world, client, name), world.events
        world.hang_up()
        world.rest()
        return said, before, world.state(), events


@pytest.mark.parametrize("how", ["hung up", "power cut", "full", "failed"])
@pytest.mark.parametrize("name", ASKS)
def test_an_answer_is_true_whatever_breaks_meanwhile(name: str, how: str) -> None:
    said, before, after, events = alone(name)
    for nth in some(name, events):
        word, state = broken(name, how, nth)
        where = f"{name}, {how} at event {nth}: {word!r}, {state}"
        assert is_between(state, before, after), f"{where}\n  not {before}\n  nor {after}"
        if word == said and b"noreply" not in ASKS[name][-1]:
            assert is_between(state, after, after), f"{where}\n  not {after}"
