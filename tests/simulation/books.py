"""What is known of one queue and its items from outside, and what is in doubt.

    sent ─▶ arrived ─▶ STORED or shown: surely there ──┬─▶ held until ... ─▶ ready since ...
              │                                         ├─▶ gone (confirmed, taken, deleted)
              └─▶ refused: never to be seen             └─▶ in doubt (a confirm without an answer)

A thing is only called surely ready, held or gone when no request that is under way could have
made it something else. What is merely possible is counted instead: as many things may be missing
from sight as there are requests that may have one of them.

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
# How late a lease may be found over: timers are rounded up, and the loop may be busy.
LATE_US: Final = 1_000_000
# The server counts in milliseconds: what it calls 30 ms may be this much less.
EARLY_US: Final = 2_000
DELAY_MS_MAX: Final = 1500
DAY_US: Final = 86_400_000_000


def unix_ms(us: int) -> int:
    """The wall clock at that moment of the run."""
    return WALL_MS + us // 1000


@dataclass(frozen=True)
class Rules:
    """A queue's settings, as far as promises depend on them."""

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
    retain_us: int = 0  # what is done stays readable by marker for so long, counted from its put
    retain_bytes: int = 0  # or up to so many bytes
    versions: bool = False  # are there writers who name versions?
    configured: bool = False  # a child that has a block in the configuration: nobody must name it

    @property
    def confirmed(self) -> str:
        """How sure an answered confirm is."""
        return "synced" if self.confirms_synced and self.always_synced else "written"

    @property
    def flushed(self) -> str:
        """How sure an answered flush is."""
        return "synced" if self.always_synced else "written"

    @property
    def retains(self) -> bool:
        """Does what is done stay readable by marker?"""
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
    available_us: int = 0  # of a delayed one: surely so since then
    put_off_us: int = 0  # it was given back for later: surely not available before
    arrived_us: int = 0
    stored_us: int = 0  # surely stored since then: STORED was said, or it was shown
    refused: bool = False
    doubt: bool = False  # may be gone
    doubt_until_us: int = 0  # what is shown to a request from then on is there
    closes: int = 0  # confirms of it that have come
    gone: str = ""  # "written" or "synced": surely gone, and what brings it back
    gone_us: int = 0
    may_return: bool = False
    talk: Talk | None = None  # on which it was stored
    holder: object | None = None  # a connection or a loan: surely lent to, until ...
    held_until_us: int = 0  # ... then its lease may be over ...
    over_us: int = NEVER  # ... and then it surely is
    ready_us: int = NEVER  # surely ready since then
    lent_us: int = 0  # when a reply lent it last
    ends: int = 0  # deliveries, each of which may end as an attempt
    sure_ends: int = 0  # those that surely did
    marker: int = 0
    roams: bool = False  # it was moved, or somebody asked for it, or for its redrive
    came_us: int = 0  # of one that came from another queue: seen here first
    may_go_back: bool = False  # a power cut may have taken what is here, and left it there
    from_the_dead: bool = False  # its holder has it from the dead line
    expires_first_ms: int = 0
    expires_last_ms: int = 0
    key: str = ""
    claim: Claim | None = None  # it was put with an id
    hand: Hand | None = None  # it was to take the place of another one
    hands: list[Hand] = field(default_factory=list)  # others were to take its place
    original: Thing | None = None  # of a child's copy
    copies: list[Thing] = field(default_factory=list)  # in children

    def may_be_expired(self, us: int) -> bool:
        return bool(self.expires_first_ms) and unix_ms(us) >= self.expires_first_ms

    def surely_before(self, other: Thing) -> bool:
        """Did it become available before the other?"""
        if self.delay_ms or other.delay_ms:
            return (self.available_us or self.stored_us) < other.due_us
        if self.talk is other.talk and self.number < other.number:
            return True
        return self.stored_us < other.arrived_us

    @property
    def due_us(self) -> int:
        """It is not available before; an observer sees it since `first_due_us`."""
        return max(self.first_due_us, self.put_off_us)

    @property
    def first_due_us(self) -> int:
        return self.arrived_us + max(self.delay_ms * 1000 - EARLY_US, 0)

    def put_off(self) -> None:
        """It may be given back for later: then it takes a later place, nobody knows which."""
        self.delay_ms = self.delay_ms or 1
        self.available_us = NEVER

    def stored(self, now_us: int) -> None:
        """Surely, since now: STORED was said."""
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
    died_us: list[int] = field(default_factory=list)  # when such a one died without
    takes_lost: int = 0  # plain gets that died: each may have taken an item nobody saw
    opens_lost: int = 0  # opens that died: each may be an attempt nobody saw
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
    orders: list[Request] = field(default_factory=list)  # moves and redrives that may go on
    # Opens by token whose answer nobody read: until then an item may be lent to who knows whom.
    unseen_until_us: list[int] = field(default_factory=list)
    parent: Book | None = None  # of a child
    children: list[Book] = field(default_factory=list)
    was_named: bool = False  # may this child be there?
    linked_us: int = NEVER  # this child surely sees all that comes from then on
    is_orphan: bool = False  # its queue was deleted, and it was not since then

    # -- what is sure -----------------------------------------------------------------------

    @property
    def is_being_deleted(self) -> bool:
        """True while a delete of it is not answered."""
        return any(each.verb == "delete" for each in self.wipes)

    def surely_ready(self, since_us: int, now_us: int) -> list[Thing]:
        """Ready from `since_us` until now, unless a request under way has it."""
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
        """Those of `surely_ready` that may be lent: items alone, and one of each key's.

        Of a key only where all that there may be are ready, and were: else another one may be
        lent, or was.
        """
        sure = self.surely_ready(since_us, now_us)
        alone = [[thing] for thing in sure if not thing.key]
        keys = {t.key for t in sure if t.key and self.freed_us.get(t.key, 0) < since_us}
        there = [*self.things.values(), *self.ghosts.values(), *self.visitors(now_us)]
        counts = {key: sum(each.key == key for each in there) for key in keys}
        of_key = {key: [each for each in sure if each.key == key] for key in sorted(keys)}
        return alone + [some for key, some in of_key.items() if len(some) == counts[key]]

    def rivals(self, thing: Thing, now_us: int) -> list[Thing]:
        """Other items of its key that are surely lent."""
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
        """May it be in another queue by now, or come there yet, or have been redriven?"""
        rules = self.rules
        return thing.roams or (
            rules.moves
            and (
                (bool(rules.dead_letter_to) and self.may_be_dead(thing))
                or (bool(rules.expire_to) and thing.may_be_expired(us))
            )
        )

    def visitors(self, us: int) -> list[Thing]:
        """What was seen in other queues last and may be here."""
        return [
            thing
            for book in self.sources
            for thing in (*book.things.values(), *book.ghosts.values())
            if book.may_leave(thing, us)
        ]

    @property
    def opens_unseen(self) -> int:
        """Leases that were, or may be, without anybody knowing of which thing."""
        return self.opens_lost + sum(each.lends for each in self.underway)

    def excuses(self, request: Request) -> int:
        """How many ready things `request` may have been unable to see, at most."""
        others = sum(each is not request for each in self.underway)
        unseen = sum(us >= request.arrived_us for us in self.unseen_until_us)
        died = sum(us >= request.arrived_us for us in self.died_us)
        return others + died + self.takes_lost + unseen

    def is_fresh(self, request: Request, now_us: int) -> bool:
        """Is what `request` is being lent still its own, as far as anybody can know?"""
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
        """How many things may have been there at some moment since then."""
        removed = sum(us >= since_us for us in self.removed_us)
        there = len(self.things) + len(self.ghosts) + removed
        return there + sum(book.possible(since_us) for book in self.sources)

    def may_be_delayed(self, us: int) -> bool:
        """May what fills the queue be delayed, so that there is no head to be dropped?"""
        return any(
            thing.delay_ms and not 0 < thing.available_us < us
            for thing in (*self.things.values(), *self.ghosts.values())
        )

    def put(self, thing: Thing) -> None:
        """A set of it has come."""
        self.things[thing.number] = thing
        thing.roams |= bool(self.orders)
        if self.wipes:
            self.suspect(thing)
        if self.rules.discards and self.rules.max_items is not None:
            in_order = sorted(self.things.values(), key=lambda each: each.arrived_us)
            # What is delayed takes room and is no head: then any of the others may be dropped.
            kept = 1 if self.may_be_delayed(thing.arrived_us) else self.rules.max_items
            for older in in_order[:-kept]:
                self.suspect(older, NEVER)
            # What came earlier on other connections and waits for room may be put after this one.
            waiting = sum(not each.stored_us and each.talk is not thing.talk for each in in_order)
            if waiting >= kept:
                self.suspect(thing, NEVER)

    def suspect(self, thing: Thing, until_us: int = 0) -> None:
        """It may be gone."""
        thing.doubt = True
        thing.doubt_until_us = max(thing.doubt_until_us, until_us)

    def remove(self, thing: Thing, how: str, now_us: int) -> None:
        """It is gone, confirmed, taken or deleted: written, or synced (a ghost may come back)."""
        thing.gone, thing.gone_us = how, now_us
        thing.holder, thing.ready_us = None, NEVER
        self.things.pop(thing.number, None)
        self.removed_us.append(now_us)
        self.freed_us[thing.key] = now_us
        if how != "synced":
            self.ghosts[thing.number] = thing

    def back(self, thing: Thing) -> None:
        """It was shown again, as it may be."""
        thing.gone, thing.may_return = "", False
        self.ghosts.pop(thing.number, None)
        self.things[thing.number] = thing

    def wipe(self, request: Request, now_us: int) -> None:
        """A flush or delete has come."""
        self.wipes.append(request)
        for thing in (*self.things.values(), *self.visitors(now_us)):
            self.suspect(thing)
        if request.verb == "delete":
            self.forget_generation(now_us)

    def end_wipe(self, request: Request, now_us: int) -> None:
        """It was answered, or will not be any more."""
        self.wipes.remove(request)
        self.wiped_us = now_us
        for thing in self.visitors(now_us):
            self.suspect(thing)
        if request.verb == "delete":
            self.forget_generation(now_us)

    def order(self, request: Request, now_us: int) -> None:
        """A move or a redrive has come: what there may be, or comes until it is over, may go."""
        self.orders.append(request)
        for thing in (*self.things.values(), *self.ghosts.values(), *self.visitors(now_us)):
            thing.roams = True

    def arrive(self, thing: Thing, source: Book, request: Request) -> None:
        """This shows it here, and it was in another queue before: so it is gone there for good."""
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
        """A fetch was not answered: by token, what it lent is lent until its deadline."""
        if request.lease_us:
            self.unseen_until_us.append(now_us + request.lease_us + LATE_US)

    def forget_generation(self, now_us: int) -> None:
        """Numbers may begin again, and who held something holds nothing."""
        self.standing.deleted(now_us)
        self.deleted_us = now_us
        self.fault_us = self.failed_us = 0
        self.tokens.clear()
        self.markers.clear()
        for thing in self.things.values():
            thing.holder, thing.ready_us, thing.marker = None, NEVER, 0

    def end_life(self, how: str, now_us: int) -> None:
        """The server ended: clean, kill or power."""
        self.ended_us = now_us
        self.takes_lost += sum(request.takes for request in self.underway)
        self.opens_lost += sum(request.lends for request in self.underway)
        for request in self.underway:
            self.lost_open(request, now_us)
        self.underway.clear()
        self.died_us.clear()
        self.removed_us.clear()
        for wipe in list(self.wipes):
            self.end_wipe(wipe, now_us)
        self.orders.clear()
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
                thing.may_go_back = thing.roams  # its source has it until its copy is on disk
        for ghost in self.ghosts.values():
            ghost.may_return |= how == "power"
            if how == "power":
                ghost.sure_ends = 0

    def begin_life(self, now_us: int) -> None:
        """The server answers again: what it found is on disk."""
        self.half_deleted = False
        for thing in self.things.values():
            if thing.available_us > self.ended_us:  # it may have been due in between
                thing.available_us = max(thing.available_us, now_us + LATE_US)
                thing.ready_us = max(thing.ready_us, thing.available_us)
        for thing in list(self.ghosts.values()):
            if not thing.may_return:
                thing.gone = "synced"
                del self.ghosts[thing.number]
