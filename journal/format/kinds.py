"""The kinds of records, and the tags of their meta. No I/O.

Numbers are part of the format and are never used again. FORMAT.md has the table of the fields of
each kind, and a test holds it equal to this file.

One rule: a reader passes over an unknown tag from 128 on, and stops at any other.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """The kind of a record. Numbers are part of the format and are never used again."""

    BATCH = 1  # opens records written at once; number: the last lsn known to be synced
    CHECKPOINT = 2  # a segment's opening state; item, number: the next id, the next place
    PUT = 3  # an item; number: its place, 0 while it is not yet due; small: client flags
    DONE = 4  # confirmed; number: when the delivery began; small: which delivery it was
    RETURNED = 5  # given back; number: when the delivery began; small: attempts from now on
    DEAD = 6  # attempts used up, or on request; number: when the delivery began; small: attempts
    EXPIRED = 7  # past its expiry
    DISCARDED = 8  # dropped by a limit
    FLUSHED = 9  # everything ready or delayed up to `item` is gone; body: ids that stay
    TOKENS = 10  # lease tokens below `number` may have been issued
    FOOTER = 11  # closes a sealed segment, at a fixed place: counts and ranges
    RELEASED = 12  # a delayed item became available; number: its place
    LEASED = 13  # leased by token; number: the token; small: which delivery; meta: deadline, bytes
    RENEWED = 14  # a lease by token has a new deadline; number: the token
    READER = 15  # a reader of this log was named; reader: its number from now on
    UPTO = 16  # a reader confirmed everything up to the marker `number`
    DECLARED = 17  # a client's settings for the queue as TOML, then its metadata as JSON
    MOVING = 18  # this item is being moved; meta: the target
    MOVED = 19  # this item is in another journal now, and ended here; meta: the target
    SETTLED = 20  # an open origin is closed: its source has recorded the transfer
    REDRIVEN = 21  # dead no more; number: its new place
    CARRIED = 22  # an item rewritten from an older segment, with its whole state
    CANCELLED = 23  # removed on request before it was delivered
    PAUSED = 24  # a reader is paused (small 1) or resumed (small 0)
    DONE_MANY = 25  # many confirms in the room of few; body: one entry for each
    IDS = 26  # in a snapshot: dedupe ids seen, hashed
    KEYS = 27  # in a snapshot: versions reached, by hashed key
    LIVE = 28  # in a snapshot: ids of the items there
    ATTEMPTS = 29  # in a snapshot: attempts of items that came back
    SEGMENTS = 30  # in a snapshot: the live items of each segment
    DELAYED = 31  # in a snapshot: items that are not due yet
    PLACED = 32  # in a snapshot: items whose place or marker is another number than their id
    OPEN = 33  # in a snapshot: an item here whose origin is open


# These stand between records and are not numbered: their lsn is that of the record that follows.
UNNUMBERED: Final = frozenset({Kind.BATCH, Kind.CHECKPOINT, Kind.FOOTER})
# These give an item a new place, in `number`: the queue's next one.
PLACING: Final = frozenset({Kind.PUT, Kind.RELEASED, Kind.REDRIVEN})


class Tag(IntEnum):
    """The tags of `meta`. Below 128 a reader must know the tag; from 128 on it may pass over it."""

    EXPIRES_MS = 1  # u64, wall clock
    DUE_MS = 2  # u64, wall clock
    KEY = 3  # canonical key, typed values
    ID = 4  # dedupe id as sent
    SCOPE = 5
    EPOCH = 6  # u64
    VERSION = 7  # u64, the version this item makes under its key
    ORIGIN = 8  # server:queue:id
    ATTEMPTS = 9  # u64
    REASON = 10  # text
    TOKEN = 11  # u64
    DEADLINE_MS = 12  # u64, wall clock
    PLACE = 13  # u64, where it differs from the number in the header
    MARKER = 14  # u64, first place, where it differs from the place
    FIRST_MS = 15  # u64, first delivery of a dead item
    STORED_MS = 16  # u64, when a rewritten or moved item was first stored
    NAME = 17  # a queue's or a reader's name
    TARGET = 18  # server:queue:id
    TOKENS = 19  # u64, tokens below this may have been issued
    TOTAL = 20  # u64, items ever put
    SERVER = 21  # server id
    SYNCED = 22  # u64, last lsn known to be synced
    GENERATION = 23  # u64, of this queue; beside an origin or a target: of that queue
    CLIENT = 24  # who stored it, as the client says (Zaqar's Client-ID)
    LIVE = 25  # u64, items present: ready, delayed, leased or dead
    AS_OF = 26  # u64, the last lsn whose record a checkpoint's state includes
    LAST_MS = 27  # u64, the latest time of a segment's records
    ITEM_FIRST = 28  # u64, the first item put in a segment
    ITEM_LAST = 29  # u64, the last item put in a segment
    COUNTS = 30  # records of a segment by kind: u8 kind and u32 count, repeated
    DEAD_MS = 31  # u64, when a rewritten item died
    BYTES = 32  # u64, of the body of the item that a record is about; or of all items there
    PREVIOUS = 33  # u64, the item before this one under its key


TAGS: Final = {int(tag): tag for tag in Tag}  # quicker than asking the enumeration
NUMBER_TAGS: Final = frozenset(
    {
        Tag.EXPIRES_MS,
        Tag.DUE_MS,
        Tag.EPOCH,
        Tag.VERSION,
        Tag.ATTEMPTS,
        Tag.TOKEN,
        Tag.DEADLINE_MS,
        Tag.PLACE,
        Tag.MARKER,
        Tag.FIRST_MS,
        Tag.STORED_MS,
        Tag.TOKENS,
        Tag.TOTAL,
        Tag.SYNCED,
        Tag.GENERATION,
        Tag.LIVE,
        Tag.AS_OF,
        Tag.LAST_MS,
        Tag.ITEM_FIRST,
        Tag.ITEM_LAST,
        Tag.DEAD_MS,
        Tag.BYTES,
        Tag.PREVIOUS,
    }
)
