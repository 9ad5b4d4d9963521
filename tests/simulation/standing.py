"""Requests about a whole queue, and whether they hold: a pause, and declared settings.

    sent ─▶ maybe ─▶ answered: it holds, over every restart, until the next one or a delete
                 └─▶ an error, or no answer: maybe, until another one is answered

One rule: it is certain only while no request that may change it is under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.simulation.requests import Reply, Request

_NEVER: Final = 1 << 62
SWITCHES: Final = ("pause", "resume")


class Standing:
    """The pause and the settings of one queue. Times are microseconds of the run."""

    def __init__(self) -> None:
        self.paused_us = _NEVER  # certainly paused since then
        self.unpaused_us = 0  # certainly not paused since then
        self.declared: bytes | None = b""  # b"": certainly nothing; None: not known
        self._deleted_us = 0  # the last time that a delete came or ended
        self._was_paused = False
        self._underway: list[Request] = []

    def arrived(self, request: Request) -> None:
        """Note that a request has arrived that may change it."""
        if request.verb in SWITCHES:
            self._was_paused |= request.verb == "pause"
            self._underway.append(request)
            self._doubt_pause()
        elif request.declares:
            self._underway.append(request)

    def unanswered(self, request: Request) -> None:
        """Note that a request got an error, or its connection ended: its effect is not known."""
        if request in self._underway:
            self._underway.remove(request)
            if request.declares:
                self.declared = None

    def answered(self, request: Request, reply: Reply) -> Iterator[str]:
        """Note that a request succeeded; yield the mistakes of the answer."""
        self._underway.remove(request)
        if request.arrived_us <= self._deleted_us:
            if request.declares:
                self.declared = None
            return  # it is not known whether it came before the delete
        if request.declares:
            yield from self._declared(request, reply)
            return
        if reply.word == "NOT_FOUND":
            self._was_paused = False
        if any(each.verb in SWITCHES for each in self._underway):
            return
        if request.verb == "pause" and reply.word == "OK":
            self.paused_us = request.left_us
        else:
            self.unpaused_us = request.left_us

    def _declared(self, request: Request, reply: Reply) -> Iterator[str]:
        holds, said = self.declared, request.body
        if reply.word == "STORED":
            if holds and holds != said:
                yield f"{request} answered STORED, but {holds!r} was declared before"
            self.declared = said
        elif holds in (b"", said):
            yield f"{request} answered NOT_STORED, but {holds!r} was declared before"

    def leased(self, request: Request) -> Iterator[str]:
        """Yield the mistakes of an answer that hands out an item."""
        if request.arrived_us > self.paused_us:
            yield f"{request} hands out an item, but {request.queue} is paused"

    def may_lease_nothing(self, request: Request) -> bool:
        """True if the queue may have been paused at some moment since this request arrived."""
        return request.arrived_us <= self.unpaused_us

    def deleted(self, now_us: int) -> None:
        """Note that a delete is under way, or was."""
        self._deleted_us = now_us
        self.declared = None
        if self._was_paused:
            self._doubt_pause()

    def end_life(self, forgets: bool, now_us: int) -> None:
        """Note that the server ended; `forgets`: answered requests may not be on disk."""
        for request in list(self._underway):
            self.unanswered(request)
        if forgets:
            self.deleted(now_us)

    def _doubt_pause(self) -> None:
        self.paused_us = self.unpaused_us = _NEVER
