"""A replay of a queue's journal: which items are left, by the positions of their records.

    position = bytes of the files before + offset in its file

    front      put back at the head; the last one is the next
    tail       added, from `head` on
    open       fetched and neither confirmed nor put back, by xid

Kestrel's removals are positional: they say "the head". So a record that is lost changes the meaning
of all removals after it, whatever they remove: items lost with it, or put back by it, were heads.

One rule: damage loses what it destroyed and nothing else. After damage in a file that others
follow no removal counts: the removed item stays, and is delivered again.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from kestrelpy.kestrel.records import (
    ADD,
    ADD_XID,
    ADDX,
    CONFIRM_REMOVE,
    CONTINUE,
    HEADER_BYTES,
    I32,
    REMOVE,
    REMOVE_TENTATIVE,
    REMOVE_TENTATIVE_XID,
    SAVE_XID,
    SECONDS_BYTES,
    TIMES_BYTES,
    UNREMOVE,
)

# A longer run of removed items at the front of `tail` is given back to memory.
_REMOVED_MAX: Final = 1 << 20
_XID_MIN: Final = -(1 << 31)
_XID_MAX: Final = (1 << 31) - 1
_ZEROS: Final = bytes(5)


class FileDamage(NamedTuple):
    """The offset in its file from which records cannot be read, and the reason."""

    offset: int
    reason: str


class KestrelReplay:
    """The state of one queue while its files are fed in their order."""

    def __init__(self) -> None:
        self.records = 0
        self.spared = 0  # removals that removed nothing, because of damage
        self._tail = array("Q")
        self._head = 0
        self._front: list[int] = []
        self._open: dict[int, int] = {}
        self._own_xid: dict[int, int] = {}  # of items added by ADD_XID, by position
        self._counter = 0
        self._is_damaged = False

    def feed(self, data: bytes, at: int, offset: int, end: int, before: int) -> int | FileDamage:
        """Apply the records in `data` from `at` on; return where the next one begins.

        `data` begins at `offset` of a file of `end` bytes, and `before` bytes of other files come
        before that. The result is at or beyond the end of `data`, or less if only a part of a
        header is there. A record that cannot be read is Damage.
        """
        limit, stop, base = len(data), end - offset, before + offset
        add, size_at = self._tail.append, I32.unpack_from
        count = 0
        try:
            while at < limit:
                opcode = data[at]
                if opcode == ADDX:
                    if at + 5 > limit:
                        break
                    (size,) = size_at(data, at + 1)
                    behind = at + 5 + size
                    if size < TIMES_BYTES or behind > stop:
                        return _wrong_size(data, at, size, TIMES_BYTES, stop - at - 5, offset)
                    add(base + at)
                    at = behind
                elif opcode == REMOVE:
                    self._pop()
                    at += 1
                elif opcode in _WITH_XID:
                    if at + 5 > limit:
                        break
                    self._apply(opcode, size_at(data, at + 1)[0])
                    at += 5
                elif opcode == REMOVE_TENTATIVE:
                    self._open_legacy()
                    at += 1
                elif opcode in HEADER_BYTES:
                    size_offset = 1 if opcode == ADD else 5
                    if at + size_offset + 4 > limit:
                        break
                    (size,) = size_at(data, at + size_offset)
                    least = SECONDS_BYTES if opcode == ADD else TIMES_BYTES
                    begin = at + size_offset + 4
                    if size < least or begin + size > stop:
                        return _wrong_size(data, at, size, least, stop - begin, offset)
                    self._add_legacy(opcode, base + at, data, at)
                    at = begin + size
                else:
                    return FileDamage(offset + at, f"a record of unknown kind {opcode}")
                count += 1
        finally:
            self.records += count
        if at < limit and limit == stop:
            return FileDamage(offset + at, "the file ends inside a record")
        return at

    def pass_damage(self) -> None:
        """Go on with the next file after damage: from now on no removal counts."""
        self._is_damaged = True

    @property
    def opened(self) -> int:
        """How many items are fetched and not confirmed."""
        return len(self._open)

    def positions(self) -> list[int]:
        """Return the positions at the head that are out of order, the next one first.

        Items that were open are put back first: the one with the lowest xid is the next. Then
        follow those of `rest`.
        """
        front = self._front[:]
        front += [self._open[xid] for xid in sorted(self._open, reverse=True)]
        return front[::-1]

    def rest(self) -> memoryview:
        """Return the positions of all other items, in order."""
        return memoryview(self._tail)[self._head :]

    def __len__(self) -> int:
        return len(self._front) + len(self._open) + len(self._tail) - self._head

    # -- one record -------------------------------------------------------------------------

    def _pop(self) -> int:
        """Remove and return the head; -1: there is none, or it is not known."""
        if self._is_damaged:
            self.spared += 1
            return -1
        if self._front:
            return self._front.pop()
        head = self._head
        if head == len(self._tail):
            return -1
        position = self._tail[head]
        self._head = head = head + 1
        if head == _REMOVED_MAX:
            del self._tail[:head]
            self._head = 0
        return position

    def _apply(self, opcode: int, xid: int) -> None:
        if opcode == REMOVE_TENTATIVE_XID:
            self._counter = xid
            self._hold(xid)
        elif opcode == CONFIRM_REMOVE:
            self._open.pop(xid, None)
        elif opcode == UNREMOVE:
            position = self._open.pop(xid, -1)
            if position >= 0:
                self._front.append(position)
        else:
            self._counter = xid

    def _hold(self, xid: int) -> None:
        position = self._pop()
        if position < 0:
            return
        twice = self._open.pop(xid, -1)
        if twice >= 0:  # an earlier item of this xid was not ended: it is not lost for that
            self._front.append(twice)
        self._open[xid] = position

    def _open_legacy(self) -> None:
        """Open the head under the xid that it brought along, or under the next free one."""
        position = self._pop()
        if position < 0:
            return
        xid = self._own_xid.pop(position, 0)
        if not xid or xid in self._open:
            xid = self._counter
            while True:
                xid = _XID_MIN if xid == _XID_MAX else xid + 1
                if xid and xid not in self._open:
                    break
            self._counter = xid
        self._open[xid] = position

    def _add_legacy(self, opcode: int, position: int, data: bytes, at: int) -> None:
        if opcode != ADD:
            (xid,) = I32.unpack_from(data, at + 1)
            if opcode == CONTINUE:
                self._open.pop(xid, None)
            else:
                self._own_xid[position] = xid
        self._tail.append(position)


_WITH_XID: Final = frozenset({SAVE_XID, UNREMOVE, CONFIRM_REMOVE, REMOVE_TENTATIVE_XID})


def _wrong_size(data: bytes, at: int, size: int, least: int, left: int, offset: int) -> FileDamage:
    if data[at : at + 5] == _ZEROS:
        reason = "zeros instead of a record, as a crashed file system leaves them"
    elif size < least:
        reason = f"a record says that it has {size} bytes, and each of its kind has {least} or more"
    else:
        reason = f"a record says that it has {size} bytes, and the file has {max(left, 0)} more"
    return FileDamage(offset + at, reason)


assert {ADD, ADDX, ADD_XID, CONTINUE} == set(HEADER_BYTES)
