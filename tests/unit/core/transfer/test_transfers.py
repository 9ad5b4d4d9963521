"""Moves by themselves: the dead and the expired go on to another queue.

Promise: move.
"""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from journal.errors import JournalFailed
from journal.format.describe import sentence
from journal.format.kinds import Kind
from journal.format.transfer import Origin
from journal.tools.view import JournalView
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.subscription.key_gate import SWEEP_ITEMS_MAX
from kestrelpy.core.transfer.request import PASSED_MAX, REST_MS, TransferRequest
from tests.support.memory_disk import Fault
from tests.support.transfer_harness import TransferHarness


def town_of(**settings: dict[str, object]) -> TransferHarness:
    town = TransferHarness()
    for name, each in settings.items():
        town.set_queue(name, **each)
    return town


def jobs_to_failed(**settings: object) -> TransferHarness:
    return town_of(jobs={"max_attempts": 1, "dead_letter_to": "failed"}, failed=settings)


def story(town: TransferHarness, queue: str) -> str:
    log = town.queue(queue).log
    assert isinstance(log, JournalLog)
    view = JournalView(town.disk, log.journal.folder, live=True)
    return ", ".join(sentence(r) for r in view.records() if r.kind != Kind.TOKENS)


def test_what_died_goes_on_and_both_sides_say_so() -> None:
    town = jobs_to_failed()
    town.put("jobs", b"first")
    town.fail("jobs")

    server = town.server_id
    jobs, failed = town.queue("jobs").generation, town.queue("failed").generation
    assert story(town, "jobs") == (
        "put 1 first, dead 1 attempts 1 abort bytes=5, "
        f"moved 1 target={server}:failed:1 generation={failed}"
    )
    assert story(town, "failed") == (
        f"put 1 first origin={server}:jobs:1 generation={jobs}, "
        f"settled 1 origin={server}:jobs:1 generation={jobs}"
    )
    assert town.queue("jobs").reader.live.count == 0
    assert town.queue("jobs").is_empty


def test_a_copy_is_a_new_arrival_with_the_same_body_and_flags_and_no_attempts() -> None:
    town = jobs_to_failed()
    town.say("a", b"set failed 0 0 1", b"x")
    town.say("a", b"set jobs 42 60 4", b"body")
    town.pass_time(10_000)
    town.fail("jobs")

    assert town.say("a", b"get failed").startswith(b"VALUE failed 0 1")
    seen = town.say("a", b"gets failed/peek/full").split()
    assert seen[2:5] == [b"42", b"4", b"2"]
    assert seen[6] == b"-", "a dead letter takes no life with it"
    assert seen[7] == b"0", "no attempts"


def test_a_copy_has_the_key_of_its_item_and_that_of_the_source_is_free() -> None:
    town = jobs_to_failed()
    town.say("a", b"set jobs/key=A,B 0 0 1", b"1")
    town.say("a", b"set jobs/key=A,B 0 0 1", b"2")
    town.fail("jobs")

    assert town.say("a", b"gets failed/peek/full").split()[9] == b"A,B"
    assert town.say("a", b"get jobs") == b"VALUE jobs 0 1\r\n2\r\nEND\r\n"


def test_what_waits_for_its_key_is_not_moved_before_it_is_free() -> None:
    town = town_of(jobs={})
    town.say("a", b"set jobs/key=A 0 0 1", b"1")
    town.say("a", b"set jobs/key=A 0 0 1", b"2")
    town.say("a", b"set jobs 0 0 1", b"3")
    town.say("b", b"get jobs/open")
    town.say("a", b"move jobs other 9")

    assert town.say("a", b"get other") == b"VALUE other 0 1\r\n3\r\nEND\r\n"
    assert town.say("a", b"get other") == b"END\r\n"
    town.say("b", b"get jobs/close")
    assert town.say("a", b"get jobs") == b"VALUE jobs 0 1\r\n2\r\nEND\r\n"


def test_what_is_expired_at_the_front_of_a_paused_queue_ends_no_move() -> None:
    town = town_of(jobs={})
    for _ in range(2 * SWEEP_ITEMS_MAX + 5):
        town.send("a", b"set jobs 0 1 1\r\nx\r\n")
    town.say("a", b"set jobs 0 0 1", b"y")
    town.say("a", b"pause jobs")
    town.now_ms += 5000
    town.say("a", b"move jobs other 1")

    assert town.say("a", b"get other") == b"VALUE other 0 1\r\ny\r\nEND\r\n"


