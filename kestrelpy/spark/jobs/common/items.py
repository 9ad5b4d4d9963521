"""One row for each item: what its records add up to.

    seen                 how many records of each sort there are, counted in one number: see `count`
    put_lsn, end_lsn     its put; the record after which it is gone, and `end`, of which kind
    first_lsn begin_ms   its first delivery: the record that ended it, and when it began
    before               how many deliveries the first of those says came before it
    dead_lsn             its death; a later `redrive_lsn` takes it back
    back_lsn             the last record that gave it back or buried it
    early_lsn, late_lsn  the first and the last record that only an item has which is there; the
                         first may be its end
    leased_lsn           it was lent by token, and the lease before that had not ended
    release_lsn          its first delay was over
    flushed_lsn          the first flush that reached it, or confirm of everything up to a marker
    there, buried        what is said of it elsewhere (`state`): it is there, it is dead

Records of one block of items are sorted by item and lsn (`Sorted`), and each of these is one pass
of numpy over them. 0 is nothing: no lsn, item or time is 0 (but `before`, where there is a first).

One rule: a row says what records say; what to think of it is `balance`'s.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from kestrelpy.spark.files.frame_headers import Bools, Ints
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.baseline import JournalState, pairs_of
from kestrelpy.spark.jobs.common.events import Events, Flush

_RUN_MAX: Final = 1 << 20  # ids written out at once
# What `seen` counts, by the bit where each count begins, and how far it counts.
_SEEN: Final = {"puts": 0, "confirms": 8, "ends": 16, "deads": 24, "there": 32, "buried": 33,
                "deliveries": 34, "handed": 61, "overlaps": 62}  # fmt: skip
_COUNT_MAX: Final = {"there": 1, "buried": 1, "deliveries": (1 << 27) - 1, "handed": 1,
                     "overlaps": 1}  # fmt: skip
_COUNT_OF_FEW: Final = 255  # of a record that an item has once: so many are as wrong as more
_MS_BITS: Final = 42  # of a time, until 2109


def there(spark: SparkSession, states: Iterable[tuple[int, JournalState]]) -> DataFrame:
    """What is there, by `state`, as chunks beside those of events."""
    said = [
        pickle.dumps((jid, s.runs, s.dead, s.named_lsn, s.begun, s.begun_apart))
        for jid, s in states
    ]
    return packed.made(spark, said, _there)


def _there(said: bytes) -> Iterator[Events]:
    jid, runs, dead, named_lsn, begun, begun_apart = pickle.loads(said)
    for items in _ids(runs):
        yield Events.bare(jid, ev.THERE, items)
    yield Events.bare(jid, ev.BURIED, np.array(dead, np.int64))
    # What a child was named with, as if it had been put then.
    for items in _ids(begun):
        yield Events.bare(jid, ev.PUT, items, named_lsn)
    yield Events.bare(jid, ev.RELEASE, np.array(begun_apart, np.int64), named_lsn)


def _ids(runs: bytes) -> Iterator[Ints]:
    for first, last in pairs_of(runs):
        for start in range(first, last + 1, _RUN_MAX):
            stop = min(start + _RUN_MAX - 1, last)
            yield np.arange(start, stop + 1, dtype=np.int64)


@dataclass(slots=True)
class Items:
    """A row for each, a column for each of its facts."""

    jid: Ints
    item: Ints
    seen: Ints
    put_lsn: Ints
    end_lsn: Ints
    end: Ints
    first_lsn: Ints
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
        """How many there are, from `seen`."""
        return (self.seen >> _SEEN[name]) & _COUNT_MAX.get(name, _COUNT_OF_FEW)

    @property
    def jids(self) -> set[int]:
        """The journals that they are of: few, one after the other."""
        return {*self.jid[np.flatnonzero(np.diff(self.jid, prepend=~self.jid[:1]))].tolist()}

    @property
    def died(self) -> Bools:
        """Which are dead by their records."""
        return (self.count("deads") > 0) & ~(self.redrive_lsn > self.dead_lsn)

    def flush(self, flush: Flush) -> None:
        """Note it for those that it reached, if none before it did."""
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
    """Records of the queue's own line, by journal, item and lsn; `starts`: an item begins there.

    Of each item, `first` and `last` say where in `events` such a record stands; `at` what it says.
    """

    def __init__(self, events: Events) -> None:
        own = (events.item > 0) & ~events.of_child & ~events.is_one_of((ev.FLUSH, ev.TOKENS))
        events = events if own.all() else events.pick(own)
        events = events.pick(np.lexsort((events.lsn, events.item, events.jid)))
        self.events = events = _without_strangers(events)
        self._places = np.arange(len(events))
        is_new = np.ones(len(events), np.bool_)
        is_new[1:] = changes(self.events.item) | changes(self.events.jid)
        self.starts: Ints = np.flatnonzero(is_new)
        self.begun = self.events.is_one_of(ev.DELIVERIES) & (self.events.opened_ms > 0)

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, *kinds: int) -> Bools:
        """Which records are of one of these kinds."""
        return self.events.is_one_of(kinds)

    def first(self, which: Bools) -> Ints:
        """Of each item the first of these; -1: there is none."""
        found = np.minimum.reduceat(np.where(which, self._places, len(which)), self.starts)
        return np.where(found == len(which), -1, found)

    def last(self, which: Bools) -> Ints:
        """Of each item the last of these; -1: there is none."""
        found: Ints = np.maximum.reduceat(np.where(which, self._places, -1), self.starts)
        return found

    def count(self, which: Bools) -> Ints:
        """Of each item how many of these there are."""
        found: Ints = np.add.reduceat(which.astype(np.int64), self.starts)
        return found

    def at(self, places: Ints, values: Ints) -> Ints:
        """What these records say; 0 where there is none."""
        return np.where(places < 0, 0, values[places])

    def items(self, flushes: Sequence[Flush]) -> Items:
        """What they add up to."""
        events, lsn = self.events, self.events.lsn
        end, first = self.first(self.of(*ev.ENDS)), self.first(self.begun)
        key = self.last(ev.bools(events.batch["key_hash"].is_valid()))
        made = Items(
            jid=events.jid[self.starts],
            item=events.item[self.starts],
            seen=self._seen(),
            put_lsn=self.at(self.first(self.of(ev.PUT)), lsn),
            end_lsn=self.at(end, lsn),
            end=self.at(end, events.kind),
            first_lsn=self.at(first, lsn),
            before=self.at(first, np.maximum(events.before, 0)),
            begin_ms=self.at(first, events.opened_ms),
            dead_lsn=self.at(self.last(self.of(ev.DEAD)), lsn),
            redrive_lsn=self.at(self.last(self.of(ev.REDRIVE)), lsn),
            back_lsn=self.at(self.last(self.of(ev.RETURN, ev.DEAD)), lsn),
            early_lsn=self.at(self.first(self.of(*ev.LIVES, *ev.ENDS, ev.HANDED)), lsn),
            late_lsn=self.at(self.last(self.of(*ev.LIVES)), lsn),
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
        """Of each item the last record that says that it was there."""
        return self.at(self.last(self.of(*ev.LIVES, ev.RELEASE, ev.PUT)), self.events.lsn)

    def _seen(self) -> Ints:
        sorts = {
            "puts": self.of(ev.PUT), "confirms": self.of(ev.CONFIRM), "ends": self.of(*ev.ENDS),
            "deads": self.of(ev.DEAD), "there": self.of(ev.THERE), "buried": self.of(ev.BURIED),
            "deliveries": self.begun, "overlaps": self._overlaps(), "handed": self.of(ev.HANDED),
        }  # fmt: skip
        seen = np.zeros(len(self), np.int64)
        for name, which in sorts.items():
            if which.any():
                most = _COUNT_MAX.get(name, _COUNT_OF_FEW)
                seen |= np.minimum(self.count(which), most) << _SEEN[name]
        return seen

    def _leased_again(self) -> Bools:
        """Leases by token that began before one of the same item had ended: each has a record of
        its begin, and of its end."""
        found = np.zeros(len(self.events), np.bool_)
        leases = self.of(ev.LEASE)
        if leases.any():
            places = np.flatnonzero(leases | self.of(ev.RETURN, ev.DEAD, *ev.ENDS))
            began = leases[places]
            starts = np.searchsorted(self.starts, places, "right")
            found[places[1:]] = began[1:] & began[:-1] & ~changes(starts)
        return found

    def _overlaps(self) -> Bools:
        """Deliveries that began before an earlier one of the same item had ended."""
        which = np.zeros(len(self.events), np.int64)
        which[self.starts] = 1
        ended = np.where(self.begun, self.events.ms, 0)
        return self.begun & (self.events.opened_ms < latest_before(ended, np.cumsum(which)))


def _without_strangers(events: Events) -> Events:
    """Of sorted events those of items of which more is said than a key: a child may have begun
    without the others."""
    says_more = events.kind != ev.KEYED
    if says_more.all() or not len(events):
        return events
    is_new = np.ones(len(events), np.bool_)
    is_new[1:] = changes(events.item) | changes(events.jid)
    known = np.logical_or.reduceat(says_more, np.flatnonzero(is_new))
    return events.pick(known[np.cumsum(is_new) - 1])


def _confirm_up_to(items: Items, uptos: Sequence[Flush], latest_lsn: Ints) -> None:
    """Note the first of these that reached each item, markers rising with the log.

    An item that was delayed, given back or dead may have been spared, and its marker may be another
    number than its id: of such a one it is taken as ending it only if nothing says otherwise.
    """
    for jid in {each.jid for each in uptos}.intersection(items.jids):
        ours = [each for each in uptos if each.jid == jid]
        markers = np.maximum.accumulate(np.array([each.last for each in ours], np.int64))
        lsns = np.array([each.lsn for each in ours], np.int64)
        apart = (items.release_lsn > 0) | (items.back_lsn > 0)
        since = np.where(apart, latest_lsn, items.put_lsn)
        first = np.maximum(
            np.searchsorted(markers, items.item), np.searchsorted(lsns, since, "right")
        )
        for nth, spared in ((n, each.spared) for n, each in enumerate(ours) if each.spared):
            first[(first == nth) & np.isin(items.item, np.array(spared, np.int64))] += 1
        reached = (items.jid == jid) & (first < len(ours)) & (items.flushed_lsn == 0)
        reached &= ~(apart & ((items.count("ends") > 0) | (items.count("there") == 1)))
        at = np.minimum(first, len(ours) - 1)
        items.flushed_lsn[reached] = lsns[at][reached]
        items.flushed_ms[reached] = np.array([each.ms for each in ours], np.int64)[at][reached]


def changes(values: Ints) -> Bools:
    """Where the next is another; one fewer than values."""
    found: Bools = values[1:] != values[:-1]
    return found


def latest_before(times_ms: Ints, group: Ints) -> Ints:
    """The greatest of the times before each in its group (their numbers rise); 0: there is none."""
    base = group << _MS_BITS
    greatest = np.maximum.accumulate(base + np.clip(times_ms, 0, (1 << _MS_BITS) - 1))
    made = np.zeros(len(base), np.int64)
    made[1:] = np.maximum(greatest[:-1] - base[1:], 0)
    return made
