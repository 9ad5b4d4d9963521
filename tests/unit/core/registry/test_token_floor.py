"""No lease token is issued twice under one name, whatever becomes of the queue."""

from __future__ import annotations

from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.registry.token_floor import TOKENS_PER_MS
from kestrelpy.core.subscription.state import TOKENS_RESERVED
from tests.support.core_harness import NAME, WALL_MS, CoreHarness, make_queue


def test_a_queue_made_again_begins_behind_the_tokens_of_the_one_before() -> None:
    q = make_queue()
    q.put(b"one")
    assert q.open().token == 1
    q.delete()
    q.put(b"two")
    assert q.open().token == 1 + TOKENS_RESERVED
    assert q.queue.checkpoint().tokens == 1 + 2 * TOKENS_RESERVED


def test_a_queue_that_reserved_none_takes_none_with_it() -> None:
    q = make_queue()
    q.put(b"one")
    q.delete()
    q.put(b"two")
    assert q.open().token == 1


class InMemory(CoreHarness):
    """Its queue is nowhere but in memory."""

    def _make_log(self, queue: object) -> MemoryLog:
        return MemoryLog()


def in_memory(now_ms: int, unix_ms: int) -> InMemory:
    made = InMemory(Policy(), now_ms, unix_ms)
    made.broker.create(NAME, now_ms)
    return made


def test_tokens_of_a_queue_in_memory_begin_where_the_clock_stands() -> None:
    q = in_memory(5, WALL_MS)
    q.queue.put(b"one", 0, 0, q.now_ms)
    assert q.open().token == WALL_MS * TOKENS_PER_MS
    q.delete()
    q.broker.create(NAME, q.now_ms)
    q.queue.put(b"two", 0, 0, q.now_ms)
    assert q.open().token == WALL_MS * TOKENS_PER_MS + TOKENS_RESERVED, "in the same millisecond"
    later = in_memory(0, WALL_MS + 1000)
    later.queue.put(b"three", 0, 0, 0)
    assert later.open().token > WALL_MS * TOKENS_PER_MS + TOKENS_RESERVED
    assert WALL_MS * TOKENS_PER_MS < 1 << 53


def test_queues_in_memory_and_on_disk_do_not_move_each_other_s_tokens() -> None:
    q = in_memory(0, WALL_MS)
    q.queue.put(b"one", 0, 0, 0)
    q.open()
    q.delete()
    assert q.broker.tokens.on_disk == 1
