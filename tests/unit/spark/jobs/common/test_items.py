"""Items folded from records without Spark: whatever the order in which records come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kestrelpy.spark.jobs.audit.checks import Basis, CheckedItems
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.blocks import BLOCK_BITS, chunks_of, events_of
from kestrelpy.spark.jobs.common.events import Events, Flush
from kestrelpy.spark.jobs.common.items import Items, Sorted, latest_before

JID = 7
Line = tuple[int, int, int, int, int]  # lsn, kind, item, ms, opened_ms


def events(*lines: Line) -> Events:
    """Records of one journal, attempts as the daemon counts them."""
    attempts: dict[int, int] = {}
    rows = []
    for lsn, kind, item, ms, opened_ms in sorted(lines):
        if kind == ev.RETURN:
            attempts[item] = attempts.get(item, 0) + 1
        rows.append((lsn, kind, item, ms, opened_ms, attempts.get(item, 0)))
    rows.sort(key=lambda row: lines.index(row[:5]))
    made = np.array(rows, np.int64)
    bare = Events.bare(JID, 0, made[:, 2]).batch
    names = ("lsn", "kind", "item", "ms", "opened_ms", "attempts")
    columns = {name: made[:, at] for at, name in enumerate(names)}
    columns["how"] = np.full(len(rows), ev.HOW.index("abort"))
    arrays = [pa.array(columns.get(f.name, bare[f.name])).cast(f.type) for f in bare.schema]
    return Events(pa.RecordBatch.from_arrays(arrays, schema=bare.schema))


def folded(records: Events, *flushes: Flush) -> Items:
    return Sorted(records).items(flushes)


def test_an_item_is_the_sum_of_its_records_however_they_are_shuffled() -> None:
    lines = ((1, ev.PUT, 5, 100, 0), (2, ev.RETURN, 5, 130, 110), (3, ev.CONFIRM, 5, 150, 140))
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        made = folded(events(*(lines[each] for each in order)))
        assert [len(made), made.put_lsn[0], made.end_lsn[0], made.end[0]] == [1, 1, 3, ev.CONFIRM]
        assert [made.first_lsn[0], made.before[0], made.begin_ms[0]] == [2, 0, 110]
        counts = {name: int(made.count(name)[0]) for name in ("puts", "ends", "deliveries")}
        assert counts == {"puts": 1, "ends": 1, "deliveries": 2}
        assert made.count("overlaps")[0] == 0


def test_a_delivery_that_began_before_the_one_before_it_ended_is_counted() -> None:
    made = folded(events((1, ev.RETURN, 5, 130, 110), (2, ev.CONFIRM, 5, 150, 129),
                         (3, ev.RETURN, 6, 131, 100), (4, ev.CONFIRM, 6, 150, 131)))  # fmt: skip
    assert made.item.tolist() == [5, 6]
    assert made.count("overlaps").tolist() == [1, 0]


def test_of_counts_none_spills_into_the_next() -> None:
    made = folded(events(*((lsn, ev.CONFIRM, 5, lsn, 0) for lsn in range(1, 301))))
    assert [int(made.count(name)[0]) for name in ("confirms", "ends", "deads")] == [255, 255, 0]


def test_the_first_flush_that_reaches_an_item_is_noted_and_spared_items_are_not() -> None:
    puts = [(lsn, ev.PUT, lsn, 100, 0) for lsn in (1, 2, 3)]
    late = (9, ev.PUT, 4, 100, 0)
    first, second = Flush(JID, 5, 3, 500, (2,)), Flush(JID, 7, 3, 700, ())
    made = folded(events(*puts, late), first, second, Flush(JID + 1, 6, 9, 600, ()))
    assert made.flushed_lsn.tolist() == [5, 7, 5, 0]
    assert made.flushed_ms.tolist() == [500, 700, 500, 0]


def test_dead_letters_are_not_flushed_unless_they_were_redriven() -> None:
    records = events((1, ev.DEAD, 1, 5, 0), (2, ev.DEAD, 2, 5, 0), (3, ev.REDRIVE, 2, 6, 0))
    assert folded(records, Flush(JID, 5, 9, 500, ())).flushed_lsn.tolist() == [0, 5]


@pytest.mark.parametrize("seed", range(20))
def test_the_latest_before_is_that_of_ones_own_group(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(1, 6, 50))
    times = rng.integers(0, 9, 50) * 10**11
    expected = [
        max((int(times[j]) for j in range(n) if group[j] == group[n]), default=0) for n in range(50)
    ]
    assert latest_before(times, group).tolist() == expected


def test_chunks_hold_the_events_of_one_block_each_and_say_how_many_are_flushes() -> None:
    size = 1 << BLOCK_BITS
    records = events((1, ev.PUT, size, 5, 0), (2, ev.PUT, 1, 5, 0), (3, ev.FLUSH, size + 1, 5, 0),
                     (4, ev.TOKENS, 0, 5, 0), (5, ev.PUT, 2, 5, 0))  # fmt: skip
    rows = [row for batch in chunks_of(records) for row in batch.to_pylist()]
    assert [(row["jid"], row["block"], row["flushes"]) for row in rows] == [
        (JID, -1, 0), (JID, 0, 0), (JID, 1, 1),
    ]  # fmt: skip
    lsns = [Events(events_of(row["chunk"])).lsn.tolist() for row in rows]
    assert lsns == [[4], [2, 5], [1, 3]]


def test_a_block_begins_anew_and_a_gap_of_ids_within_one_is_odd() -> None:
    size = 1 << BLOCK_BITS
    items = (size - 2, size - 1, size, size + 2)
    made = folded(events(*((lsn, ev.PUT, item, 5, 0) for lsn, item in enumerate(items, 1))))
    checked = CheckedItems(made, {JID: Basis(JID, 1, 0, 0, 1, False)})
    assert checked.starts.tolist() == [0, 2]
    assert checked.item_before.tolist() == [0, size - 2, 0, size]
    assert checked.is_odd_put.tolist() == [False, False, False, True]
