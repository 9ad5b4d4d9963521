"""Fan-out children: what each of them must see of what was stored in its queue.

    a block in the configuration: linked from the beginning
    somebody names it ─▶ answered: linked, it misses nothing that comes from then on
                      └─▶ no answer: it may be, and what comes may be seen there
    a put into the queue ─▶ a copy in each child that may be linked: the same number and body, with
                            holders, attempts and an end of its own
    its queue is deleted ─▶ it keeps its copies, and is linked to nothing until it is deleted itself

One rule: a copy is one item to whoever reads the child, and nothing that happens to it happens to
another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.books import NEVER, Book, Thing
from tests.simulation.requests import Request

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger


class Kids:
    """All of a run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._copies: dict[tuple[str, int], Thing] = {}
        for name, book in ledger.books.items():
            parent = name.partition("+")[0]
            if parent != name:
                book.parent = ledger.books[parent]
                book.parent.children.append(book)
                book.was_named = book.rules.configured
                book.linked_us = -1 if book.was_named else NEVER

    def thing(self, number: int, book: Book) -> Thing | None:
        """The item of this number as whoever reads this queue or child knows it."""
        return self._copies.get((book.name, number)) or self._ledger.things.get(number)

    # -- what is stored ---------------------------------------------------------------------

    def put(self, thing: Thing, book: Book) -> None:
        """A put has come: it may be seen in each child that may be there."""
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
        """It surely is, so it is in every child that was linked when it came."""
        for copy in thing.copies:
            child = self._ledger.books[copy.queue]
            is_sure = child.linked_us < thing.arrived_us and child.rules.max_items is None
            if not is_sure or copy.stored_us or copy.gone:
                continue
            copy.stored(now_us)
            if copy.arrived_us <= child.last_wipe_us:
                child.suspect(copy)

    def seen(self, thing: Thing, now_us: int) -> None:
        """In one place: then it is in all."""
        first = thing.original or thing
        if not (first.stored_us or first.gone or first.refused):
            first.stored(now_us)
        self.stored(first, now_us)

    def refused(self, thing: Thing) -> None:
        """It was not stored, so it is nowhere."""
        for copy in thing.copies:
            copy.refused = True
            self._ledger.books[copy.queue].things.pop(copy.number, None)

    def expires(self, thing: Thing) -> None:
        """By when it surely has is known."""
        for copy in thing.copies:
            copy.expires_last_ms = thing.expires_last_ms

    # -- who reads --------------------------------------------------------------------------

    def named(self, request: Request, book: Book) -> None:
        """A request that may make it, or unmake it, has come."""
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
        """And went well."""
        parent = book.parent
        assert parent is not None
        deletes = [each for each in (*book.wipes, *parent.wipes) if each.verb == "delete"]
        since_us = max(parent.deleted_us, book.deleted_us)
        if request.verb == "delete" and request.wipes:
            book.linked_us = NEVER
            if deletes == [request] and parent.deleted_us < request.arrived_us:
                book.is_orphan = False
                book.forget_generation(request.left_us)
                self._ledger.loans[book.name].forget(request.left_us)
        elif (
            (request.fetches or request.peeks or request.item is not None)
            and not (deletes or book.is_orphan)
            and since_us < request.arrived_us
        ):
            book.linked_us = min(book.linked_us, request.left_us)

    def orphaned(self, book: Book, now_us: int) -> None:
        """Its queue is deleted, or was: it keeps what it has."""
        for child in book.children:
            child.linked_us, child.is_orphan = NEVER, True
            child.forget_generation(now_us)
            self._ledger.loans[child.name].forget(now_us)

    def end_life(self, how: str) -> None:
        """The server ended."""
        for book in self._ledger.books.values():
            if how == "power" and not book.rules.always_synced:
                book.linked_us = NEVER
