"""Clients of HTTP: a producer, and a keeper of tokens.

One rule: they do what those of the other wire do, as far as HTTP has a request for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.simulation.clients import Client, Keeper, Producer
from tests.simulation.requests import Request
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


class HttpProducer(Producer):
    """Stores over HTTP; there every request is answered."""

    def connect(self) -> Wire | None:
        return self.world.connect_http()

    def some_set(self, queue: str, hands_off: str = "") -> Request:
        request = super().some_set(queue)
        request.noreply = False
        request.expiry = max(request.expiry, 0)
        assert request.item is not None
        request.item.expiry = request.expiry
        if not request.id:
            request.verb = "set"
        return request


class HttpKeeper(Keeper):
    """Leases over HTTP, and ends its leases by their tokens."""

    def connect(self) -> Wire | None:
        return self.world.connect_http()

    def do(self, wire: Wire) -> None:
        random, kind = self.random, self.random.random()
        if kind < 0.05:
            self._leave(wire)
        elif len(self.tokens) < 4 and kind < 0.5:
            lease = random.choice(self.leases_ms)
            waits = random.choice(("", "/t=5", "/t=100", "/t=400ms"))
            self.say(wire, Request("gets", self.reader(), f"open/lease={lease}ms{waits}"))
            if random.random() < 0.1:
                self._leave(wire)  # the lease may come at this moment
        elif self.tokens and kind < 0.9:
            self._go_on(wire, random.randrange(len(self.tokens)))
        else:
            self.later(random.randrange(20_000))

    def _go_on(self, wire: Wire, at: int) -> None:
        random = self.random
        queue, token = self.tokens[at]
        if random.random() < self.renews:
            seconds = random.choice((1, 2))
            self.say(wire, Request("touch", queue, f"token={token}", seconds=seconds))
            return
        if random.random() < 0.95:  # else it says it once more, later
            self.tokens.pop(at)
        how = random.choice(("close", "close", "abort", "defer", "delete"))
        if how == "delete":
            self.say(wire, Request("delete", queue, f"token={token}"))
        else:
            later = self.later_on() if how == "defer" else ""
            self.say(wire, Request("get", queue, f"{how}/token={token}{later}"))


HTTP_KINDS: Final[tuple[Callable[[Simulation, int], Client], ...]] = (
    HttpProducer, HttpKeeper, HttpKeeper,
)  # fmt: skip
