"""The key locks: for each key value, the item that holds it and the items that wait for it.

    value A    3 │ 7  9 12 ...        3 is first for A and holds it: it is leased, or will be soon
    value B    7                      7 waits for A and keeps its place on B
    value C    5 │ 12                 12 waits for A and for C

An item claims all its values when it comes to the front of the ready list. If it is the first for
each of them it may be leased. Else it is *blocked*: out of the ready list, in the rows of the
values that other items hold. With `pair` a key is one value; with `any` each of its values is one.
When an item ends, its values pass to the next items; an item that is then first for all its values
is unblocked.

One rule: an item keeps its claims, in their order, until it ends: no nack, no delay and no peek
changes which item is first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from typing import Final

from journal.format import split
from journal.sets import IdSet
from kestrelpy.core.trash import SMALL, Trash

_FIELDS: Final = 3  # of an item that waits in a row: id, place, bytes of its body
_COMPACT_ABOVE: Final = 64 * _FIELDS

Blocked = tuple[int, int, int]  # id, place, bytes of its body


class Row:
    """The item that holds a value, and the items that wait for it: 24 bytes each, by place.

    `since`: how many copies of all rows were taken before this one could be changed.
    """

    __slots__ = ("_at", "_waiting", "holder", "since")

    def __init__(self, holder: int, since: int = 0) -> None:
        self.holder = holder
        self.since = since
        self._waiting = array("Q")
        self._at = 0  # the entries before it are gone

    def __len__(self) -> int:
        return (len(self._waiting) - self._at) // _FIELDS

    def __iter__(self) -> Iterator[Blocked]:
        """Yield the waiting items in order."""
        some = self._waiting[self._at :]
        return zip(some[::_FIELDS], some[1::_FIELDS], some[2::_FIELDS], strict=True)

    def copy(self, since: int) -> Row:
        """Return an independent copy."""
        other = Row(self.holder, since)
        other._waiting = self._waiting[self._at :]
        return other

    def first(self) -> Blocked:
        """Return the item that has waited longest."""
        id_, place, size = self._waiting[self._at : self._at + _FIELDS]
        return id_, place, size

    def first_place(self) -> int:
        """Return the place of that item."""
        return self._waiting[self._at + 1]

    def add(self, id_: int, place: int, body_bytes: int) -> None:
        """Add a waiting item behind all others."""
        self._waiting.extend((id_, place, body_bytes))

    def pop(self) -> Blocked:
        """Pass the value to the item that has waited longest, and return that item."""
        first = self.first()
        self.holder = first[0]
        self.drop_first()
        return first

    def drop_first(self) -> None:
        """Remove the item that has waited longest."""
        self._at += _FIELDS
        if self._at > _COMPACT_ABOVE and self._at * 2 > len(self._waiting):
            del self._waiting[: self._at]
            self._at = 0

    def remove(self, id_: int) -> bool:
        """Remove a waiting item; return False if it did not wait."""
        at = self._find(id_)
        if at < 0:
            return False
        if at == self._at:
            self._at += _FIELDS
        else:
            del self._waiting[at : at + _FIELDS]
        return True

    def leave(self, going: dict[int, int]) -> None:
        """Remove the waiting items `going`."""
        if going:
            stay = [number for each in self if each[0] not in going for number in each]
            self._waiting, self._at = array("Q", stay), 0

    def _find(self, id_: int) -> int:
        """Return the index of an item, -1 if absent. Ids rise, except those of delayed items."""
        waiting, low, high = self._waiting, self._at // _FIELDS, len(self._waiting) // _FIELDS
        if low < high and waiting[low * _FIELDS] == id_:
            return low * _FIELDS
        first, end = low, high
        while low < high:
            middle = (low + high) // 2
            if waiting[middle * _FIELDS] < id_:
                low = middle + 1
            else:
                high = middle
        if low < end and waiting[low * _FIELDS] == id_:
            return low * _FIELDS
        try:
            return (first + waiting[first * _FIELDS :: _FIELDS].index(id_)) * _FIELDS
        except ValueError:
            return -1


class _Before:
    """The rows from before a flush; the claims of the items in `stay` hold.

    A look at a value takes its row out of here, and the trash takes out one after the other.
    """

    __slots__ = ("_locks", "_rows", "stay")

    def __init__(self, locks: KeyLocks, rows: dict[bytes, int | Row], stay: IdSet) -> None:
        self._locks = locks
        self._rows = rows
        self.stay = stay

    def __len__(self) -> int:
        return len(self._rows)

    def pop(self) -> None:
        """Take out the next row."""
        self._pass(*self._rows.popitem())

    def bring(self, value: bytes) -> None:
        """Take out the row of this value, if it is here."""
        row = self._rows.pop(value, None)
        if row is not None:
            self._pass(value, row)

    def all(self) -> Iterator[tuple[bytes, int]]:
        """Yield each value with its holder; 0: no item has it."""
        for value, row in self._rows.items():
            holder = row if isinstance(row, int) else row.holder
            yield value, holder if holder in self.stay else 0

    def _pass(self, value: bytes, row: int | Row) -> None:
        holder = row if isinstance(row, int) else row.holder
        if holder in self.stay:
            self._locks._rows[value] = holder
        if not self._rows:
            self._locks._forget(self)


class KeyLocks:
    """The claims of one subscription's items. `matches_any`: one common value is a match.

    `blocked` are the ids of the items that wait for others, `blocked_bytes` the size of their
    bodies; `blocked_values` is the number of values that an item waits for. `moved` are the blocked
    items whose place is not their id.
    """

    __slots__ = (
        "_before", "_copies", "_heads", "_more", "_rows", "blocked", "blocked_bytes",
        "blocked_values", "matches_any", "moved",
    )  # fmt: skip

    def __init__(self, matches_any: bool = False) -> None:
        self.matches_any = matches_any
        # By value. A row that no item waits in is stored as the id of its holder alone.
        self._rows: dict[bytes, int | Row] = {}
        # Rows from before a flush of many keys. A value is in one of them or in `_rows`.
        self._before: list[_Before] = []
        self._more: dict[int, int] = {}  # items that wait for several values, and for how many
        # A heap of each row's first place with the row's value, and some outdated entries. None:
        # `oldest` has not been called yet.
        self._heads: list[tuple[int, bytes]] | None = None
        self._copies = 0  # of the rows: a row that one of them shares is replaced, not changed
        self.blocked = IdSet()
        self.moved = IdSet()
        self.blocked_bytes = 0
        self.blocked_values = 0

    def clear(self, trash: Trash) -> None:
        """Remove all claims."""
        trash.take(self._rows)
        self._rows = {}
        for before in self._before:
            before.stay = IdSet()
        self._before.clear()
        self._block_none(trash)

    def keep_only(self, stay: IdSet, trash: Trash) -> None:
        """Remove all claims but those of the items `stay`, none of which is blocked.

        It looks at no more than a few rows: `trash` passes the others on in slices, and until then
        each one when its value is looked for.
        """
        for earlier in self._before:
            earlier.stay = stay
        before, self._rows = _Before(self, self._rows, stay), {}
        while len(before) and len(before) <= SMALL:
            before.pop()
        if len(before):
            self._before.append(before)
            trash.take(before)
        self._block_none(trash)

    def _block_none(self, trash: Trash) -> None:
        trash.take(self._more)
        self._more, self._heads = {}, None
        self.blocked, self.moved = IdSet(), IdSet()
        self.blocked_bytes = self.blocked_values = 0

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
        return len(self._rows) + sum(map(len, self._before))

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
            return row == id_ or (not isinstance(row, int) and row.holder == id_)
        if self.blocker(id_, key) is not None:
            return False
        for value in self.values(key):
            self._rows.setdefault(value, id_)
        return True

    def claim(self, id_: int, place: int, body_bytes: int, key: bytes) -> bool:
        """Claim the values of the item at the front.

        Return True if the item may be leased; else it is blocked from now on.
        """
        if self.matches_any:
            if self.take(id_, key):
                return True
            waits = sum(self._stand(value, id_, place, body_bytes) for value in self.values(key))
            if waits > 1:
                self._more[id_] = waits
        elif not self._stand(key, id_, place, body_bytes):
            return True
        self.blocked.add(id_)
        if place != id_:
            self.moved.add(id_)
        self.blocked_bytes += body_bytes
        return False

    def _stand(self, value: bytes, id_: int, place: int, body_bytes: int) -> bool:
        """Give an item the value, or add it to the value's row; True if it waits there."""
        if self._before:
            self._bring((value,))
        rows = self._rows
        row = rows.setdefault(value, id_)
        if isinstance(row, int):
            if row == id_:
                return False
            row = rows[value] = Row(row, self._copies)
            row.add(id_, place, body_bytes)
            self.blocked_values += 1
            self._note_head(place, value)
            return True
        if row.holder == id_:
            return False
        self._own(value, row).add(id_, place, body_bytes)
        return True

    def _own(self, value: bytes, row: Row) -> Row:
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
            self._rows.setdefault(value, id_)

    def end(self, id_: int, key: bytes, body_bytes: int) -> list[Blocked]:
        """End the claims of an item; return the items that this unblocks, out of their rows."""
        if not self.matches_any and self._rows.get(key) == id_:
            del self._rows[key]
            return []
        return self._end(id_, self.values(key), body_bytes)

    def end_unknown(self, id_: int, body_bytes: int) -> list[Blocked]:
        """`end` an item whose key cannot be read any more; searches every row.

        (A KNOWN FLAW: with 100,000 keys that are taken it takes 10 ms for each item that only the
        log has and that is dropped to make room, or by a way of `upto`.)
        """
        values = [value for value in self._rows if self._is_in(id_, value)]
        values += [v for before in self._before for v, holder in before.all() if holder == id_]
        return self._end(id_, tuple(values), body_bytes)

    def leave(self, ids: IdSet) -> tuple[dict[int, int], list[Blocked]]:
        """Remove the blocked items among `ids`.

        Return the removed items with the bytes of their bodies, and the unblocked items as in
        `end`: with `any`, an item that waits for one value may hold others.
        """
        gone: dict[int, int] = {}
        for value, row in [*self._rows.items()]:
            if isinstance(row, int):
                continue
            going = {id_: size for id_, _, size in row if id_ in ids}
            if going:
                row = self._own(value, row)
                row.leave(going)
                gone |= going
                self._has_new_first(value, row)
        for id_, size in gone.items():
            self._more.pop(id_, None)
            self._unpark(id_, size)
        freed = self._pass_on(gone) if self.matches_any and gone else []
        return gone, freed

    def leave_first(self, below: int) -> dict[int, int]:
        """Remove the blocked items with a place below this, and look at no others; return them with
        the bytes of their bodies. Each item waits for one value: its key."""
        gone: dict[int, int] = {}
        while (oldest := self.oldest()) is not None and oldest[0][1] < below:
            (id_, _, size), value = oldest
            row = self._rows[value]
            assert not (isinstance(row, int) or self.matches_any)
            row = self._own(value, row)
            row.drop_first()
            gone[id_] = size
            self._has_new_first(value, row)
            self._unpark(id_, size)
        return gone

    def _pass_on(self, gone: dict[int, int]) -> list[Blocked]:
        """Pass the values that `gone` items hold to the next items; return the unblocked ones."""
        freed = list[Blocked]()
        for value, row in [*self._rows.items()]:
            if (row if isinstance(row, int) else row.holder) not in gone:
                continue
            if isinstance(row, int):
                del self._rows[value]
            else:
                row = self._own(value, row)
                self._hand_on(row, freed)
                self._has_new_first(value, row)
        freed.sort(key=lambda each: each[1])
        return freed

    def _hand_on(self, row: Row, freed: list[Blocked]) -> None:
        """Pass a value to the first item in the row; add it to `freed` if it waits for no more."""
        first = row.pop()
        if self._has_all(first[0]):
            freed.append(first)
            self._unpark(first[0], first[2])

    def holders(self, first: int, last: int) -> set[int]:
        """Return the items from `first` to `last` that are first for a value."""
        rows = self._rows.values()
        ids = {row if isinstance(row, int) else row.holder for row in rows}
        ids |= {holder for before in self._before for _, holder in before.all()}
        return {id_ for id_ in ids if first <= id_ <= last}

    def rows(self) -> list[int | Row]:
        """Return the rows as they are now, with the holders of the values for which no item waits:
        a row that changes from now on is another one. Their number does not matter."""
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
        heads, rows = self._heads, self._rows
        if heads is None:
            blocked_values = ((v, row) for v, row in rows.items() if not isinstance(row, int))
            heads = self._heads = [(row.first_place(), value) for value, row in blocked_values]
            heapify(heads)
        while heads and not self._is_head(*heads[0]):
            heappop(heads)
        if not heads:
            return None
        value = heads[0][1]
        row = rows[value]
        assert not isinstance(row, int)
        return row.first(), value

    def _is_head(self, place: int, value: bytes) -> bool:
        """True if this is the place of the first item that waits for the value."""
        row = self._rows.get(value, 0)
        return not isinstance(row, int) and row.first_place() == place

    def _has_new_first(self, value: bytes, row: Row) -> None:
        """Update the books after the first item left a row; a row that is empty is dissolved."""
        if not row:
            self._rows[value] = row.holder
            self.blocked_values -= 1
            if not self.blocked_values and self._heads:
                self._heads.clear()  # no item waits
        else:
            self._note_head(row.first_place(), value)

    def _note_head(self, place: int, value: bytes) -> None:
        """Note the place of the item that is now the first to wait for the value."""
        heads = self._heads
        if heads is None:
            return
        heappush(heads, (place, value))
        if len(heads) > 2 * self.blocked_values + _COMPACT_ABOVE:
            heads[:] = [each for each in {*heads} if self._is_head(*each)]
            heapify(heads)

    def _is_in(self, id_: int, value: bytes) -> bool:
        row = self._rows[value]
        if isinstance(row, int):
            return row == id_
        return row.holder == id_ or row._find(id_) >= 0

    def _end(self, id_: int, values: tuple[bytes, ...], body_bytes: int) -> list[Blocked]:
        if self._before:
            self._bring(values)
        rows, freed = self._rows, list[Blocked]()
        for value in values:
            row = rows.get(value)
            if row is None:
                continue
            if isinstance(row, int):
                if row == id_:
                    del rows[value]
                continue
            if row.holder == id_:
                row = self._own(value, row)
                self._hand_on(row, freed)
            elif id_ not in self.blocked or not (row := self._own(value, row)).remove(id_):
                continue
            self._has_new_first(value, row)
        if id_ in self.blocked:
            self._more.pop(id_, None)
            self._unpark(id_, body_bytes)
        freed.sort(key=lambda each: each[1])
        return freed

    def _has_all(self, id_: int) -> bool:
        """Count one value more for a waiting item; True if it waits for none now."""
        waits = self._more.pop(id_, 1) - 1
        if waits > 1:
            self._more[id_] = waits
        return waits == 0

    def _unpark(self, id_: int, body_bytes: int) -> None:
        self.blocked.discard(id_)
        if self.moved.count:
            self.moved.discard(id_)
        self.blocked_bytes -= body_bytes
