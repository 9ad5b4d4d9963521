"""Leases by token: any connection may end its own by the token; a restart keeps them.

Promise: token.
"""

from __future__ import annotations

import pytest

from journal.format.kinds import Kind
from journal.format.lease import LeaseEntry
from journal.format.transfer import Origin
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.browse import Browse
from kestrelpy.core.transfer.steps import TransferSource
from tests.support.core_harness import CoreHarness, all_read, dead_as_fetched, make_queue


def by_token(q: CoreHarness, lease_ms: int = 60_000) -> Lease:
    return q.open(lease_ms=lease_ms)


def deadline_left(q: CoreHarness, token: int) -> int:
    lease = q.reader.leases.by_token(token)
    assert lease is not None and lease.deadline_ms is not None
    return lease.deadline_ms - q.now_ms


def test_what_is_leased_by_token_has_a_record_in_the_log() -> None:
    q = make_queue()
    q.put(b"one", b"two")
    first = by_token(q)
    q.touch(first, 90_000)
    q.close(first)
    q.abort(by_token(q, 1000))
    assert q.story == (
        "put 1 one, put 2 two, "
        "leased 1 token 1 deadline_ms=1700000060000 bytes=3 runs_ms=1700000060000, "
        "renewed 1 token 1 deadline_ms=1700000090000 runs_ms=1700000090000, done 1, "
        "leased 2 token 2 deadline_ms=1700000001000 bytes=3 runs_ms=1700000001000, "
        "returned 2 attempts 1 abort"
    )
    assert q.reader.leases.entries == {}


def test_no_hang_up_ends_it_and_its_deadline_leaves_no_mark() -> None:
    q = make_queue()
    q.put(b"one")
    by_token(q, 100)
    q.hang_up()
    assert q.ready == []
    q.pass_time(99)
    assert q.ready == []
    q.pass_time(1)
    assert q.ready == [b"one"]
    assert q.who("anna").overdue == q.reader.token_holder.overdue == []
    assert q.reader.counters.lease_expired == 1


def test_a_token_is_good_until_the_deadline_be_it_that_no_tick_came() -> None:
    q = make_queue()
    q.put(b"one")
    lease = by_token(q, 100)
    q.now_ms += 99
    assert q.named(lease.token) is lease
    q.now_ms += 1
    assert q.named(lease.token) is None
    assert len(q.reader.leases) == 1, "the tick is still to come"


def test_only_a_token_that_was_shown_names_a_lease_by_connection() -> None:
    q = make_queue(lease_ms=100)
    q.put(b"one", b"two")
    told, untold = q.open(), q.open()
    q.reader.leases.show(told)
    assert q.named(told.token) is told
    assert q.named(untold.token) is None
    q.hang_up()
    assert q.named(told.token) is None, "it is over"
    assert Kind.LEASED not in {record.kind for record in q.records}


def test_a_restart_goes_on_with_it_and_knows_no_more_than_its_number_and_size() -> None:
    q = make_queue()
    q.put(b"one", b"two")
    q.abort(q.open())
    lease = by_token(q)
    q.pass_time(10_000)

    again = q.restarted()

    found = again.named(lease.token)
    assert found is not None
    assert (found.item.id, found.item.size, found.item.is_whole) == (1, 3, False)
    assert (found.attempts, found.began_ms) == (1, lease.began_ms)
    assert deadline_left(again, lease.token) == 50_000
    assert again.ready == [b"two"]
    assert again.queue.reader.leased_bytes == 0
    assert again.close(found) == len(again.records)
    assert again.records[-1].small == 2 | 3 << 8, "the second delivery, of three bytes"
    assert again.reader.live_bytes == 3


def test_given_back_after_a_restart_it_is_first_again_and_read_again() -> None:
    q = make_queue()
    q.put(b"one", b"two", b"three", b"four")
    first, second = by_token(q), by_token(q)
    again = q.restarted()
    all_read(again.reader)
    for token in (second.token, first.token):
        lease = again.named(token)
        assert lease is not None
        again.defer(lease)
    assert again.ready == [b"one", b"two", b"three", b"four"]
    assert again.open().attempts == 0


def test_a_lease_over_while_nobody_ran_ends_at_the_first_tick_and_counts_an_attempt() -> None:
    q = make_queue()
    q.put(b"one")
    lease = by_token(q, 1000)
    q.now_ms += 5000
    again = q.restarted()
    assert again.named(lease.token) is None
    assert again.reader.ready.count == 0
    again.pass_time(0)
    assert again.ready == [b"one"]
    assert again.open().attempts == 1


def test_a_clock_that_was_set_back_never_makes_it_longer_than_it_was() -> None:
    q = make_queue()
    q.put(b"one")
    lease = by_token(q, 1000)
    q.step_clock(-3_600_000)
    again = q.restarted()
    assert deadline_left(again, lease.token) == 1000
    q.touch(lease, 7000)
    again = q.restarted()
    assert deadline_left(again, lease.token) == 7000


