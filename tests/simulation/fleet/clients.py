"""Clients of a fleet: each goes to the other member when it is refused, and asks one thing a time.

One rule: a client acts on what it was told and on nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.requests import Request
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.fleet.world import FleetWorld

_THINK_US: Final = (2_000, 10_000, 20_000, 40_000)
_PATIENCE_US: Final = 800_000
_SIZES: Final = ((10, 40), (10, 60), (40, 300), (300, 1500))


class FleetClient:
    """Somebody with one connection at a time, to one member or the other."""

    def __init__(self, world: FleetWorld, number: int) -> None:
        self.world = world
        self.random = world.random
        self.number = number
        self.member = world.random.randrange(2)
        self.wire: Wire | None = None
        self.seen = 0
        self.sent = 0
        self.asked_us = 0
        self.holds = ""
        self.later()

    def later(self, least_us: int = 0) -> None:
        """Act after a thought."""
        self.world.timeline.after(least_us + self.random.choice(_THINK_US), self._act)

    def _act(self) -> None:
        if self.world.is_closing_time:
            return
        wire = self.wire
        if wire is None or wire.is_closed or wire.is_closing():
            self.wire = self.world.connect(self.member)
            self.seen = self.sent = 0
            self.holds = ""
            if self.wire is None:
                self.member = 1 - self.member
                self.later(20_000)
                return
            self.later()
            return
        self._listen(wire)
        if self.wire is None:
            self.later()
            return
        if self.seen < self.sent:
            if self.world.timeline.us - self.asked_us > _PATIENCE_US:
                self._leave(wire)
            self.later()
            return
        if self.random.random() < 0.01:
            self._leave(wire)
        else:
            self.do(wire)
        self.later()

    def _leave(self, wire: Wire) -> None:
        wire.hang_up()
        self.wire = None
        if self.random.random() < 0.5:
            self.member = 1 - self.member

    def _listen(self, wire: Wire) -> None:
        answered = wire.talk.answered
        while self.seen < len(answered):
            request = answered[self.seen]
            self.seen += 1
            assert request.reply is not None
            if request.ending:
                self.holds = ""
            if request.opens and request.reply.word == "VALUE":
                self.holds = request.queue
                self.leased(request)
            if request.reply.word == "SERVER_ERROR":
                self._leave(wire)
                self.member = 1 - self.member
                return

    def leased(self, request: Request) -> None:
        """It has got something."""

    def say(self, wire: Wire, *requests: Request) -> None:
        """Send these in one go."""
        self.sent += len(requests)
        self.asked_us = self.world.timeline.us
        wire.send(list(requests))

    def queue(self) -> str:
        """One of the queues."""
        return self.random.choice(self.world.queues)

    def do(self, wire: Wire) -> None:
        """Ask for something."""
        raise NotImplementedError


class FleetProducer(FleetClient):
    """Stores items, some of them with keys, some at once."""

    def do(self, wire: Wire) -> None:
        random = self.random
        least, most = random.choice(_SIZES)
        sets = []
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            thing = self.world.new_thing(self.queue(), random.randint(least, most))
            if random.random() < 0.3:
                thing.key = random.choice("kl")
            sets.append(
                Request("set", thing.queue, f"key={thing.key}" if thing.key else "", item=thing)
            )
        self.say(wire, *sets)


class FleetConsumer(FleetClient):
    """Opens, and closes or aborts; takes from the last queue."""

    def do(self, wire: Wire) -> None:
        random, queue = self.random, self.holds or self.queue()
        kind = random.random()
        if self.holds:
            how = "close" if kind < 0.5 else "close/open" if kind < 0.85 else "abort"
            self.say(wire, Request("get", queue, how))
        elif kind < 0.15 and queue == self.world.taken:
            self.say(wire, Request("get", queue))
        else:
            self.say(wire, Request("get", queue, "open" if kind < 0.8 else "open/t=50"))


class FleetKeeper(FleetClient):
    """Leases by token, and ends its leases at whichever member serves."""

    def __init__(self, world: FleetWorld, number: int) -> None:
        self.tokens: list[tuple[str, int]] = []
        super().__init__(world, number)

    def leased(self, request: Request) -> None:
        assert request.reply is not None
        if request.reply.number:
            self.tokens.append((request.queue, request.reply.number))

    def do(self, wire: Wire) -> None:
        random = self.random
        if len(self.tokens) < 4 and random.random() < 0.5:
            lease = random.choice((100, 400, 1500, 1500))
            self.say(wire, Request("gets", self.queue(), f"open/lease={lease}ms"))
        elif self.tokens and random.random() < 0.7:
            queue, token = self.tokens.pop(random.randrange(len(self.tokens)))
            how = "close" if random.random() < 0.85 else "abort"
            self.say(wire, Request("get", queue, f"{how}/token={token}"))


FLEET_KINDS: Final = (
    FleetProducer, FleetProducer, FleetConsumer, FleetConsumer, FleetConsumer, FleetKeeper,
    FleetKeeper,
)  # fmt: skip
