"""Hand-off: a put confirms the leased item, whatever happens to either item meanwhile.

Promise: hand-off.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.errors import JournalFailed
from journal.format.kinds import Kind
from tests.support.memory_disk import Fault
from tests.support.transfer_harness import TransferHarness
from tests.unit.core.transfer.test_transfers import story

STORED = b"STORED\r\n"


def held_on_its_way(by_token: str = "", **jobs: object) -> TransferHarness:
    """The holder of `1` of jobs has handed it on to `next`; from now on nothing is synced."""
    town = TransferHarness()
    town.set_queue("jobs", **jobs)
    town.put("next", b"made")
    town.finish("next")
    town.put("jobs", b"1")
    assert town.take("jobs", options=by_token) == b"1"
    town.hold_syncs()
    options = f"=jobs:{town.token}" if by_token else ""
    assert town.pass_on("next", b"1", options=options) == b"", "not before it is on disk"
    return town


def answer_of(town: TransferHarness, who: str = "client") -> bytes:
    return town.client(who).take()


def test_both_sides_say_so_and_the_copy_names_what_it_was_made_of() -> None:
    town = TransferHarness()
    town.put("jobs", b"first")
    assert town.hand("jobs", "next") == STORED

    server = town.server_id
    jobs, after = town.queue("jobs").generation, town.queue("next").generation
    assert story(town, "jobs") == (
        f"put 1 first, moved 1 target={server}:next:1 generation={after}"
    )
    assert story(town, "next") == (
        f"put 1 first| origin={server}:jobs:1 generation={jobs} bytes=5, "
        f"settled 1 origin={server}:jobs:1 generation={jobs}"
    )
    assert town.queue("jobs").is_empty
    assert b"STAT origin %b:jobs:1\r\n" % server.encode() in town.say("a", b"stats next/item=1")
    assert town.moving() == []


def test_the_move_says_which_delivery_ended_and_when_it_began() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    town.fail("jobs")
    town.pass_time(5000)
    began_ms = town.unix_ms
    town.take("jobs")
    town.pass_time(1000)
    town.pass_on("next", b"1")
    record = next(r for r in town.records("jobs") if r.kind == Kind.MOVED)
    assert (record.small & 255, record.small >> 8, record.number) == (2, 1, began_ms)


def test_a_hand_off_counts_as_a_confirm_with_its_time() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    town.take("jobs")
    town.pass_time(1000)
    town.pass_on("next", b"1")
    counters = town.queue("jobs").reader.counters
    assert counters.service_ms is not None
    assert (counters.confirmed, counters.service_ms[10], counters.service_ms[-1]) == (1, 1, 1000)


def test_within_one_queue_one_record_stores_and_confirms() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    assert town.hand("jobs", "jobs") == STORED
    assert story(town, "jobs") == (
        f"put 1 1, put 2 1| origin={town.server_id}:jobs:1 "
        f"generation={town.queue('jobs').generation} bytes=1, "
        f"moved 1 target={town.server_id}:jobs:2 generation={town.queue('jobs').generation}"
    )
    assert town.queue("jobs").reader.live.count == 1
    assert town.queue("jobs").reader.live_bytes == 2
    assert town.origins() == 0
    assert town.take("jobs") == b"1|"


def test_put_off_with_another_body_it_comes_back_when_it_is_due() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    assert town.hand("jobs", "jobs", options="/delay=5s") == STORED
    assert town.take("jobs") is None
    town.check()
    town.kill()
    town.check()
    assert town.take("jobs") is None
    assert town.queue("jobs").reader.delays.bytes == 2  # as it is now, not as it was
    town.pass_time(5000)
    assert town.take("jobs") == b"1|"


def test_put_off_into_another_queue_it_names_its_origin_too() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    town.take("jobs")
    town.hold_syncs()
    town.pass_on("next", b"1", options="/delay=5s")
    town.kill()
    town.check()
    town.work()
    assert town.origins() == 0
    town.pass_time(5000)
    assert town.take("next") in (b"1|", None)
    town.check()


def test_nothing_open_several_and_one_that_is_named() -> None:
    town = TransferHarness()
    town.set_server(max_open_reads=2)
    town.put("jobs", b"1")
    town.put("jobs", b"2")
    assert town.pass_on("next", b"x").startswith(b"CLIENT_ERROR nothing to confirm")
    town.take("jobs")
    town.take("jobs")
    assert town.pass_on("next", b"x").startswith(b"CLIENT_ERROR name it")
    assert town.pass_on("next", b"2", options=f"=jobs:{town.token}") == STORED
    assert town.pass_on("next", b"1") == STORED
    assert town.pass_on("next", b"1").startswith(b"CLIENT_ERROR nothing to confirm")
    town.check()


def test_a_lease_that_is_over_is_refused_and_the_item_is_with_others() -> None:
    town = TransferHarness()
    town.set_queue("jobs", lease="1s")
    town.put("jobs", b"1")
    town.take("jobs")
    town.pass_time(2000)
    assert town.pass_on("next", b"1").startswith(b"CLIENT_ERROR lease expired")
    assert b"next" not in town.broker.queues, "a refusal leaves nothing behind"
    closed = town.say("client", b"get jobs/close")
    assert closed.startswith(b"CLIENT_ERROR lease expired"), "the mark stands until the next close"
    assert town.pass_on("next", b"1").startswith(b"CLIENT_ERROR nothing to confirm")
    assert town.take("jobs", "other") == b"1"
    named = town.pass_on("next", b"1", options=f"=jobs:{town.token + 1}")
    assert named.startswith(b"CLIENT_ERROR token ")
    named = town.pass_on("next", b"1", options="=nowhere:1")
    assert named.startswith(b"CLIENT_ERROR token ")
    town.check()


def test_where_several_may_be_open_one_whose_lease_is_over_may_be_meant() -> None:
    town = TransferHarness()
    town.set_server(max_open_reads=2)
    town.set_queue("jobs", lease="1s")
    town.put("jobs", b"1")
    town.put("mail", b"2")
    town.take("jobs")
    town.take("mail")
    town.pass_time(2000)
    assert town.pass_on("next", b"?").startswith(b"CLIENT_ERROR name it")


@pytest.mark.parametrize("side", ["jobs", "next"])
@pytest.mark.parametrize("settings", [{"durable": False}, {"sync": "10ms"}, {"sync": "never"}])
def test_both_queues_are_on_disk_and_synced_always(side: str, settings: dict[str, object]) -> None:
    town = TransferHarness()
    town.set_queue(side, **settings)
    town.put("jobs", b"1")
    assert town.hand("jobs", "next").startswith(b"CLIENT_ERROR confirm needs queues ")
    assert town.say("client", b"get jobs/close") == b"END\r\n"
    assert town.queue("jobs").is_empty, "it was open still"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"max_items": 1}, b"NOT_STORED"),
        ({"max_item_size": 4}, b"SERVER_ERROR item too large"),
        ({"key_format": "json", "key": ["id"]}, b"CLIENT_ERROR"),
    ],
)
def test_what_is_refused_confirms_nothing(settings: dict[str, object], word: bytes) -> None:
    town = TransferHarness()
    town.set_queue("next", **settings)
    if "max_items" in settings:
        town.put("next", b"in")
    town.put("jobs", b"body")
    assert town.hand("jobs", "next").startswith(word)
    assert town.moving() == []
    town.check()
    assert town.pass_on("other", b"body") == STORED, "it is open still"
    town.check()


def test_add_into_a_queue_that_holds_something_confirms_nothing() -> None:
    town = TransferHarness()
    town.put("next", b"in")
    town.put("jobs", b"1")
    assert town.hand("jobs", "next", verb="add") == b"NOT_STORED\r\n"
    town.wait("next", "other")
    town.heard("other")
    assert town.pass_on("next", b"1", verb="add") == STORED
    town.check()
    town.wait("next", "other")
    town.heard("other")
    town.put("jobs", b"2")
    assert town.hand("jobs", "jobs", verb="add") == b"NOT_STORED\r\n", "it holds what is lent"


def test_a_full_disk_refuses_it_and_the_item_stays_with_its_holder() -> None:
    town = TransferHarness()
    town.put("next", b"in")
    town.put("jobs", b"1")
    town.take("jobs")
    town.queue("next").log.no_room = "the disk is full"
    assert town.pass_on("next", b"1") == b"SERVER_ERROR the disk is full\r\n"
    town.queue("next").log.no_room = ""
    assert town.pass_on("next", b"1") == STORED


def test_the_source_may_be_on_a_full_disk() -> None:
    town = TransferHarness()
    town.put("next", b"in")
    town.put("jobs", b"1")
    town.take("jobs")
    town.queue("jobs").log.no_room = "the disk is full"
    assert town.pass_on("next", b"1") == STORED
    town.kill()
    town.check()
    assert town.queue("jobs").is_empty


def expires(town: TransferHarness) -> None:
    town.pass_time(100_000)


def hangs_up(town: TransferHarness) -> None:
    town.hang_up("client")


def is_flushed(town: TransferHarness) -> None:
    town.say("b", b"flush jobs noreply")


def is_paused(town: TransferHarness) -> None:
    town.say("b", b"pause jobs noreply")


def is_closed(town: TransferHarness) -> None:
    town.say("client", b"get jobs/close", b"get jobs/abort")


def is_named_by_another(town: TransferHarness) -> None:
    answer = town.say("b", b"get jobs/abort/token=%d" % town.token)
    assert answer.startswith(b"CLIENT_ERROR token ")
    assert town.say("b", b"delete jobs/token=%d" % town.token) == b"NOT_FOUND\r\n"
    assert town.say("b", b"touch jobs/token=%d 9" % town.token) == b"NOT_FOUND\r\n"
    answer = town.say("b", b"set jobs/confirm=jobs:%d 0 0 1" % town.token, b"x")
    assert answer.startswith(b"CLIENT_ERROR token ")


def is_declared(town: TransferHarness) -> None:
    town.set_queue("jobs", max_attempts=1, retry_delay="1s", sync="never")
    town.set_queue("next", sync="never")


HAPPENS = [
    expires, hangs_up, is_flushed, is_paused, is_closed, is_named_by_another, is_declared,
]  # fmt: skip


@pytest.mark.parametrize("lease", ["", "/lease=20s"])
@pytest.mark.parametrize("happens", HAPPENS)
def test_from_acceptance_on_nothing_returns_it(
    happens: Callable[[TransferHarness], None], lease: str
) -> None:
    town = held_on_its_way(lease, lease="10s")
    happens(town)
    assert len(town.moving()) == 1
    town.go()
    assert town.moving() == []
    assert town.queue("jobs").reader.live.count == 0
    assert town.queue("next").reader.live.count == 1
    assert town.origins() == 0
    if happens is not hangs_up:
        assert answer_of(town).startswith(STORED)
    town.client("b").take()
    town.kill()
    town.check()


@pytest.mark.parametrize("which", ["jobs", "next"])
def test_a_queue_deleted_on_the_way_is_gone_with_what_it_holds(which: str) -> None:
    town = held_on_its_way()
    if which == "next":
        town.stored.clear()
    answer = town.say("b", b"delete %b" % which.encode())
    town.go()
    assert answer_of(town) == STORED
    assert answer + answer_of(town, "b") == b"DELETED\r\n"
    assert town.moving() == []
    town.check()
    assert town.origins() == 0


def test_what_is_flushed_in_the_target_is_gone_and_does_not_come_back() -> None:
    town = held_on_its_way()
    town.say("b", b"flush next noreply")
    town.perhaps, town.stored = town.perhaps | town.stored, set()
    town.go()
    assert answer_of(town) == STORED
    assert town.bodies() == {}
    town.kill()
    assert town.bodies() == {}
    town.work()
    assert town.origins() == 0


def test_with_noreply_it_is_done_too() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    town.take("jobs")
    assert town.say("client", b"set next/confirm 0 0 2 noreply", b"1|") == b""
    assert town.queue("jobs").is_empty
    town.check()
    assert town.say("client", b"set next/confirm 0 0 2 noreply", b"1|") == b""
    assert town.broker.counters.refused_quietly == 1
    town.check()


def test_strictly_one_after_the_other_the_next_comes_when_this_one_is_done() -> None:
    town = held_on_its_way(max_leased=1)
    town.say("a", b"set jobs 0 0 1 noreply", b"2")
    town.say("b", b"get jobs/open/t=1h")
    assert town.queue("jobs").reader.leases
    assert answer_of(town, "b") == b""
    town.go()
    assert answer_of(town, "b").startswith(b"VALUE jobs/open/t=1h 0 1\r\n2\r\n")


def test_its_key_is_free_when_it_is_done() -> None:
    town = TransferHarness()
    town.put("next", b"made")
    town.say("a", b"set jobs/key=K 0 0 1", b"1")
    town.say("a", b"set jobs/key=K 0 0 1", b"2")
    town.take("jobs")
    town.hold_syncs()
    town.say("b", b"get jobs/open/t=1h")
    town.pass_on("next/key=K", b"1")
    assert answer_of(town, "b") == b""
    town.go()
    assert answer_of(town, "b").startswith(b"VALUE jobs/open/t=1h 0 1\r\n2\r\n")


def test_with_its_key_in_the_same_queue_it_is_behind_those_that_waited() -> None:
    town = TransferHarness()
    for body in (b"1", b"2"):
        town.say("a", b"set jobs/key=K 0 0 1", body)
    town.say("a", b"set jobs 0 0 1", b"3")
    assert town.hand("jobs", "jobs/key=K") == STORED
    assert [town.finish("jobs") for _ in range(4)] == [b"2", b"3", b"1", None]


def test_a_dead_item_can_be_handed_off() -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1)
    town.put("jobs", b"1")
    town.fail("jobs")
    town.say("client", b"get jobs/dead/open")
    assert town.pass_on("next", b"1") == STORED
    town.check()
    assert town.queue("jobs").is_empty
    town.kill()
    town.check()


def test_an_item_that_is_not_on_disk_yet_waits_for_that() -> None:
    town = TransferHarness()
    town.put("next", b"in")
    town.put("jobs", b"0")
    town.finish("jobs")
    town.hold_syncs()
    town.perhaps.add(b"1")
    town.say("a", b"set jobs 0 0 1", b"1")
    town.say("client", b"get jobs/open", b"set next/confirm 0 0 2", b"1|", b"get jobs/close")
    assert town.queue("next").reader.live.count == 1, "its number could be another item's"
    town.go()
    assert answer_of(town) == b"VALUE jobs/open 0 1\r\n1\r\nEND\r\nSTORED\r\nEND\r\n"
    assert answer_of(town, "a") == STORED
    town.check()
    assert town.queue("jobs").is_empty


def test_within_one_queue_it_need_not_wait_for_that() -> None:
    town = TransferHarness()
    town.put("jobs", b"0")
    town.finish("jobs")
    town.hold_syncs()
    town.perhaps.add(b"1")
    town.say("a", b"set jobs 0 0 1", b"1")
    town.say("client", b"get jobs/open", b"set jobs/confirm 0 0 2", b"1|")
    assert town.queue("jobs").reader.live.last == 3
    town.go()
    assert answer_of(town) == b"VALUE jobs/open 0 1\r\n1\r\nEND\r\nSTORED\r\n"
    town.client("a").take()
    town.check()


def test_an_item_whose_journal_failed_before_it_was_on_disk_is_not_handed_off() -> None:
    town = TransferHarness()
    town.put("next", b"in")
    town.put("jobs", b"0")
    town.disk.faults.append(Fault("sync", "*/jobs.*/*.segment", times=1_000_000))
    town.say("client", b"set jobs 0 0 1 noreply", b"1")
    town.say("client", b"get jobs", b"get jobs/open", b"set next/confirm 0 0 2", b"1|")
    assert answer_of(town).count(b"SERVER_ERROR") == 0
    assert town.queue("next").reader.live.count == 1


@pytest.mark.parametrize("failing", ["jobs", "next"])
@pytest.mark.parametrize("verb", ["write", "sync"])
@pytest.mark.parametrize("nth", range(1, 4))
@pytest.mark.parametrize("to", ["next", "jobs"])
def test_after_a_failed_write_or_sync_it_is_in_doubt_until_a_restart(
    failing: str, verb: str, nth: int, to: str
) -> None:
    town = TransferHarness()
    town.put("next", b"made")
    town.put("jobs", b"1")
    town.take("jobs")
    town.disk.faults.append(Fault(verb, f"*/{failing}.*/*.segment", nth=nth, times=1_000_000))
    stored = town.pass_on(to, b"1") == STORED
    town.hang_up("client")
    town.pass_time(100_000_000)
    town.wait("jobs", "other")
    town.heard("other")
    assert b"1" not in town.done or stored, "no client gets it while it is in doubt"
    del town.disk.faults[:]
    town.kill()
    town.check()
    town.work()
    assert town.origins() == 0
    if stored:
        assert [r.item for r in town.records("jobs") if r.kind == Kind.MOVED] == [1]


def test_while_only_the_copy_says_that_it_is_moved_its_files_are_needed() -> None:
    town = TransferHarness()
    town.put("next", b"made")
    town.put("jobs", b"1")
    town.take("jobs")
    town.disk.faults.append(Fault("sync", "*/jobs.*/*.segment", times=1_000_000))
    assert town.pass_on("next", b"1") == STORED
    town.pass_time(100)
    source, target = town.queue("jobs"), town.queue("next")
    passages = town.broker.moves.in_flight
    assert source.log.failure is not None
    assert passages.doubts(target)
    assert not passages.doubts(source)
    town.broker.delete(b"next", town.now_ms)
    town.put("next", b"made anew")
    assert passages.doubts(town.queue("next")), "with its files those of earlier ones go"
    passages.gone(source, town.now_ms)
    assert not passages.doubts(target), "what it was moved from is gone with its files"


def test_with_both_journals_failed_a_restart_knows() -> None:
    town = held_on_its_way()
    town.disk.faults.append(Fault("sync", "*.segment", times=1_000_000))
    town.go()
    assert answer_of(town).startswith(b"SERVER_ERROR")
    assert len(town.moving()) == 1
    del town.disk.faults[:]
    town.kill()
    town.check()
    town.work()
    assert town.origins() == 0
    assert town.queue("jobs").is_empty, "the copy was written"


def test_where_the_copy_is_lost_a_lease_by_token_goes_on_after_a_restart() -> None:
    town = held_on_its_way("/lease=60s")
    town.snapshot("jobs")
    token = town.token
    town.cut_power()
    town.check()
    assert town.take("jobs", "other") is None
    assert town.say("b", b"get jobs/close/token=%d" % token) == b"END\r\n"


def test_a_target_that_is_gone_before_it_was_stored_there_leaves_it_where_it_was() -> None:
    town = held_on_its_way("/lease=60s")
    log = town.queue("next").log
    queue = town.broker.delete(b"next", town.now_ms)
    assert queue is not None
    town.broker.deleted.clear()
    log.journal.commit.fail(JournalFailed("deleted while the disk was full"))
    log.advance()
    town.broker.moves.advance(town.now_ms)
    assert len(town.moving()) == 1, "its files may come back with a crash"
    town.broker.moves.in_flight.gone(queue, town.now_ms)
    assert town.moving() == []
    assert town.take("jobs", "other") == b"1"


def repeated(town: TransferHarness) -> None:
    """A client hands off under an id that another client has just stored, not on disk yet."""
    town.put("next", b"made")
    town.finish("next")
    town.put("jobs", b"1")
    town.take("jobs")
    town.hold_syncs()
    town.perhaps.add(b"2")
    town.say("a", b"set next/id=7 0 0 1", b"2")
    assert town.say("client", b"set next/id=7/confirm 0 0 1", b"x", b"get jobs/close") == b""


def test_a_repeated_id_confirms_when_what_it_repeats_is_on_disk() -> None:
    town = TransferHarness()
    repeated(town)
    assert town.queue("jobs").reader.live.count == 1
    town.sync()
    town.work()
    assert answer_of(town) == b"", "not before the confirm is on disk"
    town.stored.discard(b"1")
    town.go()
    assert answer_of(town) == STORED + b"END\r\n"
    assert answer_of(town, "a") == STORED
    assert town.queue("jobs").is_empty
    assert town.queue("next").reader.live.count == 1
    assert town.origins() == 0


@pytest.mark.parametrize("ends", ["cut", "killed", "hung up", "lease", "target fails"])
def test_until_then_the_item_stays_with_its_holder(ends: str) -> None:
    town = TransferHarness()
    repeated(town)
    if ends == "cut":
        town.cut_power()
    elif ends == "killed":
        town.kill()
    elif ends == "hung up":
        town.hang_up("client")
        town.go()
    elif ends == "lease":
        town.pass_time(31 * 60 * 1000)
        town.go()
        assert answer_of(town).startswith(b"CLIENT_ERROR lease expired")
    else:
        town.disk.faults.append(Fault("sync", "*/next.*/*.segment", times=1_000_000))
        town.go()
        assert answer_of(town).startswith(b"SERVER_ERROR")
        assert town.queue("jobs").is_empty, "the close after it was for the same item"
        return
    town.check()
    assert town.take("jobs", "other") == b"1"


def test_what_another_hand_off_has_taken_until_then_is_not_confirmed_again() -> None:
    town = TransferHarness()
    town.put("next", b"made")
    town.finish("next")
    town.put("jobs", b"1")
    town.take("jobs", options="/lease=60s")
    name = b"confirm=jobs:%d" % town.token
    town.hold_syncs()
    town.say("a", b"set next/id=7 0 0 1", b"2")
    assert town.say("client", b"set next/id=7/%b 0 0 1" % name, b"x") == b""
    assert town.say("b", b"set next/id=8/%b 0 0 1" % name, b"1") == b""
    assert len(town.moving()) == 1
    town.go()
    assert answer_of(town, "b") == STORED
    assert answer_of(town).startswith(b"CLIENT_ERROR token ")
    assert town.queue("jobs").is_empty
    assert town.queue("next").reader.live.count == 2
    assert town.origins() == 0


def test_the_open_behind_a_hand_off_is_carried_out_with_its_answer() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    town.put("jobs", b"2")
    town.take("jobs")
    town.hold_syncs()
    assert town.say("client", b"set next/confirm 0 0 1", b"1", b"get jobs/open") == b""
    assert town.queue("jobs").reader.ready.count == 1, "the open waits"
    town.go()
    assert answer_of(town) == STORED + b"VALUE jobs/open 0 1\r\n2\r\nEND\r\n"


def test_hand_offs_by_token_in_one_batch_share_a_sync() -> None:
    town = TransferHarness()
    lines = []
    for body in (b"1", b"2", b"3"):
        town.put("jobs", body)
        town.take("jobs", options="/lease=60s")
        lines += [b"set next/confirm=jobs:%d 0 0 1" % town.token, body]
    town.hold_syncs()
    assert town.say("client", *lines) == b""
    assert len(town.moving()) == 3
    town.go()
    assert answer_of(town) == STORED * 3


def test_a_lease_by_token_leaves_nothing_behind() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    town.take("jobs", options="/lease=60s")
    assert town.pass_on("next", b"1", options=f"=jobs:{town.token}") == STORED
    assert town.queue("jobs").reader.leases.entries == {}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("by_token", ["", "/lease=60s"])
def test_what_is_under_way_is_not_confirmed_with_all_up_to_a_marker(
    by_token: str, cut: bool
) -> None:
    town = held_on_its_way(by_token)
    town.say("b", b"delete jobs/upto=1")
    town.sync_queue("jobs")
    assert len(town.moving()) == 1
    if cut:
        town.cut_power()
        town.check()
        return
    town.go()
    assert answer_of(town) == STORED
    town.client("b").take()
    town.check()
    assert town.queue("jobs").is_empty
    town.kill()
    town.check()


def test_a_queue_that_only_passes_on_opens_its_origin_too() -> None:
    town = TransferHarness()
    town.set_queue("next", fanout_only=True)
    town.say("a", b"get next+audit")
    town.put("jobs", b"1")
    town.take("jobs")
    town.hold_syncs()
    town.pass_on("next", b"1")
    assert len(town.queue("next").origins) == 1
    town.go()
    assert answer_of(town) == STORED
    assert town.origins() == 0
    town.check()
    town.kill()
    town.check()


def test_handed_off_to_nobody_it_is_confirmed_on_disk() -> None:
    town = TransferHarness()
    town.set_queue("next", fanout_only=True)
    town.say("a", b"set next 0 0 1", b"x")
    town.put("jobs", b"1")
    town.take("jobs")
    town.hold_syncs()
    assert town.pass_on("next", b"1") == b""
    town.stored.clear()
    town.go()
    assert answer_of(town) == STORED
    town.cut_power()
    assert town.bodies() == {}


def test_handed_off_to_observers_alone_it_is_on_its_way_like_any_other() -> None:
    town = TransferHarness()
    town.set_queue("next", fanout_only=True, retain="forever")
    town.set_queue("jobs", lease="1s")
    town.say("a", b"set next 0 0 1", b"x")
    town.put("jobs", b"1")
    town.take("jobs")
    town.hold_syncs()
    assert town.pass_on("next", b"1") == b""
    town.pass_time(2000)
    town.go()
    assert answer_of(town) == STORED, "no end of the lease takes it back"
    assert b"1|" in town.say("a", b"get next/peek/after=1")
    assert town.queue("jobs").is_empty
    assert town.origins() == 0


def on_its_way_from(reader: str) -> TransferHarness:
    """The holder of `1` in this reader has handed it on to `next`; jobs has a child."""
    town = TransferHarness()
    town.put("next", b"made")
    town.finish("next")
    town.say("a", b"get jobs+audit", b"set jobs 0 0 1", b"1")
    town.take(reader)
    town.hold_syncs()
    town.pass_on("next", b"1")
    return town


@pytest.mark.parametrize(
    "deletes", [[b"delete jobs+audit"], [b"delete jobs+audit", b"delete jobs"]]
)
def test_a_child_deleted_on_the_way_takes_nothing_from_one_made_later(deletes: list[bytes]) -> None:
    town = on_its_way_from("jobs+audit")
    assert town.say("a", *deletes) == b""
    town.go()
    assert answer_of(town) == STORED
    assert answer_of(town, "a") == b"DELETED\r\n" * len(deletes)
    assert town.origins() == 0, "it will not be done again"
    if len(deletes) > 1:
        return
    assert b"1\r\n" in town.say("a", b"get jobs+audit/from=0/peek")
    town.restart()
    assert b"1\r\n" in town.say("a", b"get jobs+audit")


def test_what_a_deleted_queue_handed_off_is_settled_though_its_files_stay_for_a_child() -> None:
    town = on_its_way_from("jobs")
    town.say("a", b"delete jobs")
    town.go()
    assert answer_of(town) == STORED
    assert town.origins() == 0
    answer_of(town, "a")
    town.kill()
    for queue in (b"jobs+audit", b"next"):
        assert town.say("a", b"get %b" % queue).startswith(b"VALUE"), queue
