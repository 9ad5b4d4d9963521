"""The books of a journal: the items that came in and the items that ended must add up.

    opening + stored = confirmed + expired + moved + cancelled + discarded + flushed + dead + there
    └ a checkpoint's count     └ records, item by item                          └ the baseline

Both ends are independent of the records between them. Besides the sum, the records of every item
must be consistent: a `Wrong` names the fault of an item. Items are checked block by block, on the
executors:

    chunks ──▶ `blocks`   a row for each block: its part of the sums, how it follows other blocks
       └─────▶ `items`    a row for each item, for checks of single items

A journal without breaches needs only the first: few rows, however many items. The same chunks give
the same rows, so a check may run twice.

All records are there only from `unbroken_lsn` on. An item that was put before may have ended in a
segment that is gone: it counts in the opening, not by itself.

One rule: a number that is not known is shown as unknown, and is no breach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row

from journal.format import Kind
from kestrelpy.spark.files import Bools, Ints
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.events import Events, Flush
from kestrelpy.spark.jobs.common.items import Items, Sorted, changes, latest_before

# The sides of the books, by the kind of record that ends an item.
ENDED: Final[dict[str, int]] = {
    "confirmed": ev.CONFIRM,
    "expired": ev.EXPIRE,
    "moved": ev.MOVE,
    "cancelled": ev.CANCEL,
    "discarded": ev.DISCARD,
}


class Wrong(IntEnum):
    """A fault of an item; of several the first. The text is for people."""

    CONFIRMED_TWICE = 1
    ENDED_TWICE = 2
    PUT_TWICE = 3
    LOST = 4
    NO_PUT = 5
    PUT_LOST = 6
    NEVER_PUT = 7
    BEFORE_ITS_PUT = 8
    AFTER_ITS_END = 9
    THERE_ALTHOUGH_ENDED = 10
    DEATH_UNCLEAR = 11
    LEASED_TWICE = 12

    @property
    def list(self) -> str:
        """The list that names the item."""
        if self in (Wrong.CONFIRMED_TWICE, Wrong.ENDED_TWICE, Wrong.LEASED_TWICE):
            return "twice"
        return "missing" if self in (Wrong.LOST, Wrong.NO_PUT, Wrong.PUT_LOST) else "phantom"

    @property
    def text(self) -> str:
        """The fault in words."""
        return _TEXTS[self]


_COUNTS: Final = (
    "stored", "flushed", "dead", "there", "delivered", "delivered_once", "deliveries", "repeated",
    "unrecorded",
)  # fmt: skip
SUMS: Final = (*_COUNTS, *ENDED, *(each.name for each in Wrong))
_TEXTS: Final = {
    Wrong.CONFIRMED_TWICE: "was confirmed more than once",
    Wrong.ENDED_TWICE: "ended more than once",
    Wrong.PUT_TWICE: "was put more than once under one number",
    Wrong.LOST: "was stored, and neither ended nor is it there",
    Wrong.NO_PUT: "is there, and its put is not in the journal",
    Wrong.PUT_LOST: "was delivered or ended, and its put is missing",
    Wrong.NEVER_PUT: "was delivered or ended, and was never put",
    Wrong.BEFORE_ITS_PUT: "was delivered or ended before it was put",
    Wrong.AFTER_ITS_END: "was lent, given back, died or was flushed although it had ended",
    Wrong.THERE_ALTHOUGH_ENDED: "is there although it ended",
    Wrong.DEATH_UNCLEAR: "is dead by its records or by the state, and not by both",
    Wrong.LEASED_TWICE: "was lent by token again before its lease had ended",
}


@dataclass(frozen=True, slots=True)
class Basis:
    """The facts about a journal that its items are checked against.

    - `opening`: how many items were there as of `as_of`; None: not known.
    - `id_from`: all those items have ids below it; 0: not known.
    - `has_lost`: records are missing that should be there.
    - `flushed_lsns`: the lsns of its flushes.
    """

    jid: int
    unbroken_lsn: int
    as_of: int
    opening: int | None
    id_from: int
    has_lost: bool
    flushed_lsns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bases:
    """The `Basis` of each item's journal, as arrays."""

    unbroken_lsn: Ints
    as_of: Ints
    id_from: Ints
    has_lost: Bools

    @classmethod
    def of(cls, items: Items, bases: Mapping[int, Basis]) -> Bases:
        """Return the bases of these items."""
        jids, which = np.unique(items.jid, return_inverse=True)
        own = [bases[jid] for jid in jids.tolist()]

        def each(facts: list[int]) -> Ints:
            return np.array(facts, np.int64)[which]

        return cls(
            each([basis.unbroken_lsn for basis in own]), each([basis.as_of for basis in own]),
            each([basis.id_from for basis in own]), each([basis.has_lost for basis in own]) > 0,
        )  # fmt: skip

    def whole(self, items: Items) -> Bools:
        """Return the items whose records are all there."""
        return (items.put_lsn > 0) & (items.put_lsn >= self.unbroken_lsn)


