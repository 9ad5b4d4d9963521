"""Gaps in the lsns of a journal, and the lsn from which on there is none.

    lsn   1 .. 40 | 97 | 230 | 1001 ........................ 9000 ....... 9200
          reclaimed and        |<--- one after the other --->|  a gap without a cause:
          compacted segments   `unbroken_lsn`                   lost records

Records are numbered without gaps. A segment is reclaimed as a whole, below the older of two
snapshots or from the front of the log. A compacted segment has single records of the segments that
it replaces. Any other gap is lost records.

One rule: records are counted in blocks, and read one by one only if a block is not full.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common.events import Events

_BLOCK_BITS: Final = 16
_SORT: Final = ("jid", "segment", "kind", "how", "of_child", "block")
_SPANS: Final = (
    "jid bigint, segment bigint, kind smallint, how tinyint, of_child boolean, block bigint, "
    "records bigint, first bigint, last bigint, first_ms bigint, last_ms bigint, keyed bigint, "
    "with_header bigint"
)
_NAMES: Final = re.findall(r"(\w+) \w+", _SPANS)
_GAPS_MAX: Final = 10_000  # of one journal; more are as bad


@dataclass(slots=True)
class Block:
    """How many of 65,536 lsns there are, the first and the last."""

    count: int = 0
    first: int = 0
    last: int = 0

    def add(self, count: int, first: int, last: int) -> None:
        """Count more lsns."""
        self.first = min(self.first or first, first)
        self.last = max(self.last, last)
        self.count += count


@dataclass(slots=True)
class RecordExtent:
    """The records of one journal that are there."""

    records: int = 0
    first_ms: int = 0
    last_ms: int = 0
    of_child: int = 0
    keyed: int = 0
    with_header: int = 0
    by_kind: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    by_how: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    blocks: dict[int, Block] = field(default_factory=lambda: defaultdict(Block))
    segments: dict[int, Block] = field(default_factory=lambda: defaultdict(Block))

    @property
    def first(self) -> int:
        """The first lsn; 0: there is none."""
        return min((each.first for each in self.blocks.values()), default=0)

    @property
    def last(self) -> int:
        """The last lsn."""
        return max((each.last for each in self.blocks.values()), default=0)


@dataclass(frozen=True, slots=True)
class Continuity:
    """From `unbroken_lsn` on no segment was reclaimed; `lost` are gaps without a cause."""

    unbroken_lsn: int
    lost: tuple[tuple[int, int], ...]


def extents(chunks: DataFrame) -> dict[int, RecordExtent]:
    """Return the records that are there of each journal, by jid."""
    rows = packed.folded(chunks, _spans, _SPANS).collect()
    found: dict[int, RecordExtent] = defaultdict(RecordExtent)
    for row in rows:
        extent = found[row.jid]
        extent.records += row.records
        extent.keyed += row.keyed
        extent.with_header += row.with_header
        extent.of_child += row.records if row.of_child else 0
        extent.first_ms = min(extent.first_ms or row.first_ms, row.first_ms)
        extent.last_ms = max(extent.last_ms, row.last_ms)
        extent.by_kind[row.kind] += row.records
        extent.by_how[row.how] += row.records if row.how and not row.of_child else 0
        extent.blocks[row.block].add(row.records, row.first, row.last)
        extent.segments[row.segment].add(row.records, row.first, row.last)
    return found


def _spans(events: Events) -> pa.RecordBatch | None:
    """Return how many records of each sort each block of lsns has."""
    events = events.records()
    events = events.pick(events.segment > 0)  # a child's first items have no record
    if not len(events):
        return None
    table = pa.Table.from_batches([events.batch])
    table = table.append_column("block", pa.array(events.lsn >> _BLOCK_BITS))
    sums = [([], "count_all"), ("lsn", "min"), ("lsn", "max"), ("ms", "min"), ("ms", "max"),
            ("key_hash", "count"), ("with_header", "sum")]  # fmt: skip
    made = table.group_by([*_SORT]).aggregate(sums).combine_chunks()
    names = ("count_all", "lsn_min", "lsn_max", "ms_min", "ms_max", "key_hash_count",
             "with_header_sum")  # fmt: skip
    return made.select([*_SORT, *names]).rename_columns(_NAMES).to_batches()[0]


def continuity(
    events: DataFrame, jid: int, extent: RecordExtent, reclaimed_lsn: int, compacted: set[int],
    lsn_last: int, opens_behind: bool,
) -> Continuity:  # fmt: skip
    """Check the gaps of one journal up to `lsn_last`.

    - `reclaimed_lsn`: after it segments go only from the front of the log.
    - `compacted`: segments whose lsns have gaps.
    - `opens_behind`: the log goes on in a segment that has no record yet.
    """
    if not extent.records:
        nothing = lsn_last > 0 and not opens_behind
        return Continuity(lsn_last + 1, ((1, lsn_last),) if nothing else ())
    suspects = _blocks_with_gaps(extent)
    low = reclaimed_lsn >> _BLOCK_BITS
    above = [each for each in suspects if each >= low]
    below = [each for each in suspects if each < low][-1:]
    found = _gaps(events, jid, extent, above + below) if suspects else []
    lost = [gap for gap in found if gap[1] > reclaimed_lsn]
    made = [gap for gap in found if gap[1] <= reclaimed_lsn]
    lost += _inside_segments(events, jid, extent, compacted, reclaimed_lsn)
    if extent.last < lsn_last:
        lost.append((extent.last + 1, lsn_last))
    unbroken = max((last + 1 for _, last in made if (_, last) not in lost), default=extent.first)
    return Continuity(unbroken, tuple(sorted(set(lost))))


def _blocks_with_gaps(extent: RecordExtent) -> list[int]:
    """Return the blocks without some lsn between the journal's first and last."""
    size = 1 << _BLOCK_BITS
    first, last = extent.first, extent.last
    found = []
    for block in range(first >> _BLOCK_BITS, (last >> _BLOCK_BITS) + 1):
        low, high = max(block * size, first), min(block * size + size - 1, last)
        there = extent.blocks.get(block)
        if there is None or there.count < high - low + 1:
            found.append(block)
    return found


