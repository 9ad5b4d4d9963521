"""Fan-out children: made by their first mention.

    orders+audit ──▶ there? ──▶ the child
                       └─ no ──▶ made, if a mention makes one ──▶ the child

One rule: a reply to the first mention rests on the record that names the child
(`Child.named_lsn`): then it is certain that the child misses nothing.
"""

from __future__ import annotations

from kestrelpy.core import Broker, ChildQueue
from kestrelpy.errors import ClientError, ServerError
from kestrelpy.operations.modes import UP
from kestrelpy.operations.names import parent_of
from kestrelpy.operations.ports import Site
from kestrelpy.operations.rests import Rests


class Children:
    """The fan-out children of one server."""

    __slots__ = ("_broker", "_site")

    def __init__(self, broker: Broker, site: Site) -> None:
        self._broker = broker
        self._site = site

    def mention(self, name: bytes, begin: int | None, now_ms: int) -> ChildQueue:
        """Return the child. A new child gets the items from the marker `begin` on; None: only items
        still to come. Raise Refused if a mention does not make it."""
        if self._site.mode != UP:
            raise ServerError(f"{self._site.mode}: this server makes no fan-out child now")
        return self._mention(name, begin, now_ms)

    def asked(self, name: bytes, now_ms: int) -> Rests | None:
        """Note a request for items of this queue; return the record that the answer rests on if the
        queue is a child.

        The child is made by its first mention; raise Refused if a mention does not make it.
        """
        queue = self._broker.queues.get(name)
        if queue is None and parent_of(name):
            queue = self.mention(name, None, now_ms)
        if queue is None or (child := queue.child) is None:
            return None
        child.asked_ms = now_ms
        return Rests(child.log, child.named_lsn)

    def to_store_in(self, name: bytes, now_ms: int) -> ChildQueue:
        """Return the child for an item of its own, made if it is new; raise ClientError if a
        mention does not make it.

        The item follows the record that names the child, and so does a refusal.
        """
        return self._mention(name, None, now_ms)

    def _mention(self, name: bytes, begin: int | None, now_ms: int) -> ChildQueue:
        owner = parent_of(name)
        if owner in self._broker.aliases:
            raise ClientError(f"{owner.decode('ascii')} is an alias, and has no children")
        child = self._broker.mention(name, now_ms, begin)
        if child is None:
            raise ClientError(
                f"{name.decode('ascii')} is not there, and fanout_create is off: children of "
                f"{owner.decode('ascii')} are those that the configuration names"
            )
        return child
