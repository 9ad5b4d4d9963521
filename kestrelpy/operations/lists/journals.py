"""The facts of a queue's journal, and the segments of all journals together.

    each segment ──▶ sealed? ──▶ how much of it is live: none │ < 25 % │ < 50 % │ < 75 % │ more

One rule: it names no folder, and a slice looks at a bounded number of segments.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from kestrelpy.core import AnyQueue, Broker, on_disk
from kestrelpy.operations.ports import PAUSE
from kestrelpy.operations.stats_facts import State, state_of

SHARES: Final = ("none", "below_25", "below_50", "below_75", "more")
_QUARTERS: Final = 4
_PER_SLICE: Final = 1000  # queues and segments


class JournalFacts(NamedTuple):
    """The journal of one queue, or of a child's parent. Positions count its records.

    `disk_bytes` are `live_bytes` of items that are there, `done_bytes` of all other records, and
    `reserve_bytes` of room for records to come.
    """

    durable: bool
    state: State
    generation: int
    segments: int
    disk_bytes: int
    live_bytes: int
    done_bytes: int
    reserve_bytes: int
    retained_bytes: int
    records_appended: int
    records_written: int
    records_synced: int
    is_syncing: bool


def journal_facts(queue: AnyQueue) -> JournalFacts:
    """Return the facts of the journal that has the items of this queue."""
    log, disk, use = queue.log, on_disk(queue.log), queue.log.disk_use()
    commit = disk.journal.commit if disk is not None else None
    return JournalFacts(
        durable=disk is not None,
        state=state_of(log),
        generation=queue.generation,
        segments=len(disk.journal.segments) if disk is not None else 0,
        disk_bytes=use.total,
        live_bytes=use.live,
        done_bytes=use.done,
        reserve_bytes=use.reserve,
        retained_bytes=log.retained_bytes(),
        records_appended=commit.lsn_appended if commit is not None else 0,
        records_written=commit.lsn_written if commit is not None else 0,
        records_synced=commit.lsn_durable if commit is not None else 0,
        is_syncing=commit is not None and commit.lsn_in_flight > 0,
    )


class SegmentBucket(NamedTuple):
    """The sealed segments with this live share."""

    share: str
    segments: int
    bytes: int
    live_bytes: int


class SegmentTotals(NamedTuple):
    """The segments of all journals. `reclaimable_bytes` of the sealed ones belong to no live or
    retained item: compaction gives them back. Live bytes are counted without meta and padding, and
    are an estimate after a start."""

    segments: int
    bytes: int
    active_bytes: int
    retained_bytes: int
    reclaimable_bytes: int
    by_share: list[SegmentBucket]


def survey_segments(broker: Broker) -> Generator[bytes, None, SegmentTotals]:
    """Return the totals of all journals."""
    counts = [[0, 0, 0] for _ in SHARES]
    segments = size = active = retained = reclaimable = looked = 0
    for name in list(broker.queues):
        if looked >= _PER_SLICE:
            looked = 0
            yield PAUSE
        queue = broker.queues.get(name)
        disk = on_disk(queue.log) if queue is not None else None
        looked += 1
        if queue is None or disk is None or queue.child is not None:
            continue
        journal = disk.journal
        kept = queue.log.retained_bytes() if queue.retained else 0
        retained += kept
        for segment in list(journal.segments):
            looked, segments, size = looked + 1, segments + 1, size + segment.capacity
            if segment is journal.active:
                active += segment.capacity
                continue
            live = min(segment.live_bytes, segment.capacity) if segment.live else 0
            bucket = counts[_bucket(live, segment.capacity)]
            for place, value in enumerate((1, segment.capacity, live)):
                bucket[place] += value
            if not kept:
                reclaimable += segment.capacity - live
            if not looked % _PER_SLICE:
                yield PAUSE
    by_share = [
        SegmentBucket(share, *bucket) for share, bucket in zip(SHARES, counts, strict=True)
    ]
    return SegmentTotals(segments, size, active, retained, reclaimable, by_share)


def _bucket(live: int, capacity: int) -> int:
    return min(1 + live * _QUARTERS // max(capacity, 1), _QUARTERS) if live else 0
