"""The notes of a transfer, its request and its queues end with the transfer."""

from __future__ import annotations

import pytest

from journal.errors import JournalFailed
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Holder
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import TransferSource
from tests.support.core_harness import make_queue
from tests.support.transfer_harness import TransferHarness


def test_a_moving_item_is_out_of_order_no_more() -> None:
    q = make_queue()
    q.put(b"1")
    q.reader.nack(q.open(), q.now_ms, b"abort", Delay(10))
    q.pass_time(10)
    assert [*q.reader.out_of_order] == [1]
    source = TransferSource(q.reader)

    lease = source.take_first(q.now_ms, Holder("mover"))

    assert lease is not None
    assert [*q.reader.out_of_order] == [], "as if a client had it"
    source.put_back(lease)
    assert [*q.reader.out_of_order] == [1]


def test_a_request_counts_out_an_item_once_though_its_transfer_goes_on() -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.put("failed", b"in")
    town.put("jobs", b"1")
    town.say("a", b"get jobs/open")
    town.hold_syncs()
    town.say("a", b"get jobs/abort")
    moves, log = town.broker.moves, town.queue("failed").log
    assert isinstance(log, JournalLog)
    target = town.broker.delete(b"failed", town.now_ms)
    assert target is not None
    town.broker.deleted.clear()
    log.journal.commit.fail(JournalFailed("deleted while the disk was full"))
    log.advance()

    moves.advance(town.now_ms)  # the copy is lost: the request gives the item up
    assert (moves._count, moves._bytes) == (0, 0)
    moves.in_flight.gone(target, town.now_ms)  # the item returns
    moves.advance(town.now_ms)

    assert (moves._count, moves._bytes) == (0, 0)
    assert not moves.is_active, "the request has ended"


def test_a_request_that_rested_ends_when_all_has_moved() -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.set_queue("failed", max_items=1)
    town.put("failed", b"in")
    town.put("jobs", b"1")
    town.fail("jobs")
    assert len(town.said) == 1, "failed is full"

    town.set_queue("failed", max_items=9)
    town.pass_time(70_000)

    assert town.queue("jobs").is_empty
    assert not town.broker.moves.is_active


def test_a_request_with_more_items_than_one_step_begins_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kestrelpy.core.transfer.transfers.BEGUN_MAX", 4)
    town = TransferHarness()
    for number in range(10):
        town.put("jobs", b"%d" % number)
    moves, seen = town.broker.moves, list[tuple[int, bool]]()
    moves.request(TransferRequest(town.queue("jobs"), b"next", None, 10))

    for _ in range(3):
        moves.advance(town.now_ms)
        seen.append((len(town.moving()), moves.has_more))

    assert seen == [(4, True), (8, True), (10, False)]


def test_a_queue_whose_files_stay_holds_up_no_removal() -> None:
    town = TransferHarness()
    for queue in ("jobs", "next"):
        town.put(queue, b"made")
        town.finish(queue)
    town.put("jobs", b"0")
    assert town.take("jobs") == b"0"
    town.removes = False
    town.hold_writes()
    assert town.pass_on("next", b"0") == b"", "the copy is on its way"
    source, target = town.queue("jobs").files, town.queue("next").files
    for name in ("jobs", "next"):
        town.say("eve", f"delete {name}".encode())
    assert isinstance(source.log, JournalLog)
    source.log.journal.commit.fail(JournalFailed("Input/output error"))
    source.log.advance()
    assert source.is_going
    assert source.is_stuck
    in_flight = town.broker.moves.in_flight
    assert in_flight.follows(target), "the files of jobs go first"

    in_flight.stays(source)

    assert not in_flight.follows(target), "those of next would never go"
