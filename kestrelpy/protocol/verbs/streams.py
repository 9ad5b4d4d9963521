"""A key as a stream: its last item with its version, and the item that made a version.

    gets acc/key=A/peek                  VALUE ... 7      the last item under A; it made version 7
    gets acc/key=A/peek/at_version=3     VALUE ... 3      7 ──▶ 6 ──▶ 5 ──▶ 4 ──▶ 3: each item's
                                                          record names the one before it

Items that only the log has are read off the loop, one at a time; a hang-up ends the walk.

One rule: an item is shown as of the moment of the reply: if it is retained, and when it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kestrelpy.core import Browse, Item, Queue
from kestrelpy.errors import ClientError
from kestrelpy.protocol.parse import Target
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply, Replies
from kestrelpy.protocol.verbs.browse import Browser
from kestrelpy.protocol.verbs.value_line import full_value, value

if TYPE_CHECKING:
    from collections.abc import Generator

_STEPS_AT_ONCE: Final = 200  # about 2 ms if all of them are in memory


def check_stream(target: Target, queue: Queue | None) -> None:
    """Raise ClientError if the queue keeps no versions, or the key is not valid for it."""
    if queue is None or not target.key:
        return
    queue.policy.keys.key_of(queue.name, target.key, b"")
    if target.at_version and not queue.policy.retains:
        remedy = 'set retain for it, for instance retain = "forever"'
        if not queue.policy.durable:
            remedy = "it is in memory (durable)"
        name = queue.name.partition(b"+")[0].decode("ascii")
        raise ClientError(f"at_version: queue {name} retains no completed items; {remedy}")


def show_stream(
    talk: Talk, browser: Browser, target: Target, numbered: bool, end: bytes,
    to: Replies | JointReply,
) -> Iterator[bytes]:  # fmt: skip
    """Answer one key= with peek. While it has to wait it yields nothing; the caller resumes it."""
    counters = talk.broker.counters
    counters.cmd_peek += 1
    queue = talk.broker.queues.get(target.name)
    check_stream(target, queue)
    item: Item | None = None
    version = 0
    if queue is not None:
        key = queue.policy.keys.key_of(queue.name, target.key, b"")
        unix_ms = talk.last_command_ms + queue.clock.offset_ms
        written = queue.dedupe.versions.of(key, queue.policy, unix_ms)
        version = target.at_version or written.version
        if 0 < version <= written.version:
            item = yield from _walk(talk, browser, queue, written.item, written.version - version)
    if queue is None or item is None or not _is_shown(talk, queue, item):
        counters.get_misses += 1
        to.say(end)
        return
    counters.get_hits += 1
    to.value_bytes += item.size
    number = version if numbered else 0
    if target.full:
        data = full_value(target.raw, item, end, number, *Browse(queue).state(item.id))
    else:
        data = value(target.raw, item, end, number)
    to.hold(data, queue.log, item.lsn)


def _walk(
    talk: Talk, browser: Browser, queue: Queue, id_: int, back: int
) -> Generator[bytes, None, Item | None]:
    """Return the item `back` versions before this one; None if it is not retained."""
    for step in range(1, back + 1):
        if step % _STEPS_AT_ONCE == 0:
            yield b""  # other connections have their turn
        item = yield from _item(talk, browser, queue, id_)
        if item is None or item.header is None or not item.header.previous:
            return None
        id_ = item.header.previous
    return (yield from _item(talk, browser, queue, id_))


def _item(
    talk: Talk, browser: Browser, queue: Queue, id_: int
) -> Generator[bytes, None, Item | None]:
    browse = Browse(queue)
    if queue.deleted or not browse.has(id_):
        return None
    item = browse.item(id_)
    if item is not None:
        return item
    if id_ > queue.log.item_stored and queue.log.failure is None:
        talk.replies.hold(b"", queue.log, queue.log.lsn_appended)  # it is read when it is stored
        yield b""
    return (yield from browser.item(queue, id_))


def _is_shown(talk: Talk, queue: Queue, item: Item) -> bool:
    browse, unix_ms = Browse(queue), talk.last_command_ms + queue.clock.offset_ms
    return (
        not queue.deleted
        and browse.has(item.id)
        and not browse.has_expired(item.id, item.expires_ms, unix_ms)
    )
