"""Copies that come from other servers, and which of their origins are open here.

    begin ──▶ a permit, and all open origins of that server ──▶ copies under this permit ──▶ settle
      └── the next begin: another permit; what comes late under an earlier one is refused

A server that lost the answer to a copy begins again. The list then says for good whether the copy
is here: a copy that was sent before and comes later is refused.

One rule: an origin is closed only when its server says that the original is gone on its disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from journal.format import Origin
from kestrelpy.core.log import Log
from kestrelpy.core.queue import AnyQueue, Queue
from kestrelpy.core.registry import Registry
from kestrelpy.core.transfer.steps import TransferTarget

Name = tuple[bytes, bytes, int, int]  # of an original: server, queue, item, generation


def name_of(origin: Origin) -> Name:
    """Return what tells an original from all others."""
    return origin.server, origin.queue, origin.item, origin.generation


class Arrival(NamedTuple):
    """A copy whose origin is open; `is_sure`: the answer that it is here may be given when the
    journal of its queue is on disk. The journal has failed otherwise: only a restart knows."""

    origin: Origin
    copy: Origin
    is_sure: bool


class Permit(NamedTuple):
    """What a server is told that begins: it holds when each log has stored its record."""

    number: int
    arrivals: list[Arrival]
    rests: list[tuple[Log, int]]


class RemoteArrivals:
    """The copies of other servers' items in one server. `unawaited` gets the queues with records
    that no reply waits for."""

    __slots__ = ("_open", "_permit", "_permits", "_registry", "_unawaited")

    def __init__(self, registry: Registry, unawaited: dict[AnyQueue, None]) -> None:
        self._registry = registry
        self._unawaited = unawaited
        self._permit = 0  # the latest
        self._permits: dict[bytes, int] = {}  # the valid one of each server
        self._open: dict[Name, tuple[Queue, int]] = {}  # origins of servers with a permit

    def number_from(self, permit: int) -> None:
        """Give permits above this number: another process has not given them."""
        self._permit = permit

    def begin(self, server: bytes) -> Permit:
        """Give this server a permit, the only valid one from now on."""
        self._permit += 1
        self._permits[server] = self._permit
        for name in [name for name in self._open if name[0] == server]:
            del self._open[name]
        arrivals, rests = list[Arrival](), list[tuple[Log, int]]()
        for queue in (*self._registry.logged, *self._registry.ending):
            found = [pair for pair in queue.origins.items() if pair[1].server == server]
            if not found:
                continue
            is_sure = queue.log.failure is None
            if is_sure:
                queue.log.wait_durable(queue.log.lsn_appended)
                rests.append((queue.log, queue.log.lsn_appended))
            for copy, origin in found:
                self._open[name_of(origin)] = queue, copy
                there = Origin(queue.server_id, queue.name, copy, queue.generation)
                arrivals.append(Arrival(origin, there, is_sure))
        return Permit(self._permit, arrivals, rests)

    def is_valid(self, server: bytes, permit: int) -> bool:
        """True if this is the permit that the server got last, of this process."""
        return self._permits.get(server) == permit

    def find(self, origin: Origin) -> tuple[Queue, int] | None:
        """Return where the copy of this original is, if its origin is open; else None."""
        return self._open.get(name_of(origin))

    def note(self, origin: Origin, queue: Queue, copy: int) -> None:
        """Note a copy that was stored."""
        self._open[name_of(origin)] = queue, copy

    def settle(self, origins: Iterable[Origin], now_ms: int) -> None:
        """Close these origins: the originals are gone on their server's disk."""
        copies = dict[Queue, list[int]]()
        for origin in origins:
            found = self._open.pop(name_of(origin), None)
            if found is not None:
                copies.setdefault(found[0], []).append(found[1])
        for queue, ids in copies.items():
            if queue.log.failure is None and not queue.is_going:
                TransferTarget(queue).close_origins(ids, now_ms, lazily=True)
                self._unawaited[queue] = None
            else:
                for id_ in ids:
                    queue._apply_settled(id_)
