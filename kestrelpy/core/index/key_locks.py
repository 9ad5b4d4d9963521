"""The key locks: for each key value, the item that holds it and the items that wait for it.

    value A    3 │ 7  9 12 ...        3 is first for A and holds it: it is leased, or will be soon
    value B    7                      7 waits for A and keeps its place on B
    value C    5 │ 12                 12 waits for A and for C

An item claims all its values when it comes to the front of the ready list. If it is the first for
each of them it may be leased. Else it is *blocked*: out of the ready list, in the rows of the
values that other items hold. With `pair` a key is one value; with `any` each of its values is one.
When an item ends, its values pass to the next items; an item that is then first for all its values
is unblocked.

An item whose key is in the log alone is found by its id. Of an item that is first for values,
`_held` has these; of a blocked item, `_line` has the numbers of its rows, by place, 20 bytes each.

    held   3: A   5: C   7: B         line   (7, row of A) (9, row of A) (12, row of A) (12, of C)

One rule: an item keeps its claims, in their order, until it ends: no nack, no delay and no peek
changes which item is first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from journal.format import split
from journal.sets import IdSet
from kestrelpy.core.index.sorted_table import CHUNK_ENTRIES, ENTRY, DueTimes, place_in
from kestrelpy.core.trash import SMALL, Trash

_ENTRY_BYTES: Final = ENTRY.size
_CHUNK_BYTES: Final = CHUNK_ENTRIES * _ENTRY_BYTES
_MERGED_BYTES: Final = _CHUNK_BYTES // 2  # two neighbours up to this size together become one
_WITHOUT_SIZE: Final = 16  # bytes of an entry's place and id

Blocked = tuple[int, int, int]  # id, place, bytes of its body
Values = bytes | tuple[bytes, ...]  # the key of an item, with `any` those of its values it holds


class KeyLine:
    """The item that holds a value, and the items that wait for it: 20 bytes each, in the order in
    which they came.

    They are in chunks that never change: a new entry replaces the last one, one that leaves
    replaces its own. So each step costs a chunk at most, and a copy shares all of them. Places
    rise, as an item claims its values when it is the first of the ready list.

    `number` names the row among those that items wait in. `since`: how many copies of all rows were
    taken before this one could be changed.
    """

    __slots__ = ("_at", "_chunks", "_count", "holder", "number", "since")

    def __init__(self, holder: int, number: int = 0, since: int = 0) -> None:
        self.holder = holder
        self.number = number
        self.since = since
        self._chunks: list[bytes] = []  # of `ENTRY`: place, id, size
        self._at = 0  # the entries of the first chunk before it are gone
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Blocked]:
        """Yield the waiting items in order."""
        at = self._at
        for chunk in self._chunks:
            for place, id_, size in ENTRY.iter_unpack(chunk[at:]):
                yield id_, place, size
            at = 0

    def copy(self, since: int) -> KeyLine:
        """Return an independent copy. This is fast: the copy shares the chunks."""
        other = KeyLine(self.holder, self.number, since)
        other._chunks, other._at, other._count = self._chunks[:], self._at, self._count
        return other

    def first(self) -> Blocked:
        """Return the item that has waited longest. The caller knows that there is one."""
        place, id_, size = ENTRY.unpack_from(self._chunks[0], self._at)
        return id_, place, size

    def add(self, id_: int, place: int, body_bytes: int) -> None:
        """Add a waiting item behind all others."""
        entry, chunks = ENTRY.pack(place, id_, body_bytes), self._chunks
        self._count += 1
        if chunks and len(chunks[-1]) < _CHUNK_BYTES:
            chunks[-1] += entry
        else:
            chunks.append(entry)

    def pop(self) -> Blocked:
        """Pass the value to the item that has waited longest, and return that item."""
        first = self.first()
        self.holder = first[0]
        self.drop_first()
        return first

    def drop_first(self) -> None:
        """Remove the item that has waited longest."""
        self._at += _ENTRY_BYTES
        self._count -= 1
        if self._at == len(self._chunks[0]):
            del self._chunks[0]
            self._at = 0

    def remove(self, id_: int, place: int) -> int:
        """Remove a waiting item; return the size of its body, -1: it did not wait."""
        found = self._find(id_, place)
        if found is None:
            return -1
        number, at = found
        chunks, chunk = self._chunks, self._chunks[number]
        size: int = ENTRY.unpack_from(chunk, at)[2]
        if number == 0 and at == self._at:
            self.drop_first()
            return size
        self._count -= 1
        left = chunk[self._at if number == 0 else 0 : at] + chunk[at + _ENTRY_BYTES :]
        if number == 0:
            self._at = 0
        if number + 1 < len(chunks) and len(left) + len(chunks[number + 1]) <= _MERGED_BYTES:
            left += chunks.pop(number + 1)
        if number and len(chunks[number - 1]) + len(left) <= _MERGED_BYTES:
            chunks[number - 1] += left
            left = b""
        if left:
            chunks[number] = left
        else:
            del chunks[number]
        return size

    def _find(self, id_: int, place: int) -> tuple[int, int] | None:
        """Return the number of the chunk with an item, and the offset in it; None: it is absent."""
        chunks, wanted = self._chunks, ENTRY.pack(place, id_, 0)
        if chunks and self._is_at(0, self._at, wanted):
            return 0, self._at
        number = bisect_right(chunks, wanted[:_WITHOUT_SIZE], key=_where) - 1
        if number >= 0:
            at = place_in(chunks[number], wanted)
            if self._is_at(number, at, wanted):
                return number, at
        return self._search(wanted)

    def _search(self, wanted: bytes) -> tuple[int, int] | None:
        """As `_find`, one entry after the other: for items that came in another order."""
        for number, chunk in enumerate(self._chunks):
            at = chunk.find(wanted[:_WITHOUT_SIZE])
            while at >= 0:
                if at % _ENTRY_BYTES == 0 and self._is_at(number, at, wanted):
                    return number, at
                at = chunk.find(wanted[:_WITHOUT_SIZE], at + 1)
        return None

    def _is_at(self, number: int, at: int, wanted: bytes) -> bool:
        is_here = self._chunks[number].startswith(wanted[:_WITHOUT_SIZE], at)
        return is_here and (number > 0 or at >= self._at)


def _where(chunk: bytes) -> bytes:
    """Return the place and the id of a chunk's first entry."""
    return chunk[:_WITHOUT_SIZE]


