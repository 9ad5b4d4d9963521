"""Serial work per key, in a queue: leased, blocked and returned items, and the cost.

Promise: key.
"""

from __future__ import annotations

import pytest

from journal.format.key import text_of
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.key_gate import SWEEP_ITEMS_MAX
from kestrelpy.core.subscription.ready_items import REFILL_ITEMS
from kestrelpy.core.subscription.subscription import ABORTED
from tests.support.core_harness import CoreHarness, make_queue
from tests.support.disk_harness import DiskHarness

ANY = KeySettings(matches_any=True)
UNORDERED = KeySettings(unordered=True)


def keyed_queue(*puts: str, **settings: object) -> CoreHarness:
    """A queue of these: `1A` is the item 1 with the key A, `2A,B` has two values, `3` none."""
    q = make_queue(**settings)
    for each in puts:
        q.put(each[:1].encode(), key=each[1:])
    return q


def leased_in_turn(q: CoreHarness) -> str:
    """Lease items to one client after the other until none is free; return the bodies."""
    out = ""
    while (lease := q.may_open()) is not None:
        out += lease.item.body.decode()
    return out


def test_what_has_to_be_read_back_behind_one_that_waits_is_asked_for_at_once() -> None:
    q = keyed_queue("1A", "2A")
    q.open()
    q.put(b"3", delay=Delay(10))
    q.now_ms = 10
    q.broker.tick(q.now_ms)
    q.broker.take_to_read()  # there was no room for it then
    for _ in range(REFILL_ITEMS + 1):
        q.put(b"x", key="A")

    assert q.open().item.body == b"3"


def test_while_an_item_is_leased_items_with_its_key_are_skipped_and_others_delivered() -> None:
    q = keyed_queue("1A", "2A", "3B", "4", "5A", "6B", "7")

    assert leased_in_turn(q) == "1347"


def test_on_confirm_the_oldest_item_that_has_become_possible_goes_first() -> None:
    q = keyed_queue("1A", "2A", "3B", "4A", "5")
    first = q.open()
    assert q.open().item.body == b"3"

    q.close(first)

    assert leased_in_turn(q) == "25"


def test_items_of_one_key_are_delivered_in_sequence_whatever_happens_to_them() -> None:
    q = keyed_queue("1A", "2A", "3A")

    for _ in range(3):
        q.abort(q.open())
    q.defer(q.open())

    assert [q.take(), q.take(), q.take()] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("end", ["close", "bury"])
def test_a_key_is_released_by_confirm_and_death(end: str) -> None:
    q = keyed_queue("1A", "2A")
    lease = q.open()
    assert q.may_open() is None

    getattr(q, end)(lease)

    assert q.open().item.body == b"2"


@pytest.mark.parametrize("end", ["abort", "defer", "hang_up", "lease"])
def test_a_key_is_not_released_by_abort_defer_hang_up_or_the_end_of_a_lease(end: str) -> None:
    q = keyed_queue("1A", "2A", lease_ms=100)
    lease = q.open()
    q.peek()

    if end == "lease":
        q.pass_time(100)
    elif end == "hang_up":
        q.hang_up()
    else:
        getattr(q, end)(lease)

    assert q.open("bert").item.body == b"1", "it is first for its key"
    assert q.may_open("bert") is None


def test_the_whole_key_must_match_as_a_pair() -> None:
    q = keyed_queue("1A,B", "2A,C", "3B,A", "4A,B")

    assert leased_in_turn(q) == "123"


def test_unordered_keys_are_the_same_both_ways() -> None:
    q = keyed_queue("1A,B", "2B,A", "3A,C", keys=UNORDERED)

    assert leased_in_turn(q) == "13"


def test_with_any_a_skipped_item_holds_its_place_on_all_its_values() -> None:
    q = keyed_queue("1A", "2A,B", "3B", "4B,C", "5C", "6D", keys=ANY)
    first = q.open()

    assert leased_in_turn(q) == "6"
    q.close(first)
    second = q.open()
    assert second.item.body == b"2"
    assert leased_in_turn(q) == "", "3 waits for 2, 4 for 3 and 5 for 4"
    q.close(second)
    assert leased_in_turn(q) == "3"


def test_an_item_without_a_key_waits_for_nobody() -> None:
    q = keyed_queue("1", "2", "3A", "4")

    assert leased_in_turn(q) == "1234"


