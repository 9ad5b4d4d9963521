"""Items read for one subscription of a journal are shared with the others."""

from __future__ import annotations

from unittest.mock import Mock

from journal.write.segment_file import Sizes
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.server.turn import READS_MAX, Turn
from tests.support.disk_harness import DiskHarness


def test_children_share_the_items_read_for_one_of_them() -> None:
    life = DiskHarness(Policy(), Sizes(2048, 2048, 1 << 20))
    for number in range(5):
        life.broker.mention(b"jobs+c%d" % number, life.now_ms)
    for n in range(3):
        life.put(b"%d" % n, delay=Delay(1000))
    life.commit()
    life.pass_time(1000)
    life.commit()
    for branch in ChildQueue.all_of(life.jobs):
        branch.reader.first(life.now_ms)  # they learn it when they look
    life.end_turn()
    assert len(life.background.work) == 1, "the others wait for it"
    life.do_all()
    for reader in life.jobs.readers:
        assert [item.body for item in reader.ready] == [b"0", b"1", b"2"]


def test_a_turn_schedules_few_reads_and_a_deferred_one_delays_no_other() -> None:
    must_wait, may_go = [Mock(waiters=0) for _ in range(40)], [Mock(waiters=0) for _ in range(40)]
    broker, loop = Mock(), Mock()
    broker.take_to_read.side_effect = [must_wait + may_go, [], [], []]
    turn = Turn(broker, loop, [], Mock())
    turn.journal_jobs = Mock()
    turn.journal_jobs.schedule_read.side_effect = lambda reader: reader in may_go
    fed = []
    for _ in range(4):
        turn._is_scheduled = False
        turn.journal_jobs.schedule_read.reset_mock()
        turn._schedule_reads()
        calls = turn.journal_jobs.schedule_read.mock_calls
        fed.append(sum(call.args[0] in may_go for call in calls))
    assert fed == [READS_MAX, READS_MAX, 40 - 2 * READS_MAX, 0]
    assert not turn._is_scheduled, "those who must wait are asked again in a turn that others owe"
    assert len(turn._deferred_reads) == 40


def test_a_reader_for_which_a_client_waits_comes_first_also_if_it_was_in_line_before() -> None:
    many = [Mock(waiters=0) for _ in range(3 * READS_MAX)]
    broker = Mock()
    turn = Turn(broker, Mock(), [], Mock())
    turn.journal_jobs = Mock()
    turn.journal_jobs.schedule_read.return_value = True
    broker.take_to_read.return_value = many
    turn._schedule_reads()
    last = many[-1]
    last.waiters = 1
    broker.take_to_read.return_value = [Mock(waiters=0), last]
    turn.journal_jobs.schedule_read.reset_mock()

    turn._schedule_reads()

    assert turn.journal_jobs.schedule_read.mock_calls[0].args == (last,)


def test_what_was_read_is_taken_by_the_clock() -> None:
    broker, reader = Mock(), Mock(waiters=0)
    broker.clock.offset_ms = 1 << 50
    turn = Turn(broker, Mock(), [], Mock())

    turn.read_back(reader)

    (unix_ms,) = reader.ready_items.refill.call_args.args
    assert unix_ms > 1 << 50
