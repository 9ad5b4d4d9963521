"""The world changes while a request is under way, at each of its events: a queue is made anew, its
items are taken, the server becomes read-only, the user is revoked, the disk fails, ...

    request, then the change ──▶ answer and state one     } at whichever event the change comes, the
    the change, then the request ──▶ answer and state two } outcome is one of these two

Work in steps may be cut between two steps: then each item is where one of the two has it. Nothing
has to be said of a request to have it looked at, but what it is sent as (`Asking.asks`).

One rule: a state is what a start finds after a power cut, so that no answer is ahead of the disk.
"""

from __future__ import annotations

import errno
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Final

from tests.support.memory_disk import Fault
from tests.support.small_world import Pipe, State, World

PASS_US: Final = 1_200_000
ALL_OVER: Final = b"mn"  # its answer is the last
BREAKS: Final = ("hung up", "power cut", "full", "failed")
# Changes that end a request at a place of their own.
MODES: Final = ("readonly", "quiescent")
Change = Callable[[World], None]
Outcome = tuple[bytes, State]


def put(key: bytes, body: bytes, verb: bytes = b"set", expiry: int = 0, more: bytes = b"") -> bytes:
    """A set on the memcache port."""
    return b"%b %b 0 %d %d%b\r\n%b" % (verb, key, expiry, len(body), more, body)


def is_over(said: bytes) -> bool:
    """True if the last answer of the memcache port has come."""
    return said.endswith(b"MN\r\n")


def boss(*lines: bytes) -> Change:
    """Another client asks for these, one after the other."""

    def change(world: World) -> None:
        world.connect("boss").say(b"".join(line + b"\r\n" for line in lines))

    return change


def reload(config: dict[str, Any], then: Change | None = None) -> Change:
    """Return a change: a reload of this configuration, and `then` when that is in force."""

    def change(world: World) -> None:
        before = world.daemon.config
        world.configure(**config)
        boss(b"reload")(world)
        if then is not None:
            behind = then
            world.when(lambda: world.daemon.config is not before, lambda: behind(world))

    return change


