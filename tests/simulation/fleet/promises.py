"""The checker of a fleet: hears every request and every reply, of both members.

    STORED said ──▶ there, until a confirm of it was asked for ──▶ the end of the run counts
    confirmed   ──▶ never shown again
    handed out  ──▶ nobody else's, while its lease by token lasts, whoever owns the data;
                    by connection, while the same owner does
    claimed     ──▶ from here on the former owner says nothing of that

One rule: a violation is only called one when nothing that a correct fleet may do explains it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.books import EARLY_US, NEVER, Thing
from tests.simulation.requests import INVALID, NotWellFormed, Reply, Request, Talk

CLOSED: Final = re.compile("standby|the engine does not answer|claimed the slice")
_TELLS_OF_DATA: Final = ("STORED", "VALUE", "DELETED")


@dataclass(eq=False)
class Lease:
    """Somebody has an item: by token until then, or by connection under this claim."""

    thing: Thing
    token: int = 0
    until_us: int = NEVER
    talk: Talk | None = None
    epoch: int = 0
    is_unsure: bool = False  # an end of it was asked for


@dataclass
class FleetBooks:
    """All that was promised. `epoch_of` says under which claim a connection's member answers,
    `epoch_now` which claim is the last."""

    now: Callable[[], int]
    tell: Callable[[str], None]
    epoch_now: Callable[[], int]
    epoch_of: dict[int, Callable[[], int]] = field(default_factory=dict)
    things: dict[int, Thing] = field(default_factory=dict)
    held: dict[int, Lease] = field(default_factory=dict)  # by item
    by_token: dict[tuple[str, int], Lease] = field(default_factory=dict)
    by_talk: dict[Talk, Lease] = field(default_factory=dict)
    talks: list[Talk] = field(default_factory=list)
    takes_lost: dict[str, int] = field(default_factory=dict)  # each may have taken an item
    violations: list[str] = field(default_factory=list)
    answers: int = 0
    stored: int = 0
    confirmed: int = 0
    refused: int = 0
    may_close: bool = True  # a server may close connections

    def complain(self, text: str) -> None:
        """A promise was broken."""
        self.violations.append(text)
        self.tell(f"VIOLATION: {text}")

    # -- connections ------------------------------------------------------------------------

    def connected(self, talk: Talk) -> None:
        self.talks.append(talk)

    def ended(self, talk: Talk) -> None:
        self._hangs_up(talk)

    def closed_by_server(self, talk: Talk) -> None:
        """A member that ends closes all of its connections."""

    def lost(self, talk: Talk) -> None:
        """The server knows that the connection is gone, or the server is gone itself."""
        if talk.is_over:
            return
        talk.is_over = True
        if talk in self.talks:
            self.talks.remove(talk)
        self._hangs_up(talk)
        for request in talk.asked:
            self._unanswered(request)

    def _hangs_up(self, talk: Talk) -> None:
        lease = self.by_talk.pop(talk, None)
        if lease is not None:
            self._release(lease)

    def _release(self, lease: Lease) -> None:
        if self.held.get(lease.thing.number) is lease:
            del self.held[lease.thing.number]

    def _unanswered(self, request: Request) -> None:
        if request.takes:
            self.takes_lost[request.queue] = self.takes_lost.get(request.queue, 0) + 1

    # -- requests ---------------------------------------------------------------------------

    def arrived(self, talk: Talk, request: Request) -> None:
        """Its last byte is with the server."""
        self.tell(f"{talk.number}> {request}")
        request.arrived_us = self.now()
        request.talk = talk
        talk.asked.append(request)
        thing = request.item
        if thing is not None:
            thing.arrived_us = request.arrived_us
            self.things[thing.number] = thing
        lease = self._named(talk, request)
        if lease is not None and request.ending:
            request.was_sure = not lease.is_unsure
            lease.is_unsure = True
            lease.thing.doubt |= request.confirms
            self._release(lease)

    def _named(self, talk: Talk, request: Request) -> Lease | None:
        if request.token:
            return self.by_token.get((request.queue, request.token))
        if request.ending:
            lease = self.by_talk.get(talk)
            return lease if lease and lease.thing.queue == request.queue else None
        return None

    # -- replies ----------------------------------------------------------------------------

    def said(self, talk: Talk, data: bytes) -> None:
        """The server let go of these bytes."""
        talk.buffer += data
        try:
            while (request := talk.parse()) is not None:
                assert request.reply is not None
                request.left_us = self.now()
                self.tell(f"{talk.number}< {request.reply}")
                self.answers += 1
                self._answered(talk, request, request.reply)
                talk.answered.append(request)
        except NotWellFormed as wrong:
            self.complain(f"connection {talk.number}: {wrong}")
            talk.buffer = b""

    def _answered(self, talk: Talk, request: Request, reply: Reply) -> None:
        epoch, last = self.epoch_of[talk.number](), self.epoch_now()
        confirms = request.ending == "close" and "ERROR" not in reply.word
        if (reply.word in _TELLS_OF_DATA or confirms) and epoch < last:
            self.complain(
                f"{request} was answered {reply} under claim {epoch}, but claim {last} was made"
            )
        lease = self._named(talk, request)
        if reply.word in ("SERVER_ERROR", "CLIENT_ERROR"):
            self._refused(talk, request, reply, lease)
            return
        if request.item is not None:
            if reply.word == "STORED":
                request.item.stored_us = request.left_us
                self.stored += 1
            return
        if request.ending and lease is not None:
            self._ended(talk, request, lease)
        if reply.word == "VALUE":
            self._shown(talk, request, reply, epoch)

    def _refused(
        self, talk: Talk, request: Request, reply: Reply, lease: Lease | None
    ) -> None:
        self.refused += 1
        is_closed = bool(CLOSED.search(reply.error))
        if request.item is not None:
            request.item.refused |= is_closed and reply.word == "SERVER_ERROR"
        elif request.takes:
            self._unanswered(request)
        if lease is not None and INVALID.search(reply.error):
            is_good = request.left_us < lease.until_us - EARLY_US and request.was_sure
            if is_good and not lease.thing.gone:
                self.complain(f"{request} answered {reply}, but the lease of {lease.thing} lasts")
        elif reply.word == "CLIENT_ERROR":
            self.complain(f"{request} was answered {reply}")

    def _ended(self, talk: Talk, request: Request, lease: Lease) -> None:
        """Its lease was ended, and the server says so."""
        if not request.token:
            self.by_talk.pop(talk, None)
        if request.ending == "close":
            lease.thing.gone, lease.thing.gone_us = "confirmed", request.left_us
            self.confirmed += 1

    def _shown(self, talk: Talk, request: Request, reply: Reply, epoch: int) -> None:
        thing = self.things.get(reply.flags)
        if thing is None or thing.queue != request.queue:
            self.complain(f"{request} shows item {reply.flags}, which was never stored there")
            return
        if reply.body != thing.body:
            self.complain(f"{request} shows {thing} with another body: {reply.body[:60]!r}")
        if thing.refused:
            self.complain(f"{request} shows {thing}, which was refused")
        if thing.gone and request.arrived_us > thing.gone_us:
            self.complain(f"{request} shows {thing}, which was confirmed at {thing.gone_us / 1000}")
        is_late = request.lease_us and request.left_us >= request.arrived_us + request.lease_us
        for other in self._rivals(thing):
            if request.takes and other.thing is not thing:
                continue  # it was done before the other was leased
            if is_late or request.left_us >= other.until_us - EARLY_US or other.is_unsure:
                continue
            if other.token or other.epoch == epoch:
                self.complain(f"{request} is leased {thing}, but {other.thing} is held already")
        if request.takes:
            thing.gone, thing.gone_us = "taken", request.left_us
            self.confirmed += 1
            return
        lease = Lease(thing, epoch=epoch)
        if request.lease_us:
            lease.token = reply.number
            lease.until_us = request.arrived_us + request.lease_us
            self.by_token[request.queue, reply.number] = lease
        else:
            lease.talk = talk
            self.by_talk[talk] = lease
        if not is_late:  # else somebody else may have it by now
            self.held[thing.number] = lease

    def _rivals(self, thing: Thing) -> list[Lease]:
        """Who holds it, or another item of its key."""
        return [
            each for each in self.held.values()
            if each.thing is thing
            or (thing.key and each.thing.key == thing.key and each.thing.queue == thing.queue)
        ]  # fmt: skip

    # -- the end ----------------------------------------------------------------------------

    def wrong_at_the_end(self) -> None:
        """Everything that is there was shown: what is missing was lost."""
        for queue in sorted({thing.queue for thing in self.things.values()}):
            lost = [
                thing for thing in self.things.values()
                if thing.queue == queue and thing.stored_us and not (thing.gone or thing.doubt)
            ]  # fmt: skip
            if len(lost) > self.takes_lost.get(queue, 0):
                self.complain(f"{lost[0]} was acknowledged at {lost[0].stored_us / 1000}, and lost")