@dataclass(slots=True)
class Books:
    """The sums of one journal. `difference` is 0 if they add up, None if that is not known."""

    opening: int | None = None
    stored: int = 0
    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDED, 0))
    flushed: int = 0
    dead: int = 0
    there: int = 0
    flushed_unseen: int = 0  # of the opening: gone with a flush, as no record contradicts that
    delivered: int = 0  # items, whether all their records are there or not
    deliveries: int = 0
    delivered_once: int = 0
    repeated: int = 0  # deliveries beyond the first of an item
    unrecorded: int = 0  # deliveries without a record that a later one counts
    wrong: dict[Wrong, int] = field(default_factory=dict)

    @property
    def difference(self) -> int | None:
        """Items that came in and have no end; below 0: items that are there and never came in."""
        if self.opening is None:
            return None
        went = sum(self.ended.values()) + self.flushed + self.flushed_unseen
        return self.opening + self.stored - went - self.dead - self.there


def wrongs(items: Items, basis: Bases) -> Ints:
    """Return for each item a number of `Wrong`, or 0."""
    put, end, early, late = items.put_lsn, items.end_lsn, items.early_lsn, items.late_lsn
    there, dead_there = items.count("there") == 1, items.count("dead_there") == 1
    puts, ended, is_flushed = items.count("puts"), items.count("ends") > 0, items.flushed_lsn > 0
    whole = basis.whole(items)
    # Leased, given back or ended: only an item that was put has such a record.
    lived = (puts == 0) & (early > 0) & (basis.id_from > 0) & (items.item >= basis.id_from)
    after_end = ((end > 0) & (late > end)) | (
        is_flushed & (items.flushed_lsn < np.maximum(end, late))
    )
    # Handed off, with another end as well.
    is_both = (items.count("handed") == 1) & (items.end != ev.MOVE)
    ended |= items.end_lsn > 0
    cases = (
        (Wrong.CONFIRMED_TWICE, items.count("confirms") > 1),
        (Wrong.ENDED_TWICE, (items.count("ends") > 1) | is_both),
        (Wrong.PUT_TWICE, puts > 1),
        (Wrong.LOST, whole & ~ended & ~is_flushed & ~there),
        (Wrong.NO_PUT, there & (puts == 0)),
        (Wrong.PUT_LOST, lived & basis.has_lost),
        (Wrong.NEVER_PUT, lived),
        (Wrong.BEFORE_ITS_PUT, (early > 0) & (early < put)),
        (Wrong.AFTER_ITS_END, whole & after_end),
        (Wrong.THERE_ALTHOUGH_ENDED, there & (ended | (whole & is_flushed & ~dead_there))),
        (Wrong.DEATH_UNCLEAR, whole & there & (items.died != dead_there)),
        (Wrong.LEASED_TWICE, whole & (items.leased_lsn > 0)),
    )
    return np.select([case for _, case in cases], [int(each) for each, _ in cases], 0)


def sums(items: Items, wrong: Ints, as_of: Ints) -> dict[str, Ints]:
    """Return each item's part of the sums, by the names of SUMS."""
    there, dead_there = items.count("there") == 1, items.count("dead_there") == 1
    deliveries, is_new = items.count("deliveries"), items.put_lsn > as_of
    made = {
        "stored": is_new,
        # An item of the opening may have ended before, in a record that is gone.
        "flushed": (items.end_lsn == 0) & ~there & (items.flushed_lsn > as_of) & is_new,
        "dead": there & dead_there,
        "there": there & ~dead_there,
        "delivered": deliveries > 0,
        "delivered_once": (deliveries == 1) & (items.before == 0),
        "deliveries": deliveries,
        "repeated": np.maximum(deliveries - 1, 0),
        "unrecorded": items.before,
        **{name: (items.end == kind) & (items.end_lsn > as_of) for name, kind in ENDED.items()},
        **{each.name: wrong == each for each in Wrong},
    }
    return {name: made[name].astype(np.int64) for name in SUMS}


def books(blocks: Iterable[Row], bases: Iterable[Basis]) -> dict[int, Books]:
    """Return the books of every journal, by jid, from rows with the columns of SUMS."""
    by_jid = {basis.jid: basis for basis in bases}
    found = {jid: Books(opening=basis.opening) for jid, basis in by_jid.items()}
    for row in blocks:
        made = found[row.jid]
        for name in _COUNTS:
            setattr(made, name, getattr(made, name) + row[name])
        for name in ENDED:
            made.ended[name] += row[name]
        for each in Wrong:
            if row[each.name]:
                made.wrong[each] = made.wrong.get(each, 0) + row[each.name]
    for jid, made in found.items():
        made.wrong = dict(sorted(made.wrong.items()))
        _note_flushed(made, by_jid[jid])
    return found


def _note_flushed(made: Books, basis: Basis) -> None:
    """Count items of the opening that are neither there nor ended as flushed, if there was one."""
    left = made.difference
    if left and left > 0 and made.opening and max(basis.flushed_lsns, default=0) > basis.as_of:
        named = made.wrong.get(Wrong.LOST, 0)
        made.flushed_unseen = max(min(left - named, made.opening), 0)


assert set(ENDED.values()) == set(ev.ENDS)
assert Kind.DONE == ev.CONFIRM


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
