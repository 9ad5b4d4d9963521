"""Planted losses in the files of a journal: for each variant one journal, and one that holds.

Each story here has a journal of its own, and names the rules that it breaks together: in a damaged
file records are missing as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from journal.files import Disk
from journal.format.record import HEADER_BYTES
from journal.format.segment import segment_name
from journal.tools.view import read_journal
from tests.support.journals import TINY
from tests.unit.spark.jobs.audit.test_audit_readers import retained, retained_and_gone
from tests.unit.spark.jobs.books import Book, Pen
from tests.unit.spark.jobs.planted_items import ENDS, LIVES, then

Make = Callable[[Path, str], object]


@dataclass(frozen=True)
class FileCase:
    """`broken`: all rules that the audit names, and how often (0: that is no matter)."""

    rule: str
    variant: str
    breach: Make
    legal: Make
    broken: tuple[tuple[str, int], ...]
    line: str = ""

    @property
    def queue(self) -> str:
        """The name of the queue with the breach."""
        return f"{self.rule}-file-{self.variant}".replace(" ", "_").replace(",", "")


# -- damage in files ------------------------------------------------------------------------------


def segment_of(folder: Path, lsn: int) -> Path:
    """The file that has this record."""
    records = read_journal(Disk(), str(folder)).records()
    return folder / segment_name(next(r.segment for r in records if r.lsn == lsn))


def flip(folder: Path, *lsns: int) -> None:
    """Change one byte of each of these records."""
    records = [r for r in read_journal(Disk(), str(folder)).records() if r.lsn in lsns]
    assert len(records) == len(lsns)
    for record in records:
        path = folder / segment_name(record.segment)
        data = bytearray(path.read_bytes())
        data[record.offset + HEADER_BYTES] ^= 1
        path.write_bytes(data)


def coming_back(queue: str, times: int = 40) -> Book:
    """Few items, and many records of their lives."""
    book = Book(queue)
    item = book.line.put()
    for _ in range(times):
        book.line.back(item)
    return book


def whole(data: Path, queue: str) -> Path:
    return coming_back(queue).save(data, TINY)


def in_the_middle(data: Path, queue: str) -> None:
    segment_of(whole(data, queue), 20).unlink()


def two_in_the_middle(data: Path, queue: str) -> None:
    folder = whole(data, queue)
    for lsn in (12, 30):
        segment_of(folder, lsn).unlink()


def at_the_front(data: Path, queue: str) -> None:
    """Remove the first segment; all of its items are done."""
    folder = gone_by(data, queue, 0)
    assert not (folder / segment_name(1)).exists()


def behind_a_snapshot(data: Path, queue: str) -> None:
    """Remove the last segment, so that records which the newest snapshot includes are missing."""
    book = coming_back(queue)
    book.at_last(lambda line: None)
    folder = book.save(data, TINY)
    segment_of(folder, len(book.drafts)).unlink()


def with_a_snapshot(data: Path, queue: str) -> None:
    book = coming_back(queue)
    book.at_last(lambda line: None)
    book.save(data, TINY)


def flipped(data: Path, queue: str) -> None:
    flip(whole(data, queue), 20)


def flipped_at_the_end(data: Path, queue: str) -> None:
    """Nobody knows that it was synced: it is torn."""
    book = coming_back(queue)
    flip(book.save(data, TINY, is_killed=True), len(book.drafts))


def cut_short(data: Path, queue: str) -> None:
    path = segment_of(whole(data, queue), 20)
    path.write_bytes(path.read_bytes()[:600])


def cut_short_at_the_end(data: Path, queue: str) -> None:
    book = coming_back(queue)
    folder = book.save(data, TINY, is_killed=True)
    records = [*read_journal(Disk(), str(folder)).records()]
    path, stop = segment_of(folder, records[-1].lsn), records[-1].offset + 10
    data = path.read_bytes()
    path.write_bytes(data[:stop] + bytes(len(data) - stop))


def beside_a_stranger(data: Path, queue: str) -> None:
    """Put a segment of another journal into the folder."""
    other = coming_back(f"{queue}-other").save(data, TINY)
    folder = whole(data, queue)
    (folder / segment_name(99)).write_bytes((other / segment_name(2)).read_bytes())


# -- numbers --------------------------------------------------------------------------------------


def left_out(count: int, *around: Callable[[Pen], object]) -> Make:
    """Leave out `count` numbers; the acts `around` happen before."""

    def make(data: Path, queue: str) -> None:
        book = Book(queue, "audit")
        for act in around:
            book.own.put()
            act(book.own)
        book.own.put()
        for _ in range(count):
            book.number()
        book.own.put()
        book.save(data)

    return make


def of_child(pen: Pen) -> None:
    """Give an item of the child alone a number of the queue."""
    Pen(pen.book, 1).put_own()


def redriven(pen: Pen) -> None:
    then(Pen.die, Pen.redrive)(pen)


def released(pen: Pen) -> None:
    pen.release(pen.put(is_due=False))


def jumped(is_said: bool) -> Make:
    """Lose a number at each kill; the next segment goes on after it, and says so if `is_said`."""

    def make(data: Path, queue: str) -> None:
        book = Book(queue)
        book.body = bytes(1500)  # one in each segment
        book.jump = int(is_said)
        for _ in range(4):
            book.own.put()
            book.number()
        book.save(data, TINY)

    return make


# -- sums -----------------------------------------------------------------------------------------


def gone_by(data: Path, queue: str, lie: int, flushes: bool = False) -> Path:
    """Confirm all items of the first segment, and remove the segment. The next one says at its
    opening that there were `lie` more items."""
    book = Book(queue)
    book.lie = lie
    items = [book.own.put() for _ in range(20)]
    if flushes:
        book.own.flush(*items)
    else:
        for item in items:
            book.own.done(item)
    book.own.put()
    folder = book.save(data, TINY)
    (folder / segment_name(1)).unlink()
    return folder


def lying(lie: int) -> Make:
    return lambda data, queue: gone_by(data, queue, lie)


def flushed(data: Path, queue: str) -> None:
    gone_by(data, queue, 0, True)


def gone_too_soon(data: Path, queue: str) -> None:
    """Remove the first segment; no later record ends its items."""
    book = Book(queue)
    for _ in range(20):
        book.own.put()
    (book.save(data, TINY) / segment_name(1)).unlink()


# -- puts -----------------------------------------------------------------------------------------


def unreadable(line: str, is_damaged: bool = True) -> Make:
    """Items of whose lives some records are there, and not their puts."""

    def make(data: Path, queue: str) -> None:
        book = Book(queue, "audit" if line else "")
        book.own.put()
        acts = (ENDS | LIVES).values()
        lsns, items = [], []
        for _ in acts:
            items.append(book.own.put())
            lsns.append(len(book.drafts))
        for item, act in zip(items, acts, strict=True):
            act(book.line, item)
        folder = book.save(data)
        if is_damaged:
            flip(folder, *lsns)

    return make


# -- the table ------------------------------------------------------------------------------------


def cases() -> Iterator[FileCase]:
    one, two = ((("record_missing", count), ("damage", 0)) for count in (1, 2))
    rule = "record_missing"
    yield FileCase(rule, "a segment in the middle", in_the_middle, whole, one)
    yield FileCase(rule, "a segment, others from the front", in_the_middle, at_the_front, one)
    yield FileCase(rule, "two segments", two_in_the_middle, whole, two)
    yield FileCase(rule, "what a snapshot knows", behind_a_snapshot, with_a_snapshot,
                   (("record_missing", 1),))  # fmt: skip
    both = (("record_missing", 1), ("damage", 1))
    yield FileCase("damage", "in a record", flipped, flipped_at_the_end, both)
    yield FileCase("damage", "a file cut short", cut_short, cut_short_at_the_end, both)
    yield FileCase("damage", "in a record, others strange", flipped, beside_a_stranger, both)
    rule, skipped = "number_skipped", (("number_skipped", 1),)
    yield FileCase(rule, "one", left_out(1), left_out(0), skipped)
    yield FileCase(rule, "three", left_out(3), left_out(0), skipped)
    for name, act in (("redriven", redriven), ("released", released), ("of a child", of_child)):
        yield FileCase(rule, f"one, others {name}", left_out(1, act), left_out(0, act), skipped)
    yield FileCase(rule, "one, others over a start", jumped(False), jumped(True),
                   (("number_skipped", 3),))  # fmt: skip
    sums = (("sum", 1),)
    yield FileCase("sum", "one of the opening is missing", lying(1), lying(0), sums)
    yield FileCase("sum", "one of the opening too many", lying(-1), lying(0), sums)
    yield FileCase("sum", "too many, others flushed", lying(-1), flushed, sums)
    yield FileCase("sum", "a segment went too soon", gone_too_soon, lying(0), sums)
    lost = tuple((name, 0) for name in ("record_missing", "damage", "sum"))
    for line in ("", "+audit"):
        acts = (("put_lost", len(ENDS | LIVES)),)
        yield FileCase("put_lost", f"its record is damaged{line}", unreadable(line),
                       unreadable(line, False), (*acts, *(lost if not line else lost[2:])),
                       line)  # fmt: skip


CASES: Final = tuple(cases())
STORIES: Final = {"retained_gone": (retained_and_gone, retained)}
