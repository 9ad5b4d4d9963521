"""The view of an observer: the items of a queue after its marker that it wants to see.

    pages by marker ──▶ ready? leased, if wanted? of another client? ──▶ up to n `SeenItem`
                                                       then, if wanted, those that are not due yet

At most LOOKED_MAX items are looked at, in slices; the observer goes on from the marker returned.

One rule: a returned item was there in the turn in which it is returned.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from journal.store import Put
from kestrelpy.core import DELAYED, LEASED, READY, AnyQueue, Browse
from kestrelpy.operations.ports import PAUSE
from kestrelpy.operations.reading import PAGE_BYTES_MAX, LogReader, NoShape

LOOKED_MAX: Final = 10_000
_PAGE_ITEMS: Final = 500
_DELAYED_PER_SLICE: Final = 1000
_NO_SHAPE: Final = NoShape()


class Sight(NamedTuple):
    """The items that an observer wants to see besides ready ones, `but` those of one client."""

    claimed: bool = False
    delayed: bool = False
    but: bytes = b""


class SeenItem(NamedTuple):
    """One item. `attempts` counts its deliveries, with the present one; `expires_ms` 0: never."""

    id: int
    stored_ms: int
    expires_ms: int
    body: bytes
    attempts: int


class Look(NamedTuple):
    """The items seen, up to the marker `after` and up to the delayed item `delayed`.

    `is_cut`: LOOKED_MAX items were looked at, and there may be more.
    """

    seen: list[SeenItem]
    after: int
    delayed: int
    is_cut: bool


def seen_of(queue: AnyQueue, put: Put, unix_ms: int) -> SeenItem | None:
    """Return the item of this put if it is ready, leased or delayed; None: it is done, dead, or
    past its expiry."""
    browse, id_ = Browse(queue), put.id
    if not browse.has(id_) or browse.has_expired(id_, put.expires_ms, unix_ms):
        return None
    state, attempts = browse.state(id_)
    if state not in (READY, LEASED, DELAYED):
        return None
    expires_ms = queue.reader.expires_here(id_, put.expires_ms)
    return SeenItem(id_, put.stored_ms, expires_ms, put.body, attempts + (state == LEASED))


class Observing:
    """Looks at one queue for one client."""

    __slots__ = ("_queue", "_reader", "_sight", "_unix_ms")

    def __init__(self, queue: AnyQueue, reader: LogReader, sight: Sight, unix_ms: int) -> None:
        self._queue = queue
        self._reader = reader
        self._sight = sight
        self._unix_ms = unix_ms

    def look(self, after: int, delayed: int, most: int) -> Generator[bytes, None, Look]:
        """Return up to `most` items after this marker; delayed ones have none, and come last.

        It waits for a sync only if it would return nothing.
        """
        found, looked, room, is_cut = list[Put](), 0, PAGE_BYTES_MAX, False
        queue, page_items = self._queue, most
        while len(found) < most and room > 0:
            if looked >= LOOKED_MAX:
                is_cut = True
                break
            if found and self._reader.must_wait(queue, after):
                break
            result = yield from self._reader.page(queue, after, page_items, 0, _NO_SHAPE)
            if result is None:
                break
            page, browse = result
            for put in page.puts:
                after, looked = put.marker, looked + 1
                if self._is_wanted(browse, put):
                    found.append(put)
                    room -= len(put.body)
                    if len(found) == most or room <= 0:
                        break
            page_items = min(_PAGE_ITEMS, LOOKED_MAX - looked)
            yield PAUSE
        if self._sight.delayed and len(found) < most and room > 0 and not is_cut:
            delayed, is_cut = yield from self._add_delayed(found, delayed, most, room)
        seen = (seen_of(queue, put, self._unix_ms) for put in found)
        return Look([each for each in seen if each is not None], after, delayed, is_cut)

    def _is_wanted(self, browse: Browse, put: Put) -> bool:
        sight = self._sight
        if sight.but and put.client == sight.but:
            return False
        state, _ = browse.state(put.id)
        return state == READY or (state == LEASED and sight.claimed) or (
            state == DELAYED and sight.delayed
        )

    def _add_delayed(
        self, found: list[Put], after: int, most: int, room: int
    ) -> Generator[bytes, None, tuple[int, bool]]:
        """Add items that were never available; return the last one looked at, and True if there may
        be more."""
        queue, looked = self._queue, 0
        while not queue.deleted and len(found) < most and room > 0:
            reader = queue.reader
            id_ = reader.markers.hidden.first_from(after + 1)
            if not id_:
                return after, False
            if looked >= LOOKED_MAX:
                return after, True
            after, looked = id_, looked + 1
            if not looked % _DELAYED_PER_SLICE:
                yield PAUSE
            if id_ not in reader.delays or not reader.markers.is_new(id_):
                continue
            put = yield from self._reader.find(queue, id_)
            if put is not None and not (self._sight.but and put.client == self._sight.but):
                found.append(put)
                room -= len(put.body)
        return after, False
