"""Browsing on the wire: read items by marker without consuming them, or wait for the next one.

    read a page ──▶ reply
      ▲ └── nothing yet, and time left: wait for the next item
      └───────┘

`operations.reading` decides which items a page has.

One rule: as in `operations.reading`: browsing changes nothing and delays no consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kestrelpy.core import READY, Browse, Holder, QueueLife, Waiter, Want
from kestrelpy.operations import PAGE_BYTES_MAX, LogReader, Page
from kestrelpy.protocol.parse import Target
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply, Replies
from kestrelpy.protocol.verbs.children import mention_child
from kestrelpy.protocol.verbs.value_line import Shape, date_words, state_words

_NO_MARKER: Final = 1 << 63  # no marker comes after it
_PLAIN: Final = state_words(READY, 0)


class Browser(LogReader):
    """The browser of one conversation."""

    __slots__ = ("_holder", "_talk", "at_end", "waiter")

    def __init__(self, talk: Talk, holder: Holder, at_end: bool) -> None:
        super().__init__(talk)
        self._talk = talk
        self._holder = holder
        self.waiter: Waiter | None = None
        self.at_end = at_end  # the client sends no more: it does not wait any longer

    @property
    def is_held_up(self) -> bool:
        """True if it waits for the disk, or for an item."""
        waiter = self.waiter
        return super().is_held_up or (waiter is not None and not waiter.done)

    def stop_waiting(self) -> bool:
        """End the wait; return whether there was one."""
        waiter = self.waiter
        if waiter is None or waiter.done:
            return False
        self._talk.broker.give_up(waiter)
        return True

    def pause(self, name: bytes, due_ms: int) -> None:
        """Continue at `due_ms`."""
        self.waiter = self._talk.broker.wait(
            Want.OBSERVE, name, self._holder, False, self._talk, due_ms, _NO_MARKER
        )

    def observe(self, target: Target, to: Replies | JointReply) -> Iterator[bytes]:
        """Answer one key. While it has to wait it yields nothing; the caller resumes it."""
        talk, view = self._talk, target.view
        assert view is not None
        counters = talk.broker.counters
        counters.cmd_peek += 1
        due_ms = talk.last_command_ms + target.wait_ms
        shape = Shape(target.raw, target.numbered, target.full)
        after, since_ms = view.after, view.since_ms
        while True:
            queue = talk.broker.queues.get(target.name)
            queue = queue or mention_child(talk, target, talk.last_command_ms)
            if queue is not None:
                if view.most > 1 and not talk.host.room.reserve(talk, PAGE_BYTES_MAX):
                    while talk.wants_bytes:
                        yield b""
                if since_ms and not after:
                    after = (yield from self.search(queue, since_ms)) - 1
                life = QueueLife.of(queue)
                page = yield from self.page(queue, after, view.most, view.since_ms, shape)
                if page is not None:
                    data = _said(*page, shape, view.after, to.end)
                    counters.get_hits += 1
                    to.value_bytes += len(data)
                    to.say(data)
                    return
                log = queue.log
                if log.failure is not None and queue.last_number > log.item_stored:
                    to.hold(b"failed", log, log.lsn_appended + 1)  # becomes the error
                    return
                if life.is_over:
                    break
                after = max(after, queue.last_number)  # there is nothing up to here
            is_alias = target.name in talk.broker.aliases
            if self.at_end or is_alias or talk.last_command_ms >= due_ms:
                break
            talk.host.room.release(talk)
            self.waiter = talk.broker.wait(
                Want.OBSERVE, target.name, self._holder, False, talk, due_ms, after
            )
            yield b""
            if self.waiter.owner is None:
                break  # the time is over
        counters.get_misses += 1
        to.say(to.end)


def _said(page: Page, browse: Browse, shape: Shape, after: int, end: bytes) -> bytes:
    """Return the items of the page as they are sent; note a gap after the client's marker."""
    browse.note_gap(after, page.puts[0].marker)
    lines = page.lines
    if shape.full:
        is_plain = browse.is_plain and not any(put.key or put.dedupe_id for put in page.puts)
        lines = [
            b"%b%b %b\r\n%b\r\n" % (
                line,
                date_words(browse.expires_here(put.id, put.expires_ms)),
                _PLAIN if is_plain else state_words(*browse.state(put.id), put.key, put.dedupe_id),
                put.body,
            )
            for line, put in zip(lines, page.puts, strict=True)
        ]  # fmt: skip
    return b"".join((*lines, end))
