"""The golden journal of a queue whose items are handed off, laid out by hand.

    1 goes to another queue; 2, leased by token, is put into its own queue again with a delay; 3, a
    dead letter, is put into its own queue again; 7 and 8 come from another queue; a child hands off
    6, which it alone has; the end is torn: 12 replaces 10, and the MOVED that would say so is lost

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import Meta
from journal.format.subscription_state import TAKES, named
from journal.format.transfer import Origin, moved, settled_many
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft

GENERATION = 1_767_323_000
AUDIT = 1


def _made_of(origin: Origin, body_bytes: int = -1) -> Meta:
    said: Meta = {Tag.ORIGIN: origin.name, Tag.GENERATION: origin.generation}
    return said | {Tag.BYTES: body_bytes} if body_bytes >= 0 else said


def handed() -> list[SegmentBuilder | Snapshot]:
    """One segment, whose last batch has lost its last record."""
    opening = Checkpoint(b"flow", server=SERVER, generation=GENERATION)
    one = SegmentBuilder(1, 8192, 1, opening)
    token, due_ms = 1 << 20, TIME_MS + 90_000
    elsewhere = Origin(SERVER, b"next", 4, GENERATION)

    def here(item: int, queue: bytes = b"flow") -> Origin:
        return Origin(SERVER, queue, item, GENERATION)

    leased = LeaseEntry(2, token, 1, TIME_MS + 3, 3, TIME_MS + 3, TIME_MS + 60_000)
    later: Meta = {Tag.DUE_MS: due_ms}
    died: Meta = {Tag.REASON: b"abort", Tag.BYTES: 5}
    one.batch(
        *(draft(Kind.PUT, n, n, 0, body) for n, body in enumerate((b"one", b"two", b"three"), 1)),
        draft(Kind.TOKENS, number=token << 1),
        moved(1, 3, elsewhere.as_target, TIME_MS + 2, True, 1, TIME_MS + 1),
        leased.leased(),
        # Its second delivery: put again with another body and a delay, as item 4.
        draft(Kind.PUT, 4, 0, 0, b"two, later", later | _made_of(here(2), 3)),
        moved(2, 3, here(4).as_target, TIME_MS + 5, True, 2, TIME_MS + 3),
        draft(Kind.DEAD, 3, TIME_MS + 6, 1, meta=died, time_ms=TIME_MS + 7),
        draft(Kind.PUT, 5, 5, 0, b"drei!", _made_of(here(3))),
        moved(3, 5, here(5).as_target, TIME_MS + 8, True, 2, TIME_MS + 8),
        named(AUDIT, b"audit", 5, TAKES, TIME_MS + 9),
        draft(Kind.PUT, 6, 6, 0, b"for one", reader=AUDIT),
        draft(Kind.PUT, 7, 7, 0, b"seven", _made_of(Origin(SERVER, b"a:b", 9, GENERATION), 100)),
        draft(Kind.PUT, 8, 8, 7, b"eight", _made_of(Origin(SERVER, b"a:b", 10, GENERATION))),
        draft(Kind.PUT, 9, 9, 0, b"for all now", _made_of(here(6, b"flow+audit"), 7)),
        moved(6, 7, here(9).as_target, TIME_MS + 10, True, 1, TIME_MS + 9)._replace(reader=AUDIT),
        settled_many([7, 8], TIME_MS + 11),
    )
    one.batch(draft(Kind.PUT, 10, 10, 0, b"ten"), draft(Kind.PUT, 11, 11, 0, b"eleven"), synced=18)
    one.batch(draft(Kind.PUT, 12, 12, 0, b"instead of ten", _made_of(here(10), 3)), synced=20)
    return [one]
