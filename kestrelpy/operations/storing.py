"""Storing one item: its queue, its conditions, and the record to wait for.

    name ──▶ its queue, made if it is new ──▶ key, id, version ──▶ put ──▶ lsn, or why not

One rule: a request that is refused leaves no queue behind.
"""

from __future__ import annotations

from typing import NamedTuple

from journal.format import ItemHeader
from kestrelpy.core import NO_KEY, AnyQueue, Broker, Delay
from kestrelpy.errors import ClientError, ItemRefused
from kestrelpy.operations.children import Children
from kestrelpy.operations.modes import check_changes
from kestrelpy.operations.names import parent_of
from kestrelpy.operations.ports import Site


class Terms(NamedTuple):
    """The conditions on which an item is stored, and the facts stored with its body.

    `key` has the values that the producer names. `header` has its id, texts and origin; None: it
    has none of these. `expects` goes with a key, and is the version that the key must have
    (ANY_VERSION: it must have one; None: no condition). `expires_ms` is on the wall clock, 0:
    never.
    """

    flags: int = 0
    expires_ms: int = 0
    key: tuple[bytes, ...] = ()
    delay: Delay | None = None
    header: ItemHeader | None = None
    expects: int | None = None
    only_if_empty: bool = False

    @property
    def id(self) -> bytes:
        """The id that it is stored under; b"": none."""
        return self.header.id if self.header is not None else b""

    @property
    def needs_version(self) -> bool:
        """True if something must have been written under its key before."""
        return bool(self.expects)


class Storing:
    """Stores items in the queues of one server."""

    __slots__ = ("_broker", "_children", "_site")

    def __init__(self, broker: Broker, site: Site) -> None:
        self._broker = broker
        self._site = site
        self._children = Children(broker, site)

    def check_mode(self) -> None:
        """Raise ServerError unless the server stores items now."""
        check_changes(self._site.mode, "stores")

    def queue(self, name: bytes, terms: Terms, body: bytes, now_ms: int) -> AnyQueue | None:
        """Return the queue, made if it is new; None: there is none, and the item needs a version
        of its key. Raise Refused, before a queue is made, for an item that its put would refuse.
        """
        queue = self._broker.queues.get(name)
        if queue is not None:
            return queue
        self.refuse_in_child(name, terms)
        if terms.needs_version:
            return None
        policy, size = self._broker.policy_of(name, b""), len(body)
        if policy.never_fits(size):
            raise ItemRefused(policy.why_never(name, size))
        policy.keys.key_of(name, terms.key, body)
        if parent_of(name):
            return self._children.to_store_in(name, now_ms)
        return self._broker.create(name, now_ms)

    @staticmethod
    def refuse_in_child(name: bytes, terms: Terms) -> None:
        """Raise ClientError for ids and versions in a child, before anything is made."""
        if (terms.id or terms.expects is not None) and parent_of(name):
            raise ClientError(
                f"{name.decode('ascii')} is a child: ids and versions are its parent's, name that "
                "instead"
            )

    @staticmethod
    def put(queue: AnyQueue, body: bytes, terms: Terms, now_ms: int) -> int:
        """Store the item; return its record, or why it was not stored, as `Queue.put` does."""
        keys, key = queue.policy.keys, NO_KEY
        if terms.key or keys.rule is not None:
            key = keys.key_of(queue.name, terms.key, body)
        flags, expires_ms, delay, header = (
            terms.flags, terms.expires_ms, terms.delay, terms.header
        )  # fmt: skip
        if terms.only_if_empty:
            return queue.add(body, flags, expires_ms, now_ms, key, delay=delay, header=header)
        return queue.put(body, flags, expires_ms, now_ms, key, None, delay, header, terms.expects)


def why_reused(name: bytes, id_: bytes) -> str:
    """Return why an item is refused whose id was stored with another body or key."""
    word = id_.decode("utf-8", "backslashreplace")
    return (
        f"id {word} was stored in {name.decode('ascii')} before, with another body or key: nothing "
        "was stored now; repeat a request unchanged, or use a new id"
    )
