"""An observer reads the items there, in order, from any item on, whatever the pieces. Damaged puts
are passed over, and items that are gone are not read.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.files import Files
from journal.format.kinds import Kind, Tag
from journal.format.meta import encode_meta
from journal.format.record import Draft, encode
from journal.read.range_scan import Put, PutPlace, RangeScan, TimeSearch
from journal.sets.id_set import IdSet
from journal.write.segment_file import Sizes
from tests.support.journals import TIME_MS, TINY, Writer, filled, fresh, start
from tests.support.memory_disk import MemoryDisk

LARGER = Sizes(segment_min=16 << 10, segment_max=16 << 10, batch_max=1 << 20)
PLENTY = 1 << 40


@pytest.fixture(params=[64, 200, 1000, 1 << 18])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Frames lie over the borders of pieces in any way, and orders end anywhere."""
    for name in ("range_scan.PIECE_BYTES", "range_scan.PIECE_BYTES_OF_ONE", "seek.PIECE_BYTES"):
        monkeypatch.setattr(f"journal.read.{name}", request.param)
    monkeypatch.setattr("journal.read.seek._WINDOW_BYTES", max(request.param, 128))
    monkeypatch.setattr("journal.read.range_scan.WALKED_BYTES_MAX", 3 * request.param)
    monkeypatch.setattr("journal.read.range_scan.NEAR_ITEMS", 5)
    monkeypatch.setattr("journal.read.range_scan._SPAN", 1)
    return int(request.param)


def live_of(writer: Writer) -> IdSet:
    live = IdSet()
    for item in sorted(writer.queue.live):
        live.add(item)
    return live


def bodies_of(writer: Writer) -> dict[int, bytes]:
    """Return the bodies of the live items, as a start finds them."""
    disk = writer.journal.files
    assert isinstance(disk, MemoryDisk)
    records = start(disk.kill_clone()).records
    return {r.item: r.body for r in records if r.kind == Kind.PUT and r.item in writer.queue.live}


def scan_all(
    writer: Writer, first: int = 1, most: int = 3, bytes_most: int = PLENTY, last: int = PLENTY,
    files: Files | None = None,
) -> list[Put]:  # fmt: skip
    """Read as an observer that goes on from its last place."""
    found: list[Put] = []
    place: PutPlace | None = None
    live = live_of(writer)
    for _ in range(100_000):
        item = live.first_from(first)
        if not item:
            return found
        made = RangeScan.of(writer.journal, place, item, last, live, most, bytes_most)
        if made is None:
            return found
        got = made.run(files or writer.journal.files)
        assert len(got.puts) <= most
        assert got.seen >= item or got.place != place, "it gets on"
        found += got.puts
        place = got.place
        first = got.seen + 1
    raise AssertionError("it does not come to an end")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_what_is_there_comes_in_sequence_from_any_item_on(piece: int, seed: int, most: int) -> None:
    writer = filled(40, seed)
    bodies = bodies_of(writer)
    for first in (1, 2, 7, 20, 39, 40):
        found = scan_all(writer, first, most)
        assert [(put.id, put.body) for put in found] == [
            each for each in sorted(bodies.items()) if each[0] >= first
        ]


@pytest.mark.parametrize("largest", [50, 3000, 12_000])
def test_the_place_is_found_between_small_and_large_bodies(piece: int, largest: int) -> None:
    writer = filled(150, 3, LARGER, largest)
    bodies = bodies_of(writer)
    for first in range(1, 151, 13):
        item = live_of(writer).first_from(first)
        place: PutPlace | None = None
        for _ in range(10_000):
            made = RangeScan.of(writer.journal, place, item, PLENTY, live_of(writer), 1, PLENTY)
            assert made is not None
            got = made.run(writer.journal.files)
            if got.puts:
                break
            place = got.place
        assert [(put.id, put.body) for put in got.puts] == [(item, bodies[item])]


