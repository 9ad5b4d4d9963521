"""Fan-out children: which items of its queue each of them must see.

    a block in the configuration: linked from the beginning
    a client names it ─▶ answered: linked, it sees every item that comes from then on
                      └─▶ no answer: perhaps linked, and later items may be seen there
    a put into the queue ─▶ a copy in each child that may be linked: the same number and body, with
                            holders, attempts and an end of its own
    its queue is deleted ─▶ it keeps its copies, and is linked to nothing until it is deleted itself

One rule: a copy is an item of its own for the consumers of the child: its end or its lease changes
no other copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.books import NEVER, Book, Thing
from tests.simulation.requests import Request

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


class Kids:
    """All children of a run."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._copies: dict[tuple[str, int], Thing] = {}
        for name, book in checker.books.items():
            parent = name.partition("+")[0]
            if parent != name:
                book.parent = checker.books[parent]
                book.parent.children.append(book)
                book.was_named = book.rules.configured
                book.linked_us = -1 if book.was_named else NEVER

    def thing(self, number: int, book: Book) -> Thing | None:
        """Return the item of this number as the consumers of this queue or child see it."""
        return self._copies.get((book.name, number)) or self._checker.things.get(number)

    # -- what is stored ---------------------------------------------------------------------

    def put(self, thing: Thing, book: Book) -> None:
        """Note that a put has arrived: it may be seen in each child that may be there."""
        for child in book.children:
            if child.was_named:
                self._copy(thing, child)

    def _copy(self, thing: Thing, child: Book) -> None:
        copy = Thing(
            thing.number, child.name, thing.body, thing.expiry, thing.delay_ms,
            arrived_us=thing.arrived_us, talk=thing.talk, key=thing.key, original=thing,
            expires_first_ms=thing.expires_first_ms, expires_last_ms=thing.expires_last_ms,
        )  # fmt: skip
        thing.copies.append(copy)
        self._copies[child.name, thing.number] = copy
        child.put(copy)

    def stored(self, thing: Thing, now_us: int) -> None:
        """Note that it is certainly stored, so every child that was linked when it came has it."""
        for copy in thing.copies:
            child = self._checker.books[copy.queue]
            is_sure = child.linked_us < thing.arrived_us and child.rules.max_items is None
            if not is_sure or copy.stored_us or copy.gone:
                continue
            copy.stored(now_us)
            if copy.arrived_us <= child.last_wipe_us:
                child.suspect(copy)

    def seen(self, thing: Thing, now_us: int) -> None:
        """Note that the item was seen in one subscription: then it is in all."""
        first = thing.original or thing
        if not (first.stored_us or first.gone or first.refused):
            first.stored(now_us)
        self.stored(first, now_us)

    def refused(self, thing: Thing) -> None:
        """Note that it was not stored, so no child has it."""
        for copy in thing.copies:
            copy.refused = True
            self._checker.books[copy.queue].things.pop(copy.number, None)

    def expires(self, thing: Thing) -> None:
        """Note that the time is known by which the item certainly has expired."""
        for copy in thing.copies:
            copy.expires_last_ms = thing.expires_last_ms

    # -- who reads --------------------------------------------------------------------------

    def named(self, request: Request, book: Book) -> None:
        """Note that a request has arrived that may make the child, or remove it."""
        if not book.was_named:
            book.was_named = True
            assert book.parent is not None
            for thing in list(book.parent.things.values()):
                # One that waits for room may come behind it.
                if not (thing.stored_us or thing.gone or thing.refused):
                    self._copy(thing, book)
        if request.verb == "delete" and request.wipes:
            book.linked_us = NEVER

    def answered(self, request: Request, book: Book) -> None:
        """Note that this request succeeded."""
        parent = book.parent
        assert parent is not None
        deletes = [each for each in (*book.wipes, *parent.wipes) if each.verb == "delete"]
        since_us = max(parent.deleted_us, book.deleted_us)
        if request.verb == "delete" and request.wipes:
            book.linked_us = NEVER
            if deletes == [request] and parent.deleted_us < request.arrived_us:
                book.is_parentless = False
                book.forget_generation(request.left_us)
                self._checker.leases[book.name].forget(request.left_us)
        elif (
            (request.fetches or request.peeks or request.item is not None)
            and not (deletes or book.is_parentless)
            and since_us < request.arrived_us
        ):
            book.linked_us = min(book.linked_us, request.left_us)

    def lost_their_parent(self, book: Book, now_us: int) -> None:
        """Note that the queue of a child is deleted: the child keeps its items."""
        for child in book.children:
            child.linked_us, child.is_parentless = NEVER, True
            child.forget_generation(now_us)
            self._checker.leases[child.name].forget(now_us)

    def end_life(self, how: str) -> None:
        """The server ended."""
        for book in self._checker.books.values():
            if how == "power" and not book.rules.always_synced:
                book.linked_us = NEVER
