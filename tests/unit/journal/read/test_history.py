"""The records about one item are found in a log of any length, each once and in order."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

import pytest

from journal.format.describe import sentence
from journal.format.kinds import Kind
from journal.format.record import Draft
from journal.read import ItemHistory
from journal.tools.view import JournalView
from journal.write.segment_file import Sizes
from tests.support.journals import FOLDER, TIME_MS, Writer, fresh
from tests.support.memory_disk import MemoryDisk

SMALL = Sizes(segment_min=16 << 10, segment_max=16 << 10, batch_max=1 << 20)


def read(writer: Writer, item: int) -> tuple[list[str], int, bool]:
    """Return all records of an item as sentences, the number of reads, and whether all is read."""
    disk, found, count, is_whole = writer.journal.files, list[str](), 0, True
    place = None
    while True:
        history = ItemHistory.of(writer.journal, item, place)
        assert history is not None
        told = history.run(disk)
        found += [sentence(each, 0) for each in told.records]
        count, is_whole = count + 1, is_whole and not history.is_after_gap
        place = history.next_place(writer.journal, told)
        if place is None:
            return found, count, is_whole


def a_log(count: int, seed: int) -> Writer:
    """Return a log with many items; some of them are done."""
    random, writer = Random(seed), fresh(MemoryDisk(), SMALL)
    for _ in range(count):
        writer.put(random.randbytes(random.randrange(400)))
        if random.random() < 0.4:
            writer.done(random.choice(sorted(writer.queue.live)))
        if random.random() < 0.2:
            writer.commit()
    writer.commit()
    return writer


def said_of(writer: Writer, item: int) -> list[str]:
    """All records about the item, from a reader of whole journals."""
    view = JournalView(writer.journal.files, FOLDER, live=True)
    return [sentence(each, 0) for each in view.records() if each.item == item]


@pytest.mark.parametrize("piece", [200, 1000, 1 << 20])
@pytest.mark.parametrize("stretch", [300, 8 << 20])
def test_every_record_of_an_item_is_found_once_and_in_sequence(
    monkeypatch: pytest.MonkeyPatch, piece: int, stretch: int
) -> None:
    monkeypatch.setattr("journal.read.history.PIECE_BYTES", piece)
    monkeypatch.setattr("journal.read.history.STRETCH_BYTES", stretch)
    writer = a_log(200, 3)
    assert len(writer.journal.segments) > 3
    for item in (1, 2, 77, 150, 200):
        expected = said_of(writer, item)
        assert expected[0].startswith(f"put {item}")
        found, count, is_whole = read(writer, item)
        assert found == expected
        assert is_whole
        assert count > 3 or item > 77


def test_a_record_of_many_items_is_found_if_it_may_be_about_this_one() -> None:
    writer = fresh(MemoryDisk(), SMALL)
    for _ in range(4):
        writer.put(b"x")
    entries = b"".join(struct.pack("<QQII", item, 5, 1, 0) for item in (1, 3))
    for kind, item, number, body in (
        (Kind.FLUSHED, 1, 0, b""), (Kind.FLUSHED, 2, 0, b""), (Kind.FLUSHED, 3, 0, b""),
        (Kind.UPTO, 0, 1, b""), (Kind.UPTO, 0, 9, b""), (Kind.DONE_MANY, 0, 0, entries),
    ):  # fmt: skip
        writer.journal.append(Draft(kind, item, number, 0, TIME_MS, b"", body, 0, 0))
    writer.commit()

    assert read(writer, 2)[0] == ["put 2 ... (1 bytes)", "flushed 2", "upto marker 9"]
    assert read(writer, 3)[0] == [
        "put 3 ... (1 bytes)", "flushed 3", "upto marker 9", "done many 0 entries",
    ]  # fmt: skip


def test_an_item_with_many_records_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.read.history.RECORDS_MAX", 3)
    writer = fresh(MemoryDisk(), SMALL)
    writer.put(b"x")
    for number in range(10):
        writer.journal.append(Draft(Kind.RETURNED, 1, 0, number, TIME_MS, b"", b"", 0, 0))
    writer.commit()

    found, count, _ = read(writer, 1)
    assert found == said_of(writer, 1)
    assert count == 4


def test_a_log_that_lost_a_segment_says_so() -> None:
    writer = a_log(200, 4)
    middle = writer.journal.segments[2]
    writer.journal.segment_list.segments.remove(middle)
    first = next(i for i in range(1, 200) if writer.journal.segments[0].item_last >= i)
    assert read(writer, first)[2] is False


def test_there_is_no_history_of_an_unknown_item_or_place() -> None:
    writer = a_log(3, 5)
    assert ItemHistory.of(writer.journal, 99, None) is None
    assert ItemHistory.of(writer.journal, 1, (99, 64)) is None


def test_a_place_within_a_record_finds_the_next_whole_one() -> None:
    writer = a_log(20, 6)
    number = writer.journal.segments[0].number
    history = ItemHistory.of(writer.journal, 20, (number, 72))
    assert history is not None
    told = history.run(writer.journal.files)
    assert [sentence(each, 0) for each in told.records] == said_of(writer, 20)


def test_records_that_a_newer_segment_repeats_are_handed_out_once() -> None:
    writer = fresh(MemoryDisk(), SMALL)
    writer.put(b"x")
    again = writer.journal.append(Draft(Kind.RETURNED, 1, 0, 1, TIME_MS, b"", b"", 0, 0))
    writer.commit()

    history = ItemHistory.of(writer.journal, 1, None)
    assert history is not None
    told = replace(history, limit=again).run(writer.journal.files)
    assert [sentence(each, 0) for each in told.records] == ["put 1 ... (1 bytes)"]