class Asking:
    """A way to ask, and what is asked there: each request behind what its client has asked for
    before."""

    config: ClassVar[dict[str, Any]]
    fills: ClassVar[tuple[bytes, ...]]  # by the memcache port
    asks: ClassVar[Mapping[str, tuple[Any, ...]]]
    changes: ClassVar[Mapping[str, Change]]
    # Changes in two halves, with a request between them.
    halves: ClassVar[Mapping[str, tuple[Change, Change]]] = {}
    # These act item by item, or queue by queue, or do one thing and then another.
    in_steps: ClassVar[frozenset[str]] = frozenset()
    steps: ClassVar[frozenset[str]] = frozenset()  # the changes that do so
    # For each request that acts in steps, one item or queue in each: the number of records of a
    # step, which may be under way when the mode changes.
    ends_with: ClassVar[Mapping[str, int]] = {}
    refused: ClassVar[frozenset[str]] = frozenset()  # whatever happens meanwhile
    # These tell no client anything, or not the same to each.
    untold: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def connect(self, world: World, name: str) -> Pipe:
        """The client of this request."""

    @abstractmethod
    def ask(
        self, world: World, client: Pipe, request: Any, nth: int = 0,
        change: Callable[[], None] = lambda: None,
    ) -> bytes:  # fmt: skip
        """Ask, with the change at the nth event; return the answer without what differs from event
        to event."""

    def fill(self, world: World) -> None:
        """Make what there is at the beginning."""
        asked = b"".join(line + b"\r\n" for line in (*self.fills, ALL_OVER))
        said = world.ask(world.connect("boss"), asked, is_over)
        assert b"ERROR" not in said, said

    def is_refusal(self, said: bytes, change: str) -> bool:
        """True if the change has refused a request that was under way: it has done nothing."""
        return False

    def is_mixed(self, said: bytes) -> bool:
        """True if the answer has something of a queue, and something of the one made anew."""
        return False

    def end(self, world: World) -> None:
        """Let everything go on that the change has stopped."""
        boss(b"status up")(world)

    # -- one order or the other -------------------------------------------------------------

    @contextmanager
    def filled(self, name: str) -> Iterator[tuple[World, Pipe]]:
        """A server, and a client that has asked for all but its last request."""
        with World(self.config) as world:
            self.fill(world)
            world.timeline.run_until(world.timeline.us + PASS_US)
            client = self.connect(world, name)
            for line in self.asks[name][:-1]:
                said = self.ask(world, client, line)
                assert b"ERROR" not in said, said
            yield world, client

    def over(self, world: World) -> State:
        """Let all work end and all clients hang up; return the state that a start finds then."""
        world.rest()
        self.end(world)
        world.rest()
        world.hang_up()
        world.rest()
        assert world.mistakes == []
        assert world.under_way() == []
        return world.state()

    @cache  # noqa: B019  # a door lasts as long as the tests
    def before(self, name: str, change: str) -> Outcome:
        """Return the outcome of the request and then the change."""
        with self.filled(name) as (world, client):
            said = self.ask(world, client, self.asks[name][-1])
            self.changes[change](world)
            return said, self.over(world)

    @cache  # noqa: B019
    def after(self, name: str, change: str) -> Outcome:
        """The change and then the request."""
        with self.filled(name) as (world, client):
            self.changes[change](world)
            world.rest()
            said = self.ask(world, client, self.asks[name][-1])
            return said, self.over(world)

    @cache  # noqa: B019
    def amid(self, name: str, change: str) -> Outcome | None:
        """The request in the middle of the change; None: it has none."""
        if change not in self.halves:
            return None
        first, second = self.halves[change]
        with self.filled(name) as (world, client):
            first(world)
            world.rest()
            said = self.ask(world, client, self.asks[name][-1])
            second(world)
            return said, self.over(world)

    def look(self, name: str, change: str, nth: int) -> None:
        """Check the change at the nth event of the request: nothing is wrong."""
        records = 0
        with self.filled(name) as (world, client):

            def come() -> None:
                nonlocal records
                self.changes[change](world)
                records = appended(world)

            said = self.ask(world, client, self.asks[name][-1], nth, come)
            assert world.events >= nth, f"{name} was over before event {nth}: no {change} came"
            more = appended(world) - records
            found = said, self.over(world)
        if change in MODES and name in self.ends_with:
            most = self.ends_with[name]
            assert more <= most, f"{name}, {change} at event {nth}: {more} records after it"
        one = self.before(name, change)
        if found == one:
            return
        other = self.after(name, change)
        if found in (other, self.amid(name, change)):
            return
        where = f"{name}, {change} at event {nth}: {found},\n  not {one},\n  nor {other}"
        if self.is_refusal(said, change) and name not in self.in_steps:
            assert found[1] == other[1], where
            return
        assert name in self.in_steps or change in self.steps, where
        assert is_between(found[1], one[1], other[1]), where
        if said == one[0] != other[0] and name not in self.untold:
            assert is_between(found[1], one[1], one[1]), where
        assert not self.is_mixed(said), where

    # -- what breaks ------------------------------------------------------------------------

    def broken(self, name: str, how: str, nth: int) -> Outcome:
        """Let the disk or the client fail at the nth event; return the answer and the state that a
        start finds."""
        states = list[State]()
        with self.filled(name) as (world, client):

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

            said = self.ask(world, client, self.asks[name][-1], nth, fail)
            assert world.events >= nth, f"{name} was over before event {nth}: not {how}"
            world.rest()
            world.hang_up()
            if how == "full":
                world.disk.faults.clear()
                world.run(lambda: False, PASS_US)
            world.rest()
            if how != "failed":  # only the next start knows the state of a failed journal
                assert world.mistakes == []
                assert world.under_way() == []
            return said, states[0] if states else world.state()

    @cache  # noqa: B019
    def alone(self, name: str) -> tuple[bytes, State, State]:
        """Return the answer without any trouble, and the states before and after it."""
        with self.filled(name) as (world, client):
            world.rest()
            before = world.state()
            said = self.ask(world, client, self.asks[name][-1])
            is_refused = b"ERROR" in said or said.startswith((b"4", b"5"))
            assert is_refused is (name in self.refused), f"{name} asks for nothing: {said!r}"
            world.hang_up()
            world.rest()
            return said, before, world.state()

    def look_at_break(self, name: str, how: str, nth: int) -> None:
        """Check a failure at the nth event: each item is where it was or where the request puts it,
        and if the answer says that it is done, it is done."""
        said, before, after = self.alone(name)
        word, state = self.broken(name, how, nth)
        where = f"{name}, {how} at event {nth}: {word!r}, {state}"
        assert is_between(state, before, after), f"{where}\n  not {before}\n  nor {after}"
        if word == said and name not in self.untold:
            assert is_between(state, after, after), f"{where}\n  not {after}"

    # -- which events -----------------------------------------------------------------------

    @cache  # noqa: B019
    def events(self, name: str) -> int:
        """Return the number of events of the request when it directly follows the one before it, as
        `look` and `broken` send it: with a rest between the two, the number would be another."""
        with self.filled(name) as (world, client):
            self.ask(world, client, self.asks[name][-1])
            return world.events

    def some(self, name: str) -> list[int]:
        """Return some events of a request: one in its middle, or two if it acts in steps."""
        parts, events = (3 if name in self.in_steps else 2), self.events(name)
        return sorted({max(events * each // parts, 1) for each in range(1, parts)})

    def where(self, name: str, change: str) -> list[int]:
        """The events that are looked at: some, and where a mode has to stop it, all."""
        if name in self.ends_with and change in MODES:
            return [*range(1, self.events(name) + 1)]
        return self.some(name)

    def few(self, of: Mapping[str, object] | tuple[str, ...], each: int) -> list[tuple[str, str]]:
        """Pairs of requests and changes: each request with some of them, each change with some
        requests; neighbours have others."""
        named = [*of]
        step = max(len(named) // each, 1)
        return [
            (name, named[(number + nth * step) % len(named)])
            for number, name in enumerate(self.asks)
            for nth in range(each)
        ]


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
    """Return how many records all logs have."""
    return sum(queue.log.lsn_appended for queue in world.daemon.broker.logged)