class _Before:
    """The rows from before a flush; the claims of the items in `stay` hold.

    A look at a value takes its row out of here, and the trash takes out one after the other.
    """

    __slots__ = ("_held", "_locks", "_rows", "stay")

    def __init__(
        self,
        locks: KeyLocks,
        rows: dict[bytes, int | KeyLine],
        held: dict[int, Values],
        stay: IdSet,
    ) -> None:
        self._locks = locks
        self._rows = rows
        self._held = held
        self.stay = stay

    def __len__(self) -> int:
        return len(self._rows) + len(self._held)

    @property
    def value_count(self) -> int:
        """The number of values whose rows are here."""
        return len(self._rows)

    def pop(self) -> None:
        """Take out the next row; after the last one, what the next item held."""
        if self._rows:
            self._pass(*self._rows.popitem())
        else:
            self._held.popitem()

    def bring(self, value: bytes) -> None:
        """Take out the row of this value, if it is here."""
        row = self._rows.pop(value, None)
        if row is not None:
            self._pass(value, row)

    def held(self, id_: int) -> tuple[bytes, ...]:
        """Return the values that an item held; some of them may not be here any more."""
        values = self._held.get(id_, ())
        return (values,) if isinstance(values, bytes) else values

    def holders(self) -> Iterator[int]:
        """Yield the items that held a value and stay."""
        return (id_ for id_ in self._held if id_ in self.stay)

    def all(self) -> Iterator[tuple[bytes, int]]:
        """Yield each value with its holder; 0: no item has it."""
        for value, row in self._rows.items():
            holder = row if isinstance(row, int) else row.holder
            yield value, holder if holder in self.stay else 0

    def _pass(self, value: bytes, row: int | KeyLine) -> None:
        holder = row if isinstance(row, int) else row.holder
        if holder in self.stay:
            self._locks._rows[value] = holder
            self._locks._hold(holder, value)
        if not self._rows:
            self._locks._forget(self)


