"""What a run keeps for the next one: the records of items whose rows may still change.

    chunks of this run ─┬─ `rows.item_rows` ──▶ rows, final or not
                        └─ `kept`           ──▶ records of the items that are not final
    next run:  kept records + new records   ──▶ the same rows as from the whole history

An item is final once a record ended it, and no power cut can take a record of it. Flushed is as
good as ended, unless the item was delayed or given back: then the flush may have spared it.

One rule: a run with the kept records makes the row that a run over the whole history makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from journal.errors import ITEM_MAX
from kestrelpy.spark.files import Bools, Ints
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.events import Events, Flush
from kestrelpy.spark.jobs.common.items import Items, Sorted
from kestrelpy.spark.jobs.lifecycle.positions import Mark

# `item_first`, `item_last`: items with a put, of rows without a chunk. `unsure`: the first item of
# the chunk that a confirm of all up to a marker reached, or spared.
KEPT: Final = (
    "jid bigint, block bigint, flushes bigint, chunk binary, unsure bigint, item_first bigint, "
    "item_last bigint"
)
_SCHEMA: Final = pa.schema([
    (each.split()[0], pa.binary() if each.endswith("binary") else pa.int64())
    for each in KEPT.split(", ")
])  # fmt: skip
Marks = Mapping[int, Mark]


@dataclass(frozen=True, slots=True)
class CarryVerdict:
    """Which items count, are final, and may have been spared by a flush that seems to reach them.

    An item does not count if it was final before this run: a late record says nothing new.
    """

    counts: Bools
    final: Bools
    unsure: Bools


def judged(records: Sorted, items: Items, flushes: Sequence[Flush], marks: Marks) -> CarryVerdict:
    """Judge the items of these records."""
    last_lsn = np.maximum.reduceat(records.events.lsn, records.starts)
    synced, first, last = (
        _of_each(items.jid, {jid: getattr(mark, name) for jid, mark in marks.items()})
        for name in ("synced", "item_first", "item_last")
    )
    flushed, out_of_order = items.flushed_lsn > 0, (items.release_lsn > 0) | (items.back_lsn > 0)
    has_ended = (items.count("ends") > 0) | (items.end_lsn > 0)
    unsure = flushed & ~has_ended & out_of_order & _reached_by_upto(items, flushes)
    is_final = (has_ended | (flushed & ~unsure)) & (last_lsn <= synced)
    is_final &= items.flushed_lsn <= synced
    was_final = (items.count("puts") == 0) & (first > 0) & (items.item >= first)
    was_final &= items.item <= last
    return CarryVerdict(~was_final, is_final, unsure)


def _reached_by_upto(items: Items, flushes: Sequence[Flush]) -> Bools:
    """Return which items seem to be confirmed by a confirm of all up to a marker."""
    found = np.zeros(len(items), np.bool_)
    for jid in {each.jid for each in flushes if each.is_upto}.intersection(items.jids):
        lsns = [each.lsn for each in flushes if each.is_upto and each.jid == jid]
        found |= (items.jid == jid) & np.isin(items.flushed_lsn, np.array(lsns, np.int64))
    return found


def _of_each(jids: Ints, values: Mapping[int, int]) -> Ints:
    known, places = np.unique(jids, return_inverse=True)
    found: Ints = np.array([values.get(jid, 0) for jid in known.tolist()], np.int64)[places]
    return found


def without_read_again(events: Events, marks: Marks) -> Events:
    """Return kept records without those that are read again."""
    after = _of_each(events.jid, {jid: mark.again_after for jid, mark in marks.items()})
    known = np.isin(events.jid, np.array([*marks], np.int64))
    return events.pick((events.lsn <= after) | ~known)


def each_once(events: Events) -> Events:
    """Return the events, each once: a kept record may be in a compacted segment as well."""
    order = np.lexsort((events.kind, events.lsn, events.item, events.jid))
    columns = (events.jid, events.item, events.lsn, events.kind)
    is_new = np.ones(len(order), np.bool_)
    if len(order):
        same = np.ones(len(order) - 1, np.bool_)
        for column in columns:
            ordered = column[order]
            same &= ordered[1:] == ordered[:-1]
        is_new[1:] = ~same | (events.kind[order][1:] >= ev.THERE)
    return events.pick(order[is_new])


def kept(events: Events, flushes: Sequence[Flush], marks: Marks) -> pa.RecordBatch | None:
    """Return the records to keep, as KEPT."""
    records = Sorted(each_once(events))
    if not len(records):
        return None
    items = records.items(flushes)
    verdict = judged(records, items, flushes, marks)
    stays = verdict.counts & ~verdict.final
    counts = np.diff(np.append(records.starts, len(records.events)))
    stays_each = np.repeat(stays, counts)
    made: list[pa.RecordBatch] = []
    for jid in sorted(items.jids):
        mine = items.jid == jid
        with_put = items.item[mine & (items.count("puts") > 0)]
        if len(with_put):
            made.append(_row(jid, item_first=int(with_put.min()), item_last=int(with_put.max())))
        unsure = items.item[mine & stays & verdict.unsure]
        least = int(unsure.min()) if len(unsure) else ITEM_MAX
        of_jid = records.events.pick(stays_each & (records.events.jid == jid))
        for chunk in packed.chunks_of(of_jid):
            said = {name: chunk.column(name)[0].as_py() for name in chunk.schema.names}
            made.append(_row(jid, unsure=least, **{k: v for k, v in said.items() if k != "jid"}))
    return pa.Table.from_batches(made).combine_chunks().to_batches()[0] if made else None


def _row(jid: int, **said: object) -> pa.RecordBatch:
    values = {"jid": jid, "block": packed.NO_BLOCK, "flushes": 0, **said}
    return pa.RecordBatch.from_pylist([values], schema=_SCHEMA)


def flushes_to_keep(
    flushes: Sequence[Flush], unsure: Mapping[int, int], marks: Marks
) -> list[Flush]:
    """Return the flushes that the next run needs; `unsure`: the first such item of each reader.

    These are the ones that a power cut could take, and those that may have spared an item. No other
    reached a kept item, and no later record changes that.
    """
    return [
        each for each in flushes
        if (each.jid in marks and each.lsn > marks[each.jid].synced)
        or (each.is_upto and each.last >= unsure.get(each.jid, ITEM_MAX))
    ]  # fmt: skip
