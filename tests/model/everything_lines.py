"""Queues, their readers and items, as the spec has them: which exist, and which may be leased.

    Store: one log, ids, versions, retained items
      └── lines ──▶ Line: its own line and each child's
                      └── places ──▶ Place: one item as one reader has it

One rule: nothing here changes anything; `everything_model` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

FOREVER: Final = 1 << 60


@dataclass
class Rules:
    """The settings in force of one line; None: no limit."""

    lease_ms: int | None = 1_800_000
    max_items: int | None = None
    max_bytes: int | None = None
    discards: bool = False
    max_age_ms: int | None = None
    expire_to: str = ""
    max_attempts: int = 100
    dead_letter_to: str = ""
    dead_letter_age_ms: int | None = None
    retry_delay_ms: int = 0
    retry_backoff: float = 1
    retry_delay_max_ms: int = 3_600_000
    max_leased: int | None = None
    matches_any: bool = False
    unordered: bool = False
    dedupe_ms: int = 86_400_000
    scope_ms: int = 30 * 86_400_000
    retain_ms: int = 0  # FOREVER: for good
    retain_bytes: int = 0  # not by size
    fanout_only: bool = False


@dataclass(eq=False)
class Item:
    """A stored item, once for all readers. `marker` 0: it was never available."""

    number: int
    body: bytes
    stored_ms: int
    expires_ms: int = 0
    key: str = ""
    id: str = ""  # without its scope
    for_all: bool = True
    marker: int = 0
    shown: int = 0  # its marker, as the server said it
    due_ms: int = 0
    released_ms: int = 0  # when its delay ended, for the first time
    may_be_gone: bool = False  # of what is retained: its time may be over


@dataclass(eq=False)
class Place:
    """One item as one reader has it. `rank` 0: it is delayed until `due_ms`."""

    item: Item
    rank: int
    due_ms: int = 0
    attempts: int = 0
    held: bool = False  # it was given back for later, and is first for its key
    holder: str = ""  # a connection, or "token"
    was_leased: bool = False
    token: int = 0
    until_ms: int | None = None
    died: int = 0
    ageless: bool = False  # it was dead, and redriven here: it does not expire

    @property
    def expires_ms(self) -> int:
        return 0 if self.ageless else self.item.expires_ms

    @property
    def is_delayed(self) -> bool:
        return not (self.rank or self.holder or self.died)

    @property
    def state(self) -> str:
        """The state as an observer is shown it."""
        if self.holder:
            return "lent"
        return "dead" if self.died else "delayed" if self.is_delayed else "ready"


@dataclass(eq=False)
class Line:
    """One reader: a queue's own, or a child's."""

    name: str
    rules: Rules
    places: list[Place] = field(default_factory=list)
    paused: bool = False

    @property
    def ready(self) -> list[Place]:
        return sorted((p for p in self.places if p.state == "ready"), key=lambda p: p.rank)

    @property
    def delayed(self) -> list[Place]:
        return [p for p in self.places if p.is_delayed]

    @property
    def leased(self) -> list[Place]:
        return [p for p in self.places if p.holder]

    @property
    def dead(self) -> list[Place]:
        """Return the dead letters that are not leased, in the order in which they died."""
        return sorted((p for p in self.places if p.state == "dead"), key=lambda p: p.died)

    def values(self, key: str) -> set[str]:
        """Return what two items of one key share; of an item without a key nothing."""
        parts = key.split(",")
        if not key or self.rules.matches_any:
            return set(parts) - {""}
        return {",".join(sorted(parts) if self.rules.unordered else parts)}

    def possible(self) -> Iterator[Place]:
        """Yield what may be leased, first things first, whatever limits say.

        A skipped item holds its place on all its values, so that nothing overtakes it.
        """
        first = [p for p in self.places if (p.holder or p.held) and not p.died]
        taken: set[str] = set().union(*(self.values(p.item.key) for p in first))
        for place in self.ready:
            values = self.values(place.item.key)
            if place.held or not taken & values:
                yield place
            taken |= values

    def lendable(self) -> Place | None:
        """Return what the next `open` is leased."""
        most = self.rules.max_leased
        if self.paused or (most is not None and len(self.leased) >= most):
            return None
        return next(self.possible(), None)

    def lendable_dead(self) -> Place | None:
        """Return what the next `open` of dead letters is leased."""
        most = self.rules.max_leased
        is_free = not self.paused and (most is None or len(self.leased) < most)
        return self.dead[0] if self.dead and is_free else None

    def has_room(self, size: int) -> bool:
        """True if one more of that size goes into the limits."""
        return self._goes_beside([*self.ready, *self.delayed], size)

    def _goes_beside(self, waiting: list[Place], size: int) -> bool:
        rules = self.rules
        if rules.max_items is not None and len(waiting) + 1 > rules.max_items:
            return False
        held = sum(len(p.item.body) for p in waiting)
        return rules.max_bytes is None or held + size <= rules.max_bytes

    def may_take(self, size: int) -> bool:
        """True if it takes one more, perhaps after it has dropped its head as often as it takes."""
        if self.rules.discards:
            return self._goes_beside(self.delayed, size)
        return self.has_room(size)


@dataclass(frozen=True)
class Id:
    """A dedupe id; of a writer in numbered batches, with its scope and epoch."""

    text: str
    scope: str = ""
    epoch: int = 0

    @property
    def options(self) -> str:
        more = f"/scope={self.scope}/epoch={self.epoch}" if self.scope else ""
        return f"/id={self.text}{more}"


@dataclass
class Scope:
    """The newest epoch of a writer, its ids, and when it was last used."""

    epoch: int
    used_ms: int
    ids: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Store:
    """One queue: its lines, its own first, and what its log remembers."""

    name: str
    lines: dict[str, Line]
    exists: bool = False  # surely: whether a refusal makes it, the spec does not say
    numbers: count[int] = field(default_factory=lambda: count(1))
    ids: dict[str, int] = field(default_factory=dict)
    named: dict[str, Item] = field(default_factory=dict)  # the last item stored under an id
    scopes: dict[str, Scope] = field(default_factory=dict)
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)  # keys forgotten before `retain` changed
    retained: list[Item] = field(default_factory=list)  # put for all readers, as it retains them
    newest: Item | None = None
    last: int = 0  # the newest number that was given
    unsure: int = 0  # up to there `retain` was another: a done item may be shown or not

    @property
    def own(self) -> Line:
        return self.lines[self.name]

    def knows(self, id_: str, now_ms: int) -> bool:
        """True if this id was seen within `dedupe_window`."""
        seen_ms = self.ids.get(id_)
        return seen_ms is not None and now_ms < seen_ms + self.own.rules.dedupe_ms

    def is_duplicate(self, id_: Id, now_ms: int) -> bool:
        """True if this id was seen in its window, or in the newest epoch of its scope."""
        if not id_.scope:
            return self.knows(id_.text, now_ms)
        scope = self.scope(id_.scope, now_ms)
        if scope is None or id_.epoch > scope.epoch:
            return False
        return id_.epoch < scope.epoch or id_.text in scope.ids

    def scope(self, name: str, now_ms: int) -> Scope | None:
        """Return this scope if it was used within `scope_window`."""
        scope = self.scopes.get(name)
        is_over = scope is not None and now_ms >= scope.used_ms + self.own.rules.scope_ms
        return None if is_over else scope

    def remember(self, id_: Id, item: Item, now_ms: int) -> None:
        """Note that an item was stored under this id."""
        if not id_.scope:
            self.ids[id_.text], self.named[id_.text] = now_ms, item
            return
        scope = self.scope(id_.scope, now_ms)
        if scope is None or id_.epoch > scope.epoch:
            scope = self.scopes[id_.scope] = Scope(id_.epoch, now_ms)
        scope.ids.add(id_.text)
        scope.used_ms = now_ms

    def stream(self, key: str) -> str:
        return ",".join(sorted(key.split(","))) if self.own.rules.unordered else key

    def version(self, key: str, now_ms: int) -> int:
        """Return how many items were written under this key; 0 if that is forgotten."""
        number, last_ms = self.versions.get(self.stream(key), (0, 0))
        over = self.own.rules.retain_ms == 0 and now_ms >= last_ms + self.own.rules.dedupe_ms
        return 0 if over else number

    def items(self) -> set[Item]:
        """Return every item that some reader has."""
        return {place.item for line in self.lines.values() for place in line.places}
