"""Durations survive a restart as what was left at the last beat, however the wall clock was set;
dates wait for the clock. On a memory disk, through the whole server but its sockets.

Promise duration: each kind of delay and lease, of the queue and of children, with the clock set
    back by a second, an hour and a year, after a clean stop, a kill and without any beat, with a
    second start, and with a clock that is put right again; random histories against a model; power
    cuts at each step of a beat, damaged copies.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from kestrelpy.core import JournalLog
from kestrelpy.server.directory.beat import NAME, Beat, Heart
from tests.support.core_harness import WALL_MS
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut
from tests.support.server_harness import ServerHarness

MINUTE_MS, HOUR_MS, YEAR_MS = 60_000, 3_600_000, 31_536_000_000
DATE_S = WALL_MS // 1000 + 3600


def beats(stage: ServerHarness) -> Heart:
    return Heart(stage.directory.beat, stage.broker, lambda: stage.now_ms)


def set_clock(stage: ServerHarness, ms: int) -> None:
    """Set the wall clock of the next life; the daemon does not run in between."""
    stage.first_ms -= ms


def is_there(stage: ServerHarness, name: bytes = b"jobs") -> bool:
    return stage.say("eve", b"get " + name + b"/peek") != b"END\r\n"


@dataclass
class Kind:
    """The requests of a client, and the queue in which they hide an item for an hour."""

    lines: list[bytes]
    queue: bytes = b"jobs"
    is_date: bool = False


PUT = b"set jobs/%s 0 0 1\r\nx"
HELD = [b"set jobs 0 0 1\r\nx", b"get jobs/open"]
KINDS: dict[str, Kind] = {
    "a put": Kind([PUT % b"delay=1h"]),
    "a put until a date": Kind([PUT % b"at=%d" % DATE_S], is_date=True),
    "an abort": Kind([*HELD, b"get jobs/abort/delay=1h"]),
    "a defer": Kind([*HELD, b"get jobs/defer/delay=1h"]),
    "a defer until a date": Kind([*HELD, b"get jobs/defer/at=%d" % DATE_S], is_date=True),
    "the pause of the retry policy": Kind(
        [b"set retried 0 0 1\r\nx", b"get retried/open", b"get retried/abort"], b"retried"
    ),
    "a lease by token": Kind([HELD[0], b"gets jobs/open/lease=1h"]),
    "a renewed lease": Kind([HELD[0], b"gets jobs/open/lease=1s", b"touch jobs/token=%d 3600"]),
    "a put for all children": Kind(
        [b"get jobs+a", b"get jobs+b", PUT % b"delay=1h"], b"jobs+b"
    ),
    "a put for one child": Kind([b"get jobs+a", b"set jobs+a/delay=1h 0 0 1\r\nx"], b"jobs+a"),
    "an abort of a child": Kind(
        [b"get jobs+a", HELD[0], b"get jobs+a/open", b"get jobs+a/abort/delay=1h"], b"jobs+a"
    ),
    "a put with a key and an id": Kind([PUT % b"key=k/id=1/delay=1h"]),
    "a child that begins with it": Kind(
        [b"set first 0 0 1\r\n1", PUT % b"delay=1h", b"get jobs+late/from=1"], b"jobs+late"
    ),
}
DURATIONS = [name for name, kind in KINDS.items() if not kind.is_date]
DATES = [name for name, kind in KINDS.items() if kind.is_date]


def begun(name: str) -> tuple[ServerHarness, Kind]:
    """Return a server on which an hour of this kind has just begun."""
    stage, kind = ServerHarness(), KINDS[name]
    stage.set_queue("retried", retry_delay="1h")
    stage.set_queue("jobs", retain="1d")
    token = 0
    for line in kind.lines:
        said = stage.say("anna", line % token if b"%d" in line else line)
        assert b"ERROR" not in said, said
        for word in said.split(b"\r\n")[0].split()[-1:] if said.startswith(b"VALUE") else ():
            token = int(word) if word.isdigit() else token
    assert not is_there(stage, kind.queue)
    return stage, kind


def killed(stage: ServerHarness) -> None:
    stage.kill()


def stopped(stage: ServerHarness) -> None:
    beats(stage).try_to_save()
    stage.restart()


def snapshotted(stage: ServerHarness) -> None:
    """Kill after a snapshot of each queue, so that the next start reads no earlier record."""
    for queue in stage.broker.logged:
        log = queue.log
        assert isinstance(log, JournalLog)
        maintenance = log.store.maintenance
        job = maintenance.begin_snapshot(log.state(), stage.unix_ms)
        job.run(stage.disk)
        maintenance.finish_snapshot(job, True)
    stage.kill()


def comes_after(stage: ServerHarness, queue: bytes, ms: int) -> bool:
    """True if the item comes after that time, and not a millisecond before."""
    stage.pass_time(ms - 1)
    was_there = is_there(stage, queue)
    stage.pass_time(1)
    return not was_there and is_there(stage, queue)


# -- each kind, each step of the clock, each end of a life -------------------------------------


@pytest.mark.parametrize("back_ms", [1000, HOUR_MS, YEAR_MS])
@pytest.mark.parametrize("name", DURATIONS)
def test_a_duration_has_left_what_was_left_at_a_clean_stop(name: str, back_ms: int) -> None:
    stage, kind = begun(name)
    stage.pass_time(20 * MINUTE_MS)
    set_clock(stage, -back_ms)

    stopped(stage)

    assert comes_after(stage, kind.queue, 40 * MINUTE_MS)


@pytest.mark.parametrize("back_ms", [1000, HOUR_MS, YEAR_MS])
@pytest.mark.parametrize("name", DURATIONS)
def test_after_a_kill_it_has_left_what_was_left_at_the_last_beat(name: str, back_ms: int) -> None:
    stage, kind = begun(name)
    stage.pass_time(20 * MINUTE_MS)
    beats(stage).save()
    stage.pass_time(5 * MINUTE_MS)
    set_clock(stage, -back_ms)

    stage.kill()

    # Less is left if the clock itself proves that more time passed.
    assert comes_after(stage, kind.queue, 40 * MINUTE_MS - max(5 * MINUTE_MS - back_ms, 0))


@pytest.mark.parametrize("name", DURATIONS)
def test_without_any_beat_it_lasts_at_most_its_full_length(name: str) -> None:
    stage, kind = begun(name)
    stage.pass_time(MINUTE_MS)
    set_clock(stage, -YEAR_MS)

    stage.kill()

    assert comes_after(stage, kind.queue, HOUR_MS)


@pytest.mark.parametrize("name", DURATIONS)
def test_a_clock_that_was_not_set_counts_the_time_in_which_nobody_ran(name: str) -> None:
    stage, kind = begun(name)
    beats(stage).save()
    stage.now_ms += 50 * MINUTE_MS  # no tick

    stage.kill()

    assert comes_after(stage, kind.queue, 10 * MINUTE_MS)


@pytest.mark.parametrize("end", [killed, stopped])
@pytest.mark.parametrize("ms", [-HOUR_MS, -YEAR_MS, 0, 10 * MINUTE_MS])
@pytest.mark.parametrize("name", DATES)
def test_a_date_waits_for_the_clock(
    name: str, ms: int, end: Callable[[ServerHarness], None]
) -> None:
    stage, kind = begun(name)
    stage.pass_time(20 * MINUTE_MS)
    set_clock(stage, ms)

    end(stage)

    assert comes_after(stage, kind.queue, 40 * MINUTE_MS - ms)


@pytest.mark.parametrize("name", DURATIONS)
def test_a_clock_that_is_put_right_again_brings_nothing_early(name: str) -> None:
    stage, kind = begun(name)
    set_clock(stage, -YEAR_MS)
    stopped(stage)
    stage.pass_time(20 * MINUTE_MS)
    stopped(stage)  # a second start with the clock still back
    stage.pass_time(20 * MINUTE_MS)
    set_clock(stage, YEAR_MS)
    stopped(stage)

    assert comes_after(stage, kind.queue, 20 * MINUTE_MS)


@pytest.mark.parametrize("ms", [-YEAR_MS, YEAR_MS])
@pytest.mark.parametrize("name", DURATIONS)
def test_a_clock_that_is_set_while_the_daemon_runs_changes_no_duration(name: str, ms: int) -> None:
    stage, kind = begun(name)
    stage.broker.step_clock(stage.broker.clock.offset_ms + ms)
    stage.first_ms -= ms
    stage.pass_time(20 * MINUTE_MS)
    if ms > 0:  # over a restart this looks like a year in which no daemon ran
        assert comes_after(stage, kind.queue, 40 * MINUTE_MS)
        return

    stopped(stage)

    assert comes_after(stage, kind.queue, 40 * MINUTE_MS)


@pytest.mark.parametrize("name", DURATIONS)
def test_a_snapshot_says_what_is_left_and_when_it_was_written(name: str) -> None:
    stage, kind = begun(name)
    stage.pass_time(20 * MINUTE_MS)
    set_clock(stage, -YEAR_MS)

    snapshotted(stage)

    lease_has_no_time = "lease" in name  # its record in a snapshot is the one in the log
    left_ms = 60 if lease_has_no_time else 40
    assert comes_after(stage, kind.queue, left_ms * MINUTE_MS)


# -- the file ----------------------------------------------------------------------------------


def test_a_beat_is_written_only_while_a_duration_runs() -> None:
    stage = ServerHarness()
    stage.store(b"plain")
    stage.say("anna", PUT % b"at=%d" % DATE_S)
    beats(stage).save()
    assert NAME not in stage.disk.names("data")

    stage.say("anna", PUT % b"delay=1m")
    beats(stage).save()
    assert stage.directory.beat.read() == (stage.unix_ms, "")

    stage.pass_time(MINUTE_MS)
    beats(stage).save()
    assert stage.directory.beat.read() == (stage.unix_ms - MINUTE_MS, "")


def test_the_start_says_that_the_clock_was_set_back() -> None:
    stage, _ = begun("a put")
    set_clock(stage, -YEAR_MS)

    stopped(stage)

    assert stage.found.notes == [
        "the clock was set back by at least 365d: delays and leases go on with what was left of "
        "them, dates wait for the clock"
    ]


def test_a_beat_that_cannot_be_written_is_reported_once_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage, _ = begun("a put")
    heart = beats(stage)
    heart.save()
    stage.disk.faults = [Fault("write", f"data/{NAME}", nth=n) for n in (1, 2)]
    for _ in range(2):
        heart.try_to_save()
    assert [each.getMessage() for each in caplog.records] == [
        f"the file {NAME} is not written: [Errno 5] Input/output error: 'data/{NAME}'"
    ]
    heart.try_to_save()
    assert stage.directory.beat.read() == (stage.unix_ms, "")


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_at_any_step_of_a_beat_leaves_this_beat_or_the_one_before(seed: int) -> None:
    for count in range(3):
        steps = 0
        for step in range(1, 20):
            disk = MemoryDisk()
            disk.make_folder("data")
            beat = Beat(disk, "data")
            for n in range(1, count + 1):
                beat.save(n)
            disk.cut_power_at(step)
            with suppress(PowerCut):
                beat.save(9)
                break
            steps += 1
            last, _ = Beat(disk.crash_clone(Random(seed)), "data").read()
            assert last in (max(count - 1, 0), count, 9)
        assert steps >= 2, "a write and a sync"


@pytest.mark.parametrize(("copy", "last"), [(0, 3), (4096, 2)])
def test_of_a_damaged_copy_the_other_one_counts(copy: int, last: int) -> None:
    disk = MemoryDisk()
    disk.make_folder("data")
    beat = Beat(disk, "data")
    for n in (1, 2, 3):  # both copies, then one at a time
        beat.save(n)
    disk.damage(f"data/{NAME}", copy, b"?")

    again = Beat(disk, "data")
    found, sentence = again.read()

    assert found == last
    assert "one of its two copies was damaged" in sentence
    again.save(4)
    assert Beat(disk, "data").read() == (4, "")


@pytest.mark.parametrize("content", [b"", b"x" * 32, b"?" * 8192])
def test_a_file_without_a_whole_copy_is_named_and_written_anew(content: bytes) -> None:
    disk = MemoryDisk()
    disk.make_folder("data")
    disk.create(f"data/{NAME}", content, len(content)).close()
    beat = Beat(disk, "data")

    last, sentence = beat.read()

    assert last == 0
    assert "both copies are damaged" in sentence
    beat.save(4)
    beat.save(5)
    assert Beat(disk, "data").read() == (5, "")
