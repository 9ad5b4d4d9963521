"""The rows of `lifecycle`, without names, from the records of whole blocks.

    its records, by lsn     put   return   dead   ...   confirm
                             │       └──────┴── deliveries ─┘ with begin and end
                             └─dwell_ms─▶ first begun              service_ms: of the last

One rule: a value that no record has is null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kestrelpy.spark.files import Ints
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.events import Events, Flush
from kestrelpy.spark.jobs.common.items import Items, Sorted
from kestrelpy.spark.jobs.lifecycle.carry import Marks, each_once, judged

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


def item_rows(events: Events, flushes: Sequence[Flush], marks: Marks) -> pa.RecordBatch | None:
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
    verdict = judged(records, items, flushes, marks)
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
