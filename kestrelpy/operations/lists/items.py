"""A page of the items of a queue, by state, key and text, with their bodies.

    any, ready   ──▶ by marker, read in order from the log ──┐
    leased, dead, delayed ──▶ by id, each one read ──────────┴──▶ key? text? ──▶ a page, its cursor

A page looks at a bounded number of items. It may be empty and have a cursor: the next page goes on
from there. The pages without a state have all items with a marker; one that was never available has
none.

One rule: a page shows only items that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from journal.format import ItemTexts, in_words
from journal.store import Put
from kestrelpy.core import DONE, AnyQueue, Browse, QueueLife
from kestrelpy.operations.item_facts import marker_here
from kestrelpy.operations.lists.leases import leased_ids
from kestrelpy.operations.ports import PAUSE
from kestrelpy.operations.reading import LogReader, NoShape
from kestrelpy.wire.names import state_word

ITEM_STATES: Final = ("ready", "leased", "delayed", "dead", "done")
LOOKED_MAX: Final = 10_000
LOOKED_BYTES_MAX: Final = 32 << 20
# Items that are read one by one, for one page.
READ_MAX: Final = 500
_PER_READ: Final = 200

_Bytes = bytes  # where a field of that name hides the type


class ListedItem(NamedTuple):
    """An item in a list. Its body is text, or else base64; `is_cut`: it is longer."""

    # Times are on the wall clock; `marker` is None before the item was available.
    id: int
    marker: int | None
    state: str
    attempts: int
    flags: int
    stored_ms: int
    expires_ms: int | None
    bytes: int
    key: str | None
    texts: ItemTexts
    body: _Bytes

    @property
    def is_cut(self) -> bool:
        """True if the body is only its beginning."""
        return len(self.body) < self.bytes


class ItemPage(NamedTuple):
    """The items of one page; `next` is its cursor, None on the last page.

    It looked at `looked` items. Not `is_whole`: it looked at as many as it may, and the next page
    goes on.
    """

    items: list[ListedItem]
    next: int | None
    looked: int
    is_whole: bool


class ItemList:
    """The items of one queue in one state ("": any), with this key (None: any) and this text in
    their bodies.

    `now_ms` returns the steady time; `body_max` is the length of a body that is not cut. By marker,
    no item stored before `since_ms` comes first.
    """

    __slots__ = (
        "_body_max", "_key", "_now_ms", "_queue", "_reader", "_since_ms", "_state", "_text",
    )  # fmt: skip

    def __init__(
        self, queue: AnyQueue, reader: LogReader, state: str, key: str | None, body_max: int,
        now_ms: Callable[[], int], text: bytes = b"", since_ms: int = 0,
    ) -> None:  # fmt: skip
        self._queue = queue
        self._reader = reader
        self._state = state
        self._key = key
        self._body_max = body_max
        self._now_ms = now_ms
        self._text = text
        self._since_ms = since_ms

    def page(self, after: int, most: int) -> Generator[bytes, None, ItemPage]:
        """Return at most `most` items after this cursor; 0 is the beginning."""
        if self._state in ("leased", "delayed", "dead"):
            return (yield from self._by_id(after, most))
        return (yield from self._by_marker(after, most))

    def _by_marker(self, after: int, most: int) -> Generator[bytes, None, ItemPage]:
        found, looked, room = list[ListedItem](), 0, LOOKED_BYTES_MAX
        since_ms = self._since_ms
        while looked < LOOKED_MAX and room > 0:
            read = yield from self._reader.page(
                self._queue, after, _PER_READ, since_ms, NoShape()
            )
            if read is None:
                return ItemPage(found, None, looked, True)
            (page, browse), since_ms = read, 0
            for put in page.puts:
                after, looked = put.marker, looked + 1
                room -= len(put.body)
                item = self._listed(put, browse, put.marker)
                if self._matches(item, put.body):
                    found.append(item)
                if len(found) == most:
                    return ItemPage(found, after, looked, True)
            yield PAUSE
        return ItemPage(found, after, looked, False)

    def _by_id(self, after: int, most: int) -> Generator[bytes, None, ItemPage]:
        queue, found, looked = self._queue, list[ListedItem](), 0
        life = QueueLife.of(queue)
        ids = yield from self._ids(after)
        for id_ in ids[:READ_MAX]:
            after, looked = id_, looked + 1
            if life.is_over:
                return ItemPage(found, None, looked, True)
            if id_ > queue.log.item_stored:
                continue
            put = yield from self._reader.find(queue, id_)
            browse = Browse(queue)
            if put is None or not browse.has(id_):
                continue
            marker = marker_here(queue.reader, id_, put.marker)
            item = self._listed(put, browse, marker)
            if self._matches(item, put.body):
                found.append(item)
            if len(found) == most:
                break
        next_ = after if ids and after < ids[-1] else None
        return ItemPage(found, next_, looked, next_ is None or len(found) == most)

    def _ids(self, after: int) -> Generator[bytes, None, list[int]]:
        """Return the next ids in this state, one more than a page reads."""
        reader = self._queue.reader
        if self._state == "leased":
            return (yield from leased_ids(reader, after, READ_MAX + 1))
        ids = reader.dead.ids if self._state == "dead" else reader.delays.ids
        some, id_ = list[int](), ids.first_from(after + 1)
        while id_ and len(some) <= READ_MAX:
            some.append(id_)
            id_ = ids.first_from(id_ + 1)
        return some

    def _matches(self, item: ListedItem, body: bytes) -> bool:
        state = self._state
        if state and item.state != state:
            return False
        return (self._key is None or item.key == self._key) and self._text in body

    def _listed(self, put: Put, browse: Browse, marker: int | None) -> ListedItem:
        id_, body = put.id, put.body
        expires_ms = self._queue.reader.expires_here(id_, put.expires_ms)
        state, attempts = browse.state(id_)
        if state != DONE and browse.has_expired(
            id_, expires_ms, self._now_ms() + self._queue.clock.offset_ms
        ):
            state = DONE
        word = state_word(state.decode("ascii"))
        return ListedItem(
            id_, marker, word, attempts, put.flags, put.stored_ms,
            expires_ms or None, len(body), in_words(put.key) or None, put.texts,
            body[: self._body_max],
        )  # fmt: skip
