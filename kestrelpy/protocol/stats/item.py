"""One item by its number: where it is and why it is not delivered; and the reasons of dead letters.

    stats q/item=7  ──▶ gone                          lent ──▶ the holder, the deadline
                    ──▶ ready ──▶ paused, the number of items ahead, next
                    ──▶ delayed ──▶ its time
                    ──▶ dead ──▶ the reason          (an item that only the log has is read)

One rule: inspection changes nothing, and a long count is made in slices.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote_from_bytes

from journal.format import DeadEntry, in_words
from kestrelpy.core import (
    DELAYED,
    DONE,
    NO_KEY,
    Admin,
    Browse,
    Item,
    Lease,
    Queue,
    Subscription,
    Waiting,
)
from kestrelpy.errors import ClientError
from kestrelpy.protocol.parse import parse_number, readable
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.stats.stats import is_shown, lines

_PER_SLICE: Final = 200
_COUNTED_PER_SLICE: Final = 20_000
_NONE: Final = "-"
_UNESCAPED: Final = "!$&'()*+,:;=@"  # left as they are in a line that is split at its blanks
_END: Final = b"END\r\n"

Fact = tuple[str, object]
T = TypeVar("T")


class _Stored(NamedTuple):
    """The facts of an item from its put."""

    marker: int
    stored_ms: int
    expires_ms: int
    body_bytes: int
    key: bytes
    origin: bytes


def item_lines(talk: Talk, queue: Queue | None, value: bytes) -> Iterator[bytes]:
    """`stats <queue>/item=<n>`; raise ClientError for a number that is not assigned yet."""
    id_ = _number("item", value)
    if queue is None:
        return iter((_END,))
    log = queue.log
    latest = queue.last_number
    if log.failure is not None:
        latest = min(latest, log.item_stored)  # an item not stored by now never will be
    if id_ > latest:
        name = queue.name.decode("ascii")
        raise ClientError(f"item {id_} of {name} is not assigned yet, the latest is {latest}")
    if id_ > log.item_stored:
        talk.replies.hold(b"", log, log.lsn_appended)  # it is shown when it is stored
    return _item_lines(talk, queue, id_)


def token_lines(talk: Talk, queue: Queue | None, value: bytes) -> Iterator[bytes]:
    """`stats <queue>/token=<n>`: the item leased by a token that a client has seen."""
    token = _number("token", value)
    if queue is None:
        return iter((_END,))
    lease = queue.reader.by_token.find(token, talk.last_command_ms)
    if lease is None:
        return iter((lines("", [("token", token), ("state", "gone")]) + _END,))
    return _item_lines(talk, queue, lease.item.id)


def _number(word: str, value: bytes) -> int:
    return parse_number(word, readable(value) if value else None)


def dead_lines(queue: Queue | None) -> Iterator[bytes]:
    """`stats <queue>/dead`: all dead letters, oldest first, a line for each fact."""
    deaths = list(queue.reader.dead.deaths.values()) if queue is not None else []
    for some in _sliced(deaths, _PER_SLICE):
        assert queue is not None
        name, reader = queue.name.decode("ascii"), queue.reader
        yield b"".join(
            lines(f"queue_{name}_dead_{death.item}_", _of_death(reader, death)) for death in some
        )
    yield _END


def _of_death(reader: Subscription, death: DeadEntry) -> list[Fact]:
    return [
        ("attempts", death.attempts),
        ("reason", _word(death.reason)),
        ("died_ms", death.died_ms),
        ("bytes", death.body_bytes),
        ("state", "lent" if death.item in reader.leases else "dead"),
    ]


def _item_lines(talk: Talk, queue: Queue, id_: int) -> Iterator[bytes]:
    stored = yield from _stored(talk, queue, id_)
    ahead = yield from _ahead(queue.reader, id_)
    yield lines("", _facts(talk, queue, id_, stored, ahead)) + _END


def _stored(talk: Talk, queue: Queue, id_: int) -> Generator[bytes, None, _Stored | None]:
    """Return the item's put from memory, or else from the log; None if it is gone or unreadable."""
    reader = queue.reader
    kept = Browse(queue)
    if not kept.has(id_):
        return None
    lease = reader.leases.of(id_)
    item = lease.item if lease is not None else kept.item(id_)
    if item is not None and item.stored_ms:
        return _as_stored(item)
    item = yield from talk.browser().item(queue, id_)
    return _as_stored(item) if item is not None else None


def _as_stored(item: Item) -> _Stored:
    origin = item.origin.name if item.origin is not None else b""
    return _Stored(
        item.marker, item.stored_ms, item.expires_ms, item.size, item.key, origin
    )