def test_whoever_waits_gets_what_a_confirm_made_possible() -> None:
    q = keyed_queue("1A", "2A")
    lease = q.open()
    q.wait("bert")
    assert q.answers() == []

    q.close(lease)

    assert q.answers() == [("bert", b"2")]


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_whoever_waits_gets_what_the_end_of_a_skipped_item_made_possible(how: str) -> None:
    q = make_queue(keys=ANY)
    q.put(b"1", key="A")
    q.put(b"2", key="A,B", expires_ms=q.unix_ms + 50)
    q.put(b"3", key="B")
    q.open()
    q.wait("bert", wait_ms=1000)
    assert q.may_open() is None
    q.reader.serve(q.now_ms)
    assert q.answers() == []

    if how == "cancel":
        assert q.cancel(2)
        q.pass_time(0)
    else:
        q.pass_time(50)

    assert q.answers() == [("bert", b"3")]


def test_whoever_waits_gets_what_the_end_of_an_item_of_unknown_key_made_possible() -> None:
    q = keyed_queue("1A", "2A,B", "3B", keys=ANY)
    q.open()
    q.wait("bert", wait_ms=1000)
    q.reader.serve(q.now_ms)
    assert q.answers() == []

    assert q.reader.ready.blocked_bytes == len(b"2" + b"3")

    q.reader.key_gate.drop_unread(2, 1)
    q.pass_time(0)

    assert q.answers() == [("bert", b"3")]
    assert q.reader.ready.blocked_bytes == 0


def test_a_wait_for_an_item_behind_many_blocked_ones_is_answered() -> None:
    count = 2 * SWEEP_ITEMS_MAX + 10
    q = keyed_queue("1A")
    q.open()
    q.put(*[b"x"] * count, key="A")
    q.put(b"behind", key="B")
    q.wait("bert", wait_ms=5000)
    q.wait("carl", wait_ms=5000, want=Want.PEEK)
    q.reader.serve(q.now_ms)

    q.pass_time(100)

    assert q.answers() == [("bert", b"behind")]
    q.put(b"next", key="C")
    assert q.answers() == [("carl", b"next")]


def test_a_client_that_waits_in_vain_behind_a_blocked_item_ends_in_turn() -> None:
    q = make_queue()
    q.put(b"lent", b"blocked", key="A")
    q.open("carl")
    for who in ("anna", "bert"):
        q.wait(who, 25)
    q.pass_time(25)
    assert q.answers() == [("anna", None), ("bert", None)]


def test_passing_over_many_blocked_items_is_spread_over_calls_and_says_it_goes_on() -> None:
    count = 3 * SWEEP_ITEMS_MAX
    q = keyed_queue("1A")
    q.open()
    q.put(*[b"x"] * count, key="A")
    q.put(b"behind", key="B")
    calls = 0

    while (lease := q.reader.open(q.who("bert"), q.now_ms)) is None:
        calls += 1
        assert q.reader.is_busy(q.now_ms), "there may be one behind them"
        assert calls <= count // SWEEP_ITEMS_MAX + 1

    assert lease.item.body == b"behind"
    assert not q.reader.is_busy(q.now_ms)


def test_a_look_skips_what_is_blocked_and_changes_nothing() -> None:
    q = keyed_queue("1A", "2A", "3B")
    lease = q.open()

    assert q.peek() == b"3"
    q.abort(lease)
    assert q.peek() == b"1"
    assert [q.take(), q.take(), q.take()] == [b"1", b"2", b"3"]


def test_what_waits_for_its_key_counts_as_ready() -> None:
    q = keyed_queue("1A", "2A", "3A", max_items=3)
    q.open()
    assert q.may_open() is None

    assert q.reader.ready.count == 2
    assert q.reader.ready.bytes == 2
    assert q.put(b"4", key="A")
    assert not q.put(b"5", key="A"), "full"
    assert not q.add(b"6")


def test_a_full_queue_drops_the_oldest_also_if_that_waits_for_its_key() -> None:
    q = keyed_queue("1A", "2A", "3A", max_items=2, discard_old_when_full=True)
    q.open()
    assert q.may_open() is None

    assert q.put(b"4", key="B")
    assert q.put(b"5", key="B")

    assert q.story.count("discarded") == 2
    assert leased_in_turn(q) == "4"
    assert q.reader.ready.count == 1


def test_a_flush_takes_what_waits_for_its_key_and_leaves_what_is_leased() -> None:
    q = keyed_queue("1A", "2A", "3B")
    lease = q.open()
    assert q.open().item.body == b"3"

    q.flush()
    q.put(b"4", key="A")

    assert q.reader.ready.count == 1
    assert q.may_open() is None, "1 is still lent"
    q.close(lease)
    assert q.open().item.body == b"4"


def test_a_cancelled_item_is_no_more_first_for_its_key() -> None:
    q = keyed_queue("1A", "2A", "3A")
    q.abort(q.open())

    assert q.cancel(1)
    assert leased_in_turn(q) == "2"
    assert q.cancel(3)
    assert q.reader.ready.count == 0
    assert q.reader.ready.bytes == 0


