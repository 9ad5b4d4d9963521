"""Dedupe by id: the edges of windows, scopes, epochs, and which ids are remembered.

Promises: id, version.
"""

from __future__ import annotations

import pytest

from journal.format.item_header import ItemHeader
from journal.format.kinds import Kind
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.queue.queue import DUPLICATE, NOT_STORED
from kestrelpy.errors import ClientError
from tests.support.core_harness import CoreHarness, make_queue

WINDOW_MS = 60_000
DAY_MS = 86_400_000


def put(q: CoreHarness, id_: bytes, scope: bytes = b"", epoch: int = 0, body: bytes = b"x") -> bool:
    """Store an item under this id; False: it is a duplicate."""
    answer = q.queue.put(body, 0, 0, q.now_ms, header=ItemHeader(id_, scope, epoch))
    assert answer == DUPLICATE or answer > 0
    return answer != DUPLICATE


def make_once(**settings: object) -> CoreHarness:
    return make_queue(**{"dedupe_window_ms": WINDOW_MS, "scope_window_ms": WINDOW_MS} | settings)


def test_an_id_is_stored_once_within_the_window_and_again_when_it_is_over() -> None:
    q = make_once()

    assert put(q, b"a")
    assert not put(q, b"a")
    assert put(q, b"b")
    q.now_ms += WINDOW_MS - 1
    assert not put(q, b"a")
    q.now_ms += 1
    assert put(q, b"a")
    assert not put(q, b"a")
    assert q.reader.counters.duplicates == 3
    assert len(q.ready) == 3


def test_a_duplicate_does_not_prolong_the_window() -> None:
    q = make_once()
    put(q, b"a")
    q.now_ms += WINDOW_MS - 1
    assert not put(q, b"a")
    q.now_ms += 1

    assert put(q, b"a")


def test_forever_is_for_good() -> None:
    q = make_once(dedupe_window_ms=None)
    put(q, b"a")
    q.now_ms += 10**12
    q.pass_time(0)

    assert not put(q, b"a")


def test_what_becomes_of_the_item_changes_nothing() -> None:
    q = make_once()
    put(q, b"a")
    q.close(q.open())

    assert not put(q, b"a")


def test_an_id_is_remembered_only_if_the_item_is_stored() -> None:
    q = make_once(max_items=1)
    put(q, b"a")

    assert q.queue.put(b"x", 0, 0, q.now_ms, header=ItemHeader(b"b")) == NOT_STORED
    q.close(q.open())
    assert put(q, b"b")
    q.close(q.open())
    with pytest.raises(ClientError, match="would expire"):
        q.queue.put(
            b"x", 0, q.unix_ms + 10, q.now_ms, header=ItemHeader(b"c"), delay=Delay(100, False)
        )
    assert put(q, b"c")


def test_a_delayed_item_s_id_is_remembered_from_being_stored() -> None:
    q = make_once()
    q.queue.put(b"x", 0, 0, q.now_ms, header=ItemHeader(b"a"), delay=Delay(WINDOW_MS * 2, False))

    assert not put(q, b"a")
    q.now_ms += WINDOW_MS
    assert put(q, b"a")


def test_a_full_queue_answers_a_duplicate_before_it_is_full() -> None:
    q = make_once(max_items=1)
    put(q, b"a")

    assert not put(q, b"a")


# -- scopes ---------------------------------------------------------------------------------------


def test_a_newer_epoch_forgets_the_older_and_an_older_one_is_a_duplicate() -> None:
    q = make_once()

    assert put(q, b"a", b"writer", 1)
    assert not put(q, b"a", b"writer", 1)
    assert put(q, b"b", b"writer", 1)
    assert put(q, b"a", b"writer", 2)
    assert not put(q, b"c", b"writer", 1)
    assert not put(q, b"a", b"writer", 2)
    assert put(q, b"b", b"writer", 2)
    assert q.queue.dedupe.ids.scopes[b"writer"].count == 2


def test_scopes_do_not_know_of_each_other_nor_of_ids_without_one() -> None:
    q = make_once()

    assert put(q, b"a")
    assert put(q, b"a", b"one", 1)
    assert put(q, b"a", b"two", 1)


def test_a_scope_is_remembered_since_its_last_use_not_its_first() -> None:
    q = make_once(dedupe_window_ms=1)
    put(q, b"a", b"writer", 7)
    q.now_ms += WINDOW_MS - 1
    assert put(q, b"b", b"writer", 7)
    q.now_ms += WINDOW_MS - 1

    assert not put(q, b"a", b"writer", 7)
    assert not put(q, b"z", b"writer", 6)
    q.now_ms += 1
    assert put(q, b"z", b"writer", 6)  # it is forgotten, and begins with this epoch
    assert put(q, b"a", b"writer", 7)
    assert put(q, b"b", b"writer", 7)


def test_what_a_scope_knew_before_it_was_forgotten_does_not_come_back_with_a_restart() -> None:
    q = make_once()
    put(q, b"a", b"writer", 7)
    q.now_ms += WINDOW_MS
    assert put(q, b"b", b"writer", 7)

    again = q.restarted()

    assert put(again, b"a", b"writer", 7)
    assert not put(again, b"b", b"writer", 7)


# -- memory ---------------------------------------------------------------------------------------


def test_ids_older_than_the_window_cost_nothing() -> None:
    q = make_once()
    for number in range(3000):
        put(q, b"%d" % number)
    q.now_ms += WINDOW_MS
    for _ in range(200):
        q.now_ms += 1000
        q.pass_time(0)

    assert q.queue.dedupe.ids.is_empty
    assert q.queue.dedupe.ids.table.buckets == 1


def test_forgotten_scopes_cost_nothing() -> None:
    q = make_once()
    for number in range(100):
        put(q, b"a", b"scope-%d" % number, 1)
    q.now_ms += WINDOW_MS
    for _ in range(20):
        q.now_ms += WINDOW_MS
        q.pass_time(0)

    assert not q.queue.dedupe.ids.scopes


# -- a restart ------------------------------------------------------------------------------------


def test_a_restart_knows_all_of_it() -> None:
    q = make_once()
    put(q, b"a")
    put(q, b"b", b"writer", 2)
    q.close(q.open())
    put(q, b"a")

    again = q.restarted()

    assert not put(again, b"a")
    assert not put(again, b"b", b"writer", 2)
    assert not put(again, b"c", b"writer", 1)
    again.now_ms += WINDOW_MS
    assert put(again, b"a")


def test_a_batch_that_is_repeated_after_a_day_s_stop_is_stored_once() -> None:
    q = make_queue()  # with the windows of a queue that says nothing
    q.now_ms += 1
    put(q, b"a", b"query", 7)

    again = q.restarted()
    again.now_ms += DAY_MS
    again.pass_time(0)

    assert not put(again, b"a", b"query", 7)
    assert put(again, b"b", b"query", 7)


def test_the_record_says_the_id_as_it_was_sent() -> None:
    q = make_once()
    put(q, b"order 1", b"writer", 2)

    puts = [r for r in q.records if r.kind == Kind.PUT]
    assert b"order 1" in puts[0].meta and b"writer" in puts[0].meta
