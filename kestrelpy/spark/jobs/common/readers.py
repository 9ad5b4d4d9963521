"""Events of a journal by reader: of the queue itself, and of each fan-out child.

    records of `orders`    PUT 1   PUT 2   DONE 1 (reader 1)   PUT 3 (reader 1)   DONE 2
    events of `orders`     PUT 1   PUT 2                                          DONE 2
    events of reader 1     PUT 1   PUT 2   DONE 1              PUT 3

The jobs treat a child as a journal with a number of its own (`events.reader_jid`); an item for all
readers is put for each of them. Events of children are also among those of the parent, marked
`of_child`, because the numbers of records are checked there.

One rule: the reader of a record follows from its own number and the READER records around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from journal.errors import ITEM_MAX
from kestrelpy.spark.files import Bools, children, passed_on
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.events import Events

if TYPE_CHECKING:
    from kestrelpy.spark.files import Split

_FOR_ALL: Final = (ev.PUT, ev.RELEASE)
_PASSED_ON: Final = (ev.PUT, ev.DISCARD)


def by_reader(
    jid: int, read: pa.RecordBatch, split: Split, extra: Sequence[str], last: int | None,
    with_gone: bool,
) -> Iterator[Events]:  # fmt: skip
    """Return the events of each reader, from the columns `events.NEEDED` and `extra`.

    `last`: as of this lsn. `with_gone`: also for children that were removed by then.
    """
    if last is not None and (late := ev.ints(read["lsn"]) > last).any():
        read = read.filter(pa.array(~late))
    events = Events.of(jid, read, extra)
    handed = list(_handed(jid, events, read, split, extra, last)) if _has_origins(read) else []
    yield _without_passed_on(events, split)
    yield from handed
    named = [c for c in children(split.reader_names, last) if with_gone or not c.stopped_lsn]
    if not named:
        return
    reader = ev.ints(read["reader_number"])
    shared = (reader == 0) & events.is_one_of(_FOR_ALL)
    starts = (reader == 0) & (events.kind == ev.TOKENS)
    keyed = (events.kind == ev.PUT) & ev.bools(events.batch["key_hash"].is_valid())
    for child in named:
        line = ev.reader_jid(jid, child.reader)
        mine: Bools = (reader == child.number) & (events.kind != ev.NAME)
        mine &= events.lsn > child.named_lsn
        mine |= shared & (events.lsn > child.named_lsn) & (events.item > child.floor)
        mine |= starts
        if child.stopped_lsn:
            mine &= events.lsn < child.stopped_lsn
        if mine.any():
            yield _as_own(line, events.pick(mine))
        if (before := keyed & (events.lsn < child.named_lsn) & (events.item > child.floor)).any():
            known = events.pick(before)
            keys = known.batch["key_hash"]
            bare = Events.bare(line, ev.KEYED, known.item, child.named_lsn, keys)
            yield _padded(bare, events, extra)


def _as_own(line: int, events: Events) -> Events:
    """Return the events as those of this child."""
    batch = events.batch
    for name, value in (("jid", pa.scalar(line, pa.int64())), ("of_child", pa.scalar(False))):
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, name, pa.repeat(value, len(events)))
    return Events(batch)


def _without_passed_on(events: Events, split: Split) -> Events:
    """Mark items that were only for the children as `of_child`."""
    spans = passed_on(split.reader_names)
    if not spans:
        return events
    passed = np.zeros(len(events), np.bool_)
    for first, until, floor in spans:
        now = (events.lsn > first) & (events.lsn < (until or ITEM_MAX)) & (events.item > floor)
        passed |= now & events.is_one_of(_PASSED_ON)
    of_child = pa.array(events.of_child | passed)
    at = events.batch.schema.get_field_index("of_child")
    return Events(events.batch.set_column(at, "of_child", of_child))


def _has_origins(read: pa.RecordBatch) -> bool:
    return bool(read["origin"].null_count < len(read["origin"]))


def _handed(
    jid: int, events: Events, read: pa.RecordBatch, split: Split, extra: Sequence[str],
    last: int | None,
) -> Iterator[Events]:  # fmt: skip
    """Return the ends of items of this journal that a put in it names as its origin."""
    named = children(split.reader_names, last)
    by_line: dict[int, list[tuple[int, int]]] = {}
    made = ev.bools(read["origin"].is_valid()) & (events.kind == ev.PUT)
    origins = read["origin"].filter(pa.array(made)).to_pylist()
    for origin, lsn in zip(origins, events.lsn[made].tolist(), strict=True):
        server, _, rest = origin.partition(":")
        name, _, item = rest.rpartition(":")
        queue, _, part = name.partition("+")
        if queue != split.queue or server != (split.server or server) or not item.isdigit():
            continue
        readers = [c.reader for c in named if c.name == part and c.named_lsn < lsn]
        if part and not readers:
            continue
        line = ev.reader_jid(jid, readers[-1] if part else 0)
        by_line.setdefault(line, []).append((int(item), lsn))
    for line, pairs in by_line.items():
        items, lsns = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
        yield _padded(Events.bare(line, ev.HANDED, items, lsns), events, extra)


def _padded(bare: Events, like: Events, extra: Sequence[str]) -> Events:
    """Return the events with the extra columns, empty."""
    batch = bare.batch
    for name in extra:
        if name not in batch.schema.names:
            batch = batch.append_column(name, pa.nulls(len(bare), like.batch[name].type))
    return Events(batch)