def test_a_range_ends_before_its_bytes_do_but_has_one_item() -> None:
    writer = fresh(MemoryDisk(), LARGER)
    writer.put_all(b"x" * 50, b"y" * 49, b"z" * 200, b"1")
    sizes = []
    first = 1
    while first <= 4:
        made = RangeScan.of(writer.journal, None, first, PLENTY, live_of(writer), 9, 99)
        assert made is not None
        got = made.run(writer.journal.files)
        sizes.append([len(put.body) for put in got.puts])
        first = got.seen + 1
    assert sizes == [[50, 49], [200], [1]]


def test_nothing_behind_the_last_wanted_item_is_read() -> None:
    writer = filled(40)
    found = scan_all(writer, 1, 100, last=17)
    assert [put.id for put in found] == [i for i in sorted(writer.queue.live) if i <= 17]
    assert RangeScan.of(writer.journal, None, 18, 17, live_of(writer), 9, PLENTY) is None


def test_a_place_in_the_segment_that_is_written_goes_on_with_what_came() -> None:
    writer = fresh(MemoryDisk(), LARGER)
    writer.put_all(b"one")
    made = RangeScan.of(writer.journal, None, 1, PLENTY, live_of(writer), 9, PLENTY)
    assert made is not None
    place = made.run(writer.journal.files).place
    writer.put_all(b"two", b"three")
    made = RangeScan.of(writer.journal, place, 2, PLENTY, live_of(writer), 9, PLENTY)
    assert made is not None
    assert made.start == place.offset
    assert [put.body for put in made.run(writer.journal.files).puts] == [b"two", b"three"]


def test_the_observer_gets_all_that_a_put_says() -> None:
    writer = fresh(MemoryDisk(), LARGER)
    meta = encode_meta({Tag.EXPIRES_MS: TIME_MS + 7, Tag.CLIENT: b"me"})
    writer.journal.append(Draft(Kind.PUT, 1, 1, 42, TIME_MS + 1, meta, b"body", 0, 0))
    writer.queue.live[1] = 1
    writer.commit()
    assert scan_all(writer) == [
        Put(1, 1, 42, TIME_MS + 1, b"body", TIME_MS + 7, texts=((Tag.CLIENT, b"me"),))
    ]


def test_frames_of_this_journal_in_a_body_are_no_frames(piece: int) -> None:
    writer = fresh(MemoryDisk(), LARGER)
    frames: list[bytes] = []
    forged = Draft(Kind.PUT, 1, 1, 0, TIME_MS, b"", b"forged", 0, 0)
    for segment in range(1, 4):
        for offset in range(64, 800, 8):
            encode(forged, 1, writer.journal.short_identity, segment, offset, frames)
    for n in range(20):
        writer.put_all(b"".join(frames)[n * 700 : n * 700 + 2000])
    assert [put.id for put in scan_all(writer)] == list(range(1, 21))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_damaged_is_passed_over_and_the_rest_comes(piece: int, seed: int) -> None:
    writer, random = filled(40, seed), Random(seed)
    bodies = bodies_of(writer)
    disk = writer.journal.files
    assert isinstance(disk, MemoryDisk)
    damaged = disk.kill_clone()
    segment = random.choice(writer.journal.segments[:-1])
    at = random.randrange(200, segment.capacity - 600)
    length = random.choice((1, 8, 100))
    damaged.damage(segment.path, at, random.randbytes(length))
    found = {put.id: put.body for put in scan_all(writer, files=damaged)}
    assert found.items() <= bodies.items()
    lost = sorted(bodies.keys() - found.keys())
    assert all(segment.item_first <= item <= segment.item_last for item in lost)
    assert len(lost) <= 1 + length // 64 + 1


def test_a_file_that_ends_early_is_passed_over() -> None:
    writer = filled(40)
    bodies = bodies_of(writer)
    disk = writer.journal.files
    assert isinstance(disk, MemoryDisk)
    short = disk.kill_clone()
    segment = writer.journal.segments[0]
    short.truncate(segment.path, 300)
    found = {put.id: put.body for put in scan_all(writer, files=short)}
    assert found.keys() >= {item for item in bodies if item > segment.item_last}


