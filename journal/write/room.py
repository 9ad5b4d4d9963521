"""The room that records have without another segment, and the part of it that new items may take.

    active [######|pending ......]  prepared [............]
                  |<----- tail ->|  `free`: this and the prepared ones, less what the confirms need

An item takes its own room and that of its confirm at the moment at which it is accepted, before it
is written. So a burst that arrives when the disk becomes full cannot take the room for confirms:
an item without room is not accepted. Its client waits for the next segment, or is refused when
there is no room for one.

The count follows the pending records as the writer will lay them out, and rounds each one up. When
nothing is pending it is taken anew from the segments.

One rule: `free` is never above the room that is really there.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from journal.format import (
    FILE_HEADER_BYTES,
    HEADER_BYTES,
    Kind,
    RawDraft,
    usable_bytes,
)
from journal.write.segment_file import BATCH_BYTES, CHECKPOINT_BYTES_MAX, OVERHEAD_BYTES, Segment

# A confirm and its batch, and a little for rare records.
CONFIRM_BYTES: Final = 136
# A frame is padded to 8 bytes.
_FRAME_BYTES: Final = HEADER_BYTES + 8
# After some mebibytes a batch needs another header: each record pays a part of it.
_BATCH_SHIFT: Final = 12
# The confirm of an item, twice: in a segment of very small items the confirms need more than the
# segment gives back. Its meta may say that it is released from a delay or closes an origin: two
# records more.
PUT_BYTES: Final = 2 * CONFIRM_BYTES
_META_BYTES: Final = 2 * CONFIRM_BYTES
_PUT: Final = int(Kind.PUT)
_LEASES: Final = (int(Kind.LEASED), int(Kind.MOVING))


def room_in(capacity: int) -> int:
    """Return the room for records in an empty segment of this size."""
    return usable_bytes(capacity) - FILE_HEADER_BYTES - CHECKPOINT_BYTES_MAX - BATCH_BYTES


class Room:
    """The room of one journal.

    `put_bytes` is what an item needs beside its own record. `asked` is the room that refused items
    wanted since the last segment was prepared, `asked_most` the largest record among them; 0: none
    was refused.
    """

    __slots__ = (
        "_ahead", "_asked_least", "_first", "_waiting", "asked", "asked_most", "free", "put_bytes",
        "tail",
    )  # fmt: skip

    def __init__(self, waiting: deque[Segment], first: int) -> None:
        """`waiting` are the prepared segments; the first one has room for up to `first` bytes."""
        self._waiting = waiting
        self._ahead = 0  # how many of these the pending records will have begun
        self._first = first  # the room of the first segment while it is not there; 0: it is
        self.free = self.tail = first
        self.put_bytes = PUT_BYTES
        self.asked = self.asked_most = self._asked_least = 0

    # -- items ------------------------------------------------------------------------------

    def has(self, size: int) -> bool:
        """True if an item with a body and a meta of `size` bytes may be appended now."""
        frame = _FRAME_BYTES + size + (size >> _BATCH_SHIFT)
        if frame <= self.tail and frame + self.put_bytes <= self.free:
            return True
        return self._has_further_on(frame)

    def run_bytes(self, count: int) -> int:
        """Return how many bytes `count` items may have together in the segment that is written."""
        frames = count * _FRAME_BYTES
        least = min(self.tail - frames, self.free - frames - count * self.put_bytes)
        return least - (max(least, 0) >> _BATCH_SHIFT) - 1

    def _has_further_on(self, frame: int) -> bool:
        """True if the record has room, in one of the prepared segments if need be."""
        if self._first and self.tail == self._first:
            return True  # the first segment is made for the first record
        if self._fits(frame):
            return True
        self.ask(frame)
        return False

    def ask(self, frame: int) -> None:
        """Note that a record of this size and its confirm found no room."""
        self._asked_least = min(self._asked_least, frame) if self.asked else frame
        self.asked += frame + self.put_bytes
        self.asked_most = max(self.asked_most, frame)

    def _fits(self, frame: int) -> bool:
        """True if the record of an item fits; the rest of a segment before it is lost."""
        free, tail = self.free, self.tail
        for at in range(self._ahead, len(self._waiting)):
            if frame <= tail:
                break
            free -= max(tail, 0)
            tail = room_in(self._waiting[at].capacity)
        return frame <= tail and frame + self.put_bytes <= free

    def charge(self, draft: RawDraft) -> None:
        """Take the room of a record that is appended, and of those that must follow it."""
        size = len(draft[5]) + len(draft[6])
        frame = _FRAME_BYTES + size + (size >> _BATCH_SHIFT)
        if frame > self.tail:
            self._go_on(frame)
        self.tail -= frame
        kind = draft[0]
        if kind == _PUT:
            frame += self.put_bytes
            if draft[5]:
                frame += _META_BYTES
        elif kind in _LEASES:
            frame += CONFIRM_BYTES
        self.free -= frame

    def charge_run(self, drafts: list[RawDraft], body_bytes: int) -> None:
        """Take the room of these items, one after the other, which have nothing but a body."""
        count = len(drafts)
        frames = count * _FRAME_BYTES + body_bytes + (body_bytes >> _BATCH_SHIFT)
        if frames > self.tail:
            for draft in drafts:
                self.charge(draft)
            return
        self.tail -= frames
        self.free -= frames + count * self.put_bytes

    def _go_on(self, frame: int) -> None:
        """Go on in the next segment that has room for the record; the rest of this one is lost."""
        while frame > self.tail:
            if self.tail > 0:
                self.free -= self.tail
                self.tail = 0
            if self._ahead == len(self._waiting):
                return
            self.tail += room_in(self._waiting[self._ahead].capacity)
            self._ahead += 1

    # -- segments ---------------------------------------------------------------------------

    def recount(self, active: Segment, needed: int) -> None:
        """Count anew: nothing is pending, and confirms need `needed` bytes."""
        self._ahead = self._first = 0
        self.tail = usable_bytes(active.capacity) - active.at - BATCH_BYTES
        prepared = 0
        for segment in self._waiting:
            prepared += room_in(segment.capacity)
        self.free = self.tail + prepared - needed
        if self.asked and self._fits(self._asked_least) and self._fits(self.asked_most):
            self.forget_asked()

    def forget_asked(self) -> None:
        """Forget the items that were refused: they are tried again."""
        self.asked = self.asked_most = self._asked_least = 0

    def first_capacity(self) -> int:
        """Return the size of a first segment with room for all that is pending."""
        return max(self._first - min(self.tail, self.free), 0) + OVERHEAD_BYTES

    def begins(self, capacity: int) -> None:
        """Note that a segment of this size is being prepared: it may be the first."""
        if self._first and not self._waiting:
            more = room_in(capacity) - self._first
            self._first += more
            self.tail += more
            self.free += more

    def prepared(self, capacity: int) -> None:
        """Note that a segment of this size is the last of the prepared ones."""
        self.forget_asked()
        if self._first and len(self._waiting) == 1:
            self._ahead = 1  # its room is counted
            return
        room = room_in(capacity)
        self.free += room
        if self.tail < 0:  # the pending records need some of it
            self.tail += room
            self._ahead += 1

    def left(self, segment: Segment) -> None:
        """Note that this segment is no longer the first prepared one: it is being written, or it is
        too small for the next record."""
        if self._ahead:
            self._ahead -= 1
        else:  # sooner than its records would have it
            self.free -= max(self.tail, 0)
            self.tail = room_in(segment.capacity)

    def least_capacity(self) -> int:
        """Return the size of a segment with room for the largest item that was refused; 0: none
        was."""
        return OVERHEAD_BYTES + self.asked_most + self.put_bytes if self.asked else 0