def test_a_dead_item_has_no_key_and_may_be_leased_beside_the_living() -> None:
    q = keyed_queue("1A", "2A")
    q.bury(q.open())
    q.open()

    dead = q.open(dead=True)
    q.close(dead)

    assert q.may_open() is None, "2 is still lent"


def test_a_deleted_queue_begins_again_with_its_keys_free() -> None:
    q = keyed_queue("1A", "2A")
    q.open()

    q.delete()
    q.put(b"3", key="A")

    assert q.open().item.body == b"3"


@pytest.mark.parametrize("keys", [KeySettings(), ANY])
def test_after_a_restart_a_lease_by_token_still_has_its_key(keys: KeySettings) -> None:
    q = keyed_queue("1A", "2A", "3B", keys=keys)
    token = q.open(lease_ms=10_000).token

    again = q.restarted()

    assert leased_in_turn(again) == "3"
    lease = again.named(token)
    assert lease is not None
    again.close(lease)
    assert leased_in_turn(again) == "2"


def test_after_a_restart_skipped_items_are_where_they_were() -> None:
    q = keyed_queue("1A", "2A", "3B", "4A")
    q.open()
    assert q.open().item.body == b"3"
    assert q.may_open() is None

    again = q.restarted()

    assert again.ready == [b"1", b"2", b"3", b"4"]
    assert leased_in_turn(again) == "13"


def test_key_settings_do_not_change_while_there_are_items() -> None:
    q = keyed_queue("1A,B", "2A,C")
    q.reload(keys=ANY)
    assert leased_in_turn(q) == "12"

    q.delete()
    q.reload(keys=ANY)
    q.put(b"1", key="A,B")
    q.put(b"2", key="A,C")
    assert leased_in_turn(q) == "1"


def test_keys_in_flight_and_blocked_are_counted() -> None:
    q = keyed_queue("1A", "2A", "3B", "4B", "5C")
    leases = [q.open(), q.open(), q.open()]
    assert q.may_open() is None
    keyed = q.reader.key_gate

    assert (keyed.in_flight, keyed.keys.blocked_values) == (3, 2)
    q.close(leases[0])
    assert (keyed.in_flight, keyed.keys.blocked_values) == (2, 1)
    q.hang_up()
    assert (keyed.in_flight, keyed.keys.blocked_values) == (0, 1)


def test_beyond_max_memory_skipped_items_wait_on_disk_and_come_back_in_sequence() -> None:
    q = make_queue(max_memory_bytes=4096)
    q.put(b"first", key="A")
    lease = q.open()
    bodies = [b"%04d" % n + b"." * 200 for n in range(200)]
    q.put(*bodies, key="A")
    q.put(b"behind", key="B")
    while (behind := q.may_open()) is None:
        q.pass_time(1)

    assert behind.item.body == b"behind"
    assert len(q.reader.key_gate.whole) * 200 < 4096, "most of them are not in memory"
    assert q.reader.ready.count == 200

    q.close(lease)
    assert [q.take() for _ in bodies] == bodies
    assert q.reader.ready.count == q.reader.ready.bytes == 0


def test_a_queue_in_memory_keeps_what_it_skips() -> None:
    q = keyed_queue("1A", "2A", "3A", durable=False)
    lease = q.open()
    assert q.may_open() is None

    q.close(lease)

    assert [q.take(), q.take(), q.take()] == [b"2", b"3", None]


@pytest.mark.parametrize("due_first", [False, True])
def test_what_was_put_off_is_first_for_its_key_after_a_start_from_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, due_first: bool
) -> None:
    monkeypatch.setattr("journal.snapshot.cadence.RECORDS_MAX", 5)
    life = DiskHarness(Policy())
    for body in (b"1", b"2"):
        life.put(body, key=text_of(b"A"))
    lease = life.open()
    assert lease is not None
    life.reader.nack(lease, life.now_ms, ABORTED, Delay(1000))
    if due_first:
        life.pass_time(1000)
    for _ in range(30):
        life.put(b"other")
        other = life.open("bert")
        assert other is not None
        if other.item.body == b"other":
            life.reader.confirm(other, life.now_ms)
        life.commit()
        life.do_all()
    assert life.log.store.maintenance.snapshots, "the log is not all there is"

    life.kill()
    life.pass_time(1000)

    for body in (b"1", b"2"):
        lease = life.open("carl")
        assert lease is not None
        assert lease.item.body == body
        beside = life.open("carl")
        assert beside is None or beside.item.body == b"other"
        life.reader.confirm(lease, life.now_ms)
