"""A key as a stream: its last item with its version, and the item that made a version.

    gets acc/key=A/peek                  VALUE ... 7      the last item under A; it made version 7
    gets acc/key=A/peek/at_version=3     VALUE ... 3      7 ──▶ 6 ──▶ 5 ──▶ 4 ──▶ 3

A hang-up ends the walk.

One rule: as in `operations.streams`: an item is shown as of the moment of the reply.
"""

from __future__ import annotations

from collections.abc import Iterator

from kestrelpy.core import AnyQueue, Browse, Item
from kestrelpy.operations import StreamWalk, check_stream
from kestrelpy.protocol.parse import Target
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply, Replies
from kestrelpy.protocol.verbs.browse import Browser
from kestrelpy.protocol.verbs.value_line import full_value, value


def refuse_stream(target: Target, queue: AnyQueue | None) -> None:
    """Raise ClientError if the queue keeps no versions, or the key is not valid for it."""
    if queue is not None and target.key:
        _checked(target, queue)


def show_stream(
    talk: Talk, browser: Browser, target: Target, to: Replies | JointReply
) -> Iterator[bytes]:
    """Answer one key= with peek. While it has to wait it yields nothing; the caller resumes it."""
    counters = talk.broker.counters
    counters.cmd_peek += 1
    queue, walk = talk.broker.queues.get(target.name), StreamWalk(talk, browser)
    item: Item | None = None
    version = 0
    if queue is not None:
        key = _checked(target, queue)
        version = target.at_version or walk.version(queue, key)
        item = yield from walk.at(queue, key, version)
    if queue is None or item is None or not walk.is_shown(queue, item):
        counters.get_misses += 1
        to.say(to.end)
        return
    counters.get_hits += 1
    to.value_bytes += item.size
    number = version if target.numbered else 0
    if target.full:
        data = full_value(target.raw, item, to.end, number, *Browse(queue).state(item.id))
    else:
        data = value(target.raw, item, to.end, number)
    to.hold(data, queue.log, item.lsn)


def _checked(target: Target, queue: AnyQueue) -> bytes:
    """Return the canonical key; raise ClientError."""
    return check_stream(queue, target.key, "at_version" if target.at_version else "")
