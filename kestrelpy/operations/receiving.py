"""Items that come from other servers: moved here, or stored here in a hand-off.

    a letter ──▶ its permit is valid? ──▶ its copy is here? ──▶ its queue, made if it is new ──▶ put

One rule: a letter that is refused is refused for good: its sender keeps the item. What was stored
and may not be on disk is no refusal.
"""

from __future__ import annotations

from typing import NamedTuple

from journal.format import ItemHeader, Origin
from kestrelpy.core import NOT_FOUND, AnyQueue, Broker, Letter, Log, TransferTarget
from kestrelpy.errors import ClientError, ItemRefused
from kestrelpy.operations.modes import check_changes
from kestrelpy.operations.names import parent_of
from kestrelpy.operations.ports import Site
from kestrelpy.operations.storing import Storing, Terms


class Received(NamedTuple):
    """The copy of a letter, and the record that is on disk before its sender may know."""

    copy: Origin
    log: Log
    lsn: int


class Receiving:
    """Stores the letters of other servers in the queues of this one."""

    __slots__ = ("_broker", "_site", "_storing")

    def __init__(self, broker: Broker, site: Site) -> None:
        self._broker, self._site = broker, site
        self._storing = Storing(broker, site)

    def find(self, origin: Origin) -> Received | None:
        """Return the copy of an original that is here, if its origin is open; else None."""
        found = self._broker.moves.remote.arrivals.find(origin)
        if found is None:
            return None
        queue, copy = found
        there = Origin(queue.server_id, queue.name, copy, queue.generation)
        return Received(there, queue.log, queue.log.lsn_appended)

    def move(self, letter: Letter, now_ms: int) -> Received:
        """Store an item that moves here. Raise Refused, and nothing is stored."""
        name, broker = letter.target, self._broker
        self._refuse_alias(name)
        if parent_of(name):
            raise ClientError("items are moved to a queue, and this is a fan-out child of one")
        check_changes(self._site.mode, "moves")
        queue = broker.queues.get(name) or self._make(letter, now_ms)
        item = letter.item
        copy, lsn = TransferTarget(queue).receive(item, letter.origin, now_ms, letter.life_ms)
        return self._received(letter, queue, copy, lsn)

    def hand_off(self, letter: Letter, terms: Terms, now_ms: int) -> tuple[Received | None, int]:
        """Store what replaces an item. Return it, and the result of `Queue.put`; None: nothing was
        stored. Raise Refused, and nothing is stored."""
        name, broker = letter.target, self._broker
        self._refuse_alias(name)
        self._storing.check_mode()
        there = broker.queues.get(name)
        policy = there.policy if there is not None else broker.policy_of(name, b"")
        is_on_disk = there is None or there.log.read_ahead is not None
        if not (policy.durable and is_on_disk) or policy.sync_ms:
            said = name.decode("ascii")
            raise ClientError(
                f'confirm needs queues on disk with sync = "always", and {said} is another'
            )
        header = (terms.header or ItemHeader())._replace(origin=letter.origin)
        terms = terms._replace(header=header)
        queue = self._storing.queue(name, terms, letter.body, now_ms)
        if queue is None:
            return None, NOT_FOUND
        copy = queue.next_number
        lsn = Storing.put(queue, letter.body, terms, now_ms)
        if lsn < 0 or (queue.passes_on and not queue.children and queue.retained is None):
            return None, lsn
        return self._received(letter, queue, copy, lsn), lsn

    def _received(self, letter: Letter, queue: AnyQueue, copy: int, lsn: int) -> Received:
        files = queue.files
        files.log.wait_durable(lsn)
        self._broker.moves.remote.arrivals.note(letter.origin, files, copy)
        there = Origin(files.server_id, queue.name, copy, queue.generation)
        return Received(there, queue.log, lsn)

    def _refuse_alias(self, name: bytes) -> None:
        if name in self._broker.aliases:
            word = name.decode("ascii")
            raise ClientError(f"items are moved to a queue, and {word} is an alias")

    def _make(self, letter: Letter, now_ms: int) -> AnyQueue:
        """Create the queue; raise Refused if it would refuse the item."""
        policy, size = self._broker.policy_of(letter.target, b""), len(letter.body)
        if size > policy.max_item_bytes:
            raise ItemRefused(f"item too large ({size} bytes, limit {policy.max_item_bytes})")
        return self._broker.create(letter.target, now_ms)