def test_what_has_moved_frees_its_key() -> None:
    town = town_of(jobs={})
    town.say("a", b"set jobs/key=A 0 0 1", b"1")
    town.say("a", b"set jobs/key=A 0 0 1", b"2")
    town.say("a", b"move jobs other 1")

    assert town.say("a", b"get jobs") == b"VALUE jobs 0 1\r\n2\r\nEND\r\n"


def test_what_has_no_key_where_one_is_needed_stays_dead_and_drops_nothing_there() -> None:
    town = jobs_to_failed(
        key_format="json", key=["id"], max_items=1, discard_old_when_full=True
    )
    town.say("a", b"set failed 0 0 8", b'{"id":1}')
    town.say("a", b"set jobs 0 0 1", b"x")
    town.fail("jobs")

    assert town.say("a", b"get jobs/dead/peek") == b"VALUE jobs/dead/peek 0 1\r\nx\r\nEND\r\n"
    assert town.say("a", b"get failed").startswith(b"VALUE failed 0 8")


def test_what_expired_goes_on_and_stays_there_without_its_expiry() -> None:
    town = town_of(jobs={"expire_to": "late"})
    town.say("a", b"set jobs 0 1 4", b"body")
    town.pass_time(2000)

    assert town.say("a", b"get jobs") == b"END\r\n"
    seen = town.say("a", b"gets late/peek/full").split()
    assert seen[6] == b"-"
    assert town.queue("jobs").reader.counters.expired == 1


def test_what_expires_goes_to_its_own_queue_and_what_dies_to_another() -> None:
    town = town_of(jobs={"max_attempts": 1, "expire_to": "late", "dead_letter_to": "failed"})
    town.say("a", b"set jobs 0 1 1", b"1")
    town.say("a", b"set jobs 0 0 1", b"2")
    town.pass_time(2000)
    town.fail("jobs")

    assert town.say("a", b"get late") == b"VALUE late 0 1\r\n1\r\nEND\r\n"
    assert town.say("a", b"get failed") == b"VALUE failed 0 1\r\n2\r\nEND\r\n"


@pytest.mark.parametrize(("age", "stays_s"), [("none", 0), ("500s", 500)])
def test_a_dead_letter_stays_in_its_queue_as_long_as_is_set(age: str, stays_s: int) -> None:
    jobs = {"max_attempts": 1, "dead_letter_to": "failed", "dead_letter_age": age}
    town = town_of(jobs=jobs, failed={})
    town.say("a", b"set jobs 0 100 1", b"1")
    town.fail("jobs")
    seen = town.say("a", b"gets failed/peek/full").split()
    if stays_s:
        assert int(seen[6]) - int(seen[5]) == stays_s * 1000
    else:
        assert seen[6] == b"-"


@pytest.mark.parametrize("to", ["late", "failed"])
def test_the_age_of_dead_letters_is_not_that_of_expired_items(to: str) -> None:
    """Unless both go to one queue."""
    dead = {"dead_letter_to": "failed", "dead_letter_age": "500s"}
    town = town_of(jobs={"expire_to": to} | dead, late={}, failed={})
    town.say("a", b"set jobs 0 1 1", b"1")
    town.pass_time(2000)
    seen = town.say("a", b"gets " + to.encode() + b"/peek/full").split()
    assert (seen[6] != b"-") == (to == "failed")


def test_what_an_operator_moves_to_the_dead_letters_has_no_age_of_theirs() -> None:
    jobs = {"max_attempts": 1, "dead_letter_to": "failed", "dead_letter_age": "500s"}
    town = town_of(jobs=jobs | {"dead_letter_to": "none"}, failed={})
    town.put("jobs", b"1")
    assert town.say("a", b"move jobs failed 1") == b"1\r\n"
    assert town.say("a", b"gets failed/peek/full").split()[6] == b"-"


def test_max_age_of_the_target_bounds_the_life_of_a_dead_letter() -> None:
    town = town_of(jobs={"max_attempts": 1, "dead_letter_to": "failed"}, failed={"max_age": "7s"})
    town.say("a", b"set jobs 0 100 1", b"1")
    town.fail("jobs")
    seen = town.say("a", b"gets failed/peek/full").split()
    assert int(seen[6]) - int(seen[5]) == 7000


