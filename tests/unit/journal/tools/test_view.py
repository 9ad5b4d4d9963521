"""Reading a journal without owning it: stopped, damaged, and while it is being written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

import journal.tools.view

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from journal.errors import JournalError
from journal.files import Disk, Files
from journal.format.checkpoint import Checkpoint
from journal.format.describe import sentence
from journal.format.kinds import Kind
from journal.format.record import HEADER_BYTES, Draft
from journal.format.segment import FILE_HEADER_BYTES, segment_name
from journal.tools.view import JournalView, read_journal
from journal.write.segment_file import Sizes
from journal.write.writer import Journal
from tests.golden.build import GOLDEN
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, SegmentBuilder, draft

WRITER_TURNS = 1500
OPENING = Checkpoint(name=b"jobs", generation=3)


def put(item: int, body: bytes = b"x") -> Draft:
    return draft(Kind.PUT, item, item, 0, body)


def segments_of(count: int = 3, closed: bool = True) -> list[SegmentBuilder]:
    """`count` segments with two puts each, the last one closed as a journal is when it stops."""
    segments = []
    lsn = 1
    for number in range(1, count + 1):
        one = SegmentBuilder(number, 2048, lsn, OPENING)
        one.batch(put(lsn), put(lsn + 1), synced=lsn - 1)
        lsn += 2
        if number < count:
            one.seal(live=2)
        elif closed:
            one.batch(synced=lsn - 1)
        segments.append(one)
    return segments


def on_disk(folder: Path, segments: list[SegmentBuilder]) -> str:
    for one in segments:
        one.write_to(folder)
    return str(folder)


def lsns(view: JournalView) -> list[int]:
    return [r.lsn for r in view.records()]


class WatchedDisk:
    """The real disk; `on_read` may change files, or what is read, before a whole file is read."""

    def __init__(self, on_read: Callable[[str, int, bytes], bytes]) -> None:
        self._disk = Disk()
        self._on_read = on_read
        self.reads: dict[str, int] = {}

    def names(self, folder: str) -> list[str]:
        return self._disk.names(folder)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def mode(self, path: str) -> int:
        return self._disk.mode(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if size >= 0:
            return self._disk.read(path, offset, size)
        name = Path(path).name
        self.reads[name] = self.reads.get(name, 0) + 1
        return self._on_read(name, self.reads[name], self._disk.read(path))


def watched(on_read: Callable[[str, int, bytes], bytes]) -> Files:
    return cast(Files, WatchedDisk(on_read))


# -- a stopped journal ---------------------------------------------------------------------------


@pytest.mark.parametrize("live", [False, True])
def test_a_stopped_journal_is_read_whole(tmp_path: Path, live: bool) -> None:
    view = read_journal(Disk(), on_disk(tmp_path / "jobs.3", segments_of()), live)
    assert lsns(view) == [1, 2, 3, 4, 5, 6]
    assert view.clean
    assert (view.damages, view.torn, view.records_behind_sync) == ([], [], 0)
    assert (view.name, view.generation, view.segment_count) == (b"jobs", 3, 3)
    assert (view.lsn_next, view.lsn_synced, view.count) == (7, 6, 6)
    assert view.identity == IDENTITY


def test_reading_changes_nothing(tmp_path: Path) -> None:
    folder = on_disk(tmp_path, segments_of(closed=False))
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    for live in (False, True):
        lsns(read_journal(Disk(), folder, live))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_stopped_journal_whose_end_was_not_synced_is_not_clean(tmp_path: Path) -> None:
    folder = on_disk(tmp_path, segments_of(closed=False))
    view = read_journal(Disk(), folder)
    assert lsns(view) == [1, 2, 3, 4, 5, 6]
    assert not view.clean
    assert view.records_behind_sync == 2
    assert view.damages == []


def test_a_folder_without_segments_is_an_empty_journal(tmp_path: Path) -> None:
    view = read_journal(Disk(), str(tmp_path / "none.1"))
    assert lsns(view) == []
    assert (view.name, view.generation, view.lsn_next, view.clean) == (b"none", 1, 1, True)


@pytest.mark.parametrize("live", [False, True])
def test_a_damaged_record_is_named_and_the_rest_is_read(tmp_path: Path, live: bool) -> None:
    segments = segments_of()
    first = FILE_HEADER_BYTES + 300
    segments[1].data[first] ^= 0xFF
    view = read_journal(Disk(), on_disk(tmp_path, segments), live)
    told = lsns(view)
    assert len(told) == 5
    assert [d.kind for d in view.damages] == ["corrupt"]
    assert not view.clean
    (damage,) = view.damages
    assert damage.path.endswith(segment_name(2))
    assert {1, 2, 3, 4, 5, 6} - set(told) <= set(range(damage.lsn_first, damage.lsn_last + 1))


@pytest.mark.parametrize("live", [False, True])
def test_a_missing_segment_in_the_middle_is_damage(tmp_path: Path, live: bool) -> None:
    segments = segments_of()
    folder = on_disk(tmp_path, [segments[0], segments[2]])
    view = read_journal(Disk(), folder, live)
    assert lsns(view) == [1, 2, 5, 6]
    assert [(d.kind, d.lsn_first, d.lsn_last) for d in view.damages] == [("truncated", 3, 4)]


def test_a_tail_written_anew_supersedes_the_old_one(tmp_path: Path) -> None:
    segments = segments_of(2, closed=False)
    anew = SegmentBuilder(3, 2048, 3, OPENING)
    anew.batch(put(3, b"anew"), put(4, b"anew"), synced=2)
    view = read_journal(Disk(), on_disk(tmp_path, [*segments, anew]))
    assert [sentence(r) for r in view.records()] == [
        "put 1 x", "put 2 x", "put 3 anew", "put 4 anew",
    ]  # fmt: skip


def test_the_golden_journal_ends_torn_and_says_so() -> None:
    view = read_journal(Disk(), str(GOLDEN / "v1" / "jobs.1"))
    assert lsns(view) == list(range(1, 18))
    assert [d.kind for d in view.torn] == ["torn"]
    assert view.damages == []
    assert not view.clean


def test_the_queue_is_named_by_its_journal_before_its_folder(tmp_path: Path) -> None:
    view = read_journal(Disk(), on_disk(tmp_path / "copy-of-jobs", segments_of()))
    assert (view.name, view.generation) == (b"copy-of-jobs", 0)
    lsns(view)
    assert (view.name, view.generation) == (b"jobs", 3)


# -- a daemon is writing -------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 40, HEADER_BYTES, HEADER_BYTES + 1, 2 * HEADER_BYTES - 1])
def test_a_batch_half_written_is_the_end_for_now(tmp_path: Path, cut: int) -> None:
    one = SegmentBuilder(1, 2048, 1, OPENING)
    one.batch(put(1))
    end = one.at
    one.batch(put(2, b"to come"), synced=1)
    one.data[end + cut :] = bytes(len(one.data) - end - cut)
    view = read_journal(Disk(), on_disk(tmp_path, [one]), live=True)
    assert lsns(view) == [1]
    assert view.damages == []
    assert view.clean


def test_a_segment_sealed_beforehand_is_read_once_and_the_active_one_twice(tmp_path: Path) -> None:
    disk = WatchedDisk(lambda name, nth, data: data)
    view = read_journal(cast(Files, disk), on_disk(tmp_path, segments_of()), live=True)
    assert lsns(view) == [1, 2, 3, 4, 5, 6]
    assert disk.reads == {segment_name(1): 1, segment_name(2): 1, segment_name(3): 2}


def test_a_batch_that_came_just_after_the_reading_is_no_hole(tmp_path: Path) -> None:
    """The first reading passes where record 2 will be, and finds 3 further on, which says
    that 2 is synced: not damage, and 2 is told."""
    one = SegmentBuilder(1, 4096, 1, OPENING)
    one.batch(put(1))
    missed = one.at
    one.batch(put(2), synced=1)
    later = one.at
    one.batch(put(3), synced=2)

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        return data[:missed] + bytes(later - missed) + data[later:] if nth == 1 else data

    view = read_journal(watched(on_read), on_disk(tmp_path, [one]), live=True)
    assert lsns(view) == [1, 2, 3]
    assert (view.damages, view.torn) == ([], [])


def test_what_came_just_after_the_second_reading_is_left_for_the_next_time(tmp_path: Path) -> None:
    one = SegmentBuilder(1, 4096, 1, OPENING)
    one.batch(put(1))
    first_end = one.at
    one.batch(put(2), synced=1)
    later = one.at
    one.batch(put(3), synced=2)

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        if nth == 1:
            return data[:first_end] + bytes(len(data) - first_end)
        return data[:first_end] + bytes(later - first_end) + data[later:]

    view = read_journal(watched(on_read), on_disk(tmp_path, [one]), live=True)
    assert lsns(view) == [1]
    assert (view.damages, view.torn) == ([], [])


def test_a_body_that_looks_like_a_frame_does_not_hide_the_record_it_is_in(tmp_path: Path) -> None:
    needle = SHORT_IDENTITY.to_bytes(4, "little") + (1).to_bytes(4, "little")
    one = SegmentBuilder(1, 4096, 1, OPENING)
    one.batch(put(1), put(2))
    damaged = one.at + HEADER_BYTES
    one.batch(put(3), put(4, b"behold: " + needle * 3), synced=2)
    end = one.at
    one.batch(put(5), synced=4)
    one.data[damaged + 20] ^= 0xFF

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        return data[:end] + bytes(len(data) - end) if nth == 1 else data

    view = read_journal(watched(on_read), on_disk(tmp_path, [one]), live=True)
    assert lsns(view) == [1, 2, 4, 5]
    assert [(d.kind, d.lsn_first, d.lsn_last) for d in view.damages] == [("corrupt", 3, 3)]


def test_a_segment_removed_under_our_feet_was_done_with(tmp_path: Path) -> None:
    segments = segments_of(5)
    folder = on_disk(tmp_path, segments)

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        if name == segment_name(1):  # while it is read, the daemon reclaims it and the next two
            for number in (1, 2, 3):
                (tmp_path / segment_name(number)).unlink(missing_ok=True)
        return data

    view = read_journal(watched(on_read), folder, live=True)
    assert lsns(view) == [1, 2, 7, 8, 9, 10]
    assert view.damages == []
    assert view.clean


def test_segments_removed_between_their_listing_and_a_look_are_no_links_to_nothing(
    tmp_path: Path
) -> None:
    folder = on_disk(tmp_path, segments_of(5))

    class Removing(WatchedDisk):
        def size(self, path: str) -> int:
            for number in (1, 2, 3):  # the daemon reclaims them
                (tmp_path / segment_name(number)).unlink(missing_ok=True)
            return super().size(path)

    view = read_journal(cast(Files, Removing(lambda *read: read[-1])), folder, live=True)
    assert lsns(view) == [7, 8, 9, 10]
    assert view.damages == []


def test_no_record_is_read_twice_when_the_reading_starts_again(tmp_path: Path) -> None:
    segments = segments_of(5)
    folder = on_disk(tmp_path, segments)

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        if name == segment_name(2):
            (tmp_path / segment_name(3)).unlink(missing_ok=True)
            (tmp_path / segment_name(1)).unlink(missing_ok=True)
        return data

    view = read_journal(watched(on_read), folder, live=True)
    told = lsns(view)
    assert told[:4] == [1, 2, 3, 4]
    assert len(told) == len(set(told))


def test_a_stopped_journal_that_changes_meanwhile_is_an_error(tmp_path: Path) -> None:
    folder = on_disk(tmp_path, segments_of())

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        (tmp_path / segment_name(2)).unlink(missing_ok=True)
        return data

    with pytest.raises(JournalError, match=r"0000000002\.segment: removed while it was read"):
        lsns(read_journal(watched(on_read), folder))


def test_a_reader_that_is_overtaken_again_and_again_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal.tools.view, "RESTARTS_MAX", 3)
    folder = on_disk(tmp_path, segments_of())

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        raise FileNotFoundError(2, "gone", name)

    with pytest.raises(JournalError, match="removed 3 times while they were read"):
        lsns(read_journal(watched(on_read), folder, live=True))


@pytest.mark.parametrize("live", [False, True])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, live: bool) -> None:
    folder = on_disk(tmp_path, segments_of())

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        raise OSError(13, "Permission denied", name)

    with pytest.raises(JournalError, match=r"0000000003\.segment: Permission denied"):
        lsns(read_journal(watched(on_read), folder, live))


@pytest.mark.parametrize("live", [False, True])
def test_a_file_that_the_disk_does_not_give_is_damage_and_the_others_are_read(
    tmp_path: Path, live: bool
) -> None:
    folder = on_disk(tmp_path, segments_of())

    def on_read(name: str, nth: int, data: bytes) -> bytes:
        if "0000000002" in name:
            raise OSError(5, "Input/output error", name)
        return data

    view = read_journal(watched(on_read), folder, live)
    assert lsns(view) == [1, 2, 5, 6]
    (damage,) = view.damages
    assert damage.path.endswith("0000000002.segment")
    assert (damage.kind, damage.lsn_first, damage.lsn_last) == ("corrupt", 3, 4)
    assert damage.reason == "reading failed: Input/output error"


@pytest.mark.slow
def test_readers_beside_a_real_writer_see_every_record_once_and_no_damage(tmp_path: Path) -> None:
    """Rotating, syncing and reclaiming at full speed in another thread."""
    folder = str(tmp_path / "jobs.1")
    disk = Disk()
    sizes = Sizes(segment_min=8 << 10, segment_max=16 << 10)
    writer = Journal(disk, folder, IDENTITY, sizes, lambda: OPENING)
    stop = threading.Event()
    written = [0]

    def write() -> None:
        for turn in range(1, WRITER_TURNS):
            if stop.is_set():
                return
            for _ in range(3):
                lsn = writer.append(put(turn, b"y" * (turn % 90)))
                writer.append(draft(Kind.DONE, turn, 1, 1)._replace(put_lsn=lsn))
            if writer.wants_preallocation:
                order = writer.begin_preallocation(turn)
                writer.finish_preallocation(order, order.prepare(disk))
            writer.write(turn)
            job = writer.begin_sync()
            if job is not None:
                job.run()
                writer.finish_sync(None)
            written[0] = writer.commit.lsn_written
            for path in writer.take_dead([]):
                disk.remove(path)

    thread = threading.Thread(target=write)
    thread.start()
    views = last = 0
    try:
        while thread.is_alive():
            before = written[0]
            view = read_journal(disk, folder, live=True)
            told = lsns(view)
            assert view.damages == []
            assert told == sorted(set(told))
            assert view.lsn_next > before
            assert view.lsn_next > last
            last = view.lsn_next - 1
            views += 1
    finally:
        stop.set()
        thread.join()
    writer.close(0)
    view = read_journal(disk, folder, live=True)
    assert lsns(view)[-1] == writer.commit.lsn_durable
    assert views > 0
