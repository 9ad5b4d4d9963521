"""A snapshot that a shortage stopped is written by the next attempt, and is the same.

Promise: shortage.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import fields

import pytest

from journal.format.subscription_state import ReaderState
from journal.snapshot.job import SnapshotJob
from journal.snapshot.snapshot import Snapshot, snapshot_name
from kestrelpy.core.log.log import JournalLog
from tests.support.memory_disk import Fault
from tests.support.server_harness import ServerHarness

# A child comes first, so that the delays of items put for all have one entry together.
SAYINGS: tuple[bytes, ...] = (
    b"get jobs+audit",
    b"set jobs/delay=1h 0 0 1\r\nx",
    b"set jobs/at=1700009999 0 0 1\r\nx",
    b"set jobs 0 0 1\r\ny\r\nset jobs 0 0 1\r\ny\r\nset jobs 0 0 1\r\ny\r\nset jobs 0 0 1\r\ny",
    b"get jobs/open",
    b"get jobs/defer/delay=2h",
    b"get jobs/open",
    b"get jobs/abort/dead=why",
    b"redrive jobs all",
    b"gets jobs/open/lease=60s",
    b"get jobs+audit/open",
    b"get jobs+audit/defer/delay=2h",
    b"get jobs+audit/open",
    b"get jobs+audit/abort/dead=why",
    b"get jobs+audit/open",
    b"get jobs+audit/abort",
)


def begun(stage: ServerHarness) -> SnapshotJob:
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    return log.store.maintenance.begin_snapshot(log.state(), stage.unix_ms)


@pytest.fixture
def stage() -> ServerHarness:
    stage = ServerHarness()
    for line in SAYINGS:
        answer = stage.say("a", line)
        assert b"ERROR" not in answer, (line, answer)
    return stage


def looked_through(state: Snapshot | ReaderState) -> Iterator[tuple[str, object]]:
    """Return the contents of each field."""
    for each in fields(state):
        value = getattr(state, each.name)
        if isinstance(value, list) and value and isinstance(value[0], ReaderState):
            for reader in value:
                yield from looked_through(reader)
        elif hasattr(value, "__iter__"):
            yield each.name, list(value)


def test_a_state_may_be_looked_through_more_than_once(stage: ServerHarness) -> None:
    snapshot = begun(stage).snapshot
    first, second = list(looked_through(snapshot)), list(looked_through(snapshot))
    assert first == second
    for name in ("delayed", "placed", "dead", "leased"):
        assert any(known == name and values for known, values in first), f"nothing is {name}"


def test_a_snapshot_that_a_shortage_stopped_forgets_no_delay(stage: ServerHarness) -> None:
    job = begun(stage)
    whole = job.snapshot.encode(job.short_identity, job.identity, job.time_ms)
    stage.disk.faults = [Fault("create", "*.snapshot", error=errno.EMFILE)]
    with pytest.raises(OSError, match="Too many open files"):
        job.run(stage.disk)
    job.run(stage.disk)
    assert stage.disk.read(f"{job.folder}/{snapshot_name(job.snapshot.lsn)}") == whole
    before = {name: len(queue.reader.delays.ids) for name, queue in stage.broker.queues.items()}
    stage.kill()
    after = {name: len(queue.reader.delays.ids) for name, queue in stage.broker.queues.items()}
    assert after == before
    assert before == {b"jobs": 3, b"jobs+audit": 3}
