"""Which readers a journal names: fan-out children by their numbers, and what each begins with.

    READER number 1 "audit" ──▶ records with the reader 1 are those of `orders+audit`
    READER number 1, stops  ──▶ it is gone, with all that it had
    READER number 0, stops  ──▶ from here on the queue's own line takes nothing of what is put

A number may be given again when nothing that a start reads tells of its first child any more: whose
a record is follows from its number and from which naming stands before it (`Turns`).

One rule: what nothing names any more is shown as its number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta
from journal.format.record import Record
from journal.format.subscription_state import STOPS
from journal.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from kestrelpy.spark.files.frame_headers import Heads

OWN: Final = 0  # the queue's own line
_NUMBER_BITS: Final = 16  # of a reader's number in a record
NUMBERS: Final = (1 << _NUMBER_BITS) - 1


class Naming(NamedTuple):
    """A READER record, or what a snapshot says in its place (`lsn` 0).

    The child `name` sees items behind the `floor`, and none that was put before the record.
    """

    number: int
    name: str
    lsn: int
    floor: int
    stops: bool


class Child(NamedTuple):
    """A fan-out child as a journal tells of it. `stopped_lsn` 0: it is there.

    `reader` is its number, or, if that was given again, one that no other child has.
    """

    number: int
    name: str
    named_lsn: int
    floor: int
    stopped_lsn: int
    reader: int


class Turns:
    """Which child of a number a record is of."""

    def __init__(self, namings: Iterable[Naming], last: int | None = None) -> None:
        """As of the lsn `last`."""
        self._lsns: dict[int, list[int]] = {}
        for each in namings:
            if each.number and each.lsn and not each.stops and (last is None or each.lsn <= last):
                self._lsns.setdefault(each.number, []).append(each.lsn)
        for lsns in self._lsns.values():
            lsns.sort()

    def reader(self, number: int, lsn: int) -> int:
        """`Child.reader` of a record: the number, if it was not given again behind this lsn."""
        lsns = self._lsns.get(number, ())
        return number | (len(lsns) - bisect_right(lsns, lsn)) << _NUMBER_BITS

    def given_again(self) -> set[int]:
        """The numbers that two children had, or more."""
        return {number for number, lsns in self._lsns.items() if len(lsns) > 1}


def namings_in(heads: Heads) -> list[Naming]:
    """Those among some records."""
    which = heads.kind == Kind.READER
    if not which.any():
        return []
    found = heads.pick(which)
    numbers = (found.reader, found.lsn, found.number, found.small)
    rows = zip(*(each.tolist() for each in numbers), found.metas, strict=True)
    return [
        Naming(number, _text(meta.get(Tag.NAME)), lsn, floor, small == STOPS)
        for number, lsn, floor, small, meta in rows
    ]


def namings_among(records: Iterable[Record]) -> list[Naming]:
    """The same, of records one by one."""
    return [
        Naming(r.reader, _text(decode_meta(r.meta).get(Tag.NAME)), r.lsn, r.number,
               r.small == STOPS)
        for r in records
        if r.kind == Kind.READER
    ]  # fmt: skip


def namings_of(snapshot: Snapshot) -> list[Naming]:
    """Those that a snapshot knows."""
    found = [Naming(OWN, "", 0, 0, True)] if snapshot.passes_on else []
    found += [Naming(r.number, _text(r.name), 0, r.floor, False) for r in snapshot.readers]
    return found


def in_order(namings: Iterable[Naming]) -> tuple[Naming, ...]:
    """Each once; where a record is kept, what a snapshot says in its place is not needed."""
    known = set(namings)
    told = {each.number for each in known if each.lsn and (each.stops == (not each.number))}
    kept = [each for each in known if each.lsn or each.number not in told]
    return tuple(sorted(kept, key=lambda each: (each.lsn, each.number)))


def children(namings: Sequence[Naming], last: int | None = None) -> list[Child]:
    """By number, as of the lsn `last`; of those of one number the first comes first."""
    turns, found = Turns(namings, last), list[Child]()
    newest: dict[int, int] = {}  # where in `found`
    for each in namings:
        if each.number == OWN or (last is not None and each.lsn > last):
            continue
        at = newest.get(each.number)
        if at is not None and (each.lsn or each.stops) and not found[at].stopped_lsn:
            found[at] = found[at]._replace(stopped_lsn=each.lsn)
        if not each.stops and (at is None or each.lsn):
            newest[each.number] = len(found)
            reader = turns.reader(each.number, each.lsn)
            found.append(Child(each.number, each.name, each.lsn, each.floor, 0, reader))
    return sorted(found, key=lambda child: child.number)


def passed_on(namings: Sequence[Naming]) -> list[tuple[int, int | None, int]]:
    """From which lsn to which the queue's own line took nothing (None: it goes on), and behind
    which item: what was put then is for others, or discarded at once."""
    spans: list[tuple[int, int | None, int]] = []
    for each in namings:
        if each.number != OWN:
            continue
        is_on = bool(spans) and spans[-1][1] is None
        if each.stops and not is_on:
            spans.append((each.lsn, None, each.floor))
        elif not each.stops and is_on:
            spans[-1] = (spans[-1][0], each.lsn, spans[-1][2])
    return spans


def names(namings: Sequence[Naming]) -> dict[int, str]:
    """The children's names, by `Child.reader`."""
    return {each.reader: each.name for each in children(namings) if each.name}


def _text(name: int | bytes | None) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else ""
