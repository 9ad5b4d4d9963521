"""A schedule over crashes: whatever of its puts is on disk is not put again, and the rest is.

A real journal with tiny segments on the memory disk; who consumes empties segments, which go; there
are snapshots, kills and power cuts at any moment, with what was not synced kept, lost or torn.

Promise schedule: random histories with kills, power cuts, next to no room in segments, snapshots
    and consumers; the moment before, between and after write and sync; kills of the real process in
    the second of the put; clocks set both ways; days on which clocks change, in many zones, against
    trying every minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import pytest

from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta
from journal.tools.view import JournalView
from kestrelpy.core.policy import Policy
from kestrelpy.core.schedules import CatchUp, Schedule, Timetable
from kestrelpy.cron import Cron
from tests.support.disk_harness import NAME, WALL_MS, DiskHarness

BEGAN_S = WALL_MS // 1000
SECONDLY = Schedule(b"tick", NAME, b"x" * 40, Cron("* * * * * *"), CatchUp.ALL)
RARELY = Schedule(b"rare", NAME, b"r", Cron("0 * * * * *"), CatchUp.ALL)
Put = tuple[bytes, int, int]  # for which schedule and time, and which item it is


def put_of(item: int, meta: bytes) -> Iterator[Put]:
    """The put of a schedule that a record of this item says; none for other items."""
    found = decode_meta(meta)
    scope, epoch = found.get(Tag.SCOPE), found.get(Tag.EPOCH)
    if isinstance(scope, bytes) and isinstance(epoch, int):
        yield scope, epoch - BEGAN_S, item


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.snapshot.cadence.RECORDS_MAX", 25)


class Works:
    """A process after the other, with one schedule, and the book of what was put for good."""

    def __init__(self, *schedules: Schedule) -> None:
        self.schedules = schedules or (SECONDLY,)
        self.life = DiskHarness(Policy())
        self.item_of: dict[tuple[bytes, int], int] = {}  # by schedule and time
        self.pending: set[Put] = set()  # in the log and not synced yet
        self.begin()

    def begin(self) -> None:
        """Start a process: the puts that are on disk now, and no others, have happened for good."""
        self.pending.clear()
        self.book(self.on_disk())
        self.table = Timetable(self.life.broker)
        self.table.take_over(self.schedules, self.life.now_ms)
        self.look()

    def book(self, found: Iterable[Put]) -> None:
        for scope, epoch, item in found:
            there = self.item_of.setdefault((scope, epoch), item)
            assert there == item, f"{scope!r}: {epoch} was put twice"

    @property
    def put(self) -> dict[bytes, list[int]]:
        """The times of each schedule that were put for good."""
        return {
            each.name: sorted(epoch for scope, epoch in self.item_of if scope == each.name)
            for each in self.schedules
        }

    def on_disk(self) -> Iterator[Put]:
        """Every put of a schedule that is on disk."""
        disk = self.life.disk
        for folder in disk.names("data"):
            if folder.startswith("jobs."):
                for record in JournalView(disk, f"data/{folder}", False).records():
                    if record.kind == Kind.PUT:
                        yield from put_of(record.item, record.meta)

    def look(self) -> None:
        while True:
            self.table.look(self.life.now_ms)
            for kind, item, _, _, _, meta, *_ in self.life.log.journal._pending:
                if kind == Kind.PUT:
                    self.pending.update(put_of(item, meta))
            if not self.life.log.journal.room.asked:
                return
            self.life.write()  # a time had no room: it waits for the next segment

    def pass_ms(self, ms: int) -> None:
        self.life.now_ms += ms
        self.look()

    def commit(self) -> None:
        """Written and synced; segments that are done with go."""
        self.life.commit()
        self.book(self.pending)
        self.pending.clear()

    def take(self, most: int) -> None:
        for _ in range(most):
            lease = self.life.open()
            if lease is None:
                return
            self.life.reader.confirm(lease, self.life.now_ms)

    def kill(self) -> None:
        self.life.kill()
        self.begin()

    def cut_power(self, seed: int) -> None:
        self.life.cut_power(seed)
        self.begin()


def test_killed_before_the_write_it_is_put_by_the_next_and_killed_behind_it_it_is_not() -> None:
    works = Works()
    works.commit()
    works.pass_ms(1000)
    works.kill()  # nothing was written
    assert list(works.on_disk()) == []
    works.commit()
    works.kill()
    works.commit()

    assert [epoch for _, epoch, _ in works.on_disk()] == [1]


@pytest.mark.parametrize("seed", range(10))
def test_a_put_that_a_power_cut_took_is_put_again_and_one_that_it_left_is_not(seed: int) -> None:
    works = Works()
    works.commit()
    works.pass_ms(1000)
    works.life.log.journal.write(works.life.unix_ms)  # written and not synced
    works.cut_power(seed)
    works.commit()

    assert [epoch for _, epoch, _ in works.on_disk()] == [1]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_time_is_known_though_its_item_and_its_segment_are_gone(restarts: bool) -> None:
    works = Works(Schedule(b"tick", NAME, b"t", Cron("*/20 * * * * *")), RARELY)
    works.pass_ms(40_000)
    works.commit()
    works.take(99)
    works.commit()
    if restarts:
        works.kill()
    for _ in range(40):  # segments fill and go, and no snapshot was written yet
        assert works.life.put(b"y" * 200)
        works.take(1)
        works.commit()
    assert list(works.on_disk()) == []

    works.life.now_ms += 5000  # a schedule without a known time would begin here
    works.kill()
    works.commit()

    assert list(works.on_disk()) == []
    assert times_known(works) == {b"tick": BEGAN_S + 40, b"rare": BEGAN_S + 40}


def times_known(works: Works) -> dict[bytes, int]:
    """The latest time of each schedule, without the marks of their lines."""
    return {
        name: epoch for name, epoch in works.life.jobs.watermarks.items() if b"\0" not in name
    }


def test_a_time_is_known_from_a_snapshot() -> None:
    works = Works()
    for _ in range(60):
        works.pass_ms(1000)
        works.take(1)
        works.commit()
        works.life.do_all()
    assert len(works.life.log.store.maintenance.snapshots) == 2

    works.kill()

    assert times_known(works) == {b"tick": BEGAN_S + 60}


@pytest.mark.parametrize("seed", range(60))
def test_over_any_crashes_each_time_is_put_once(seed: int) -> None:
    chance = Random(seed)
    works = Works(SECONDLY, RARELY)
    works.commit()
    for _ in range(100):
        what = chance.random()
        if what < 0.4:
            works.pass_ms(chance.choice((100, 700, 1000, 5000)))
        elif what < 0.6:
            works.commit()
        elif what < 0.8:
            works.take(chance.randrange(12))
        elif what < 0.9:
            works.life.do_some(chance.randrange(4))
        elif what < 0.95:
            works.kill()
        else:
            works.cut_power(chance.randrange(1 << 30))
    works.commit()

    last = works.life.now_ms // 1000
    assert works.put == {b"tick": list(range(1, last + 1)), b"rare": list(range(40, last + 1, 60))}
    assert len(set(works.item_of.values())) == len(works.item_of)
