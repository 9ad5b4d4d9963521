"""A client that writes under one key of each queue, on conditions that others break.

One rule: what it expects is a version that it was told, or one beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.clients import Client
from tests.simulation.requests import Request
from tests.simulation.streams import key_of
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


class Writer(Client):
    """Looks at the key, and writes the next version."""

    def __init__(self, world: Simulation, number: int) -> None:
        self.versions: dict[str, int] = {}
        super().__init__(world, number)

    def _listen(self, wire: Wire) -> None:
        for request in wire.talk.answered[self.seen :]:
            reply = request.reply
            if reply is None:
                continue
            known = self.versions.get(request.queue, 0)
            if request.stream and not request.at_version and reply.word == "VALUE":
                self.versions[request.queue] = reply.number
            elif reply.word in ("EXISTS", "NOT_FOUND") and request.version == known:
                self.versions[request.queue] = known + 1 if reply.word == "EXISTS" else 0
            elif request.item is not None and reply.word == "STORED" and request.version >= 0:
                self.versions[request.queue] = request.version + 1
        super()._listen(wire)

    def do(self, wire: Wire) -> None:
        random, queue = self.random, self.random.choice([*self.world.checker.streams])
        kind, known = random.random(), self.versions.get(queue, 0)
        key = f"key={key_of(queue)}"
        if kind < 0.02:
            self._leave(wire)
        elif kind < 0.3:
            self.later(random.randrange(8_000))
        elif kind < 0.5:
            self.say(wire, Request("gets", queue, f"{key}/peek"))
        elif kind < 0.6 and known and self.world.checker.books[queue].rules.retains:
            version = random.randint(1, known)
            self.say(wire, Request("gets", queue, f"{key}/peek/at_version={version}"))
        else:
            self.say(wire, *(self._write(queue, known) for _ in range(random.choice((1, 1, 2)))))

    def _write(self, queue: str, known: int) -> Request:
        random, key = self.random, key_of(queue)
        thing = self.world.new_thing(queue, random.choice((10, 40, 300)))
        thing.key = key
        verb = random.choice(("cas", "cas", "cas", "set", "set", "expect", "add", "replace"))
        expected = random.choice((known, known, known, known + 1, max(known - 1, 0), 0))
        options = f"key={key}"
        if verb == "expect":
            verb, options = "set", f"{options}/expect={expected}"
        elif verb != "cas":
            expected = -1
        return Request(verb, queue, options, item=thing, version=expected)
