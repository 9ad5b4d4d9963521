"""The items of several queues and their children, as clients know them while queues are deleted.

    put, hand-off, from= ──▶ `Event`: new places, and the old one that it ends: both or neither
    STORED, END, VALUE   ──▶ the event came about: no crash undoes it
    a crash              ──▶ the found items decide, if they are a possible outcome

A *place* is one item in one line: of a queue, or of a child of it, in one generation. Each body is
put once, so its line and body identify a place.

One rule: made of the specification (3.2, 3.3, 9): the possible outcomes follow from the requests
and answers, and after a look the found items are sure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Line(NamedTuple):
    """A queue's own (number 0), or that of a child of it."""

    name: str
    generation: int
    number: int

    @property
    def family(self) -> str:
        return family_of(self.name)


class Stand(Enum):
    """Whether an item is in its place."""

    SURE = "it must be"
    PERHAPS = "nobody knows"
    ASKED = "its end is asked for: a crash decides, and at rest it is gone"
    WRITTEN = "its end was answered when it was written: only a power cut brings it back"
    GONE = "its end was answered when it was synced"


class End(Enum):
    """The event before a look."""

    REST = "nothing: all is on disk"
    KILL = "what was written is there"
    CUT = "what was synced is there, and any part of the rest"


ALLOWED = {
    End.REST: {Stand.SURE, Stand.PERHAPS},
    End.KILL: {Stand.SURE, Stand.PERHAPS, Stand.ASKED},
    End.CUT: {Stand.SURE, Stand.PERHAPS, Stand.ASKED, Stand.WRITTEN},
}


@dataclass(eq=False)
class Place:
    """An item in a line."""

    line: Line
    body: bytes
    stand: Stand = Stand.SURE

    @property
    def key(self) -> tuple[Line, bytes]:
        return self.line, self.body

    @property
    def is_there(self) -> bool:
        """In memory, whatever the disk has."""
        return self.stand in (Stand.SURE, Stand.PERHAPS)


@dataclass(eq=False)
class Event:
    """A request that came about or not: if it did, the places `new` are there, and `old` is not.
    `made` is the child that it made; then `new` are the first items of that child."""

    new: list[Place]
    old: Place | None = None
    made: Line | None = None

    @property
    def places(self) -> list[Place]:
        return self.new if self.old is None else [self.old, *self.new]


@dataclass(eq=False)
class Deletion:
    """A delete that was asked for. `places` go; `was_put` had been put into the queue for all."""

    queue: tuple[str, int]
    places: list[Place]
    was_put: list[bytes]


