"""One row for each item, from its records.

    seen                 the number of records of each sort, all in one number: see `count`
    put_lsn, end_lsn     its put; the record that ended it
    end                  the kind of that record
    first_lsn begin_ms   its first delivery: the record that ended it, and when it began
    begin_lsn            a record of its begin, for a lease by token; else `first_lsn`
    before               how many deliveries came before that one, by its record
    dead_lsn             when it became a dead letter; a later `redrive_lsn` brings it back
    back_lsn             the last record that gave it back or made it a dead letter
    early_lsn, late_lsn  the first and the last record that only a live item has; the first may be
                         its end
    leased_lsn           a lease by token that began before the lease before it had ended
    release_lsn          the end of its first delay
    flushed_lsn          the first flush, or confirm of all up to a marker, that reached it
    there, dead_there    by the baseline, not by records: it is there; it is a dead letter

Records of one block of items are sorted by item and lsn (`Sorted`), and each column is one pass of
numpy over them. 0 means none: no lsn, item or time is 0 (except `before`, if there is a first).

One rule: a row has the facts of the records; `audit.reconcile` decides whether they can be right.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from kestrelpy.spark.files import Bools, Ints
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.baseline import JournalState, pairs_of
from kestrelpy.spark.jobs.common.events import Events, Flush

_RUN_MAX: Final = 1 << 20  # ids written out at once
# The counts in `seen`: the bit where each begins, and its greatest value.
_SEEN: Final = {"puts": 0, "confirms": 8, "ends": 16, "deads": 24, "there": 32, "dead_there": 33,
                "deliveries": 34, "handed": 61, "overlaps": 62}  # fmt: skip
_COUNT_MAX: Final = {"there": 1, "dead_there": 1, "deliveries": (1 << 27) - 1, "handed": 1,
                     "overlaps": 1}  # fmt: skip
_COUNT_OF_FEW: Final = 255  # of records that an item has once; more are as wrong
_MS_BITS: Final = 42  # of a time, until 2109


def there(spark: SparkSession, states: Iterable[tuple[int, JournalState]]) -> DataFrame:
    """Return the items that are there, by the baseline, as chunks like those of events."""
    said = [
        pickle.dumps((jid, s.runs, s.dead, s.named_lsn, s.begun, s.begun_out_of_order))
        for jid, s in states
    ]
    return packed.made(spark, said, _there)


def _there(said: bytes) -> Iterator[Events]:
    jid, runs, dead, named_lsn, begun, begun_out_of_order = pickle.loads(said)
    for items in _ids(runs):
        yield Events.bare(jid, ev.THERE, items)
    yield Events.bare(jid, ev.DEAD_THERE, np.array(dead, np.int64))
    # A child's first items count as put when it was named.
    for items in _ids(begun):
        yield Events.bare(jid, ev.PUT, items, named_lsn)
    yield Events.bare(jid, ev.RELEASE, np.array(begun_out_of_order, np.int64), named_lsn)


def _ids(runs: bytes) -> Iterator[Ints]:
    for first, last in pairs_of(runs):
        for start in range(first, last + 1, _RUN_MAX):
            stop = min(start + _RUN_MAX - 1, last)
            yield np.arange(start, stop + 1, dtype=np.int64)


@dataclass(slots=True)
class Items:
    """A row for each item, an array for each of its facts."""

    jid: Ints
    item: Ints
    seen: Ints
    put_lsn: Ints
    end_lsn: Ints
    end: Ints
    first_lsn: Ints
    begin_lsn: Ints
    before: Ints
    begin_ms: Ints
    dead_lsn: Ints
    redrive_lsn: Ints
    back_lsn: Ints
    early_lsn: Ints
    late_lsn: Ints
    leased_lsn: Ints
    release_lsn: Ints
    key_hash: Ints
    flushed_lsn: Ints = field(init=False)
    flushed_ms: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.flushed_lsn, self.flushed_ms = np.zeros_like(self.item), np.zeros_like(self.item)

    def __len__(self) -> int:
        return len(self.item)

    def count(self, name: str) -> Ints:
        """Return how many records of this sort each item has, from `seen`."""
        return (self.seen >> _SEEN[name]) & _COUNT_MAX.get(name, _COUNT_OF_FEW)

    @property
    def jids(self) -> set[int]:
        """The journals of the items: few, one after the other."""
        return {*self.jid[np.flatnonzero(np.diff(self.jid, prepend=~self.jid[:1]))].tolist()}

    @property
    def died(self) -> Bools:
        """Which items are dead letters by their records."""
        return (self.count("deads") > 0) & ~(self.redrive_lsn > self.dead_lsn)

    def flush(self, flush: Flush) -> None:
        """Note the flush for the items that it reached and no flush before it did."""
        if not len(self) or flush.last < self.item.min() or flush.jid not in self.jids:
            return
        dead, back = self.dead_lsn, self.redrive_lsn
        was_dead = (dead > 0) & (dead < flush.lsn) & ((back < dead) | (back > flush.lsn))
        reached = (self.jid == flush.jid) & (self.item <= flush.last) & (flush.lsn > self.put_lsn)
        reached &= ~was_dead & (self.flushed_lsn == 0)
        if flush.spared and reached.any():
            reached &= ~np.isin(self.item, np.array(flush.spared, np.int64))
        self.flushed_lsn[reached], self.flushed_ms[reached] = flush.lsn, flush.ms


class Sorted:
    """Records of the queue itself, by journal, item and lsn; `starts`: where each item begins.

    `first` and `last` return for each item the position of a record in `events`; `at` returns its
    values.
    """

    def __init__(self, events: Events) -> None:
        own = (events.item > 0) & ~events.of_child & ~events.is_one_of((ev.FLUSH, ev.TOKENS))
        events = events if own.all() else events.pick(own)
        events = events.pick(np.lexsort((events.lsn, events.item, events.jid)))
        self.events = events = _without_unknown_items(events)
        self._positions = np.arange(len(events))
        is_new = np.ones(len(events), np.bool_)
        is_new[1:] = changes(self.events.item) | changes(self.events.jid)
        self.starts: Ints = np.flatnonzero(is_new)
        self.begun = self.events.is_one_of(ev.DELIVERIES) & (self.events.opened_ms > 0)

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, *kinds: int) -> Bools:
        """Return which records are of one of these kinds."""
        return self.events.is_one_of(kinds)

    def first(self, which: Bools) -> Ints:
        """Return each item's first of these; -1: there is none."""
        found = np.minimum.reduceat(np.where(which, self._positions, len(which)), self.starts)
        return np.where(found == len(which), -1, found)

    def last(self, which: Bools) -> Ints:
        """Return each item's last of these; -1: there is none."""
        found: Ints = np.maximum.reduceat(np.where(which, self._positions, -1), self.starts)
        return found

    def count(self, which: Bools) -> Ints:
        """Return how many of these each item has."""
        found: Ints = np.add.reduceat(which.astype(np.int64), self.starts)
        return found

    def at(self, positions: Ints, values: Ints) -> Ints:
        """Return the values of these records; 0 where there is none."""
        return np.where(positions < 0, 0, values[positions])

    def items(self, flushes: Sequence[Flush]) -> Items:
        """Return one row for each item."""
        events, lsn = self.events, self.events.lsn
        end, first = self.first(self.of(*ev.ENDS)), self.first(self.begun)
        first_lsn, leased_lsn = self.at(first, lsn), self.at(self.first(self.of(ev.LEASE)), lsn)
        is_by_token = (leased_lsn > 0) & (leased_lsn < first_lsn)
        key = self.last(ev.bools(events.batch["key_hash"].is_valid()))
        made = Items(
            jid=events.jid[self.starts],
            item=events.item[self.starts],
            seen=self._seen(),
            put_lsn=self.at(self.first(self.of(ev.PUT)), lsn),
            end_lsn=self.at(end, lsn),
            end=self.at(end, events.kind),
            first_lsn=first_lsn,
            begin_lsn=np.where(is_by_token, leased_lsn, first_lsn),
            before=self.at(first, np.maximum(events.before, 0)),
            begin_ms=self.at(first, events.opened_ms),
            dead_lsn=self.at(self.last(self.of(ev.DEAD)), lsn),
            redrive_lsn=self.at(self.last(self.of(ev.REDRIVE)), lsn),
            back_lsn=self.at(self.last(self.of(ev.RETURN, ev.DEAD)), lsn),
            early_lsn=self.at(self.first(self.of(*ev.ONLY_LIVE, *ev.ENDS, ev.HANDED)), lsn),
            late_lsn=self.at(self.last(self.of(*ev.ONLY_LIVE)), lsn),
            leased_lsn=self.at(self.first(self._leased_again()), lsn),
            release_lsn=self.at(self.first(self.of(ev.RELEASE)), lsn),
            key_hash=self.at(key, ev.ints(events.batch["key_hash"])),
        )
        handed = (made.count("handed") == 1) & (made.end_lsn == 0)
        lsn_handed = self.at(self.first(self.of(ev.HANDED)), lsn)
        made.end_lsn[handed], made.end[handed] = lsn_handed[handed], ev.MOVE
        for flush in flushes:
            if not flush.is_upto:
                made.flush(flush)
        _confirm_up_to(made, [flush for flush in flushes if flush.is_upto], self._latest_lsn())
        return made

    def _latest_lsn(self) -> Ints:
        """Return each item's last record that shows it live."""
        return self.at(self.last(self.of(*ev.ONLY_LIVE, ev.RELEASE, ev.PUT)), self.events.lsn)

    def _seen(self) -> Ints:
        sorts = {
            "puts": self.of(ev.PUT), "confirms": self.of(ev.CONFIRM), "ends": self.of(*ev.ENDS),
            "deads": self.of(ev.DEAD), "there": self.of(ev.THERE),
            "dead_there": self.of(ev.DEAD_THERE), "deliveries": self.begun,
            "overlaps": self._overlaps(), "handed": self.of(ev.HANDED),
        }  # fmt: skip
        seen = np.zeros(len(self), np.int64)
        for name, which in sorts.items():
            if which.any():
                most = _COUNT_MAX.get(name, _COUNT_OF_FEW)
                seen |= np.minimum(self.count(which), most) << _SEEN[name]
        return seen

    def _leased_again(self) -> Bools:
        """Return the leases by token that began before another of the same item had ended.

        Each lease by token has a record of its begin and one of its end.
        """
        found = np.zeros(len(self.events), np.bool_)
        leases = self.of(ev.LEASE)
        if leases.any():
            positions = np.flatnonzero(leases | self.of(ev.RETURN, ev.DEAD, *ev.ENDS))
            began = leases[positions]
            starts = np.searchsorted(self.starts, positions, "right")
            found[positions[1:]] = began[1:] & began[:-1] & ~changes(starts)
        return found

    def _overlaps(self) -> Bools:
        """Return the deliveries that began before an earlier one of the same item had ended."""
        which = np.zeros(len(self.events), np.int64)
        which[self.starts] = 1
        ended = np.where(self.begun, self.events.ms, 0)
        return self.begun & (self.events.opened_ms < latest_before(ended, np.cumsum(which)))


