"""The facts about one queue and its items that its clients can know, and those in doubt.

    sent ─▶ arrived ─▶ STORED or shown: surely there ──┬─▶ held until ... ─▶ ready since ...
              │                                         ├─▶ gone (confirmed, taken, deleted)
              └─▶ refused: never to be seen             └─▶ in doubt (a confirm without an answer)

An item counts as certainly ready, held or gone only if no request under way can have changed that.
Otherwise possibilities are counted: as many items may be out of sight as there are requests that
may have one.

One rule: written from the spec and the wire; nothing here looks into the server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.simulation.requests import Request, Talk
from tests.simulation.standing import Standing

if TYPE_CHECKING:
    from tests.simulation.handing import Hand
    from tests.simulation.once import Claim

NEVER: Final = 1 << 62
WALL_MS: Final = 1_700_000_000_000  # at the beginning of every run
# A lease may end this much late: timers are rounded up, and the loop may be busy.
LATE_US: Final = 1_000_000
# The server counts in milliseconds: what it calls 30 ms may be this much less.
EARLY_US: Final = 2_000
DELAY_MS_MAX: Final = 1500
DAY_US: Final = 86_400_000_000


def unix_ms(us: int) -> int:
    """Return the wall clock at that moment of the run."""
    return WALL_MS + us // 1000


@dataclass(frozen=True)
class Rules:
    """The settings of a queue on which promises depend."""

    lease_ms: int | None = 1_800_000
    max_items: int | None = None
    max_attempts: int | None = 100
    max_leased: int | None = None
    discards: bool = False
    confirms_synced: bool = False
    always_synced: bool = True
    keyed: bool = False  # do producers name keys?
    moves: bool = False  # does anything go from one queue to another in this run?
    dead_letter_to: str = ""
    expire_to: str = ""
    ids: bool = False  # do producers name ids?
    window_us: int = DAY_US  # how long they are remembered
    hands: bool = False  # are its items handed off?
    retain_us: int = 0  # done items stay readable by marker for this time after their put
    retain_bytes: int = 0  # or up to this number of bytes
    versions: bool = False  # do writers name versions?
    configured: bool = False  # a child with a block in the configuration: no client has to name it

    @property
    def confirmed(self) -> str:
        """How an answered confirm is recorded: written or synced."""
        return "synced" if self.confirms_synced and self.always_synced else "written"

    @property
    def flushed(self) -> str:
        """How an answered flush is recorded: written or synced."""
        return "synced" if self.always_synced else "written"

    @property
    def retains(self) -> bool:
        """True if done items stay readable by marker."""
        return bool(self.retain_us or self.retain_bytes)

    @property
    def lease_us(self) -> int:
        return NEVER if self.lease_ms is None else self.lease_ms * 1000


@dataclass(eq=False)
class Thing:
    """One item, by its number; times are microseconds of the run, 0: not yet."""

    number: int
    queue: str
    body: bytes
    expiry: int = 0
    delay_ms: int = 0
    available_us: int = 0  # a delayed item is certainly available since then
    put_off_us: int = 0  # an item given back with a delay is certainly not available before
    arrived_us: int = 0
    stored_us: int = 0  # certainly stored since then: STORED was said, or the item was shown
    refused: bool = False
    doubt: bool = False  # may be gone
    doubt_until_us: int = 0  # if a request sent after this shows the item, it is there
    closes: int = 0  # confirms of it that have come
    gone: str = ""  # certainly gone. "written": a power cut may bring it back; "synced": nothing
    gone_us: int = 0
    may_return: bool = False
    talk: Talk | None = None  # the connection on which it was stored
    holder: object | None = None  # the connection or token that certainly has the lease, until ...
    held_until_us: int = 0  # ... then the lease may be over ...
    over_us: int = NEVER  # ... and then it certainly is
    ready_us: int = NEVER  # certainly ready since then
    leased_us: int = 0  # when a reply leased it last
    ends: int = 0  # deliveries, each of which may end as an attempt
    sure_ends: int = 0  # deliveries that certainly ended as an attempt
    marker: int = 0
    roams: bool = False  # a client asked for its move or its redrive, or it was seen to move
    came_us: int = 0  # when it was first seen here, if it came from another queue
    may_go_back: bool = False  # a power cut may have removed it here, and left it in its source
    from_the_dead: bool = False  # its holder leased it as a dead letter
    expires_first_ms: int = 0
    expires_last_ms: int = 0
    key: str = ""
    claim: Claim | None = None  # it was put with an id
    hand: Hand | None = None  # the hand-off in which it was to replace another item
    hands: list[Hand] = field(default_factory=list)  # hand-offs in which others were to replace it
    original: Thing | None = None  # of a child's copy
    copies: list[Thing] = field(default_factory=list)  # in children

    def may_be_expired(self, us: int) -> bool:
        return bool(self.expires_first_ms) and unix_ms(us) >= self.expires_first_ms

    def surely_before(self, other: Thing) -> bool:
        """True if it certainly became available before the other item."""
        if self.delay_ms or other.delay_ms:
            return (self.available_us or self.stored_us) < other.due_us
        if self.talk is other.talk and self.number < other.number:
            return True
        return self.stored_us < other.arrived_us

    @property
    def due_us(self) -> int:
        """The time before which it is not available; observers see it from `first_due_us` on."""
        return max(self.first_due_us, self.put_off_us)

    @property
    def first_due_us(self) -> int:
        return self.arrived_us + max(self.delay_ms * 1000 - EARLY_US, 0)

    def put_off(self) -> None:
        """Note that it may be given back with a delay: then it takes a later, unknown place."""
        self.delay_ms = self.delay_ms or 1
        self.available_us = NEVER

    def stored(self, now_us: int) -> None:
        """Note that it is certainly stored since now: STORED was said."""
        self.stored_us = self.ready_us = now_us
        if self.delay_ms:
            self.available_us = self.ready_us = now_us + self.delay_ms * 1000 + LATE_US

    def __str__(self) -> str:
        return f"item {self.number} of {self.queue}"


@dataclass(eq=False)
class Book:
    """One queue."""

    name: str
    rules: Rules
    things: dict[int, Thing] = field(default_factory=dict)  # may be there
    ghosts: dict[int, Thing] = field(default_factory=dict)  # gone, and a power cut may undo it
    underway: list[Request] = field(default_factory=list)  # fetches without an answer
    died_us: list[int] = field(default_factory=list)  # when a fetch ended without its answer
    takes_lost: int = 0  # plain gets without an answer: each may have taken an unseen item
    opens_lost: int = 0  # opens without an answer: each may be an unseen attempt
    wipes: list[Request] = field(default_factory=list)  # flushes and deletes without an answer
    wiped_us: int = 0
    fetched_us: int = 0
    removed_us: list[int] = field(default_factory=list)
    freed_us: dict[str, int] = field(default_factory=dict)  # when an item of a key went last
    deleted_us: int = 0  # when the last delete came, or ended
    half_deleted: bool = False  # a delete of it was not answered DELETED in this life
    tokens: set[int] = field(default_factory=set)
    markers: dict[int, Thing] = field(default_factory=dict)
    may_fail: bool = False  # a write or sync of its journal failed in this life
    fault_us: int = 0  # when, in this generation
    failed_us: int = 0  # and a client was told
    ended_us: int = 0  # the last life
    standing: Standing = field(default_factory=Standing)
    sources: list[Book] = field(default_factory=list)  # from which items may come here
    open_moves: list[Request] = field(default_factory=list)  # moves and redrives that may go on
    # The deadlines of opens by token without an answer: until then an unknown item may be leased.
    unseen_until_us: list[int] = field(default_factory=list)
    parent: Book | None = None  # of a child
    children: list[Book] = field(default_factory=list)
    was_named: bool = False  # may this child be there?
    linked_us: int = NEVER  # this child certainly sees every item that comes after this
    is_parentless: bool = False  # its queue was deleted, and the child itself was not

    # -- what is sure -----------------------------------------------------------------------

    @property
    def is_being_deleted(self) -> bool:
        """True while a delete of it is not answered."""
        return any(each.verb == "delete" for each in self.wipes)

    def surely_ready(self, since_us: int, now_us: int) -> list[Thing]:
        """Return the items that were ready from `since_us` until now, unless a request under way
        has one."""
        found = []
        for thing in self.things.values():
            self._end_lease(thing, now_us)
            if (
                0 < thing.stored_us < since_us
                and not thing.doubt
                and thing.holder is None
                and not thing.roams
                and thing.ready_us < since_us
                and not thing.may_be_expired(now_us)
                and not self.may_be_dead(thing)
            ):
                found.append(thing)
        return found

    def fetchable(self, since_us: int, now_us: int) -> list[list[Thing]]:
        """Return the items of `surely_ready` that may be leased, in groups: each item without a key
        alone, and all items of a key together, because one of them is enough.

        A key is left out unless all items that it may have are and were ready: otherwise another
        item of the key may be leased, or was.
        """
        sure = self.surely_ready(since_us, now_us)
        alone = [[thing] for thing in sure if not thing.key]
        keys = {t.key for t in sure if t.key and self.freed_us.get(t.key, 0) < since_us}
        there = [*self.things.values(), *self.ghosts.values(), *self.visitors(now_us)]
        counts = {key: sum(each.key == key for each in there) for key in keys}
        of_key = {key: [each for each in sure if each.key == key] for key in sorted(keys)}
        return alone + [some for key, some in of_key.items() if len(some) == counts[key]]

    def rivals(self, thing: Thing, now_us: int) -> list[Thing]:
        """Return the other items of its key that are certainly leased."""
        return [
            each for each in self.things.values()
            if thing.key and each.key == thing.key and each is not thing
            and each.holder is not None and now_us < each.held_until_us
            and not each.from_the_dead
        ]  # fmt: skip

    def _end_lease(self, thing: Thing, now_us: int) -> None:
        if thing.holder is not None and thing.over_us < now_us - LATE_US:
            thing.holder = None
            thing.ready_us = thing.over_us + LATE_US

    def may_be_dead(self, thing: Thing) -> bool:
        most = self.rules.max_attempts
        return most is not None and thing.ends + self.opens_unseen >= most

    def may_leave(self, thing: Thing, us: int) -> bool:
        """True if it may be in another queue, now or later, or may have been redriven."""
        rules = self.rules
        return thing.roams or (
            rules.moves
            and (
                (bool(rules.dead_letter_to) and self.may_be_dead(thing))
                or (bool(rules.expire_to) and thing.may_be_expired(us))
            )
        )

    def visitors(self, us: int) -> list[Thing]:
        """Return the items that were last seen in other queues and may be here."""
        return [
            thing
            for book in self.sources
            for thing in (*book.things.values(), *book.ghosts.values())
            if book.may_leave(thing, us)
        ]

    @property
    def opens_unseen(self) -> int:
        """The number of possible leases of unknown items."""
        return self.opens_lost + sum(each.opens for each in self.underway)

    def excuses(self, request: Request) -> int:
        """Return the most ready items that `request` may have been unable to see."""
        others = sum(each is not request for each in self.underway)
        unseen = sum(us >= request.arrived_us for us in self.unseen_until_us)
        died = sum(us >= request.arrived_us for us in self.died_us)
        return others + died + self.takes_lost + unseen

    def is_fresh(self, request: Request, now_us: int) -> bool:
        """True if the item that `request` is being leased is certainly still leased to it."""
        if request.takes:
            return True
        talk = request.talk
        assert talk is not None
        return not (
            any(each.ending and each.queue == self.name for each in talk.asked)
            or talk.at_end
            or now_us - request.arrived_us
            >= (request.lease_us or self.rules.lease_us) - EARLY_US
            or request.arrived_us <= self.last_wipe_us
        )

    @property
    def last_wipe_us(self) -> int:
        return NEVER if self.wipes else self.wiped_us

    # -- changes ----------------------------------------------------------------------------

    def possible(self, since_us: int) -> int:
        """Return how many items may have been there at some moment since then."""
        removed = sum(us >= since_us for us in self.removed_us)
        there = len(self.things) + len(self.ghosts) + removed
        return there + sum(book.possible(since_us) for book in self.sources)

    def may_be_delayed(self, us: int) -> bool:
        """True if delayed items may fill the queue, so that there is no head to drop."""
        return any(
            thing.delay_ms and not 0 < thing.available_us < us
            for thing in (*self.things.values(), *self.ghosts.values())
        )

    def put(self, thing: Thing) -> None:
        """Note that a set of this item has arrived."""
        self.things[thing.number] = thing
        thing.roams |= bool(self.open_moves)
        if self.wipes:
            self.suspect(thing)
        if self.rules.discards and self.rules.max_items is not None:
            in_order = sorted(self.things.values(), key=lambda each: each.arrived_us)
            # A delayed item takes room and is no head: then any of the others may be dropped.
            kept = 1 if self.may_be_delayed(thing.arrived_us) else self.rules.max_items
            for older in in_order[:-kept]:
                self.suspect(older, NEVER)
            # An earlier set on another connection may wait for room, and be put after this one.
            waiting = sum(not each.stored_us and each.talk is not thing.talk for each in in_order)
            if waiting >= kept:
                self.suspect(thing, NEVER)

    def suspect(self, thing: Thing, until_us: int = 0) -> None:
        """Note that the item may be gone."""
        thing.doubt = True
        thing.doubt_until_us = max(thing.doubt_until_us, until_us)

    def remove(self, thing: Thing, how: str, now_us: int) -> None:
        """Note that the item is gone: confirmed, taken or deleted. If that is only `written`, the
        item becomes a ghost, which may come back."""
        thing.gone, thing.gone_us = how, now_us
        thing.holder, thing.ready_us = None, NEVER
        self.things.pop(thing.number, None)
        self.removed_us.append(now_us)
        self.freed_us[thing.key] = now_us
        if how != "synced":
            self.ghosts[thing.number] = thing

    def back(self, thing: Thing) -> None:
        """Note that the item was shown again, as is allowed."""
        thing.gone, thing.may_return = "", False
        self.ghosts.pop(thing.number, None)
        self.things[thing.number] = thing

    def wipe(self, request: Request, now_us: int) -> None:
        """Note that a flush or delete has arrived."""
        self.wipes.append(request)
        for thing in (*self.things.values(), *self.visitors(now_us)):
            self.suspect(thing)
        if request.verb == "delete":
            self.forget_generation(now_us)

    def end_wipe(self, request: Request, now_us: int) -> None:
        """Note that it was answered, or never will be."""
        self.wipes.remove(request)
        self.wiped_us = now_us
        for thing in self.visitors(now_us):
            self.suspect(thing)
        if request.verb == "delete":
            self.forget_generation(now_us)

    def move_arrived(self, request: Request, now_us: int) -> None:
        """Note that a move or redrive has arrived: it may take any item that may be here or comes
        before it is over."""
        self.open_moves.append(request)
        for thing in (*self.things.values(), *self.ghosts.values(), *self.visitors(now_us)):
            thing.roams = True

    def arrive(self, thing: Thing, source: Book, request: Request) -> None:
        """Note that this request shows an item from another queue: it is gone there for good."""
        now_us = request.left_us
        source.things.pop(thing.number, None)
        source.ghosts.pop(thing.number, None)
        source.removed_us.append(now_us)
        source.freed_us[thing.key] = now_us + LATE_US
        thing.queue, thing.roams, thing.marker = self.name, True, 0
        thing.came_us, thing.may_go_back = now_us, False
        if thing.gone:
            self.ghosts[thing.number] = thing
        else:
            self.things[thing.number] = thing
        if request.arrived_us <= self.last_wipe_us:
            self.suspect(thing)

    def lost_open(self, request: Request, now_us: int) -> None:
        """Note that a fetch was not answered. If it was by token, its item may be leased until the
        deadline."""
        if request.lease_us:
            self.unseen_until_us.append(now_us + request.lease_us + LATE_US)

    def forget_generation(self, now_us: int) -> None:
        """Note that the numbers may begin again, and that no lease is left."""
        self.standing.deleted(now_us)
        self.deleted_us = now_us
        self.fault_us = self.failed_us = 0
        self.tokens.clear()
        self.markers.clear()
        for thing in self.things.values():
            thing.holder, thing.ready_us, thing.marker = None, NEVER, 0

    def end_life(self, how: str, now_us: int) -> None:
        """Note that the server ended: clean, kill or power."""
        self.ended_us = now_us
        self.takes_lost += sum(request.takes for request in self.underway)
        self.opens_lost += sum(request.opens for request in self.underway)
        for request in self.underway:
            self.lost_open(request, now_us)
        self.underway.clear()
        self.died_us.clear()
        self.removed_us.clear()
        for wipe in list(self.wipes):
            self.end_wipe(wipe, now_us)
        self.open_moves.clear()
        self.fault_us = self.failed_us = 0
        self.may_fail = False
        self.standing.end_life(how == "power" and not self.rules.always_synced, now_us)
        for thing in self.things.values():
            thing.holder = None
            thing.over_us = NEVER
            thing.ready_us = max(now_us, thing.available_us)
            thing.doubt_until_us = min(thing.doubt_until_us, now_us)
            if thing.expiry > 0 and thing.arrived_us and not thing.expires_last_ms:
                thing.expires_last_ms = unix_ms(now_us) + thing.expiry * 1000
            if thing.available_us == NEVER:
                thing.available_us = thing.ready_us = now_us + LATE_US + DELAY_MS_MAX * 1000
            if how == "power":
                thing.sure_ends = 0
                if not self.rules.always_synced:
                    self.suspect(thing, now_us)
        if how == "power" and not self.rules.always_synced:
            self.tokens.clear()
            self.markers.clear()
            for thing in self.things.values():
                thing.marker = 0
            for thing in (*self.things.values(), *self.ghosts.values()):
                thing.may_go_back = thing.roams  # its source has it until the copy is on disk
        for ghost in self.ghosts.values():
            ghost.may_return |= how == "power"
            if how == "power":
                ghost.sure_ends = 0

    def begin_life(self, now_us: int) -> None:
        """Note that the server answers again: the items that it found are on disk."""
        self.half_deleted = False
        for thing in self.things.values():
            if thing.available_us > self.ended_us:  # it may have been due in between
                thing.available_us = max(thing.available_us, now_us + LATE_US)
                thing.ready_us = max(thing.ready_us, thing.available_us)
        for thing in list(self.ghosts.values()):
            if not thing.may_return:
                thing.gone = "synced"
                del self.ghosts[thing.number]