@dataclass
class Books:
    """All that is known. `taken` are the handed-off items that may not be settled on disk."""

    places: list[Place] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    children: set[Line] = field(default_factory=set)  # of queues that are there
    put_for_all: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    deletions: list[Deletion] = field(default_factory=list)  # that were not answered
    taken: set[tuple[str, bytes]] = field(default_factory=set)

    # -- what is asked ----------------------------------------------------------------------

    def put(self, body: bytes, line: Line, old: Place | None = None) -> Event:
        """Put an item into a line, and into the lines of its children."""
        lines = [line]
        if not line.number:
            lines += [c for c in self.children if c[:2] != line[:2] and _is_child_of(c, line)]
            self.put_for_all.setdefault(line[:2], []).append(body)
        if old is not None:
            self.taken.add((old.line.name, old.body))
        return self._happens(Event([Place(each, body) for each in lines], old))

    def begin(self, line: Line, begins: bool, all_: bool, retains: bool) -> Event:
        """Make a child with all present items, with some of them, or with none."""
        self.children.add(line)
        new = dict[bytes, Place]()
        if begins:
            queue = (line.family, line.generation)
            kept = set(self.put_for_all.get(queue, [])) if retains else set[bytes]()
            before = [each.was_put for each in self.deletions if retains and each.queue == queue]
            for body in kept.union(*before):
                new[body] = Place(line, body, Stand.PERHAPS)
            for place in self._of_log(line):
                if not place.is_there or (retains and place.body not in kept):
                    continue  # (without `retain`, also items that only other children have)
                each = new.setdefault(place.body, Place(line, place.body, Stand.PERHAPS))
                # (Known: what a child of this name handed off just now, a start may take from
                # this one too. And what is on its way is needed until it is gone.)
                is_known = (line.name, place.body) in self.taken
                if (
                    place.stand is Stand.SURE
                    and all_
                    and not is_known
                    and not self._is_on_way(place)
                ):
                    each.stand = Stand.SURE
        return self._happens(Event([*new.values()], made=line))

    def delete(self, line: Line) -> Deletion:
        """Delete all present items. The next queue of the name retains none of the items that were
        put so far, unless a crash undoes the delete."""
        self.children.discard(line)
        queue = (line.name, line.generation)
        was_put = self.put_for_all.pop(queue, []) if not line.number else []
        places = [place for place in self.of(line) if place.stand is not Stand.GONE]
        for place in places:
            if place.is_there:
                place.stand = Stand.ASKED
        deletion = Deletion(queue, places, was_put)
        self.deletions.append(deletion)
        return deletion

    def _is_on_way(self, place: Place) -> bool:
        return any(event.old is place for event in self.events)

    def _of_log(self, line: Line) -> list[Place]:
        queue = (line.family, line.generation)
        return [p for p in self.places if (p.line.family, p.line.generation) == queue]

    def _happens(self, event: Event) -> Event:
        self.places += event.new
        self.events.append(event)
        return event

    def of(self, line: Line) -> list[Place]:
        """Return the places that may be in this line."""
        return [place for place in self.places if place.line == line]

    # -- what is answered -------------------------------------------------------------------

    def came(self, event: Event) -> None:
        """Note that the event was answered: no crash undoes it."""
        if event in self.events:
            self.events.remove(event)
            if event.old is not None:
                event.old.stand = Stand.GONE

    def deleted(self, deletion: Deletion) -> None:
        """Note that the deletion was answered: no crash undoes it."""
        if deletion in self.deletions:
            self.deletions.remove(deletion)
        for place in deletion.places:
            place.stand = Stand.GONE

    def rest(self) -> None:
        """Note that all requests are on disk."""
        self.deletions.clear()
        for place in self.places:
            if place.stand in (Stand.ASKED, Stand.WRITTEN):
                place.stand = Stand.GONE
        self.taken.clear()

    # -- what is found ----------------------------------------------------------------------

    def look(self, found: Counter[tuple[Line, bytes]], lines: Iterable[Line], end: End) -> None:
        """Check that the found items are a possible outcome; from now on it is the known one."""
        assert max(found.values(), default=1) == 1, f"twice: {found.most_common(3)}"
        lines, bodies = set(lines), {body for _, body in found}
        for event in reversed(self.events):  # a later event may have ended its new places
            if event.made is not None:
                came = event.made in lines
            else:
                came = self._came(event, found, bodies, end)
            if came and event.old is not None:
                event.old.stand = Stand.GONE
            for place in [] if came else event.new:
                place.stand = Stand.GONE
        self.events = []
        allowed = {place.key for place in self.places if place.stand in ALLOWED[end]}
        lost = {place.key for place in self.places if place.stand is Stand.SURE} - found.keys()
        assert not lost, f"lost: {lost}"
        assert not found.keys() - allowed, f"came back, or from nowhere: {found.keys() - allowed}"
        self.places = [place for place in self.places if place.key in found]
        for place in self.places:
            place.stand = Stand.SURE
        self._settle_deletions(lines)

    def _settle_deletions(self, lines: set[Line]) -> None:
        """A queue that is there after a crash was not deleted: it retains the items of before."""
        for deletion in self.deletions:
            if Line(*deletion.queue, 0) in lines:
                later = self.put_for_all.get(deletion.queue, [])
                self.put_for_all[deletion.queue] = deletion.was_put + later
        self.deletions.clear()

    def _came(
        self, event: Event, found: Counter[tuple[Line, bytes]], bodies: set[bytes], end: End
    ) -> bool:
        if any(place.body in bodies for place in event.new):
            return True
        old = event.old
        if old is not None and old.key in found:
            return False
        may_be_gone = all(place.stand is not Stand.SURE for place in event.new)
        is_no_loss = old is None or old.stand is not Stand.SURE
        assert may_be_gone or (is_no_loss and end is not End.REST), f"lost: {event}"
        return may_be_gone


def family_of(name: str) -> str:
    """Return the queue that it is, or is a child of."""
    return name.partition("+")[0]


def _is_child_of(child: Line, line: Line) -> bool:
    return child.family == line.name and child.generation == line.generation