def test_what_newer_segments_say_again_is_read_there() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, LARGER)
    writer.put_all(b"one", b"two")
    writer.put(b"three")
    writer.write()  # and not synced: a start writes it again
    again = start(disk.kill_clone(), LARGER)
    again.put_all(b"four")
    assert len(again.journal.segments) == 2
    found = scan_all(again)
    assert [put.body for put in found] == [b"one", b"two", b"three", b"four"]


# -- by time ------------------------------------------------------------------------------------


def timed(times: list[int], sizes: Sizes = TINY) -> Writer:
    """A journal with a put at each of these times."""
    writer = fresh(MemoryDisk(), sizes)
    for item, time_ms in enumerate(times, 1):
        body = b"x" * (item * 37 % 300)
        writer.journal.append(Draft(Kind.PUT, item, item, 0, time_ms, b"", body, 0, 0))
        writer.queue.live[item] = item
        writer.queue.next_item = item + 1
        writer.commit()
    return writer


def first_since(writer: Writer, since_ms: int) -> int:
    """The first item that an observer sees; 0: none."""
    search = TimeSearch.of(writer.journal, since_ms)
    assert isinstance(search, TimeSearch)
    item = search.run(writer.journal.files)
    live = live_of(writer)
    place: PutPlace | None = None
    for _ in range(10_000):
        item = live.first_from(item)
        if not item:
            return 0
        made = RangeScan.of(writer.journal, place, item, PLENTY, live, 1, PLENTY, since_ms)
        assert isinstance(made, RangeScan)
        got = made.run(writer.journal.files)
        if got.puts:
            return got.puts[0].id
        item, place = got.seen + 1, got.place
    raise AssertionError("it does not come to an end")


@pytest.mark.parametrize("sizes", [TINY, LARGER])
def test_the_first_item_since_a_time_is_found(piece: int, sizes: Sizes) -> None:
    random = Random(3)
    times = sorted(random.randrange(1000, 1400) for _ in range(60))
    writer = timed(times, sizes)
    for since_ms in (1, 999, *range(1000, 1410, 7), 5000):
        expected = next((i for i, t in enumerate(times, 1) if t >= since_ms), 0)
        assert first_since(writer, since_ms) == expected


def test_once_an_item_is_late_enough_the_next_ones_come_whatever_their_time() -> None:
    writer = timed([10, 20, 30, 15, 40], LARGER)
    made = RangeScan.of(writer.journal, None, 1, PLENTY, live_of(writer), 9, PLENTY, 25)
    assert made is not None
    assert [put.id for put in made.run(writer.journal.files).puts] == [3, 4, 5]


def test_an_empty_journal_has_nothing_to_scan() -> None:
    writer = fresh(MemoryDisk())
    assert RangeScan.of(writer.journal, None, 1, PLENTY, IdSet(), 9, PLENTY) is None
    assert TimeSearch.of(writer.journal, 5).run(writer.journal.files) == 1


def test_a_journal_knows_the_last_item_that_is_durable() -> None:
    writer = fresh(MemoryDisk())
    commit = writer.journal.commit
    writer.put(b"one")
    assert (commit.item_written, commit.item_durable) == (0, 0)
    writer.write()
    assert (commit.item_written, commit.item_durable) == (1, 0)
    job = writer.journal.begin_sync()
    writer.put(b"two")
    writer.write()
    assert job is not None
    job.run()
    writer.journal.finish_sync(None)
    assert (commit.item_written, commit.item_durable) == (2, 1)
    writer.done(1)
    writer.commit()
    assert (commit.item_written, commit.item_durable) == (2, 2)


def test_an_item_whose_sync_failed_is_never_durable() -> None:
    writer = fresh(MemoryDisk())
    writer.put(b"one")
    writer.write()
    writer.journal.begin_sync()
    writer.journal.finish_sync(OSError(5, "Input/output error"))
    assert writer.journal.commit.item_durable == 0
