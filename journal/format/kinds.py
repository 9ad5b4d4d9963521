"""The kinds of records, what each does to an item, and the tags of their meta. No I/O.

Numbers are part of the format and are never used again. FORMAT.md has the table of the fields of
each kind, and a test holds it equal to this file.

One rule: a program that interprets records takes its sets of kinds from `TABLE`, and the texts of
an item from `ITEM_TEXTS`.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, NamedTuple

VERSION: Final = 8  # of the format; a new kind or tag may need a new one (FORMAT.md, section 12)


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
    MOVING = 18  # it leaves for another server; as LEASED; meta: the target
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


class Effect(Enum):
    """What a record does to the item that it names, or to the items."""

    NONE = "none"  # it is about the queue, a subscription, or the file
    STATE = "state"  # it stands in snapshots and chunks alone
    PUT = "put"  # the item is there: available, or delayed
    RELEASE = "release"  # delayed no more
    LEASE = "lease"
    RENEW = "renew"
    RETURN = "return"  # given back: available, or delayed
    DIE = "die"  # a dead letter
    REDRIVE = "redrive"  # a dead letter no more
    END = "end"
    END_TO_ITEM = "end up to the item"
    END_TO_MARKER = "end up to the marker"
    END_LISTED = "end those listed"


class Says(Enum):
    """What `number` or `small` of a record is. FORMAT.md says more."""

    OTHER = "other"
    PLACE = "place"  # a new one for the item: the queue's next number
    BEGAN_MS = "began"  # when the delivery began that ends here; the wall clock
    ATTEMPTS = "attempts"  # from now on
    TOKEN = "token"
    MARKER = "marker"
    COUNT = "entries"  # how many the body has, as `journal dump` says


class KindRow(NamedTuple):
    """What every reader has to know of a kind.

    `op` is the word of Spark's events, "" for what is no event. `event` is the word in the life of
    an item, "" for what is about none. `has_text`: the body is what a client said, and not ids.
    """

    effect: Effect
    op: str = ""
    event: str = ""
    number: Says = Says.OTHER
    small: Says = Says.OTHER
    is_numbered: bool = True  # False: stands between records, with the lsn of the next one
    has_text: bool = False
    is_written: bool = True  # False: reserved for later


TABLE: Final[dict[Kind, KindRow]] = {
    Kind.BATCH: KindRow(Effect.NONE, is_numbered=False),
    Kind.CHECKPOINT: KindRow(Effect.NONE, is_numbered=False),
    Kind.PUT: KindRow(Effect.PUT, "put", "stored", number=Says.PLACE, has_text=True),
    Kind.DONE: KindRow(Effect.END, "confirm", "confirmed", number=Says.BEGAN_MS),
    Kind.RETURNED: KindRow(
        Effect.RETURN, "return", "given back", number=Says.BEGAN_MS, small=Says.ATTEMPTS
    ),
    Kind.DEAD: KindRow(Effect.DIE, "dead", "dead", number=Says.BEGAN_MS, small=Says.ATTEMPTS),
    Kind.EXPIRED: KindRow(Effect.END, "expire", "expired"),
    Kind.DISCARDED: KindRow(Effect.END, "discard", "discarded"),
    Kind.FLUSHED: KindRow(Effect.END_TO_ITEM, "flush", "queue flushed"),
    Kind.TOKENS: KindRow(Effect.NONE, "tokens"),
    Kind.FOOTER: KindRow(Effect.NONE, is_numbered=False),
    Kind.RELEASED: KindRow(Effect.RELEASE, "release", "available", number=Says.PLACE),
    Kind.LEASED: KindRow(Effect.LEASE, "lease", "leased", number=Says.TOKEN),
    Kind.RENEWED: KindRow(Effect.RENEW, "renew", "renewed", number=Says.TOKEN),
    Kind.READER: KindRow(Effect.NONE, "reader"),
    Kind.UPTO: KindRow(Effect.END_TO_MARKER, "upto", "confirmed up to", number=Says.MARKER),
    Kind.DECLARED: KindRow(Effect.NONE, "declare", has_text=True),
    Kind.MOVING: KindRow(Effect.LEASE, "moving", "moving"),
    Kind.MOVED: KindRow(Effect.END, "move", "moved", number=Says.BEGAN_MS),
    Kind.SETTLED: KindRow(Effect.NONE, "settle"),
    Kind.REDRIVEN: KindRow(Effect.REDRIVE, "redrive", "redriven", number=Says.PLACE),
    Kind.CARRIED: KindRow(Effect.PUT, "carry", "stored", has_text=True, is_written=False),
    Kind.CANCELLED: KindRow(Effect.END, "cancel", "removed"),
    Kind.PAUSED: KindRow(Effect.NONE, "pause"),
    Kind.DONE_MANY: KindRow(
        Effect.END_LISTED, "confirm many", "confirmed", small=Says.COUNT, is_written=False
    ),
    Kind.IDS: KindRow(Effect.NONE, "schedule", small=Says.COUNT),
    Kind.KEYS: KindRow(Effect.STATE, small=Says.COUNT),
    Kind.LIVE: KindRow(Effect.STATE),
    Kind.ATTEMPTS: KindRow(Effect.STATE),
    Kind.SEGMENTS: KindRow(Effect.STATE),
    Kind.DELAYED: KindRow(Effect.STATE, small=Says.COUNT),
    Kind.PLACED: KindRow(Effect.STATE, small=Says.COUNT),
    Kind.OPEN: KindRow(Effect.STATE),
}


def kinds_with(*effects: Effect) -> frozenset[Kind]:
    """Return the kinds with one of these effects."""
    return frozenset(kind for kind, row in TABLE.items() if row.effect in effects)


UNNUMBERED: Final = frozenset(kind for kind, row in TABLE.items() if not row.is_numbered)
PLACING: Final = frozenset(kind for kind, row in TABLE.items() if row.number is Says.PLACE)
ENDS_DELIVERY: Final = frozenset(
    kind for kind, row in TABLE.items() if row.number is Says.BEGAN_MS
)
COUNTED: Final = frozenset(kind for kind, row in TABLE.items() if row.small is Says.ATTEMPTS)
WITH_TEXT: Final = frozenset(kind for kind, row in TABLE.items() if row.has_text)
PUTS: Final = kinds_with(Effect.PUT)
ENDS: Final = kinds_with(Effect.END)
# About more items than the one that it names, if any.
OF_MANY: Final = kinds_with(Effect.END_TO_ITEM, Effect.END_TO_MARKER, Effect.END_LISTED)
# About the whole queue, and in force until the next of its kind. A snapshot has those in force, in
# this order, where the queue is not as a new one.
STANDING: Final = (Kind.PAUSED, Kind.DECLARED)
# The records of a log. A program that rebuilds a queue knows these, and refuses any other.
IN_LOG: Final = frozenset(
    kind
    for kind, row in TABLE.items()
    if row.is_numbered and row.is_written and row.effect is not Effect.STATE
)


class Tag(IntEnum):
    """The tags of `meta`. A reader passes over an unknown tag from 128 on, and stops at any other.
    """

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
    OF_KEY = 34  # u64, 1: the id counts for the key of its put alone
    RUNS_MS = 35  # u64, running clock: the end of a duration; without it the time is a date


class TextRow(NamedTuple):
    """A text that a producer gives with an item. It decides nothing: it is stored as it is, moves
    with the item, and is shown to every reader of the item.

    `bytes_max` is the most that a producer may give by the doors that all texts have, and 0 for one
    that has a door of its own.
    """

    name: str
    tag: Tag
    bytes_max: int = 0


# The name is the option of a `set`, the fact in `stats`, the member in JSON, the header of HTTP
# (`Item-Trace`) and the column of Spark. A new row needs a tag of its own from 128 on.
ITEM_TEXTS: Final[tuple[TextRow, ...]] = (
    TextRow("client", Tag.CLIENT),  # Zaqar's Client-ID
)
TEXT_TAGS: Final = tuple(sorted(row.tag for row in ITEM_TEXTS))
SENT_TEXTS: Final = tuple(row for row in ITEM_TEXTS if row.bytes_max)
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
        Tag.OF_KEY,
        Tag.RUNS_MS,
    }
)
