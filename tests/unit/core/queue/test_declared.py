"""The settings that a client declared for a queue: stored with its data, never read by the core.

Promise declared: power cuts, kills, a kill among hundreds of declarations in the real process;
    restarts, reloads.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.errors import NewerFormat
from journal.format.declared import declared_draft
from journal.format.kinds import Kind
from journal.recovery.recovery import Recovery
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.replay.replay import Replay
from tests.support.core_harness import NAME, make_queue
from tests.support.disk_harness import DiskHarness

DECLARED = b'max_items = 1\nlease = "5s"\n'


def declare(queue: Queue, declared: bytes = DECLARED, now_ms: int = 0) -> int:
    return queue.declare(declared, Policy(max_items=1), now_ms)


def test_a_declaration_is_logged_and_its_rules_hold_at_once() -> None:
    q = make_queue()
    q.put(b"1")
    lsn = declare(q.queue)
    assert lsn == 2
    assert q.queue.declared == DECLARED
    assert not q.put(b"2")
    assert q.story == f"put 1 1, declared {DECLARED.decode().replace(chr(10), '.')}"


def test_a_queue_may_be_made_with_a_declaration_and_its_rules_are_asked_for_with_it() -> None:
    asked = []
    q = make_queue()

    def policy_of(name: bytes, declared: bytes) -> Policy:
        asked.append((name, declared))
        return Policy(max_items=1)

    q.broker.policy_of = policy_of
    queue = q.broker.create(b"other", 0, DECLARED)
    assert asked == [(b"other", DECLARED)]
    assert (queue.declared, queue.policy.max_items) == (DECLARED, 1)


def test_it_is_there_after_a_restart_and_the_last_one_counts() -> None:
    q = make_queue()
    declare(q.queue, b"max_items = 2\n")
    declare(q.queue)
    assert q.restarted().queue.declared == DECLARED
    assert q.restarted(q.records[:1]).queue.declared == b"max_items = 2\n"
    assert q.restarted([]).queue.declared == b""


def test_it_is_part_of_the_state_that_a_snapshot_keeps() -> None:
    q = make_queue()
    declare(q.queue)
    assert q.queue.state().standing == [declared_draft(DECLARED, b"", 0)]


def test_declarations_of_a_later_version_are_refused_as_newer() -> None:
    q = make_queue()
    declare(q.queue)
    metadata = [r._replace(small=2) for r in q.records if r.kind == Kind.DECLARED]
    with pytest.raises(NewerFormat, match="declarations of kind 2"):
        Replay(make_queue().queue).run(metadata)


def test_metadata_is_stored_beside_it_and_a_later_declaration_leaves_that_alone() -> None:
    q = make_queue()
    q.queue.declare(b"", Policy(), 0, b'{"team":"mail"}')
    declare(q.queue)
    again = q.restarted()
    assert (again.queue.declared, again.queue.metadata) == (DECLARED, b'{"team":"mail"}')
    assert again.queue.state().standing == [declared_draft(DECLARED, b'{"team":"mail"}', 0)]
    again.queue.declare(b"", Policy(), 0, b"")
    assert again.restarted().queue.metadata == b""


def test_a_new_queue_of_that_name_has_none() -> None:
    q = make_queue()
    declare(q.queue)
    q.delete()
    q.put(b"1")
    assert q.broker.queues[NAME].declared == b""


# -- on a disk ---------------------------------------------------------------------------------


def work_off(life: DiskHarness, items: int) -> None:
    """Put and confirm this many large items; their segments are removed."""
    for _ in range(items):
        life.put(bytes(800))
        life.commit()
        life.take_all()
        life.commit()
        life.do_all()


def first_number(life: DiskHarness) -> int:
    return life.log.journal.segments[0].number


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("items", [0, 3, 6, 12, 40])
def test_it_outlives_the_segment_in_which_it_was_said(items: int, is_cut: bool) -> None:
    life = DiskHarness(Policy())
    declare(life.jobs)
    life.commit()
    work_off(life, items)
    if items >= 12:
        assert first_number(life) > 1, "the first segment is gone: else nothing is tried here"
    life.cut_power(items) if is_cut else life.kill()
    assert life.jobs.declared == DECLARED


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("items", [0, 12, 40])
def test_metadata_outlives_the_segment_in_which_it_was_said(items: int, is_cut: bool) -> None:
    life = DiskHarness(Policy())
    life.jobs.declare(DECLARED, Policy(max_items=1), 0, b'{"team":"mail"}')
    life.commit()
    work_off(life, items)
    life.cut_power(items) if is_cut else life.kill()
    assert (life.jobs.declared, life.jobs.metadata) == (DECLARED, b'{"team":"mail"}')


def test_it_outlives_the_segments_of_any_life_of_its_process() -> None:
    life, random = DiskHarness(Policy()), Random(7)
    declare(life.jobs)
    life.commit()
    for _ in range(30):
        work_off(life, random.randrange(1, 4))
        life.kill() if random.random() < 0.5 else life.cut_power(1)
        assert life.jobs.declared == DECLARED
    assert first_number(life) > 5


def test_segments_go_although_something_was_declared() -> None:
    life, plain = DiskHarness(Policy()), DiskHarness(Policy())
    declare(life.jobs)
    life.commit()
    for each in (life, plain):
        work_off(each, 40)
    assert len(life.log.journal.segments) <= len(plain.log.journal.segments) + 1


def test_without_a_snapshot_it_is_said_again_before_its_segment_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("journal.snapshot.cadence.SEGMENTS_MIN", 1 << 30)
    life = DiskHarness(Policy())
    declare(life.jobs)
    life.commit()
    work_off(life, 40)
    assert not life.log.store.maintenance.snapshots
    assert first_number(life) > 1
    found = list(Recovery(life.disk, life.log.journal.folder).records())
    assert [r.body for r in found if r.kind == Kind.DECLARED][-1:] == [DECLARED]
    life.kill()
    assert life.jobs.declared == DECLARED
