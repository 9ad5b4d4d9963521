"""The readers that a journal names: fan-out children by number, and where each begins.

    READER number 1 "audit" ──▶ records with the reader 1 are those of `orders+audit`
    READER number 1, stops  ──▶ the child is gone, with all that it had
    READER number 0, stops  ──▶ from here on the queue's own consumers get no new items
    READER number 0, again  ──▶ it was deleted and made again: they get new items

A number may be given again once no record that a start reads names its first child. So the child of
a record follows from its number and from the READER record before it (`ReaderNumbers`).

One rule: a reader whose name is in no record is shown as its number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from journal.format import STOPS, Kind, Record, Tag, decode_meta
from journal.snapshot import Snapshot

if TYPE_CHECKING:
    from kestrelpy.spark.files.frame_headers import FrameHeaders

OWN: Final = 0  # the queue's own consumers
_NUMBER_BITS: Final = 16  # of a reader's number in a record
NUMBERS: Final = (1 << _NUMBER_BITS) - 1


class ReaderName(NamedTuple):
    """A READER record, or the same from a snapshot (`lsn` 0).

    The child `name` sees items after the `floor`, and none that was put before the record.
    """

    number: int
    name: str
    lsn: int
    floor: int
    stops: bool


class RecordedChild(NamedTuple):
    """A fan-out child in a journal's records. `stopped_lsn` 0: it is still there.

    `reader` is its number or, if that was given again, one that no other child has.
    """

    number: int
    name: str
    named_lsn: int
    floor: int
    stopped_lsn: int
    reader: int


class ReaderNumbers:
    """Which of several children with one number a record belongs to."""

    def __init__(self, reader_names: Iterable[ReaderName], last: int | None = None) -> None:
        """Take the reader names up to the lsn `last`."""
        self._lsns: dict[int, list[int]] = {}
        for each in reader_names:
            if each.number and each.lsn and not each.stops and (last is None or each.lsn <= last):
                self._lsns.setdefault(each.number, []).append(each.lsn)
        for lsns in self._lsns.values():
            lsns.sort()

    def reader(self, number: int, lsn: int) -> int:
        """Return `RecordedChild.reader`: the number itself if none got it after `lsn`."""
        lsns = self._lsns.get(number, ())
        return number | (len(lsns) - bisect_right(lsns, lsn)) << _NUMBER_BITS

    def given_again(self) -> set[int]:
        """Return the numbers that two or more children had."""
        return {number for number, lsns in self._lsns.items() if len(lsns) > 1}


def reader_names_in(headers: FrameHeaders) -> list[ReaderName]:
    """Return the reader names in some records."""
    which = headers.kind == Kind.READER
    if not which.any():
        return []
    found = headers.pick(which)
    numbers = (found.reader, found.lsn, found.number, found.small)
    rows = zip(*(each.tolist() for each in numbers), found.metas, strict=True)
    return [
        ReaderName(number, _text(meta.get(Tag.NAME)), lsn, floor, small == STOPS)
        for number, lsn, floor, small, meta in rows
    ]


def reader_names_among(records: Iterable[Record]) -> list[ReaderName]:
    """Return the same for records one by one."""
    return [
        ReaderName(r.reader, _text(decode_meta(r.meta).get(Tag.NAME)), r.lsn, r.number,
               r.small == STOPS)
        for r in records
        if r.kind == Kind.READER
    ]  # fmt: skip


def reader_names_of(snapshot: Snapshot) -> list[ReaderName]:
    """Return the reader names in a snapshot."""
    found = [ReaderName(OWN, "", 0, 0, True)] if snapshot.passes_on else []
    found += [ReaderName(r.number, _text(r.name), 0, r.floor, False) for r in snapshot.readers]
    return found


def in_order(reader_names: Iterable[ReaderName]) -> tuple[ReaderName, ...]:
    """Return each name once, by lsn; a record replaces the snapshot's entry for it."""
    known = set(reader_names)
    recorded = {each.number for each in known if each.lsn and (each.stops == (not each.number))}
    chosen = [each for each in known if each.lsn or each.number not in recorded]
    return tuple(sorted(chosen, key=lambda each: (each.lsn, each.number)))


def children(reader_names: Sequence[ReaderName], last: int | None = None) -> list[RecordedChild]:
    """Return the children by number, as of the lsn `last`; with one number, the oldest first."""
    reader_numbers, found = ReaderNumbers(reader_names, last), list[RecordedChild]()
    newest: dict[int, int] = {}  # where in `found`
    for each in reader_names:
        if each.number == OWN or (last is not None and each.lsn > last):
            continue
        at = newest.get(each.number)
        if at is not None and (each.lsn or each.stops) and not found[at].stopped_lsn:
            found[at] = found[at]._replace(stopped_lsn=each.lsn)
        if not each.stops and (at is None or each.lsn):
            newest[each.number] = len(found)
            reader = reader_numbers.reader(each.number, each.lsn)
            found.append(RecordedChild(each.number, each.name, each.lsn, each.floor, 0, reader))
    return sorted(found, key=lambda child: child.number)


def passed_on(reader_names: Sequence[ReaderName]) -> list[tuple[int, int | None, int]]:
    """Return the spans of lsns in which the queue's own consumers got no new items.

    A span is its first lsn, its end (None: it goes on), and the item after which it counts. An item
    put in a span is for the children, or discarded at once.
    """
    spans: list[tuple[int, int | None, int]] = []
    for each in reader_names:
        if each.number != OWN:
            continue
        is_on = bool(spans) and spans[-1][1] is None
        if each.stops and not is_on:
            spans.append((each.lsn, None, each.floor))
        elif not each.stops and is_on:
            spans[-1] = (spans[-1][0], each.lsn, spans[-1][2])
    return spans


def names(reader_names: Sequence[ReaderName]) -> dict[int, str]:
    """Return the children's names, by `RecordedChild.reader`."""
    return {each.reader: each.name for each in children(reader_names) if each.name}


def _text(name: int | bytes | None) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else ""
