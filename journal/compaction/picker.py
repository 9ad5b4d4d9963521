"""Which segments are rewritten, so that their room comes back.

    log     1: 10 % alive   2: dead   3: 30 % alive   4: 80 % alive   5: active
            └─────────── choose ────────────────┘
                            │  CompactionJob, on a thread (see `compaction`)
                            ▼
            6: compacted, stands for 1 to 3           4               5

`choose` knows a put's header and body; its meta and padding show only when a job has measured it.
So a job may find that it would save too little: then it writes nothing, and its measures keep the
same segments from being chosen again until half of their items are done.

One rule: a segment is left as it is until another file, whole and on disk, holds all of its live
items.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from journal.compaction.compaction import PIECE_BYTES
from journal.write import BATCH_BYTES, OVERHEAD_BYTES, Segment, whole_sectors

INPUTS_MAX: Final = 64  # at once: a job reads 4 GiB at most


def choose(segments: Sequence[Segment], covered_lsn: int, segment_max: int) -> list[Segment]:
    """Return the next segments to rewrite as one: a run of the log, oldest first; empty: none.

    Each is less than half alive and covered: its last record is in a snapshot up to `covered_lsn`.
    Their live items fit into one segment of `segment_max` bytes, or come from one segment alone,
    and take at most half of the room of the run. (The run may have a dead segment within it, whose
    room does not count.)
    """
    for start, first in enumerate(segments):
        if first.live:
            run = _run_from(segments, start, covered_lsn, segment_max)
            size = sum(live_frame_bytes(s) for s in run)
            if run and compacted_bytes(size) * 2 <= run_capacity(run):
                return run
    return []


def live_frame_bytes(segment: Segment) -> int:
    """Return the bytes of the live puts as frames: never too low while more than half of the
    measured puts are alive.

    Before a job has measured them it is the least that they take.
    """
    if not segment.live:
        return 0
    if segment.live * 2 > segment.measured:
        return segment.live_bytes + segment.extra_bytes
    return segment.live_bytes + segment.extra_bytes * segment.live // segment.measured


def compacted_bytes(size: int) -> int:
    """Return the size of a file with live puts of this size, at most."""
    return whole_sectors(OVERHEAD_BYTES + _with_batches(size))


def _run_from(
    segments: Sequence[Segment], start: int, covered_lsn: int, segment_max: int
) -> list[Segment]:
    run: list[Segment] = []
    size = 0
    for segment in islice(segments, start, start + INPUTS_MAX):
        if segment.damaged or not 0 < segment.lsn_last <= covered_lsn:
            break
        more = live_frame_bytes(segment)
        if segment.live:
            if _with_batches(more) * 2 >= segment.capacity:
                break
            if size and compacted_bytes(size + more) > segment_max:
                break
        size += more
        run.append(segment)
    while run and not run[-1].live:
        run.pop()
    return run


def _with_batches(size: int) -> int:
    # Two groups in a row have more than one piece of bytes, so there are at most two per piece.
    return size + BATCH_BYTES * -(-2 * size // PIECE_BYTES)


def run_capacity(run: Sequence[Segment]) -> int:
    """Return the bytes that a rewrite would give back: dead segments go without it."""
    return sum(s.capacity for s in run if s.live)