def _ahead(reader: Subscription, id_: int) -> Generator[bytes, None, int]:
    """Return the number of ready items before it."""
    count = reader.live.count_between(1, id_ - 1)
    leased = [lease.item.id for lease in reader.leases if not lease.dead]
    count -= reader.delays.ids.count_between(1, id_ - 1)
    for ids in (leased, list(reader.dead.deaths)):
        for some in _sliced(ids, _COUNTED_PER_SLICE):
            count -= sum(other < id_ for other in some)
            yield b""
    return max(count, 0)  # others went during the count


def _facts(
    talk: Talk, queue: Queue, id_: int, stored: _Stored | None, ahead: int
) -> list[Fact]:
    reader, kept = queue.reader, Browse(queue)
    unix_ms = talk.last_command_ms + queue.clock.offset_ms
    is_over = stored is not None and kept.has_expired(id_, stored.expires_ms, unix_ms)
    if not kept.has(id_) or is_over:
        return [("id", id_), ("state", "gone"), ("why", "confirmed,_expired_or_removed")]
    state, attempts = kept.state(id_)
    lease, death = reader.leases.of(id_), reader.dead.deaths.get(id_)
    key = stored.key if stored is not None else NO_KEY
    if lease is not None:
        why = _why_leased(lease, queue, talk.last_command_ms)
    elif death is not None:
        why = _why_dead(reader, death)
    elif state == DONE:
        why = "confirmed,_expired_or_removed,_and_retained"
    elif state == DELAYED:
        why = f"delayed_until_{reader.delays.find(id_, queue.clock.offset_ms)[0]}"
    else:
        why = _why_ready(talk, queue, id_, ahead, key)
    left_ms: object = _NONE
    if lease is not None and lease.deadline_ms is not None:
        left_ms = max(lease.deadline_ms - talk.last_command_ms, 0)
    return [
        ("id", id_),
        ("marker", _marker(reader, stored, id_)),
        ("state", state.decode("ascii")),
        ("why", why),
        ("attempts", attempts),
        ("lease_left_ms", left_ms),
        ("token", lease.token if lease is not None and is_shown(reader, lease) else _NONE),
        ("holder", _one_word(lease.holder.name) if lease is not None else _NONE),
        ("age_ms", max(unix_ms - stored.stored_ms, 0) if stored is not None else _NONE),
        ("stored_ms", stored.stored_ms if stored is not None else _NONE),
        ("expires_ms", (stored.expires_ms or _NONE) if stored is not None else _NONE),
        ("bytes", _bytes(stored, death)),
        ("key", in_words(key) or _NONE),
        ("origin", _word(stored.origin) if stored is not None else _NONE),
        ("died_ms", death.died_ms if death is not None else _NONE),
        ("reason", _word(death.reason) if death is not None else _NONE),
    ]


def _marker(reader: Subscription, stored: _Stored | None, id_: int) -> object:
    if id_ not in reader.markers.hidden:
        return id_
    known = stored.marker if stored is not None else 0
    return known or reader.markers.marker_of(id_) or _NONE


def _bytes(stored: _Stored | None, death: DeadEntry | None) -> object:
    if death is not None:
        return death.body_bytes
    return stored.body_bytes if stored is not None else _NONE


def _why_leased(lease: Lease, queue: Queue, now_ms: int) -> str:
    until = "it_hangs_up"
    if lease.deadline_ms is not None:
        until = str(lease.deadline_ms + queue.clock.offset_ms)
    line = "from_the_dead_line_" if lease.dead else ""
    if lease.by_token:
        return f"lent_{line}by_token_{lease.token}_until_{until}"
    return f"lent_{line}to_{_one_word(lease.holder.name)}_until_{until}"


def _why_dead(reader: Subscription, death: DeadEntry) -> str:
    if reader.dead.is_hidden(death.item):
        return "dead,_and_its_body_cannot_be_read"
    return f"dead:_{_word(death.reason)}"


def _why_ready(talk: Talk, queue: Queue, id_: int, ahead: int, key: bytes) -> str:
    """Return why the next open would not lease it."""
    reader, most = queue.reader, queue.policy.max_leased
    if queue.log.failure is not None:
        return "its_journal_failed"
    if Admin(queue).waiting(id_, talk.last_command_ms) is Waiting.LOST:
        return "its_body_cannot_be_read"
    if talk.host.mode == "quiescent":
        return "the_server_is_quiescent"
    if reader.paused:
        return "paused"
    if key and (blocker := reader.key_gate.keys.blocker(id_, key)) is not None:
        return f"behind_key_{in_words(blocker[0])}_held_by_item_{blocker[1]}"
    if ahead:
        return f"behind_{ahead}_other{'s' if ahead > 1 else ''}"
    if most is not None and len(reader.leases) >= most:
        return f"max_leased_{most}_is_reached"
    return "it_is_next"


def _sliced(things: list[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(things), size):
        yield things[start : start + size]


def _one_word(text: str) -> str:
    return "_".join(text.split()) or _NONE


def _word(reason: bytes) -> str:
    """Return a client's bytes as one word."""
    return quote_from_bytes(reason, _UNESCAPED) if reason else _NONE
