"""Clients that do what clients do, and what they should not: at random, from the run's one Random.

    producer   set, add, noreply, pipelined, with and without expiry, some for later, some again
    consumer   open, close, close/open, abort, defer, plain get, waits, and leaving in between
    keeper     open by token; close, abort, defer, renew from any connection, or forget
    visitor    peek, gets, stats, the dead line, and now and then flush and delete
    observer   reads by marker, from the one it was shown last
    operator   pauses and resumes, and declares

One rule: a client acts only on the answers that it got.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.books import DELAY_MS_MAX, Thing
from tests.simulation.loop import Timeline
from tests.simulation.requests import INVALID, Request
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_THINK_US: Final = (0, 100, 500, 2_000, 10_000)
DELAYS_MS: Final = (1, 5, 40, 300, DELAY_MS_MAX)
_SIZES: Final = ((0, 20), (0, 60), (40, 300), (300, 1500), (1500, 5000))
_LAST_WORDS: Final = (b"set ", b"get jo", b"set jobs 9999999 0 30\r\nabc", b"\r", b"get jobs/op")


class Client:
    """A client with at most one connection at a time."""

    def __init__(self, world: Simulation, number: int) -> None:
        self.world = world
        self.number = number
        self.random: Random = world.random
        self.timeline: Timeline = world.timeline
        self.wire: Wire | None = None
        self.holds = ""  # the queue from which it has an item open, by the answers
        self.seen = 0
        self.sent = 0
        self.leaves = False
        self.thoughts = 0
        self.looks = 0  # for the answer that it waits for
        self.later(0)

    def later(self, least_us: int) -> None:
        """Act next after a random pause; an earlier plan is forgotten."""
        self.thoughts += 1
        nth = self.thoughts
        after_us = least_us + self.random.choice(_THINK_US)
        self.timeline.after(after_us, lambda: self._act() if nth == self.thoughts else None)

    def _act(self) -> None:
        if self.world.is_closing_time:
            return
        if self.wire is None or self.wire.is_closed or self.wire.is_closing():
            self.wire = self.connect()
            self.holds, self.seen, self.sent, self.leaves = "", 0, 0, False
            self.later(500 if self.wire is not None else 20_000)
            return
        self._listen(self.wire)
        if self.leaves:
            self.later(2_000)
        elif self.seen < self.sent:
            self._wait(self.wire)
        else:
            self.looks, thoughts = 0, self.thoughts
            self.do(self.wire)
            if self.thoughts == thoughts:
                self.later(200)

    def connect(self) -> Wire | None:
        """Return a new connection, if the server listens."""
        return self.world.connect()

    def _wait(self, wire: Wire) -> None:
        """Wait for an answer, or leave. Look less often when the answer takes long."""
        self.looks += 1
        times = min(1 << self.looks // 4, 16)
        if self.random.random() < 0.002 * times:
            self._leave(wire)
        elif self.random.random() < 0.05 * times and self.sent - self.seen < 20:
            self.ahead(wire)
        self.later(1_500 * times)

    def _leave(self, wire: Wire) -> None:
        self.leaves = True
        kind = self.random.random()
        if kind < 0.3:
            wire.send([], self.random.choice(_LAST_WORDS))
        if kind < 0.2:
            wire.end()
        else:
            wire.hang_up()

    def _listen(self, wire: Wire) -> None:
        answered = wire.talk.answered
        while self.seen < len(answered):
            request = answered[self.seen]
            self.seen += 1
            reply = request.reply
            assert reply is not None
            if request.ending:
                self.holds = ""
            if request.opens and reply.word == "VALUE":
                self.holds = request.queue
            ends = reply.word in ("STORED", "SERVER_ERROR") or INVALID.search(reply.error)
            if request.hands_off and ends:
                self.holds = ""

    def say(self, wire: Wire, *requests: Request) -> None:
        """Send these in one go."""
        self.sent += sum(not request.noreply for request in requests)
        wire.send(list(requests))

    def later_on(self) -> str:
        """Return, now and then, the option that gives an item back with a delay; else ""."""
        if self.random.random() < 0.7:
            return ""
        return f"/delay={self.random.choice(DELAYS_MS)}ms"

    def queue(self) -> str:
        """Some queue."""
        return self.random.choice(self.world.queues)

    def reader(self) -> str:
        """Some queue, or a child of one."""
        return self.random.choice(self.world.readers)

    def some_set(self, queue: str, hands_off: str = "") -> Request:
        """Return a set or an add of a new item; it may hand off the held item."""
        random, rules = self.random, self.world.checker.books[queue].rules
        low, high = random.choice(_SIZES)
        size = random.randint(low, high) if random.random() < 0.9 else 0
        thing = self.world.new_thing(queue, size)
        kind = random.random()
        if kind < 0.08:
            thing.expiry = random.choice((-1, 1, 1, 2, 5))
        elif kind < 0.2:
            thing.delay_ms = random.choice(DELAYS_MS)
        id_ = self.world.some_id(queue) if rules.ids and random.random() < 0.6 else ""
        adds = random.random() < (0.4 if id_ else 0.05) and not hands_off
        if rules.keyed and not adds:
            thing.key = random.choice(("", "A", "A", "B", "C", "A,B"))
        return Request(
            "add" if adds else "set", queue, options_of(thing, id_, hands_off), item=thing,
            noreply=random.random() < 0.08 and not hands_off, expiry=thing.expiry,
        )  # fmt: skip

    def hand_off(self, wire: Wire, named: str = "") -> None:
        """Hand off the held item: store another one in its place."""
        self.say(wire, self.some_set(self.queue(), f"confirm{named}"))

    def do(self, wire: Wire) -> None:
        """Send the next requests."""
        raise NotImplementedError

    def ahead(self, wire: Wire) -> None:
        """Send another request before the last one is answered."""


class Producer(Client):
    """Stores."""

    def do(self, wire: Wire) -> None:
        random = self.random
        if random.random() < 0.01:
            self._leave(wire)
            return
        count = random.choice((1, 1, 1, 2, 3, 8))
        one = self._where() if random.random() < 0.7 else ""
        self.say(wire, *(self.some_set(one or self._where()) for _ in range(count)))

    def ahead(self, wire: Wire) -> None:
        self.say(wire, self.some_set(self._where()))

    def _where(self) -> str:
        return self.queue() if self.random.random() < 0.95 else self.reader()


class Consumer(Client):
    """Fetches and confirms, most of the time."""

    def do(self, wire: Wire) -> None:
        if self.random.random() < 0.015:
            self._leave(wire)
        elif self.holds:
            self._go_on(wire, self.holds)
        else:
            self._begin(wire, self.reader())

    def _begin(self, wire: Wire, queue: str) -> None:
        random = self.random
        verb = random.choice(("get", "get", "gets"))
        waits = random.choice(("", "/t=5", "/t=50", "/t=400ms", "/t=2s"))
        kind = random.random()
        if kind < 0.55:
            self.say(wire, Request(verb, queue, "open" + waits))
        elif kind < 0.7:
            self.say(wire, Request(verb, queue, waits[1:]))
        elif kind < 0.8:
            ending = random.choice(("close", "close", "abort"))
            self.say(wire, Request(verb, queue, "open"), Request("get", queue, ending))
        elif kind < 0.9:
            self.say(wire, Request("get", queue, "peek" + waits))
        elif kind < 0.96:
            self.say(wire, Request(verb, queue, "close/open" + waits))
        else:
            self.say(wire, Request(verb, queue, "dead/open"), Request("get", queue, "dead/close"))

    def _go_on(self, wire: Wire, queue: str) -> None:
        random = self.random
        kind = random.random()
        if self.world.checker.books[queue].rules.hands and random.random() < 0.4:
            self.hand_off(wire)
        elif kind < 0.5:
            self.say(wire, Request("get", queue, "close"))
        elif kind < 0.75:
            waits = random.choice(("", "/t=10", "/t=300"))
            self.say(wire, Request("get", queue, "close/open" + waits))
        elif kind < 0.85:
            how = random.choice(("abort", "abort", "defer")) + self.later_on()
            self.say(wire, Request("get", queue, how))
        elif kind < 0.9:
            self.say(wire, Request("touch", queue, seconds=random.choice((1, 2))))
        elif kind < 0.92:
            self.say(wire, Request("get", queue, "open"))
        elif kind < 0.95:
            self._leave(wire)
        else:
            self.later(random.randrange(1_500_000))  # it works on it for long


class Keeper(Client):
    """Fetches by token, and keeps its tokens when its connection ends."""

    leases_ms: tuple[int, ...] = (20, 100, 400, 1500)  # the first deadlines of its leases
    renews = 0.2  # how likely, where it has a token

    def __init__(self, world: Simulation, number: int) -> None:
        self.tokens: list[tuple[str, int]] = []
        super().__init__(world, number)

    def _listen(self, wire: Wire) -> None:
        for request in wire.talk.answered[self.seen :]:
            if request.lease_us and request.reply is not None and request.reply.number:
                self.tokens.append((request.queue, request.reply.number))
        super()._listen(wire)

    def do(self, wire: Wire) -> None:
        random = self.random
        kind = random.random()
        if kind < 0.05:
            self._leave(wire)
        elif len(self.tokens) < 4 and kind < 0.5:
            lease = random.choice(self.leases_ms)
            waits = random.choice(("", "/t=5", "/t=100"))
            line = "dead/" if random.random() < 0.1 else ""
            self.say(wire, Request("gets", self.reader(), f"{line}open/lease={lease}ms{waits}"))
        elif self.tokens and kind < 0.9:
            self._go_on(wire, random.randrange(len(self.tokens)))
        else:
            self.later(random.randrange(20_000))

    def _go_on(self, wire: Wire, at: int) -> None:
        random = self.random
        queue, token = self.tokens[at]
        kind = random.random()
        if kind < self.renews:
            self.say(
                wire, Request("touch", queue, f"token={token}", seconds=random.choice((1, 2)))
            )
            return
        if kind < 0.95:  # else it sends the same request once more, later
            self.tokens.pop(at)
        how = random.choice(("close", "close", "abort", "defer", "delete"))
        hands = self.world.checker.books[queue].rules.hands and "+" not in queue
        if hands and random.random() < 0.4:
            self.hand_off(wire, f"={queue}:{token}")
        elif how == "delete":
            self.say(wire, Request("delete", queue, f"token={token}"))
        elif how == "close" and random.random() < 0.5:
            waits = random.choice(("", "", "/t=100"))
            lease = random.choice((100, 400, 1500))
            how = f"close/open/token={token}/lease={lease}ms{waits}"
            self.say(wire, Request("gets", queue, how))
        elif how == "close":
            self.say(wire, Request("get", queue, f"close/token={token}"))
        else:
            self.say(wire, Request("get", queue, f"{how}/token={token}{self.later_on()}"))


class Visitor(Client):
    """Looks, counts, and sometimes clears away."""

    def do(self, wire: Wire) -> None:
        random, queue = self.random, self.reader()
        kind = random.random()
        if self.world.checker.books[queue].rules.ids and random.random() < 0.1:
            self.say(wire, Request("delete", queue, f"id={self.world.some_id(queue)}"))
        elif kind < 0.3:
            self.say(wire, Request(random.choice(("get", "gets")), queue, "peek"))
        elif kind < 0.55:
            self.say(wire, Request("stats", queue))
        elif kind < 0.65:
            self.say(wire, Request("get", queue, "dead/peek"))
        elif kind < 0.68:
            self.say(wire, Request("flush", queue))
        elif kind < (0.75 if "+" in queue else 0.705):
            self.say(wire, Request("delete", queue))
        elif kind < 0.765:
            self._leave(wire)
        else:
            self.later(random.randrange(10_000))


class Observer(Client):
    """Goes on from the last marker of each queue, and now and then from the beginning."""

    def __init__(self, world: Simulation, number: int) -> None:
        self.markers: dict[str, int] = {}
        super().__init__(world, number)

    def do(self, wire: Wire) -> None:
        random, queue = self.random, self.reader()
        answered = wire.talk.answered
        if answered and answered[-1].reply is not None and answered[-1].reply.number:
            self.markers[answered[-1].queue] = answered[-1].reply.number
        if random.random() < 0.01:
            self._leave(wire)
        elif random.random() < 0.4:
            self.later(random.randrange(5_000))
        else:
            after = self.markers.get(queue, 0) if random.random() < 0.9 else 0
            options = random.choice(("", "", "/n=1", "/t=5", "/t=200ms"))
            self.say(wire, Request("gets", queue, f"peek/after={after}{options}"))


class Operator(Client):
    """Pauses and resumes queues, and declares settings. Declared settings change no promise: the
    block of each queue in the configuration has the same settings, and wins.
    """

    resumes = 0.6  # how likely, where something is paused

    def __init__(self, world: Simulation, number: int) -> None:
        self.paused: list[str] = []
        super().__init__(world, number)

    def do(self, wire: Wire) -> None:
        random, queue = self.random, self.queue()
        kind = random.random()
        if self.paused and kind < self.resumes:
            self.say(wire, Request("resume", self.paused.pop()))
        elif kind < 0.15:
            self.paused.append(queue)
            self.say(wire, Request("pause", queue))
        elif kind < 0.3:
            lease = random.choice((b"1h", b"1h", b"2h"))
            self.say(wire, Request("set", queue, "declare", body=b'lease = "%b"\n' % lease))
        elif kind < 0.32:
            self._leave(wire)
        else:
            self.later(random.randrange(15_000))


class Mover(Client):
    """Has items moved to later queues, and the dead redriven, here or there."""

    def do(self, wire: Wire) -> None:
        random, queues = self.random, self.world.queues
        kind, at = random.random(), random.randrange(len(queues))
        later = random.choice(queues[at + 1 :]) if queues[at + 1 :] else ""
        if not self.world.checker.books[queues[at]].rules.moves:
            self.later(100_000)
        elif kind < 0.04:
            self._leave(wire)
        elif kind < 0.12 and later:
            count = random.choice((1, 3, 20))
            self.say(wire, Request("move", queues[at], rest=f"{later} {count}"))
        elif kind < 0.25:
            to = random.choice((f"all {later}".strip(), "all"))
            self.say(wire, Request("redrive", queues[at], rest=to))
        else:
            self.later(random.randrange(40_000))


KINDS: Final[tuple[Callable[[Simulation, int], Client], ...]] = (
    Producer, Producer, Consumer, Consumer, Consumer, Visitor, Observer, Operator,
    Keeper, Mover,
)  # fmt: skip


def options_of(thing: Thing, id_: str = "", hands_off: str = "") -> str:
    """Return the options of a set of this item."""
    delay = f"delay={thing.delay_ms}ms" if thing.delay_ms else ""
    key = f"key={thing.key}" if thing.key else ""
    named = f"id={id_}" if id_ else ""
    return "/".join(each for each in (delay, key, named, hands_off) if each)


def body_of(number: int, size: int) -> bytes:
    """Return bytes that no other item has: its number again and again, or nothing."""
    word = b"<%d>" % number
    return (word * (size // len(word) + 1))[:size]


def new_thing(number: int, queue: str, size: int) -> Thing:
    """Return an item that is not stored yet."""
    return Thing(number, queue, body_of(number, size))
