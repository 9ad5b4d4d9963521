"""Dead letters and redriven items do not expire: before a restart, after it, and in its snapshots.

    put with an expiry ──▶ dead ──▶ its expiry passes ──▶ redriven ──▶ any end but EXPIRED

Promise dead-letter: power cut and kill before every verb of the disk around the redrive, orderly
    restarts, snapshots on either side, a rewritten segment whose redrive only a snapshot knows,
    further leases, delays and deaths.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.format.kinds import Kind
from journal.tools.view import JournalView
from journal.write.segment_file import Sizes
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.subscription.subscription import ABORTED
from tests.support.core_harness import WALL_MS, make_queue
from tests.support.disk_harness import DiskHarness
from tests.support.transfer_harness import TransferHarness, cut_at_every_step

LIFE_S = 10
OVER_MS = 60_000
Act = Callable[[TransferHarness, str], object]


def town_with_a_dead_letter(queue: str = "jobs", **settings: object) -> TransferHarness:
    town = TransferHarness()
    town.set_queue("jobs", **settings)
    if "+" in queue:
        town.say("client", b"get %b" % queue.encode())
    town.put("jobs", b"1", LIFE_S)
    town.take(queue)
    town.say("client", b"get %b/abort/dead=why" % queue.encode())
    return town


def redrive(town: TransferHarness, queue: str) -> None:
    assert town.say("operator", b"redrive %b all" % queue.encode()) == b"1\r\n"


def kill(town: TransferHarness, queue: str) -> None:
    town.kill()


def cut(town: TransferHarness, queue: str) -> None:
    town.cut_power()


def snapshot_and_kill(town: TransferHarness, queue: str) -> None:
    town.snapshot("jobs")
    town.kill()


def two_snapshots(town: TransferHarness, queue: str) -> None:
    for _ in range(2):
        town.snapshot("jobs")
        town.put("jobs", b"other")
        assert town.say("client", b"get %b/peek" % queue.encode())
        town.kill()


def restart(town: TransferHarness, queue: str) -> None:
    town.restart()


def flush_the_others(town: TransferHarness, queue: str) -> None:
    """A lease by token spares the item."""
    town.take(queue, options="/lease=500s")
    town.say("client", b"flush %b" % queue.encode())
    town.kill()
    town.say("client", b"get %b/abort/token=%d" % (queue.encode(), town.token))


def return_later(town: TransferHarness, queue: str) -> None:
    town.take(queue)
    town.say("client", b"get %b/abort/delay=70s" % queue.encode())
    town.kill()
    town.pass_time(OVER_MS)


def leased_with_grace(town: TransferHarness, queue: str) -> None:
    town.take(queue, options="/lease=5s")
    town.kill()
    town.pass_time(6000)


def die_again(town: TransferHarness, queue: str) -> None:
    town.take(queue)
    town.say("client", b"get %b/abort/dead=again" % queue.encode())
    town.kill()
    town.pass_time(OVER_MS)
    redrive(town, queue)


ACTS: list[Act] = [
    kill, cut, restart, snapshot_and_kill, two_snapshots, flush_the_others, return_later,
    leased_with_grace, die_again,
]  # fmt: skip


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("queue", ["jobs", "jobs+audit"])
@pytest.mark.parametrize("act", ACTS)
def test_a_redriven_item_has_no_expiry_after_a_restart(
    act: Act, queue: str, is_late: bool
) -> None:
    town = town_with_a_dead_letter(queue)
    if is_late:
        town.pass_time(OVER_MS)
    redrive(town, queue)
    act(town, queue)
    town.pass_time(2 * OVER_MS)
    seen = town.say("client", b"gets %b/peek/full" % queue.encode())
    if not seen:  # it is read back
        town.pass_time(1)
        seen = town.client("client").take()
    assert seen.split()[6:7] == [b"-"], seen
    assert town.take(queue) == b"1"
    town.say("client", b"get %b/close" % queue.encode())
    assert town.queue(queue).reader.counters.expired == 0


@pytest.mark.parametrize("queue", ["jobs", "jobs+audit"])
@pytest.mark.parametrize("act", [kill, cut, restart, snapshot_and_kill])
def test_a_dead_letter_does_not_expire_over_a_restart(act: Act, queue: str) -> None:
    town = town_with_a_dead_letter(queue)
    town.pass_time(1000)
    act(town, queue)
    town.pass_time(OVER_MS)
    act(town, queue)
    town.pass_time(OVER_MS)
    redrive(town, queue)
    act(town, queue)
    town.pass_time(OVER_MS)
    assert town.take(queue) == b"1"


def redriven(town: TransferHarness) -> None:
    town.set_queue("jobs", max_attempts=1)
    town.put("jobs", b"1", LIFE_S)
    town.fail("jobs")
    town.pass_time(OVER_MS)
    town.snapshot("jobs")
    town.say("client", b"redrive jobs all")
    town.snapshot("jobs")
    town.put("jobs", b"2")


def is_dead_or_redriven(town: TransferHarness) -> None:
    if b"jobs" not in town.broker.queues:
        return
    reader = town.queue("jobs").reader
    if not (reader.dead.deaths or reader.ageless.count):
        assert b"2" not in town.stored, "its death and its redrive were on disk"
        return  # it waits, and expires, as it did before it died
    town.pass_time(OVER_MS)
    town.check()
    if reader.dead.deaths:
        assert town.say("client", b"redrive jobs all") == b"1\r\n"
        town.kill()
        town.pass_time(OVER_MS)
        town.check()


def test_a_crash_on_either_side_of_the_redrive_loses_nothing() -> None:
    assert cut_at_every_step(redriven, is_dead_or_redriven) > 5


def test_compaction_keeps_a_redriven_item_without_an_expiry() -> None:
    d = DiskHarness(Policy(), Sizes(4096, 4096, 1 << 20))
    d.put(b"first", expires_ms=d.unix_ms + 1000)
    lease = d.open()
    assert lease is not None
    d.reader.dead_letter(lease, d.now_ms, ABORTED)
    Admin(d.jobs).redrive(1, d.now_ms)
    d.open("bert")
    for _ in range(80):
        d.put(b"x" * 200)
        lease = d.open()
        assert lease is not None
        d.reader.confirm(lease, d.now_ms)
        d.commit()
        d.do_all()
    records = [*JournalView(d.disk, d.log.journal.folder, live=True).records()]
    assert not [r for r in records if r.kind == Kind.REDRIVEN], "a snapshot alone knows it"
    d.kill()
    d.now_ms += OVER_MS
    assert b"first" in d.take_all()


@pytest.mark.parametrize("settings", [{}, {"max_memory_bytes": 0}])
def test_a_redrive_written_before_version_7_leaves_the_expiry_of_the_put(
    settings: dict[str, int],
) -> None:
    q = make_queue(**settings)
    q.put(b"1", expires_ms=WALL_MS + 1000)
    q.bury(q.open())
    q.redrive(1)
    records = [r._replace(meta=b"") if r.kind == Kind.REDRIVEN else r for r in q.records]
    assert q.restarted().take() == b"1"
    again = q.restarted(records)
    again.now_ms += OVER_MS
    assert again.take() is None
    same = q.restarted()
    same.now_ms += OVER_MS
    assert same.take() == b"1"


def test_an_item_that_is_gone_leaves_no_trace() -> None:
    q = make_queue()
    for act in ("close", "flush", "purge"):
        q.put(b"1", expires_ms=WALL_MS + 1000)
        lease = q.open()
        q.bury(lease)
        q.redrive(lease.item.id)
        if act == "close":
            q.close(q.open())
        elif act == "flush":
            q.flush()
        else:
            q.bury(q.open())
            q.purge(lease.item.id)
        assert q.reader.ageless.count == 0, act
        assert q.restarted().reader.ageless.count == 0, act




LISTINGS = [
    b"stats jobs/item=1", b"gets jobs/peek/after=0/full", b"gets jobs/peek/full",
    b"gets jobs/peek/after=0/n=5/full",
]  # fmt: skip


@pytest.mark.parametrize("act", [kill, snapshot_and_kill, redrive])
@pytest.mark.parametrize("line", LISTINGS)
def test_a_redriven_item_is_listed_without_an_expiry(line: bytes, act: Act) -> None:
    town = town_with_a_dead_letter()
    redrive(town, "jobs")
    if act is not redrive:
        act(town, "jobs")
    seen = town.say("client", line)
    while not seen:  # it is read back
        town.pass_time(1)
        seen = town.client("client").take()
    if line.startswith(b"stats"):
        assert b"STAT state ready\r\n" in seen
        assert b"STAT expires_ms -\r\n" in seen
    else:
        assert seen.split()[6:7] == [b"-"], seen


@pytest.mark.parametrize("act", [None, kill, cut, snapshot_and_kill])
@pytest.mark.parametrize("retain", [{}, {"retain": "1h"}])
def test_a_child_that_begins_with_a_redriven_item_has_it_without_an_expiry(
    act: Act | None, retain: dict[str, object]
) -> None:
    town = town_with_a_dead_letter(**retain)
    town.put("jobs", b"2", LIFE_S)
    redrive(town, "jobs")
    town.say("client", b"get jobs+late/from=1/peek")
    if act is not None:
        act(town, "jobs+late")
    town.pass_time(OVER_MS)
    assert town.take("jobs+late") == b"1", "and 2 is over"
    town.say("client", b"get jobs+late/close")
    assert town.take("jobs+late") is None


@pytest.mark.parametrize("durable", [True, False])
def test_a_child_in_memory_as_well(durable: bool) -> None:
    q = make_queue(durable=durable)
    q.put(b"1", expires_ms=WALL_MS + 1000)
    q.bury(q.open())
    q.redrive(1)
    child = q.broker.mention(b"jobs+late", q.now_ms, 1)
    assert child is not None
    assert list(child.reader.ageless) == [1]