def _gaps(
    events: DataFrame, jid: int, extent: RecordExtent, blocks: Iterable[int]
) -> list[tuple[int, int]]:
    """Return the gaps in some blocks, empty blocks included: first and last lsn of each."""
    size = 1 << _BLOCK_BITS
    wanted = sorted(blocks)
    missing = [b for b in wanted if b not in extent.blocks]
    partial = [b for b in wanted if b in extent.blocks]
    found = [(b * size, b * size + size - 1) for b in missing]
    if partial:
        block = fn.shiftright("lsn", _BLOCK_BITS)
        inside = events.where((fn.col("jid") == jid) & block.isin(partial)).select("lsn")
        by_block = Window.partitionBy(block).orderBy("lsn")
        before = fn.coalesce(fn.lag("lsn").over(by_block), block * size - 1)
        steps = inside.select("lsn", before.alias("before"))
        rows = steps.where(fn.col("lsn") > fn.col("before") + 1).orderBy(fn.desc("lsn"))
        found += [(row.before + 1, row.lsn - 1) for row in rows.limit(_GAPS_MAX).collect()]
        found += [
            (extent.blocks[b].last + 1, b * size + size - 1)
            for b in partial
            if extent.blocks[b].last < min(b * size + size - 1, extent.last)
        ]
    first = extent.first
    clipped = sorted((max(a, first), b) for a, b in found if b >= first)
    merged: list[tuple[int, int]] = []
    for a, b in clipped:
        if merged and a <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged


def _inside_segments(
    events: DataFrame, jid: int, extent: RecordExtent, compacted: set[int], reclaimed_lsn: int
) -> list[tuple[int, int]]:
    """Return gaps within one segment of the log: a segment goes only as a whole."""
    found: list[tuple[int, int]] = []
    for number, span in extent.segments.items():
        if number in compacted or span.count >= span.last - span.first + 1:
            continue
        if span.first > reclaimed_lsn:
            continue  # such a gap is known already
        inside = events.where(
            (fn.col("jid") == jid) & fn.col("lsn").between(span.first, span.last)
        ).select("lsn")
        # The other records may be from a compacted segment or another copy.
        before = fn.lag("lsn").over(Window.partitionBy(fn.lit(0)).orderBy("lsn"))
        steps = inside.select("lsn", before.alias("before"))
        rows = steps.where(fn.col("lsn") > fn.col("before") + 1).limit(_GAPS_MAX).collect()
        found += [(row.before + 1, row.lsn - 1) for row in rows]
    return found
