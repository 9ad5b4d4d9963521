"""Ids, as the clients can know them: which are remembered, and which puts that refuses.

    set|add q/id=X ─▶ a claim ─┬─▶ shown, `add` STORED, or no other may stand for it: proven
                               ├─▶ a duplicate for sure: out, never to be seen
                               └─▶ STORED, this one or one before it: one of them is owed

It is a broken promise if two claims of one id are accepted within the window, or if a claim is
refused without a possible reason.

One rule: after a delete, or a power cut without syncs, the server may have forgotten ids: such
claims are no evidence against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.books import LATE_US, NEVER, Book, Thing
from tests.simulation.requests import Reply, Request


@dataclass(eq=False)
class Claim:
    """One put with an id. Times are microseconds of the run."""

    once: Once
    thing: Thing
    first_us: int  # if it was accepted, then not before ...
    last_us: int = NEVER  # ... and not after
    proven_us: int = 0  # accepted, and on disk, since then
    is_void: bool = False  # it may be forgotten
    is_out: bool = False  # it was not accepted


@dataclass(eq=False)
class Cancel:
    """A `delete q/id=` under way: the items that it may end, each with its doubt before that."""

    things: list[tuple[Thing, bool, int]]
    found: list[Thing]  # items that certainly waited when it came


@dataclass
class Once:
    """The ids of one queue."""

    book: Book
    claims: dict[str, list[Claim]] = field(default_factory=dict)
    reason: Thing | None = None  # of the last refusal: it was stored, or there were none
    owed: list[list[Claim]] = field(default_factory=list)  # of each, one was stored
    cancels: dict[Request, Cancel] = field(default_factory=dict)

    # -- puts -------------------------------------------------------------------------------

    def arrived(self, request: Request, thing: Thing) -> None:
        """A put with an id has come."""
        thing.claim = Claim(self, thing, request.arrived_us)
        # It is not known which of the two is first: shares carry out many requests later.
        thing.claim.is_void = any(each.verb == "delete" for each in self.book.wipes)
        self.claims.setdefault(request.id, []).append(thing.claim)
        for each, cancel in self.cancels.items():
            if each.id == request.id:  # it is not known which of the two comes first
                self._may_end(cancel, thing)

    def _others(self, request: Request) -> Iterator[Claim]:
        assert request.item is not None
        for each in self.claims.get(request.id, ()):
            if each is not request.item.claim and not each.is_out:
                yield each

    def _reasons(self, request: Request) -> list[Claim]:
        """Return the claims that may make this put a duplicate."""
        window_us = self.book.rules.window_us + LATE_US
        return [
            each for each in self._others(request)
            if each.first_us < request.left_us and each.last_us + window_us > request.arrived_us
        ]  # fmt: skip

    def _is_duplicate(self, request: Request) -> Claim | None:
        """Return a claim that certainly makes this put a duplicate, if there is one."""
        window_us = self.book.rules.window_us - LATE_US
        for each in self._others(request):
            is_sure = 0 < each.proven_us < request.arrived_us and not each.is_void
            if is_sure and each.first_us + window_us > request.left_us:
                return each
        return None

    def answered(self, request: Request, reply: Reply, may_be_full: bool) -> Iterator[str]:
        """Yield the mistakes of a STORED or NOT_STORED.

        A put that was certainly not stored becomes `refused`, one that certainly was, proven.
        """
        thing = request.item
        assert thing is not None and thing.claim is not None
        claim, reasons = thing.claim, self._reasons(request)
        duplicate, self.reason = self._is_duplicate(request), None
        claim.last_us = request.left_us
        if reply.word == "STORED":
            if duplicate is not None:
                if request.verb == "add":
                    yield f"{request} answered STORED, but {duplicate.thing} has that id"
                self.refuse(claim)
            elif request.verb == "add" or not reasons:
                yield from self.proven(claim, request.left_us)
            else:
                self.owed.append([claim, *reasons])
            return
        self.refuse(claim)
        if request.verb != "add" and duplicate is not None:
            yield f"{request} answered NOT_STORED, but {duplicate.thing} has that id: a duplicate"
        if request.verb == "add" and not may_be_full:
            if not reasons and request.arrived_us > self.book.deleted_us:
                yield f"{request} answered NOT_STORED, but its id was never stored"
            elif len(reasons) == 1 and not reasons[0].is_void:  # that is why, so it is on disk
                self.reason = reasons[0].thing

    def refuse(self, claim: Claim) -> None:
        """Note that this claim was certainly not accepted."""
        claim.is_out = claim.thing.refused = True

    def proven(self, claim: Claim, now_us: int) -> Iterator[str]:
        """Note that this claim was accepted; yield the mistakes of that."""
        if claim.proven_us:
            return
        claim.proven_us = now_us
        claim.last_us = min(claim.last_us, now_us)
        window_us = self.book.rules.window_us - LATE_US
        if claim.is_void or claim.is_out:
            return
        for other in next((all_ for all_ in self.claims.values() if claim in all_), []):
            if other is claim or not other.proven_us or other.is_void:
                continue
            apart_us = max(claim.last_us - other.first_us, other.last_us - claim.first_us)
            if apart_us < window_us:
                yield f"{claim.thing} and {other.thing} have one id, and both were stored"

    def unanswered(self, thing: Thing, now_us: int) -> None:
        """Note that the put of this item will never be answered."""
        if thing.claim is not None:
            thing.claim.last_us = min(thing.claim.last_us, now_us)

    def lost(self, came: set[int], us: int) -> list[Thing]:
        """Return the groups of claims of which one was owed, and none came or was ever seen."""
        missing = []
        for group in self.owed:
            if not any(
                each.is_void or each.proven_us or each.is_out or each.thing.gone
                or each.thing.doubt or each.thing.roams or each.thing.number in came
                or each.thing.may_be_expired(us)
                for each in group
            ):  # fmt: skip
                missing.append(group[0].thing)
        return missing

    # -- cancelling -------------------------------------------------------------------------

    def cancel(self, request: Request) -> None:
        """Note that a `delete q/id=` has arrived."""
        things = [each.thing for each in self.claims.get(request.id, ()) if not each.is_out]
        found = self.book.surely_ready(request.arrived_us, request.arrived_us)
        cancel = self.cancels[request] = Cancel([], [each for each in found if each in things])
        for thing in things:
            self._may_end(cancel, thing)

    def may_end(self, request: Request) -> list[Thing]:
        """Return the items that this cancel may end."""
        return [thing for thing, _, _ in self.cancels[request].things]

    def _may_end(self, cancel: Cancel, thing: Thing) -> None:
        thing.closes += 1
        cancel.things.append((thing, thing.doubt, thing.closes))
        if not thing.gone:
            self.book.suspect(thing, NEVER)

    def cancelled(self, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the mistakes of the answer to a cancel."""
        cancel, now_us, book = self.cancels.pop(request), request.left_us, self.book
        if reply.word == "DELETED":
            waiting = [thing for thing, _, _ in cancel.things if not thing.gone]
            if not cancel.things:
                yield f"{request} answered DELETED, but nobody stored that id"
            if len(waiting) == 1 and len(cancel.things) == 1 and waiting[0].queue == book.name:
                book.remove(waiting[0], "written", now_us)
        elif reply.word == "NOT_FOUND":
            alone = {thing for thing, _, closes in cancel.things if thing.closes == closes}
            found = [t for t in cancel.found if not t.gone and t.holder is None and t in alone]
            if len(found) > book.excuses(request) and request.arrived_us > book.last_wipe_us:
                yield f"{request} answered NOT_FOUND, but {found[0]} is waiting"
            for thing, was_doubt, closes in cancel.things:
                if not was_doubt and thing.closes == closes and not thing.gone:
                    thing.doubt = request.arrived_us <= book.last_wipe_us
        self._end_doubt(cancel, now_us)

    def uncancelled(self, request: Request, now_us: int) -> None:
        """Note that a cancel got an error, or no answer."""
        if request in self.cancels:
            self._end_doubt(self.cancels.pop(request), now_us)

    def _end_doubt(self, cancel: Cancel, now_us: int) -> None:
        for thing, _, _ in cancel.things:
            if thing.doubt_until_us == NEVER:
                thing.doubt_until_us = now_us

    # -- what makes it uncertain ------------------------------------------------------------

    def forget(self, before_us: int = 0) -> None:
        """Note that all ids may be forgotten; those settled before `before_us` certainly are."""
        for id_, claims in list(self.claims.items()):
            self.claims[id_] = [each for each in claims if each.last_us >= before_us]
            for each in claims:
                each.is_void = True

    def end_life(self, forgets: bool, now_us: int) -> None:
        """Note that the server ended; `forgets`: answered requests may not be on disk."""
        for request in list(self.cancels):
            self.uncancelled(request, now_us)
        for claims in self.claims.values():
            for claim in claims:
                claim.last_us = min(claim.last_us, now_us)
                claim.is_void |= forgets
