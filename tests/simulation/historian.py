"""A client that reads the retained items of queues, from the first to the last, again and again.

One rule: it goes on after the last marker that it was shown, even after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.clients import Client
from tests.simulation.requests import Request
from tests.simulation.shelf import Pass
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_MARKERS_MAX: Final = 50
OPTIONS: Final = ("", "/n=1", "/n=2/full", "/n=5", "/n=40/full", "/full", "/n=1000", "/t=5")


class Historian(Client):
    """Reads by marker, in pieces, and counts."""

    def __init__(self, world: Simulation, number: int) -> None:
        self.passes: dict[str, Pass] = {}
        self.markers: dict[str, list[int]] = {}
        super().__init__(world, number)

    def _listen(self, wire: Wire) -> None:
        for request in wire.talk.answered[self.seen :]:
            reply, reading = request.reply, request.reading
            if reply is None or request.after < 0:
                continue
            if reply.word == "VALUE":
                last = (reply, *reply.more)[-1].number
                markers = self.markers.setdefault(request.queue, [])
                markers.append(last)
                del markers[:-_MARKERS_MAX]
                if reading is not None:
                    reading.after = last
            elif reply.word == "END" and reading is not None:
                self.passes.pop(request.queue, None)
        super()._listen(wire)

    def do(self, wire: Wire) -> None:
        random, queue = self.random, self.random.choice([*self.world.checker.shelves])
        kind, markers = random.random(), self.markers.get(queue)
        options = random.choice(OPTIONS)
        if kind < 0.02:
            self._leave(wire)
        elif kind < 0.2:
            self.later(random.randrange(10_000))
        elif kind < 0.3:
            self.say(wire, Request("stats", queue, random.choice(("", "markers"))))
        elif kind < 0.5 and markers:
            after = random.choice(markers)
            self.say(wire, Request("gets", queue, f"peek/after={after}{options}"))
        else:
            reading = self.passes.setdefault(queue, Pass(queue, self.timeline.us))
            key = f"peek/after={reading.after}{options}"
            self.say(wire, Request("gets", queue, key, reading=reading))