class KeyLocks:
    """The claims of one subscription's items. `matches_any`: one common value is a match.

    `blocked` are the ids of the items that wait for others, `blocked_bytes` the size of their
    bodies.
    """

    __slots__ = (
        "_before", "_copies", "_free", "_held", "_line", "_more", "_named", "_placed", "_rows",
        "blocked", "blocked_bytes", "matches_any",
    )  # fmt: skip

    def __init__(self, matches_any: bool = False) -> None:
        self.matches_any = matches_any
        # By value. A row that no item waits in is stored as the id of its holder alone.
        self._rows: dict[bytes, int | KeyLine] = {}
        self._held: dict[int, Values] = {}  # by item: the values that it is first for
        # Rows from before a flush of many keys. A value is in one of them or in `_rows`.
        self._before: list[_Before] = []
        self._more: dict[int, int] = {}  # items that wait for several values, and for how many
        self._line = DueTimes()  # of blocked items: place, id and the number of a row
        self._placed = DueTimes()  # of blocked items whose place is not their id: id, place and 0
        self._named: list[bytes] = []  # by the number of a row: its value
        self._free: list[int] = []  # numbers that no row has
        self._copies = 0  # of the rows: a row that one of them shares is replaced, not changed
        self.blocked = IdSet()
        self.blocked_bytes = 0

    @property
    def blocked_values(self) -> int:
        """The number of values that an item waits for."""
        return len(self._named) - len(self._free)

    @property
    def in_id_order(self) -> bool:
        """True if each blocked item waits for one value, at the place that is its id."""
        return not (self._placed.count or self.matches_any)

    def clear(self, trash: Trash) -> None:
        """Remove all claims."""
        trash.take(self._rows, self._held)
        self._rows, self._held = {}, {}
        for before in self._before:
            before.stay = IdSet()
        self._before.clear()
        self._block_none(trash)

    def retain_only(self, stay: IdSet, trash: Trash) -> None:
        """Remove all claims but those of the items `stay`; none of these items is blocked.

        It looks at a few rows at most. `trash` passes the others on in slices; a row that is needed
        before that is passed on when its value is looked up.
        """
        for earlier in self._before:
            earlier.stay = stay
        before = _Before(self, self._rows, self._held, stay)
        self._rows, self._held = {}, {}
        while len(before) and len(before) <= SMALL:
            before.pop()
        if before.value_count:
            self._before.append(before)
        trash.take(before)
        self._block_none(trash)

    def _block_none(self, trash: Trash) -> None:
        trash.take(self._more, self._named)
        self._more, self._named, self._free = {}, [], []
        self._line.clear()
        self._placed.clear()
        self.blocked, self.blocked_bytes = IdSet(), 0

    def _bring(self, values: tuple[bytes, ...]) -> None:
        """Have the rows of these values among the others."""
        for before in self._before[:]:
            for value in values:
                before.bring(value)

    def _forget(self, before: _Before) -> None:
        if before in self._before:
            self._before.remove(before)

    def __len__(self) -> int:
        """Return the number of values, those included that a flush has freed not long ago."""
        return len(self._rows) + sum(before.value_count for before in self._before)

    def values(self, key: bytes) -> tuple[bytes, ...]:
        """Return the values that an item with this key claims."""
        return tuple(dict.fromkeys(split(key))) if self.matches_any else (key,)

    def holder(self, value: bytes) -> int:
        """Return the item that is first for this value; 0: none is."""
        if self._before:
            self._bring((value,))
        row = self._rows.get(value, 0)
        return row if isinstance(row, int) else row.holder

    def blocker(self, id_: int, key: bytes) -> tuple[bytes, int] | None:
        """Return a value that another item holds, and that item; None: nothing blocks `id_`."""
        for value in self.values(key):
            holder = self.holder(value)
            if holder not in (0, id_):
                return value, holder
        return None

    def take(self, id_: int, key: bytes) -> bool:
        """Give an item its key, if it does not hold it already; False: another item holds it."""
        if not self.matches_any:
            if self._before:
                self._bring((key,))
            row = self._rows.setdefault(key, id_)
            if row == id_ or (not isinstance(row, int) and row.holder == id_):
                self._held[id_] = key
                return True
            return False
        if self.blocker(id_, key) is not None:
            return False
        values = self._held[id_] = self.values(key)
        for value in values:
            self._rows.setdefault(value, id_)
        return True

    def claim(self, id_: int, place: int, body_bytes: int, key: bytes) -> bool:
        """Claim the values of the item at the front.

        Return True if the item may be leased; else it is blocked from now on.
        """
        if self.matches_any:
            if self.take(id_, key):
                return True
            waits = 0
            for value in self.values(key):
                if self._stand(value, id_, place, body_bytes):
                    waits += 1
                else:
                    self._hold(id_, value)
            if waits > 1:
                self._more[id_] = waits
        elif not self._stand(key, id_, place, body_bytes):
            self._held[id_] = key
            return True
        self.blocked.add(id_)
        if place != id_:
            self._placed.add(id_, place, 0)
        self.blocked_bytes += body_bytes
        return False

    def _stand(self, value: bytes, id_: int, place: int, body_bytes: int) -> bool:
        """Give an item the value, or add it to the value's row; True if it waits there."""
        if self._before:
            self._bring((value,))
        rows = self._rows
        row = rows.setdefault(value, id_)
        if (row if isinstance(row, int) else row.holder) == id_:
            return False
        if isinstance(row, int):
            row = rows[value] = KeyLine(row, self._name(value), self._copies)
        else:
            row = self._own(value, row)
        row.add(id_, place, body_bytes)
        self._line.add(place, id_, row.number)
        return True

    def _name(self, value: bytes) -> int:
        """Return a number for the row of this value: an item waits in it from now on."""
        if self._free:
            number = self._free.pop()
            self._named[number] = value
            return number
        self._named.append(value)
        return len(self._named) - 1

    def _hold(self, id_: int, value: bytes) -> None:
        """Note that an item is first for this value."""
        if not self.matches_any:
            self._held[id_] = value
            return
        held = self._held.get(id_, ())
        if isinstance(held, tuple) and value not in held:
            self._held[id_] = (*held, value)

    def _own(self, value: bytes, row: KeyLine) -> KeyLine:
        """Return the row of this value, to be changed: no copy of the rows has it."""
        if row.since != self._copies:
            row = self._rows[value] = row.copy(self._copies)
        return row

    def hold(self, id_: int, key: bytes) -> None:
        """Give an item those values of its key that no other item holds: it had them before."""
        values = self.values(key)
        if self._before:
            self._bring(values)
        for value in values:
            if self._rows.setdefault(value, id_) == id_:
                self._hold(id_, value)

    def end(self, id_: int, key: bytes, body_bytes: int) -> list[Blocked]:
        """End the claims of an item; return the items that this unblocks, out of their rows."""
        if not self.matches_any and self._rows.get(key) == id_:
            del self._rows[key]
            self._held.pop(id_, None)
            return []
        return self._end(id_, self.values(key), body_bytes)

    def end_unknown(self, id_: int, body_bytes: int) -> list[Blocked]:
        """`end` an item whose key cannot be read any more."""
        values = [self._named[number] for number in self._rows_of(id_)]
        return self._end(id_, (*values, *self._held_by(id_)), body_bytes)

    def _held_by(self, id_: int) -> tuple[bytes, ...]:
        """Return the values that an item is first for, and have their rows among the others."""
        for before in self._before[:]:
            self._bring(before.held(id_))
        values = self._held.get(id_, ())
        return (values,) if isinstance(values, bytes) else values

    def _place_of(self, id_: int) -> int:
        """Return the place of a blocked item."""
        found = self._placed.of(id_) if self._placed.count else []
        return found[0][1] if found else id_

    def _rows_of(self, id_: int) -> list[int]:
        """Return the numbers of the rows that an item waits in."""
        if id_ not in self.blocked:
            return []
        return [number for _, other, number in self._line.of(self._place_of(id_)) if other == id_]

    def leave(self, ids: IdSet) -> tuple[dict[int, int], list[Blocked]]:
        """Remove the blocked items among `ids`.

        Return the removed items with the bytes of their bodies, and the unblocked items as in
        `end`: with `any`, an item that waits for one value may hold others.
        """
        gone, held = dict[int, int](), list[bytes]()
        for id_ in ids.both(self.blocked):
            place, size = self._place_of(id_), 0
            for number in self._rows_of(id_):
                value = self._named[number]
                row = self._rows[value]
                assert not isinstance(row, int)
                size = self._leave_row(value, self._own(value, row), id_, place)
            gone[id_] = size
            held += self._held_by(id_)
            self._held.pop(id_, None)
            self._more.pop(id_, None)
            self._unblock(id_, place, size)
        freed = list[Blocked]()
        for value in held:
            row = self._rows[value]
            if isinstance(row, int):
                del self._rows[value]
            else:
                self._hand_on(value, self._own(value, row), freed)
        freed.sort(key=lambda each: each[1])
        return gone, freed

    def leave_first(self, below: int) -> dict[int, int]:
        """Remove the blocked items with a place below this, and look at no others; return them with
        the bytes of their bodies. Each item waits for one value: its key."""
        gone: dict[int, int] = {}
        while (oldest := self.oldest()) is not None and oldest[0][1] < below:
            (id_, place, size), value = oldest
            row = self._rows[value]
            assert not (isinstance(row, int) or self.matches_any)
            self._leave_row(value, self._own(value, row), id_, place)
            gone[id_] = size
            self._unblock(id_, place, size)
        return gone

    def _leave_row(self, value: bytes, row: KeyLine, id_: int, place: int) -> int:
        """Remove a waiting item from a row; return the size of its body, -1: it did not wait."""
        size = row.remove(id_, place)
        self._line.discard(place, id_, row.number)
        if not row:
            self._dissolve(value, row)
        return size

    def _hand_on(self, value: bytes, row: KeyLine, freed: list[Blocked]) -> None:
        """Pass a value to the first item in the row; add it to `freed` if it waits for no more."""
        id_, place, size = first = row.pop()
        self._line.discard(place, id_, row.number)
        self._hold(id_, value)
        if not row:
            self._dissolve(value, row)
        if self._has_all(id_):
            freed.append(first)
            self._unblock(id_, place, size)

    def holders(self, among: IdSet) -> list[int]:
        """Return those of these items that are first for a value."""
        held = self._held
        if among.count < len(held):
            found = {id_ for id_ in among if id_ in held}
        else:
            found = {id_ for id_ in held if id_ in among}
        for before in self._before:
            found.update(id_ for id_ in before.holders() if id_ in among)
        return sorted(found)

    def rows(self) -> list[int | KeyLine]:
        """Return the rows as they are now; a value that no item waits for is its holder's id. A row
        that changes later is replaced, so this list stays as it is, and its length costs little."""
        if not self.blocked_values:
            return []
        self._copies += 1
        return [*self._rows.values()]

    def some(self, start: int, most: int) -> list[tuple[bytes, int, int]]:
        """Return values from this position on, `most` at most, each with the item that holds it
        (0: a flush has freed it) and the number of items that wait for it."""
        rows = chain(self._rows.items(), *(before.all() for before in self._before))
        return [
            (value, row, 0) if isinstance(row, int) else (value, row.holder, len(row))
            for value, row in islice(rows, start, start + most)
        ]

    def oldest(self) -> tuple[Blocked, bytes] | None:
        """Return the blocked item with the lowest place, and a value that it waits for."""
        first = self._line.first()
        if first is None:
            return None
        place, id_, number = first
        value = self._named[number]
        row = self._rows[value]
        assert not isinstance(row, int)
        return (id_, place, row.first()[2]), value

    def _dissolve(self, value: bytes, row: KeyLine) -> None:
        """Store the id of the holder alone: no item waits in the row any more."""
        self._rows[value] = row.holder
        self._named[row.number] = b""
        self._free.append(row.number)
        if len(self._free) == len(self._named):
            self._free.clear()
            self._named.clear()

    def _end(self, id_: int, values: tuple[bytes, ...], body_bytes: int) -> list[Blocked]:
        if self._before:
            self._bring(values)
        rows, freed = self._rows, list[Blocked]()
        place = self._place_of(id_) if id_ in self.blocked else 0
        for value in values:
            row = rows.get(value)
            if row is None:
                continue
            if isinstance(row, int):
                if row == id_:
                    del rows[value]
            elif row.holder == id_:
                self._hand_on(value, self._own(value, row), freed)
            elif place:
                self._leave_row(value, self._own(value, row), id_, place)
        self._held.pop(id_, None)
        if place:
            self._more.pop(id_, None)
            self._unblock(id_, place, body_bytes)
        freed.sort(key=lambda each: each[1])
        return freed

    def _has_all(self, id_: int) -> bool:
        """Count one value more for a waiting item; True if it waits for none now."""
        waits = self._more.pop(id_, 1) - 1
        if waits > 1:
            self._more[id_] = waits
        return waits == 0

    def _unblock(self, id_: int, place: int, body_bytes: int) -> None:
        """Count out an item that has left its rows."""
        self.blocked.discard(id_)
        if place != id_:
            self._placed.discard(id_, place, 0)
        self.blocked_bytes -= body_bytes