def test_after_a_restart_leases_end_by_their_deadlines() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3")
    for lease_ms in (300, 100, 200):
        by_token(q, lease_ms)
    again = q.restarted()
    ended = []
    for _ in range(3):
        again.pass_time(100)
        ended.append(sorted(again.ready))
    assert ended == [[b"2"], [b"2", b"3"], [b"1", b"2", b"3"]]


def test_the_state_of_a_queue_has_its_leases_by_token_and_no_others() -> None:
    q = make_queue()
    q.put(b"one", b"two")
    q.open()
    lease = by_token(q, 1000)
    q.pass_time(10)
    q.touch(lease, 5000)
    began_ms = q.unix_ms - 10
    assert q.queue.state().leased == [
        LeaseEntry(
            2, lease.token, 1, began_ms, 3, q.unix_ms, q.unix_ms + 5000, runs_ms=q.unix_ms + 5000
        )
    ]


def test_a_lease_that_ended_before_it_was_shown_is_named_by_nothing() -> None:
    q = make_queue(lease_ms=10)
    q.put(b"one")
    lease = q.open()
    q.pass_time(10)
    q.reader.leases.show(lease)
    assert q.reader.leases.by_token(lease.token) is None


# -- the life of its item ----------------------------------------------------------------------


def with_grace(q: CoreHarness, lease_ms: int, grace_ms: int) -> Lease:
    lease = q.reader.open(q.who("anna"), q.now_ms, lease_ms=lease_ms, grace_ms=grace_ms)
    assert lease is not None
    return lease


@pytest.mark.parametrize(
    ("lease_s", "grace_s", "stays_s"),
    [(777, 0, 777), (777, 23, 800), (121, 22, 143), (60, 30, 120)],
)
def test_an_item_stays_for_the_grace_after_a_lease_that_it_would_not_survive(
    lease_s: int, grace_s: int, stays_s: int
) -> None:
    q = make_queue()
    q.put(b"one", expires_ms=q.unix_ms + 120_000)
    lease = with_grace(q, lease_s * 1000, grace_s * 1000)
    assert lease.item.expires_ms == q.unix_ms + stays_s * 1000


@pytest.mark.parametrize("is_restarted", [False, True])
def test_after_its_lease_it_is_there_until_the_grace_is_over(is_restarted: bool) -> None:
    q = make_queue()
    q.put(b"one", expires_ms=q.unix_ms + 1000)
    with_grace(q, 2000, 500)
    q = q.restarted() if is_restarted else q
    q.pass_time(2000)
    assert q.ready == [b"one"]
    assert not Browse(q.queue).has_expired(1, q.unix_ms - 1000, q.unix_ms)
    q.pass_time(500)
    assert q.ready == []
    assert not q.reader.expiries


def test_a_renewal_puts_its_expiry_off_again() -> None:
    q = make_queue()
    q.put(b"one", expires_ms=q.unix_ms + 1000)
    lease = with_grace(q, 2000, 500)
    q.reader.renew(lease, 4000, q.now_ms, q.unix_ms + 4500)
    q.pass_time(4000)
    assert q.ready == [b"one"]


# -- waiting ----------------------------------------------------------------------------------


def test_clients_that_wait_lease_by_token_in_turn() -> None:
    q = make_queue()
    q.wait("anna", lease_ms=100)
    q.wait("bert")
    q.put(b"one", b"two")
    assert q.answers() == [("anna", b"one"), ("bert", b"two")]
    assert [lease.by_token for lease in q.reader.leases] == [True, False]
    assert not q.who("anna").leases


# -- a full disk ------------------------------------------------------------------------------


def test_on_a_full_disk_who_waits_for_a_token_is_refused_in_turn_and_others_are_served() -> None:
    q = make_queue()
    q.put(b"one")
    held = q.open("carl")
    waiter = q.wait("anna", lease_ms=100)
    q.wait("bert", want=Want.TAKE)
    q.queue.log.no_room = "disk full"
    q.abort(held)
    assert q.answers() == [("anna", None), ("bert", b"one")]
    assert waiter.refused == "disk full"


def test_on_a_full_disk_the_return_of_a_lease_by_token_is_written_and_no_other() -> None:
    q = make_queue()
    q.put(b"one", b"two")
    lease, other = by_token(q), q.open()
    q.queue.log.no_room = "disk full"
    q.abort(other)
    q.abort(lease)
    assert q.story.endswith("returned 1 attempts 1 abort")
    assert q.restarted().named(lease.token) is None


def test_each_lease_by_token_has_room_for_one_record_more() -> None:
    q = make_queue()
    q.put(b"one", b"two")
    log = q.queue.log
    assert isinstance(log, JournalLog)
    count = log.journal.preallocation.count_leases
    by_token(q)
    assert count() == 1
    by_token(q)
    assert count() == 2
    assert q.restarted().queue.log.journal.preallocation.count_leases() == 2
    lease = q.reader.by_token.find(1, q.now_ms)
    assert lease is not None
    q.close(lease)
    assert count() == 1


# -- burying ----------------------------------------------------------------------------------