@pytest.mark.parametrize("target", [b"", b" other"])
@pytest.mark.parametrize("which", [b"1", b"all"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_redriven_item_has_no_expiry(target: bytes, which: bytes, is_late: bool) -> None:
    town = town_of(jobs={"max_attempts": 1})
    town.say("a", b"set jobs 0 10 1", b"1")
    town.fail("jobs")
    if is_late:
        town.pass_time(20_000)
    assert town.say("a", b"redrive jobs " + which + target) == b"1\r\n"
    town.pass_time(60_000)
    name = target.strip() or b"jobs"
    assert town.say("a", b"gets " + name + b"/peek/full").split()[6] == b"-"
    assert town.say("a", b"get " + name).startswith(b"VALUE")


@pytest.mark.parametrize("settings", [{"max_items": 1}, {"max_item_size": 3}])
def test_what_the_target_refuses_stays_dead_and_is_tried_again(settings: dict[str, object]) -> None:
    town = jobs_to_failed(**settings)
    town.put("failed", b"in")
    town.put("jobs", b"body")
    town.fail("jobs")

    assert list(town.queue("jobs").reader.dead.deaths) == [1]
    assert len(town.said) == 1
    assert "queue jobs: items for failed stay among its dead letters: " in town.said[0]
    assert town.moving() == []
    assert town.say("a", b"get jobs/dead/peek").startswith(b"VALUE"), "others see it"

    town.set_queue("failed", max_items=9, max_item_size=100)
    town.pass_time(70_000)
    assert town.queue("failed").reader.live.count == 2
    assert town.queue("jobs").is_empty
    assert len(town.said) == 1, "one line, not one each time"


def test_the_end_of_a_transfer_does_not_end_the_rest_of_its_request() -> None:
    town = jobs_to_failed(max_items=2)
    town.put("failed", b"in")
    for body in (b"1", b"2"):
        town.put("jobs", body)
    for _ in range(2):
        town.say("a", b"get jobs/open")
        town.hold_syncs()
        town.say("a", b"get jobs/abort")
    assert len(town.moving()) == 1
    assert len(town.said) == 1, "the second is refused, while the first is on its way"
    assert town.say("b", b"get failed").startswith(b"VALUE"), "there is room again"

    town.go()
    assert town.moving() == []
    assert list(town.queue("jobs").reader.dead.deaths) == [2], "it rests"
    town.pass_time(REST_MS)
    assert town.queue("jobs").is_empty
    assert town.queue("failed").reader.live.count == 2


@pytest.mark.parametrize("settings", [{"max_item_size": 8}, {"key_format": "json", "key": ["id"]}])
def test_an_item_that_the_target_never_takes_holds_up_no_other(
    settings: dict[str, object],
) -> None:
    town = jobs_to_failed(**settings)
    good = [b'{"id":1}', b'{"id":2}']
    for body in (b"not good 1", good[0], b"not good 2"):
        town.put("jobs", body)
        town.fail("jobs")
    town.pass_time(2000)
    assert town.say("a", b"get failed/peek").split(b"\r\n")[1] == good[0]

    town.put("jobs", good[1])
    town.fail("jobs")
    town.pass_time(60_000)

    assert town.queue("failed").reader.live.count == 2
    assert list(town.queue("jobs").reader.dead.deaths) == [1, 3]
    assert len(town.said) == 2, "one line for each of them"
    town.pass_time(600_000)
    assert len(town.said) == 2
    town.check()


def test_a_refusal_is_logged_once_also_of_an_item_that_a_client_had_meanwhile() -> None:
    town = jobs_to_failed(max_item_size=3)
    for body in (b"body 1", b"body 2"):
        town.put("jobs", body)
        town.fail("jobs")
    town.pass_time(2000)
    assert len(town.said) == 2

    assert town.say("b", b"get jobs/dead/open").startswith(b"VALUE")
    town.pass_time(600_000)
    town.say("b", b"get jobs/dead/abort")
    town.pass_time(600_000)

    assert list(town.queue("jobs").reader.dead.deaths) == [1, 2]
    assert len(town.said) == 2


def test_of_many_that_the_target_never_takes_some_are_tried_at_once() -> None:
    town = jobs_to_failed(max_item_size=3)
    for _ in range(PASSED_MAX * 2):
        town.put("jobs", b"body")
        town.fail("jobs")
    town.put("jobs", b"1")
    town.fail("jobs")
    town.pass_time(10 * 60_000)

    assert town.queue("failed").reader.live.count == 1
    assert len(town.queue("jobs").reader.dead) == PASSED_MAX * 2


def test_an_expired_item_that_is_refused_is_dead_for_that_reason() -> None:
    town = town_of(jobs={"expire_to": "late"}, late={"max_items": 1})
    town.put("late", b"in")
    town.say("a", b"set jobs 0 1 1", b"1")
    town.pass_time(2000)

    death = town.queue("jobs").reader.dead.deaths[1]
    assert (death.reason, death.attempts) == (b"expired", 0)
    assert town.say("a", b"get jobs/dead/peek").startswith(b"VALUE")


def test_a_queue_that_drops_its_oldest_takes_what_is_moved_there() -> None:
    town = jobs_to_failed(max_items=1, discard_old_when_full=True)
    town.put("failed", b"old")
    town.put("jobs", b"new")
    town.fail("jobs")
    assert town.say("a", b"get failed") == b"VALUE failed 0 3\r\nnew\r\nEND\r\n"


def test_a_reload_sends_on_what_is_dead_already() -> None:
    town = town_of(jobs={"max_attempts": 1})
    for body in (b"1", b"2"):
        town.put("jobs", body)
        town.fail("jobs")
    assert town.queue("jobs").reader.dead.count == 2

    town.set_queue("jobs", dead_letter_to="failed")
    town.work()
    assert town.queue("failed").reader.live.count == 2

    town.set_queue("jobs", dead_letter_to="none")
    town.put("jobs", b"3")
    town.fail("jobs")
    assert town.queue("jobs").reader.dead.count == 1


def test_the_dead_go_on_oldest_death_first_read_back_if_need_be() -> None:
    town = town_of(jobs={"max_attempts": 1, "max_memory": 10_000})
    bodies = [b"%d" % n + b"x" * 3000 for n in range(600)]
    for body in bodies:
        town.put("jobs", body)
        town.fail("jobs")
    town.restart()
    town.set_queue("jobs", dead_letter_to="failed")
    town.work()
    taken = [town.finish("failed") for _ in bodies]
    assert taken == bodies
    assert town.queue("jobs").is_empty


def test_a_dead_item_that_somebody_holds_goes_on_when_it_is_given_back() -> None:
    town = jobs_to_failed(max_items=1)
    town.put("failed", b"in")
    town.put("jobs", b"1")
    town.fail("jobs")
    assert town.say("a", b"get jobs/dead/open").startswith(b"VALUE")
    town.set_queue("failed", max_items=9)
    town.pass_time(100_000)
    assert town.queue("failed").reader.live.count == 1, "somebody has it"
    town.say("a", b"get jobs/abort")
    assert town.queue("failed").reader.live.count == 2


def test_queues_in_memory_move_too() -> None:
    town = town_of(
        jobs={"max_attempts": 1, "durable": False, "dead_letter_to": "failed"},
        failed={"max_attempts": 1, "dead_letter_to": "old"},
        old={"durable": False},
    )
    town.put("jobs", b"1")
    town.fail("jobs")
    town.fail("failed")
    town.check()
    assert town.say("a", b"get old") == b"VALUE old 0 1\r\n1\r\nEND\r\n"
    assert town.origins() == 0


def held_on_its_way(town: TransferHarness) -> None:
    """An item of jobs is copied to failed, and nothing is synced any more."""
    town.put("failed", b"in")
    town.put("jobs", b"1")
    town.say("a", b"get jobs/open")
    town.hold_syncs()
    town.say("a", b"get jobs/abort")
    assert len(town.moving()) == 1


def test_what_is_moving_is_leased_to_nobody_and_not_touched() -> None:
    town = jobs_to_failed()
    held_on_its_way(town)
    assert town.say("b", b"get jobs/dead/open") == b"END\r\n"
    assert town.say("b", b"delete jobs/dead/item=1") == b"NOT_FOUND\r\n"
    town.say("b", b"flush jobs")
    town.go()
    town.check()
    assert town.client("b").take() == b"END\r\n"
    assert town.queue("failed").reader.live.count == 2


def test_moving_items_take_no_lease_from_max_leased() -> None:
    town = jobs_to_failed()
    town.set_queue("jobs", max_leased=1)
    held_on_its_way(town)
    town.say("b", b"set jobs 0 0 1 noreply", b"2")
    assert town.queue("jobs").reader.open(town.client("b").conversation.holder, town.now_ms)
    town.go()


def test_a_source_that_is_deleted_meanwhile_leaves_one_copy() -> None:
    town = jobs_to_failed()
    held_on_its_way(town)
    town.say("b", b"delete jobs")
    town.go()
    town.check()
    assert town.client("b").take() == b"DELETED\r\n"
    assert town.origins() == 0
    assert town.queue("failed").reader.live.count == 2


def test_what_a_client_moves_is_not_taken_from_a_source_that_was_made_again() -> None:
    town = TransferHarness()
    town.say("b", b"get jobs+kid")
    town.put("jobs", b"1")
    request = TransferRequest(town.queue("jobs"), b"other", None, 2)
    town.say("b", b"delete jobs")
    town.say("b", b"set jobs 0 0 1", b"2")
    assert request.source is town.queue("jobs"), "its child goes on in its log"
    town.broker.moves.request(request)
    town.go()
    assert request.is_over and (request.moved, request.refusal != "") == (0, True)
    assert town.queue("jobs").reader.live.count == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_source_whose_deletion_a_crash_undoes_has_no_second_copy(seed: int) -> None:
    random = Random(seed)
    town = jobs_to_failed()
    held_on_its_way(town)
    town.say("b", b"delete jobs")
    for _ in range(random.randrange(4)):
        random.choice((town.sync_once, town.write_once))()
    town.crash(random)
    town.stored.clear()
    town.perhaps |= {b"in", b"1"}
    town.check()
    assert town.origins() <= 1
    town.work()
    town.check()
    assert town.origins() == 0


def test_a_target_that_is_deleted_meanwhile_takes_the_item_with_it() -> None:
    town = jobs_to_failed()
    held_on_its_way(town)
    town.stored.clear()
    town.say("b", b"delete failed")
    town.sync_once()
    assert town.client("b").take() == b"", "its files are there while MOVED may be lost"
    town.go()
    assert town.client("b").take() == b"DELETED\r\n"
    assert town.queue("jobs").is_empty
    assert b"failed" not in town.broker.queues


def test_a_target_that_fails_leaves_the_item_in_doubt_until_a_restart() -> None:
    town = jobs_to_failed()
    held_on_its_way(town)
    town.disk.faults.append(Fault("sync", "*/failed.*/*.segment", times=1_000_000))
    town.go()
    assert len(town.moving()) == 1, "in doubt"
    assert town.say("b", b"get jobs/dead/open") == b"END\r\n"
    town.kill()
    town.check()
    town.work()
    assert town.origins() == 0
    town.check()


def test_a_target_that_goes_before_the_copy_was_stored_gives_the_item_back() -> None:
    town = jobs_to_failed()
    held_on_its_way(town)
    log = town.queue("failed").log
    assert isinstance(log, JournalLog)
    queue = town.broker.delete(b"failed", town.now_ms)
    assert queue is not None
    town.broker.deleted.clear()
    log.journal.commit.fail(JournalFailed("deleted while the disk was full"))
    log.advance()
    town.broker.moves.advance(town.now_ms)
    assert len(town.moving()) == 1, "its files may come back with a crash"
    town.broker.moves.in_flight.gone(queue, town.now_ms)
    assert town.moving() == []
    assert town.queue("jobs").reader.dead.count == 1


def test_an_empty_queue_with_an_open_origin_is_not_too_old_to_stay() -> None:
    town = jobs_to_failed(max_queue_age="1s")
    town.put("jobs", b"1")
    town.fail("jobs")
    queue = town.queue("failed")
    town.finish("failed")
    queue.origins[1] = Origin(b"s", b"jobs", 1, 1)
    town.pass_time(60_000)
    assert town.queue("failed") is queue


def test_an_origin_is_read_as_it_is_written_colons_in_names_too() -> None:
    town = town_of(**{"a:b": {"max_attempts": 1, "dead_letter_to": "c:1"}})
    town.put("a:b", b"1")
    held = town.broker.moves
    town.hold_syncs()
    town.say("a", b"get a:b/open")
    town.say("a", b"get a:b/abort")
    assert held.is_active
    town.kill()
    town.check()
    assert town.queue("a:b").is_empty
    town.work()
    assert town.origins() == 0


@pytest.mark.parametrize("retain", [None, "forever"])
def test_what_moves_to_a_queue_that_only_passes_on_is_its_childrens(retain: str | None) -> None:
    town = town_of(later={"fanout_only": True, "retain": retain or "none"})
    town.say("a", b"get later+audit")
    town.put("jobs", b"1")
    assert town.say("a", b"move jobs later 1") == b"1\r\n"
    for _ in range(2):
        assert town.say("a", b"get later/peek") == b"END\r\n"
        assert b"\r\n1\r\n" in town.say("a", b"get later+audit/peek")
        assert town.origins() == 0
        town.kill()
    town.check()


def test_what_nobody_would_have_is_not_moved() -> None:
    town = town_of(later={"fanout_only": True}, jobs={"max_attempts": 1, "dead_letter_to": "later"})
    town.put("jobs", b"1")
    town.put("jobs", b"2")
    town.fail("jobs")
    assert b"no children" in town.say("a", b"move jobs later 1")
    for _ in range(2):
        assert town.say("a", b"get jobs/peek") == b"VALUE jobs/peek 0 1\r\n2\r\nEND\r\n"
        assert town.say("a", b"get jobs/dead/peek") == b"VALUE jobs/dead/peek 0 1\r\n1\r\nEND\r\n"
        town.kill()
    town.check()
    town.say("a", b"get later+audit")
    town.pass_time(2000)
    assert town.say("a", b"get later+audit/peek") == b"VALUE later+audit/peek 0 1\r\n1\r\nEND\r\n"


def test_what_moves_to_observers_alone_is_seen_by_them() -> None:
    town = town_of(later={"fanout_only": True, "retain": "forever"})
    town.put("jobs", b"1")
    assert town.say("a", b"move jobs later 1") == b"1\r\n"
    for _ in range(2):
        assert town.say("a", b"get later/peek") == b"END\r\n"
        assert b"\r\n1\r\n" in town.say("a", b"get later/peek/after=0")
        assert town.origins() == 0
        town.kill()


def test_what_is_remembered_of_refusals_is_of_items_that_are_still_to_go() -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    order = TransferRequest(town.queue("jobs"), b"later", deque([1, 2]))
    assert all(order.is_news("too large", item) for item in range(1, 101))
    assert not order.is_news("too large", 7)
    order.rest()
    assert order.logged == {1, 2}


def test_bodies_on_their_way_take_no_more_memory_than_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kestrelpy.core.transfer.transfers.BYTES_MAX", 6)
    town = TransferHarness()
    for body in (b"one", b"two", b"six"):
        town.put("jobs", body)
    town.hold_syncs()
    town.say("a", b"move jobs later 3")
    assert len(town.moving()) == 2
    town.go()
    town.work()
    assert [place for place, _ in town.stored_bodies()] == ["later"] * 3


def test_a_move_of_many_takes_few_steps_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrelpy.core.transfer.transfers.STEPS_MAX", 7)
    monkeypatch.setattr("kestrelpy.core.transfer.transfers.BEGUN_MAX", 5)
    town, taken = TransferHarness(), list[int]()
    bodies = [b"%d" % number for number in range(100)]
    for body in bodies:
        town.put("jobs", body)
    advance = town.broker.moves.advance

    def counted(now_ms: int) -> int:
        taken.append(advance(now_ms))
        return taken[-1]

    monkeypatch.setattr("kestrelpy.core.transfer.transfers.Transfers.advance",
                        lambda self, now_ms: counted(now_ms))
    assert town.say("client", b"move jobs next 100") == b"100\r\n"
    assert max(taken) <= 7 + 5
    assert sum(taken) == 300, "each item is begun, then it is stored, then it has left"
    assert town.stored_bodies() == [("next", body) for body in bodies]
