"""A key as a stream: its items by version, and the next one, stored at an expected version.

    the last item under a key ──▶ 7 ──▶ 6 ──▶ 5 ──▶ 4 ──▶ ...     each item's record names the one
                                                                  before it
    append: no queue yet, or one without settings ──▶ declared with retain = "forever" ──▶ put

Items that only the log has are read off the loop, one at a time, so a walk costs more the further
it goes back.

One rule: an item is shown as of the moment of the answer: if it is retained, and when it is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Final, NamedTuple

from kestrelpy.core import (
    ANY_VERSION,
    DUPLICATE,
    NOT_FOUND,
    AnyQueue,
    Broker,
    Browse,
    Item,
    Policy,
)
from kestrelpy.errors import ClientError, ItemRefused
from kestrelpy.operations.names import parent_of
from kestrelpy.operations.ports import PAUSE, Client, ItemReader, Site
from kestrelpy.operations.queue_admin import QueueAdmin
from kestrelpy.operations.reading import PAGE_BYTES_MAX
from kestrelpy.operations.rests import Rests
from kestrelpy.operations.storing import Storing, Terms

_STEPS_AT_ONCE: Final = 200  # about 2 ms if all of them are in memory
_FOREVER: Final = b'retain = "forever"\n'


class WrittenStream(NamedTuple):
    """The items of a stream, each with its version, and the version of the last one."""

    version: int
    items: list[tuple[int, Item]]


class Appended(NamedTuple):
    """The result of an append. `lsn` is its record, or says why there is none, as `Queue.put`
    does; `version` is the version of the stream now. `number` is that of the item.

    For a repetition `number` and `version` are those of the first item; 0: only its record has
    them."""

    lsn: int
    version: int
    number: int
    rests: Rests | None


def check_stream(queue: AnyQueue, key: tuple[bytes, ...], needs_items: str = "") -> bytes:
    """Return the canonical key; raise ClientError if it is not valid for this queue, or the queue
    does not retain the earlier items that the option `needs_items` asks for."""
    canonical = queue.policy.keys.key_of(queue.name, key, b"")
    if needs_items and not queue.policy.retains:
        remedy = 'set retain for it, for instance retain = "forever"'
        if not queue.policy.durable:
            remedy = "it is in memory (durable)"
        name = queue.name.partition(b"+")[0].decode("ascii")
        raise ClientError(f"{needs_items}: queue {name} retains no completed items; {remedy}")
    return canonical


class StreamWalk:
    """Reads the items of streams for one client, from the last one back."""

    __slots__ = ("_client", "_reader")

    def __init__(self, client: Client, reader: ItemReader) -> None:
        self._client = client
        self._reader = reader

    def version(self, queue: AnyQueue, key: bytes) -> int:
        """Return the version of the key; 0: nothing was written under it."""
        return queue.dedupe.versions.of(key, queue.policy, self._unix_ms(queue)).version

    def at(self, queue: AnyQueue, key: bytes, version: int) -> Generator[bytes, None, Item | None]:
        """Return the item that made this version of the key; None: it is not there."""
        written = queue.dedupe.versions.of(key, queue.policy, self._unix_ms(queue))
        if not 0 < version <= written.version:
            return None
        id_ = yield from self._back(queue, written.item, written.version - version)
        return (yield from self._item(queue, id_)) if id_ else None

    def version_of(self, queue: AnyQueue, id_: int) -> Generator[bytes, None, int]:
        """Return the version that this item made of its key; 0: that is not known any more."""
        item = yield from self._item(queue, id_)
        return item.header.version if item is not None and item.header is not None else 0

    def page(
        self, queue: AnyQueue, key: bytes, first: int, most: int
    ) -> Generator[bytes, None, WrittenStream]:
        """Return up to `most` retained items from this version on.

        There are fewer if they are large, but one in any case.
        """
        written = queue.dedupe.versions.of(key, queue.policy, self._unix_ms(queue))
        last = min(written.version, first + most - 1)
        found, size = deque[tuple[int, Item]](), 0
        id_ = 0
        if first <= last:
            id_ = yield from self._back(queue, written.item, written.version - last)
        for version in range(last, first - 1, -1):
            item = (yield from self._item(queue, id_)) if id_ else None
            if item is None:
                break  # those before it are not retained either
            found.appendleft((version, item))
            size += item.size
            while size > PAGE_BYTES_MAX and len(found) > 1:
                size -= found.pop()[1].size
            if version % _STEPS_AT_ONCE == 0:
                yield PAUSE
            id_ = item.header.previous if item.header is not None else 0
        shown = [(version, item) for version, item in found if self.is_shown(queue, item)]
        return WrittenStream(written.version, shown)

    def is_shown(self, queue: AnyQueue, item: Item) -> bool:
        """True if the item is readable at this moment."""
        browse = Browse(queue)
        return (
            not queue.deleted
            and browse.has(item.id)
            and not browse.has_expired(item.id, item.expires_ms, self._unix_ms(queue))
        )

    def _unix_ms(self, queue: AnyQueue) -> int:
        return self._client.last_command_ms + queue.clock.offset_ms

    def _back(self, queue: AnyQueue, id_: int, steps: int) -> Generator[bytes, None, int]:
        """Return the id of the item `steps` versions before this one; 0: it is not known."""
        for step in range(1, steps + 1):
            if step % _STEPS_AT_ONCE == 0:
                yield PAUSE  # others have their turn
            item = yield from self._item(queue, id_)
            if item is None or item.header is None or not item.header.previous:
                return 0
            id_ = item.header.previous
        return id_

    def _item(self, queue: AnyQueue, id_: int) -> Generator[bytes, None, Item | None]:
        browse = Browse(queue)
        if queue.deleted or not browse.has(id_):
            return None
        item = browse.item(id_)
        if item is not None:
            return item
        if id_ > queue.log.item_stored and queue.log.failure is None:
            self._client.await_stored(queue.log, queue.log.lsn_appended)  # then it is read
            yield PAUSE
        return (yield from self._reader.item(queue, id_))


class StreamStore:
    """Appends to streams, in queues that retain their items for good from the first use on.

    A queue keeps the settings that a client declared, or that the file names for it.
    """

    __slots__ = ("_broker", "_site", "_storing")

    def __init__(self, broker: Broker, site: Site) -> None:
        self._broker = broker
        self._site = site
        self._storing = Storing(broker, site)

    def limit_of(self, name: bytes) -> int:
        """Return how large an item of this queue may be, in bytes."""
        queue = self._broker.queues.get(name)
        policy = queue.policy if queue is not None else self._broker.policy_of(name, b"")
        return policy.max_item_bytes

    def append(self, name: bytes, body: bytes, terms: Terms, now_ms: int) -> Appended:
        """Store an item under the key of `terms`; raise Refused, and nothing has changed.

        The lsn is NOT_STORED, DUPLICATE, REUSED, EXISTS or NOT_FOUND if nothing was stored.
        """
        self._storing.check_mode()
        self._check_name(name)
        queue = self._broker.queues.get(name)
        policy = queue.policy if queue is not None else self._broker.policy_of(name, b"")
        self._check(queue, policy, name, body)
        key = policy.keys.key_of(name, terms.key, body)
        if queue is None and terms.needs_version:
            return Appended(NOT_FOUND, 0, 0, None)
        if self._is_to_retain(queue, policy, name):
            queue = self._retained(queue, policy, name, terms, key, now_ms)
        if queue is None:
            queue = self._storing.queue(name, terms, body, now_ms)
            assert queue is not None
        number = queue.next_number
        lsn = Storing.put(queue, body, terms, now_ms)
        self._broker.counters.cmd_set += 1
        unix_ms = now_ms + queue.clock.offset_ms
        version, last, _ = queue.dedupe.versions.of(key, queue.policy, unix_ms)
        if lsn == DUPLICATE:
            number = queue.dedupe.ids.item_of(terms.id, queue.policy, unix_ms, key, last)
            version = version if number == last else 0
        rests = Rests(queue.log, lsn if lsn >= 0 else queue.log.lsn_appended)
        return Appended(lsn, version, number, rests)

    def _check_name(self, name: bytes) -> None:
        word = name.decode("ascii")
        if name in self._broker.aliases:
            raise ClientError(f"{word} is an alias: name one of its queues")
        if parent_of(name):
            raise ClientError(f"{word} is a child: the streams are its parent's, name that instead")

    @staticmethod
    def _check(queue: AnyQueue | None, policy: Policy, name: bytes, body: bytes) -> None:
        """Raise Refused for an item that the put would refuse, before settings are declared."""
        if queue is not None and (queue.log.failure is not None or queue.log.no_room):
            queue.refuse_put(len(body))
        if policy.never_fits(size := len(body)):
            raise ItemRefused(policy.why_never(name, size))
        children = queue.children if queue is not None else policy.children
        if policy.fanout_only and not children and not policy.retains:
            word = name.decode("ascii")
            raise ClientError(f"{word} is fanout_only and has no children: it stores no stream")

    def _is_to_retain(self, queue: AnyQueue | None, policy: Policy, name: bytes) -> bool:
        """True if neither the file nor a client has said how long this queue retains items."""
        if policy.retains or not policy.durable or (queue is not None and queue.declared):
            return False
        sources = {key: source for key, _, source in self._site.settings(name, b"")}
        return sources["retain"] == "default"

    def _retained(
        self, queue: AnyQueue | None, policy: Policy, name: bytes, terms: Terms, key: bytes,
        now_ms: int,
    ) -> AnyQueue | None:  # fmt: skip
        """Declare that the queue retains its items for good, unless the put will be refused; return
        the queue."""
        if queue is not None:
            unix_ms = now_ms + queue.clock.offset_ms
            version = queue.dedupe.versions.of(key, policy, unix_ms).version
            is_any = terms.expects == ANY_VERSION and version > 0
            if not (is_any or terms.expects is None or terms.expects == version):
                return queue
        QueueAdmin(self._broker, self._site).declare(name, _FOREVER, now_ms)
        return self._broker.queues.get(name)
