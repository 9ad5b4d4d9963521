"""The rows of `lifecycle`, without names, and the records that a run leaves for the next one.

    its records, by lsn     put   return   dead   ...   confirm
                             │       └──────┴── deliveries ─┘ with begin and end
                             └─dwell_ms─▶ first begun              service_ms: of the last

    chunks of this run ─┬─ `item_rows` ──▶ rows, final or not; a value that no record has is null
                        └─ `unfinished` ─▶ records of the items that are not final
    next run:  these records + new records ──▶ the same rows as from the whole history

An item is final once a record ended it, and no power cut can take a record of it. A flushed
item counts as ended, unless it was delayed or given back: then the flush may have spared it.

One rule: a run with these records makes the row that a run over the whole history makes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.errors import ITEM_MAX
from kestrelpy.spark.files import Bools, Ints
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.events import Events, Flush
from kestrelpy.spark.jobs.common.items import Items, Sorted
from kestrelpy.spark.jobs.lifecycle.positions import ReadBounds

# `item_first`, `item_last`: items with a put, of rows without a chunk. `unsure`: the first item of
# the chunk that a confirm of all up to a marker reached, or spared.
UNFINISHED: Final = (
    "jid bigint, block bigint, flushes bigint, chunk binary, unsure bigint, item_first bigint, "
    "item_last bigint"
)
_SCHEMA: Final = pa.schema([
    (each.split()[0], pa.binary() if each.endswith("binary") else pa.int64())
    for each in UNFINISHED.split(", ")
])  # fmt: skip
AllBounds = Mapping[int, ReadBounds]


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """Which items count, are final, and may have been spared by a flush that seems to reach them.

    An item does not count if it was final before this run: a late record says nothing new.
    """

    counts: Bools
    final: Bools
    unsure: Bools


def verdict_on(
    records: Sorted, items: Items, flushes: Sequence[Flush], bounds: AllBounds
) -> ItemVerdict:
    """Return which items of these records count, are final, and may have been spared."""
    last_lsn = np.maximum.reduceat(records.events.lsn, records.starts)
    synced, first, last = (
        _of_each(items.jid, {jid: getattr(each, name) for jid, each in bounds.items()})
        for name in ("synced", "item_first", "item_last")
    )
    flushed, out_of_order = items.flushed_lsn > 0, (items.release_lsn > 0) | (items.back_lsn > 0)
    has_ended = (items.count("ends") > 0) | (items.end_lsn > 0)
    unsure = flushed & ~has_ended & out_of_order & _reached_by_upto(items, flushes)
    is_final = (has_ended | (flushed & ~unsure)) & (last_lsn <= synced)
    is_final &= items.flushed_lsn <= synced
    was_final = (items.count("puts") == 0) & (first > 0) & (items.item >= first)
    was_final &= items.item <= last
    return ItemVerdict(~was_final, is_final, unsure)


def _reached_by_upto(items: Items, flushes: Sequence[Flush]) -> Bools:
    """Return which items seem to be confirmed by a confirm of all up to a marker."""
    found = np.zeros(len(items), np.bool_)
    for jid in {each.jid for each in flushes if each.is_upto}.intersection(items.jids):
        lsns = [each.lsn for each in flushes if each.is_upto and each.jid == jid]
        found |= (items.jid == jid) & np.isin(items.flushed_lsn, np.array(lsns, np.int64))
    return found


def _of_each(jids: Ints, values: Mapping[int, int]) -> Ints:
    known, positions = np.unique(jids, return_inverse=True)
    found: Ints = np.array([values.get(jid, 0) for jid in known.tolist()], np.int64)[positions]
    return found


def without_read_again(events: Events, bounds: AllBounds) -> Events:
    """Return the records of the last run without those that are read again."""
    after = _of_each(events.jid, {jid: each.again_after for jid, each in bounds.items()})
    known = np.isin(events.jid, np.array([*bounds], np.int64))
    return events.pick((events.lsn <= after) | ~known)


def each_once(events: Events) -> Events:
    """Return each event once: a record of the last run may be in a compacted segment as well."""
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


def unfinished(
    events: Events, flushes: Sequence[Flush], bounds: AllBounds
) -> pa.RecordBatch | None:
    """Return the records of the items that are not final, as UNFINISHED."""
    records = Sorted(each_once(events))
    if not len(records):
        return None
    items = records.items(flushes)
    verdict = verdict_on(records, items, flushes, bounds)
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


def flushes_needed(
    flushes: Sequence[Flush], unsure: Mapping[int, int], bounds: AllBounds
) -> list[Flush]:
    """Return the flushes that the next run needs; `unsure`: the first such item of each reader.

    These are the ones that a power cut could take, and those that may have spared an item. No other
    reached an unfinished item, and no later record changes that.
    """
    return [
        each for each in flushes
        if (each.jid in bounds and each.lsn > bounds[each.jid].synced)
        or (each.is_upto and each.last >= unsure.get(each.jid, ITEM_MAX))
    ]  # fmt: skip


# Columns of the records, in addition to `events.NEEDED`.
EXTRA: Final = (
    "bytes bigint, flags bigint, expires timestamp, key string, origin string, reason string"
)
ITEM_ROWS: Final = (
    "jid bigint, item bigint, put_lsn bigint, key string, origin string, put timestamp, "
    "bytes bigint, flags bigint, expires timestamp, state string, ended timestamp, "
    "end int, flushed timestamp, dead timestamp, dead_reason string, returns int, aborts int, "
    "dwell_ms bigint, service_ms bigint, final boolean, "
    "deliveries array<struct<opened:timestamp,ended:timestamp,how:string,attempts:int>>"
)
# The state of an item, by the kind of record that ended it.
STATES: Final = {
    ev.CONFIRM: "confirmed", ev.EXPIRE: "expired", ev.DISCARD: "discarded", ev.MOVE: "moved",
    ev.CANCEL: "cancelled",
}  # fmt: skip
FLUSHED, DEAD, OPEN = "flushed", "dead", "open"
_WORDS: Final = (*STATES.values(), FLUSHED, DEAD, OPEN)
_NAMES: Final = tuple(re.findall(r"(\w+) \w+", ITEM_ROWS))
_OF_PUT: Final = ("key", "origin", "bytes", "flags", "expires")


def item_rows(events: Events, flushes: Sequence[Flush], bounds: AllBounds) -> pa.RecordBatch | None:
    """Return a row for each item that counts, with the columns of ITEM_ROWS; None: there is none.

    `flushes` rise by lsn. A row is `final` if no later record can change it.
    """
    records = Sorted(each_once(events))
    if not len(records):
        return None
    items, read, ms = records.items(flushes), records.events.batch, records.events.ms
    put, dead = records.last(records.of(ev.PUT)), records.of(ev.DEAD)
    confirm = records.last(records.of(ev.CONFIRM))
    put_ms, end_ms = records.at(put, ms), records.at(records.last(records.of(*ev.ENDS)), ms)
    opened_ms = records.at(confirm, records.events.opened_ms)
    is_dwell = (items.first_lsn > 0) & (items.before == 0) & (put >= 0)
    flushed_ms = np.where(items.count("ends") == 0, items.flushed_ms, 0)
    verdict = verdict_on(records, items, flushes, bounds)
    columns = {
        "jid": items.jid,
        "item": items.item,
        "put_lsn": _known(items.put_lsn),
        "end": items.end.astype(np.int32),
        "state": _states(items),
        "put": _time(put_ms),
        "ended": _time(end_ms),
        "flushed": _time(flushed_ms),
        "dead": _time(records.at(records.last(dead), ms)),
        "dead_reason": _of(read["reason"], records.first(dead)),
        "dwell_ms": pa.array(items.begin_ms - put_ms, mask=~is_dwell),
        "service_ms": pa.array(end_ms - opened_ms, mask=opened_ms == 0),
        "final": pa.array(verdict.final),
        **{name: _of(read[name], put) for name in _OF_PUT},
        **_deliveries(records, confirm, end_ms, opened_ms),
    }
    made = pa.RecordBatch.from_pydict({name: columns[name] for name in _NAMES})
    return made if verdict.counts.all() else made.filter(pa.array(verdict.counts))


def _states(items: Items) -> pa.Array:
    cases = [items.end == kind for kind in STATES]
    cases += [items.flushed_lsn > 0, items.died]
    numbers = np.select(cases, list(range(len(cases))), len(cases))
    return pa.array(_WORDS, pa.string()).take(pa.array(numbers))


def _deliveries(items: Sorted, confirm: Ints, end_ms: Ints, opened_ms: Ints) -> dict[str, pa.Array]:
    """Return the deliveries without a confirm, in their order, then the confirmed one."""
    events, dead = items.events, items.of(ev.DEAD)
    back = np.flatnonzero(dead | items.of(ev.RETURN))
    confirmed = np.flatnonzero(confirm >= 0)
    item = np.concatenate([np.searchsorted(items.starts, back, "right") - 1, confirmed])
    order = np.argsort(item, kind="stable")

    def both(of_back: pa.Array, of_confirm: pa.Array) -> pa.Array:
        return pa.concat_arrays([of_back, of_confirm]).take(pa.array(order))

    reason = pc.if_else(pa.array(dead[back]), "dead", events.batch["reason"].take(pa.array(back)))
    attempts = pa.array(events.attempts.astype(np.int32))
    fields = {
        "opened": both(_time(events.opened_ms[back]), _time(opened_ms[confirmed])),
        "ended": both(_time(events.ms[back]), _time(end_ms[confirmed])),
        "how": both(reason, pa.repeat("confirm", len(confirmed))),
        "attempts": both(attempts.take(pa.array(back)), _of(attempts, confirm[confirmed])),
    }
    offsets = np.searchsorted(item[order], np.arange(len(items) + 1)).astype(np.int32)
    structs = pa.StructArray.from_arrays([*fields.values()], names=[*fields])

    def counted(which: pa.Array) -> pa.Array:
        marked = np.zeros(len(events), np.bool_)
        marked[back] = ev.bools(which.fill_null(False))
        return pa.array(items.count(marked).astype(np.int32))

    return {
        "returns": counted(pc.not_equal(reason, "dead")),
        "aborts": counted(pc.equal(reason, "abort")),
        "deliveries": pa.ListArray.from_arrays(pa.array(offsets), structs),
    }


def _of(column: pa.Array, positions: Ints) -> pa.Array:
    """Return the values at these positions; null where there is none."""
    return column.take(pa.array(positions, mask=positions < 0))


def _known(numbers: Ints) -> pa.Array:
    return pa.array(numbers, mask=numbers == 0)


def _time(times_ms: Ints) -> pa.Array:
    return _known(times_ms * 1000).view(pa.timestamp("us", "UTC"))