def _without_unknown_items(events: Events) -> Events:
    """Return sorted events without items that have only a key: a child may not have them."""
    says_more = events.kind != ev.KEYED
    if says_more.all() or not len(events):
        return events
    is_new = np.ones(len(events), np.bool_)
    is_new[1:] = changes(events.item) | changes(events.jid)
    known = np.logical_or.reduceat(says_more, np.flatnonzero(is_new))
    return events.pick(known[np.cumsum(is_new) - 1])


def _confirm_up_to(items: Items, uptos: Sequence[Flush], latest_lsn: Ints) -> None:
    """Note the first of these that reached each item; markers rise with the log.

    An item that was delayed, given back or dead may have been spared, and its marker may differ
    from its id. For such an item, the confirm counts as its end only if no record contradicts that.
    """
    for jid in {each.jid for each in uptos}.intersection(items.jids):
        ours = [each for each in uptos if each.jid == jid]
        markers = np.maximum.accumulate(np.array([each.last for each in ours], np.int64))
        lsns = np.array([each.lsn for each in ours], np.int64)
        out_of_order = (items.release_lsn > 0) | (items.back_lsn > 0)
        since = np.where(out_of_order, latest_lsn, items.put_lsn)
        first = np.maximum(
            np.searchsorted(markers, items.item), np.searchsorted(lsns, since, "right")
        )
        for nth, spared in ((n, each.spared) for n, each in enumerate(ours) if each.spared):
            first[(first == nth) & np.isin(items.item, np.array(spared, np.int64))] += 1
        reached = (items.jid == jid) & (first < len(ours)) & (items.flushed_lsn == 0)
        reached &= ~(out_of_order & ((items.count("ends") > 0) | (items.count("there") == 1)))
        at = np.minimum(first, len(ours) - 1)
        items.flushed_lsn[reached] = lsns[at][reached]
        items.flushed_ms[reached] = np.array([each.ms for each in ours], np.int64)[at][reached]


def changes(values: Ints) -> Bools:
    """Return where the next value differs; one entry fewer than values."""
    found: Bools = values[1:] != values[:-1]
    return found


def latest_before(times_ms: Ints, group: Ints) -> Ints:
    """Return the greatest time before each in its group (groups rise); 0: there is none."""
    base = group << _MS_BITS
    greatest = np.maximum.accumulate(base + np.clip(times_ms, 0, (1 << _MS_BITS) - 1))
    made = np.zeros(len(base), np.int64)
    made[1:] = np.maximum(greatest[:-1] - base[1:], 0)
    return made
