"""A daemon writes a snapshot, and takes segments away, while a tool reads its journal.

    segment       1           2         3            4           5          6
                [1 2 3 4]   5, done 1  done 2 and 5  6, done 3   7          8
                          ^ the snapshot that the reading begins at
                                                               ^ ^ one of those written meanwhile

Segments 2 and 3 go while the tool reads the third. It has met the item 5 and the end of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from journal.errors import Damage
from journal.files import Files
from journal.recovery.live_set import LiveSet
from journal.snapshot.snapshot import SegmentState
from journal.tools.verify import StartView, check_journal
from journal.tools.view import JournalView, read_journal
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, TIME_MS, SegmentBuilder
from tests.support.journals import FOLDER, path_of
from tests.support.memory_disk import MemoryDisk
from tests.support.snapshots import done, lay, opening, put, snapshot, snapshot_path

LIVE: Final = [4, 6, 7, 8]
BEFORE: Final = 4  # the lsn of the snapshot that the reading begins at
GONE: Final = (2, 3)
VIEWS: Final[dict[str, Callable[[Files], JournalView]]] = {
    "as a start reads it": lambda files: StartView(files, FOLDER),
    "whole": lambda files: read_journal(files, FOLDER, live=True),
}


class Daemon(MemoryDisk):
    """A disk on which a daemon goes on while a tool runs: when the tool reads a whole segment, or
    at its call number `at_event` to the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on: Callable[[], None] | None = None
        self.at = path_of(3)
        self.events = 0
        self.at_event: int | None = None

    def names(self, folder: str) -> list[str]:
        self._ask()
        return super().names(folder)

    def size(self, path: str) -> int:
        self._ask()
        return super().size(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._ask(path == self.at and size < 0)
        return super().read(path, offset, size)

    def _ask(self, is_here: bool = False) -> None:
        self.events += 1
        is_now = is_here if self.at_event is None else self.events == self.at_event
        if is_now and self.goes_on is not None:
            go, self.goes_on = self.goes_on, None
            go()


class Written:
    """The journal of the drawing, and what the daemon may do with it."""

    def __init__(self) -> None:
        self.disk = Daemon()
        one = SegmentBuilder(1, 2048, 1, opening(1))
        one.batch(*map(put, (1, 2, 3, 4)))
        two = SegmentBuilder(2, 2048, 5, opening(5))
        self._positions = {BEFORE: (2, two.at)}
        two.batch(put(5), synced=4)
        self._positions[5] = (2, two.at)
        two.batch(done(1), synced=5)
        three = SegmentBuilder(3, 2048, 7, opening(6))
        three.batch(done(2), done(5), synced=6)
        four = SegmentBuilder(4, 2048, 9, opening(6))
        four.batch(put(6), done(3), synced=8)
        five = SegmentBuilder(5, 2048, 11, opening(7))
        self._positions[10] = (5, five.at)
        five.batch(put(7), synced=10)
        six = SegmentBuilder(6, 2048, 12, opening(8))
        self._positions[11] = (6, six.at)
        six.batch(put(8), synced=11)
        self._positions[12] = (6, six.at)
        six.batch(synced=12)
        for live, each in zip((4, 1, 0, 1, 1), (one, two, three, four, five), strict=True):
            each.seal(live=live)
        for each in (one, two, three, four, five, six):
            lay(self.disk, each)
        self.snapshot(BEFORE)

    def snapshot(self, lsn: int) -> None:
        """Write the snapshot of this lsn, and forget the one before."""
        said = {
            BEFORE: ([1, 2, 3, 4], 5), 5: ([1, 2, 3, 4, 5], 6),
            10: ([4, 6], 7), 11: ([4, 6, 7], 8), 12: (LIVE, 9),
        }  # fmt: skip
        live, next_item = said[lsn]
        segment, at = self._positions[lsn]
        spans = {1: (1, 4), 2: (5, 5), 4: (6, 6), 5: (7, 7)}
        states = [
            SegmentState(n, *span, 2, 64) for n, span in spans.items() if n < segment and n != 2
        ]
        made = snapshot(lsn, segment, at, live, next_item, states, None)
        data = made.encode(SHORT_IDENTITY, IDENTITY, TIME_MS)
        self.disk.create(snapshot_path(lsn), data, len(data))
        if lsn != BEFORE:
            self.disk.remove(snapshot_path(BEFORE))

    def goes_on(self, lsn: int, gone: Sequence[int] = GONE, says: bool = True) -> None:
        """Have the daemon write this snapshot (0: none) and remove segments when the tool is at the
        third; the tool's own request `says` that it is gone."""

        def go() -> None:
            if lsn:
                self.snapshot(lsn)
            for number in gone:
                self.disk.remove(path_of(number))
            if says:
                raise FileNotFoundError(2, "removed", path_of(3))

        self.disk.goes_on = go


@pytest.mark.parametrize("lsn", [10, 11, 12])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_what_a_snapshot_knows_of_segments_that_went_meanwhile_is_known(
    view: Callable[[Files], JournalView], lsn: int
) -> None:
    journal, live = Written(), LiveSet()
    journal.goes_on(lsn)
    read = view(journal.disk)

    lsns = [record.lsn for record in live.follow(read)]

    assert journal.disk.goes_on is None, "the reading met the change"
    assert list(live.items) == LIVE
    assert lsns == sorted(set(lsns)), "no record is read twice"
    assert read.snapshot is not None and read.snapshot.lsn == lsn
    assert not read.damages
    assert live.next_number == 9


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_snapshot_that_knows_less_than_was_read_changes_nothing(
    view: Callable[[Files], JournalView]
) -> None:
    journal, live = Written(), LiveSet()
    journal.goes_on(5, gone=())
    read = view(journal.disk)

    lsns = [record.lsn for record in live.follow(read)]

    assert (lsns[-8:], list(live.items)) == (list(range(5, 13)), LIVE)
    assert read.snapshot is not None and read.snapshot.lsn == BEFORE
    assert read.beginnings == 1


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_without_a_snapshot_nothing_is_left_of_a_front_that_went_meanwhile(
    view: Callable[[Files], JournalView]
) -> None:
    journal, live = Written(), LiveSet()
    journal.disk.remove(snapshot_path(BEFORE))
    journal.goes_on(0, gone=(1, 2, 3, 4))  # 4 and 6 are done as well, by what comes now
    read = view(journal.disk)

    for _ in live.follow(read):
        pass

    assert list(live.items) == [7, 8]
    assert not read.damages


@pytest.mark.parametrize("lsn", [10, 11, 12])
def test_a_check_beside_a_daemon_that_goes_on_names_no_loss(lsn: int) -> None:
    journal = Written()
    journal.goes_on(lsn)

    report = check_journal(journal.disk, FOLDER)

    assert journal.disk.goes_on is None, "the check met the change"
    assert (report.damages, list(report.unreadable)) == ([], [])
    assert (report.items, report.lsn_snapshot) == (len(LIVE), lsn)


def wherever_a_daemon_goes_on(lsn: int, use: Callable[[Files], object]) -> Iterator[Written]:
    """The journal of the drawing, about to change at each request of this use."""
    plain = Written()
    begin = plain.disk.events
    use(plain.disk)
    asked = plain.disk.events - begin
    assert asked > 10
    for at in range(1, asked + 1):
        journal = Written()
        journal.goes_on(lsn, says=False)
        journal.disk.at_event = journal.disk.events + at
        yield journal
        assert journal.disk.goes_on is None, at


@pytest.mark.parametrize("lsn", [10, 11, 12])
def test_a_check_ends_well_wherever_a_daemon_goes_on(lsn: int) -> None:
    for journal in wherever_a_daemon_goes_on(lsn, lambda files: check_journal(files, FOLDER)):
        report = check_journal(journal.disk, FOLDER)

        assert (report.damages, list(report.unreadable)) == ([], [])
        assert report.items == len(LIVE)


@pytest.mark.parametrize("lsn", [10, 11, 12])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_reading_ends_well_wherever_a_daemon_goes_on(
    view: Callable[[Files], JournalView], lsn: int
) -> None:
    def read(files: Files) -> tuple[list[int], list[Damage]]:
        live, reading = LiveSet(), view(files)
        for _ in live.follow(reading):
            pass
        return list(live.items), reading.damages

    for journal in wherever_a_daemon_goes_on(lsn, read):
        assert read(journal.disk) == (LIVE, [])


def test_without_a_change_the_journal_is_as_the_drawing_shows() -> None:
    for make in VIEWS.values():
        live, read = LiveSet(), make(Written().disk)
        assert [record.lsn for record in live.follow(read)][-8:] == list(range(5, 13))
        assert list(live.items) == LIVE
    report = check_journal(Written().disk, FOLDER)
    assert (report.damages, list(report.unreadable), report.items) == ([], [], len(LIVE))