def test_what_is_buried_is_dead_now_with_its_reason_and_its_attempts() -> None:
    q = make_queue(max_attempts=None)
    q.put(b"one", b"two")
    q.bury(q.open(), b"defer")
    q.bury(by_token(q), b"no address")
    assert q.dead == [b"one", b"two"]
    assert [(d.attempts, d.reason) for d in q.reader.dead.deaths.values()] == [
        (1, b"defer"), (1, b"no address"),
    ]  # fmt: skip
    assert q.restarted().dead == [b"one", b"two"]


def test_a_dead_item_that_is_buried_stays_where_it_was_among_the_dead() -> None:
    q = make_queue()
    q.put(b"one", b"two")
    q.bury(q.open())
    q.bury(q.open())
    q.bury(q.open(dead=True), b"again")
    assert q.dead == [b"one", b"two"]
    assert {d.reason for d in q.reader.dead.deaths.values()} == {b"why"}


def test_what_is_buried_may_be_what_a_waiter_for_the_dead_waits_for() -> None:
    q = make_queue()
    q.put(b"one")
    q.wait("anna", dead=True)
    q.bury(q.open("bert"))
    assert q.answers() == [("anna", b"one")]


def test_an_item_let_go_is_buried_without_its_body_and_read_again() -> None:
    q = make_queue()
    q.put(b"one", b"two")
    lease = by_token(q)
    again = q.restarted()
    found = again.named(lease.token)
    assert found is not None
    again.bury(found)
    assert again.dead == [b"one"]
    assert again.reader.dead.bytes == 3


# -- leases of dead letters -------------------------------------------------------------------


def two_dead() -> CoreHarness:
    """Items 2 and 3."""
    q = make_queue(max_attempts=1)
    q.put(b"done")
    q.close(q.open())
    q.put(b"one", b"two", key="K")
    for _ in range(2):
        q.abort(q.open())
    return q


def lend_dead(q: CoreHarness, lease_ms: int = 60_000) -> Lease:
    lease = q.may_open("anna", True, lease_ms)
    assert lease is not None
    return lease


def test_a_dead_letter_leased_by_token_is_so_after_a_restart_and_nobody_elses() -> None:
    q = two_dead()
    q.put(b"three", key="K")
    lease = lend_dead(q)
    q.hang_up()
    again = q.restarted()
    all_read(again.reader)
    assert again.reader.dead.count == 1
    assert again.ready == [b"three"]
    other = lend_dead(again)
    assert other.item.body == b"two"
    assert again.may_open("anna", True, 0) is None
    found = again.named(lease.token)
    assert found is not None
    assert (found.dead, found.attempts, found.item.id) == (True, 1, 2)
    assert found.place == lease.place
    assert again.redrive(2) is False
    assert again.purge(2) is False
    assert again.open().item.body == b"three", "death released the key"
    again.close(found)
    assert list(again.restarted().reader.dead.deaths) == [3]
    assert again.reader.live_bytes == 8


def test_a_dead_item_goes_back_to_its_place_among_the_dead_however_its_lease_ends() -> None:
    for how in ("abort", "deadline", "bury", "restart and deadline"):
        q = two_dead()
        lease: Lease | None = lend_dead(q, 1000)
        assert lease is not None
        token = lease.token
        if "restart" in how:
            q = q.restarted()
            lease = q.named(token)
            assert lease is not None
        if "deadline" in how:
            q.pass_time(1000)
        elif how == "abort":
            q.abort(lease)
        else:
            q.bury(lease)
        assert q.named(token) is None
        for each in (q, q.restarted()):
            assert each.named(token) is None
            all_read(each.reader)
            assert [i.body for i in dead_as_fetched(each.reader)] == [b"one", b"two"], how
            assert {d.attempts for d in each.reader.dead.deaths.values()} == {1}


def test_a_flush_leaves_leased_dead_letters() -> None:
    q = two_dead()
    q.put(b"gone")
    lease = lend_dead(q)
    q.flush()
    again = q.restarted()
    assert again.named(lease.token) is not None
    assert again.reader.live_bytes == 6
    assert (again.reader.dead.count, len(again.reader.leases)) == (1, 1)


def test_on_a_full_disk_the_return_of_a_dead_item_by_token_is_written() -> None:
    q = two_dead()
    lease = lend_dead(q)
    q.queue.log.no_room = "disk full"
    q.abort(lease)
    again = q.restarted()
    assert again.named(lease.token) is None
    assert again.reader.dead.count == 2


def test_a_client_that_waits_for_dead_letters_leases_by_token() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"one")
    lease = q.open("carl")
    q.wait("anna", dead=True, lease_ms=100)
    q.abort(lease)
    assert q.answers() == [("anna", b"one")]
    assert [(each.dead, each.by_token) for each in q.reader.leases] == [(True, True)]
    q.pass_time(100)
    assert q.reader.dead.count == 1


def test_a_start_settles_the_move_of_a_dead_item_whose_return_a_crash_took_away() -> None:
    q = two_dead()
    lend_dead(q)
    again = q.restarted()
    TransferSource(again.reader).leave_unread(2, 3, Origin(b"server", b"old", 1, 1), again.now_ms)
    assert list(again.reader.dead.deaths) == [3]
    assert (again.reader.dead.count, len(again.reader.leases), again.reader.live_bytes) == (1, 0, 3)
