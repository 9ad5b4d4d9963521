"""Find the things that a text names in all queues: queues, items, markers, tokens, ids, keys.

    "17" ──▶ queue 17? ──▶ each queue: item 17, marker 17, token 17, dedupe id 17, key 17

The walk looks each meaning up; it searches no bodies and no lists. A queue that is made or deleted
during the walk may be missing.

One rule: a hit names an item that is stored.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from journal.format import join, text_of, value_of
from kestrelpy.core import AnyQueue, Broker, Browse
from kestrelpy.operations.ports import PAUSE
from kestrelpy.wire.names import state_word

_PER_SLICE: Final = 200
_DIGITS_MAX: Final = 18  # of a number that any item, marker or token can have
_VALUES_MAX: Final = 16  # of a key


class Hit(NamedTuple):
    """One thing that the text names. `kind` is queue, item, marker, token, id or key; `item` is
    the item that it leads to, None for a queue; `state` is the item's, `gone` without one."""

    kind: str
    queue: str
    item: int | None
    state: str | None


class FoundItems(NamedTuple):
    """What was found; `is_whole` is False if there may be more."""

    hits: list[Hit]
    is_whole: bool


def find(
    broker: Broker, text: bytes, most: int, now_ms: int
) -> Generator[bytes, None, FoundItems]:
    """Return at most `most` things that this text names. A queue of that name comes first, then
    the rest by the names of their queues."""
    keys = _keys(text)
    number = int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else 0
    hits = [Hit("queue", text.decode("ascii"), None, None)] if text in broker.queues else []
    names, lowered = sorted(broker.queues), text.lower()
    for at, name in enumerate(names):
        if at and not at % _PER_SLICE:
            yield PAUSE
        queue = broker.queues.get(name)
        if queue is None:
            continue
        if lowered in name.lower() and name != text:
            hits.append(Hit("queue", name.decode("ascii"), None, None))
        hits += _in_queue(queue, text, number, keys, now_ms)
        if len(hits) > most:
            return FoundItems(hits[:most], False)
    return FoundItems(hits, True)


def _keys(text: bytes) -> list[bytes]:
    """Return the keys that this text may stand for: its values are texts, or also numbers."""
    if not text or len(words := text.split(b",")) > _VALUES_MAX:
        return []
    texts = [text_of(each) for each in words]
    typed = [
        value_of(int(each)) if each.isdigit() and len(each) <= _DIGITS_MAX else text_of(each)
        for each in words
    ]
    made = [text_of(text), *(join(each, way) for each in (texts, typed) for way in (False, True))]
    return list(dict.fromkeys(made))


def _in_queue(
    queue: AnyQueue, text: bytes, number: int, keys: list[bytes], now_ms: int
) -> Iterator[Hit]:
    reader, browse = queue.reader, Browse(queue)
    name, stored = queue.name.decode("ascii"), queue.log.item_stored

    def hit(kind: str, id_: int) -> Iterator[Hit]:
        if 0 < id_ <= stored:
            state = browse.state(id_)[0].decode("ascii") if browse.has(id_) else "gone"
            yield Hit(kind, name, id_, state_word(state))

    if number:
        if browse.has(number):
            yield from hit("item", number)
        if (marked := browse.id_of(number)) != number:
            yield from hit("marker", marked)
        if (lease := reader.leases.by_token(number)) is not None:
            yield from hit("token", lease.item.id)
    unix_ms = now_ms + queue.clock.offset_ms
    yield from hit("id", queue.dedupe.ids.item_of(text, queue.policy, unix_ms))
    for key in keys:
        yield from hit("key", reader.key_gate.keys.holder(key))
