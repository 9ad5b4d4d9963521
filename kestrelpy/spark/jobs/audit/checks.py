"""Checks of items, block by block, on the executors.

    chunks ──▶ `blocks`   a row for each block: its part of the sums, how it follows other blocks
       └─────▶ `items`    a row for each item, for checks of single items

A journal without breaches needs only the first: few rows, however many items.

One rule: the same chunks give the same rows, so a check may run twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from kestrelpy.spark.files import Bools, Ints
from kestrelpy.spark.jobs.audit.reconcile import SUMS, Bases, Basis, sums, wrongs
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common.events import Events, Flush
from kestrelpy.spark.jobs.common.items import Items, Sorted, changes, latest_before

# How a block follows the others: its first and last item that was put in the unbroken log, and
# their puts; how many first deliveries it has, the earliest, the latest.
_WALK: Final = (
    "first", "first_lsn", "last", "last_lsn", "checked", "earliest_ms", "latest_ms", "odd_puts",
    "late", "overlaps",
)  # fmt: skip
_BLOCKS: Final = ", ".join(f"{name} bigint" for name in ("jid", "block", *SUMS, *_WALK))
_ITEMS: Final = (
    "jid", "block", "item", "key_hash", "put_lsn", "end_lsn", "first_lsn", "begin_lsn",
    "begin_ms", "before",
    "flushed_lsn", "confirms", "puts", "overlaps", "wrong", "unbroken_lsn", "is_whole", "is_first",
    "item_before", "lsn_before", "latest_ms", "is_odd_put",
)  # fmt: skip
_ARE: Final = ("is_whole", "is_first", "is_odd_put")


def blocks(chunks: DataFrame, bases: Mapping[int, Basis], flushes: Sequence[Flush]) -> DataFrame:
    """Return a row for each block: SUMS, and how it follows the others."""
    return packed.folded(chunks, partial(_block_rows, bases=bases, flushes=flushes), _BLOCKS)


def items(chunks: DataFrame, bases: Mapping[int, Basis], flushes: Sequence[Flush]) -> DataFrame:
    """Return a row for each item; null where there is no value.

    `item_before`, `lsn_before`: the whole item before it in its block, and its put; `latest_ms`:
    the latest first delivery of those before it in its block.
    """
    columns = (f"{name} {'boolean' if name in _ARE else 'bigint'}" for name in _ITEMS)
    return packed.folded(
        chunks, partial(_item_rows, bases=bases, flushes=flushes), ", ".join(columns)
    )


def _item_rows(
    events: Events, bases: Mapping[int, Basis], flushes: Sequence[Flush]
) -> pa.RecordBatch | None:
    checked = _checked(events, bases, flushes)
    if checked is None:
        return None
    folded = checked.items
    columns = {
        "jid": folded.jid, "block": checked.block, "item": folded.item,
        "before": pa.array(folded.before, mask=folded.first_lsn == 0),
        "confirms": folded.count("confirms"), "puts": folded.count("puts"),
        "overlaps": folded.count("overlaps"), "wrong": checked.wrong,
        "unbroken_lsn": checked.bases.unbroken_lsn, "is_whole": checked.is_whole,
        "is_first": checked.is_first, "is_odd_put": checked.is_odd_put,
    }  # fmt: skip
    for name in (
        "key_hash", "put_lsn", "end_lsn", "first_lsn", "begin_lsn", "begin_ms", "flushed_lsn",
    ):  # fmt: skip
        columns[name] = _known(getattr(folded, name))
    for name in ("item_before", "lsn_before", "latest_ms"):
        columns[name] = _known(getattr(checked, name))
    return pa.RecordBatch.from_pydict({name: columns[name] for name in _ITEMS})


def _block_rows(
    events: Events, bases: Mapping[int, Basis], flushes: Sequence[Flush]
) -> pa.RecordBatch | None:
    checked = _checked(events, bases, flushes)
    if checked is None:
        return None
    folded, is_whole, is_first = checked.items, checked.is_whole, checked.is_first
    starts = checked.starts
    columns = {"jid": folded.jid[starts], "block": checked.block[starts]}
    for name, adds in sums(folded, checked.wrong, checked.bases.as_of).items():
        columns[name] = np.add.reduceat(adds, starts)
    positions = np.arange(len(folded))
    first = np.minimum.reduceat(np.where(is_whole, positions, len(folded)), starts)
    last = np.maximum.reduceat(np.where(is_whole, positions, -1), starts)
    has_none = last < 0
    first = np.where(has_none, 0, first)
    for name, at, values in (
        ("first", first, folded.item), ("first_lsn", first, folded.put_lsn),
        ("last", last, folded.item), ("last_lsn", last, folded.put_lsn),
    ):  # fmt: skip
        columns[name] = pa.array(values[at], mask=has_none)
    begin = folded.begin_ms
    never = np.iinfo(np.int64).max
    earliest = np.minimum.reduceat(np.where(is_first, begin, never), starts)
    columns["checked"] = np.add.reduceat(is_first.astype(np.int64), starts)
    columns["earliest_ms"] = pa.array(earliest, mask=earliest == never)
    columns["latest_ms"] = _known(np.maximum.reduceat(np.where(is_first, begin, 0), starts))
    columns["odd_puts"] = np.add.reduceat(checked.is_odd_put.astype(np.int64), starts)
    is_late = is_first & (begin < checked.latest_ms)
    columns["late"] = np.add.reduceat(is_late.astype(np.int64), starts)
    columns["overlaps"] = np.add.reduceat(folded.count("overlaps"), starts)
    return pa.RecordBatch.from_pydict(columns)


class CheckedItems:
    """Items with the result of each one's checks, and the item before it in its block."""

    def __init__(self, items: Items, bases: Mapping[int, Basis]) -> None:
        self.items = items
        self.bases = Bases.of(items, bases)
        self.wrong: Ints = wrongs(items, self.bases)
        self.block: Ints = items.item >> packed.BLOCK_BITS
        self.is_whole: Bools = self.bases.whole(items)
        # An item that was delayed before is not at the place of its number.
        was_delayed = (items.release_lsn > 0) & (items.release_lsn < items.first_lsn)
        is_first = (items.first_lsn > 0) & (items.before == 0) & ~was_delayed
        self.is_first: Bools = self.is_whole & is_first
        is_new = np.ones(len(items), np.bool_)
        is_new[1:] = changes(items.jid) | changes(self.block)
        self.starts: Ints = np.flatnonzero(is_new)
        group: Ints = np.cumsum(is_new, dtype=np.int64)
        last = np.full(len(items), -1)
        last[1:] = np.maximum.accumulate(np.where(self.is_whole, np.arange(len(items)), -1))[:-1]
        has_one = (last >= 0) & (group[last] == group)
        self.item_before: Ints = np.where(has_one, items.item[last], 0)
        self.lsn_before: Ints = np.where(has_one, items.put_lsn[last], 0)
        self.latest_ms = latest_before(np.where(self.is_first, items.begin_ms, 0), group)
        is_odd = (items.item > self.item_before + 1) | (items.put_lsn < self.lsn_before)
        self.is_odd_put: Bools = self.is_whole & has_one & is_odd


def _checked(
    events: Events, bases: Mapping[int, Basis], flushes: Sequence[Flush]
) -> CheckedItems | None:
    records = Sorted(events)
    return CheckedItems(records.items(flushes), bases) if len(records) else None


def _known(numbers: Ints) -> pa.Array:
    return pa.array(numbers, mask=numbers == 0)
