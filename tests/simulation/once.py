"""Ids, as far as anybody outside can know them: which are remembered, and what that refuses.

    set|add q/id=X ─▶ a claim ─┬─▶ shown, `add` STORED, or no other may stand for it: proven
                               ├─▶ a duplicate for sure: out, never to be seen
                               └─▶ STORED, this one or one before it: one of them is owed

Two claims of one id that were both accepted within the window are a broken promise, and so is a
refusal that nothing can be the reason of.

One rule: what a delete, or a power cut without syncs, may have forgotten is only possible, never
held against the server.
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
    """A `delete q/id=` under way: what it may end, and whether that was in doubt before."""

    things: list[tuple[Thing, bool, int]]
    found: list[Thing]  # surely waiting when it came


@dataclass
class Once:
    """Of one queue."""

    book: Book
    claims: dict[str, list[Claim]] = field(default_factory=dict)
    reason: Thing | None = None  # of the last refusal: it was stored, or there were none
    owed: list[list[Claim]] = field(default_factory=list)  # of each, one was stored
    cancels: dict[Request, Cancel] = field(default_factory=dict)

    # -- puts -------------------------------------------------------------------------------

    def arrived(self, request: Request, thing: Thing) -> None:
        """A put with an id has come."""
        thing.claim = Claim(self, thing, request.arrived_us)
        # Which of the two is first, nobody knows: shares carry out many requests later.
        thing.claim.is_void = any(each.verb == "delete" for each in self.book.wipes)
        self.claims.setdefault(request.id, []).append(thing.claim)
        for each, cancel in self.cancels.items():
            if each.id == request.id:  # which of the two comes first, nobody knows
                self._may_end(cancel, thing)

    def _others(self, request: Request) -> Iterator[Claim]:
        assert request.item is not None
        for each in self.claims.get(request.id, ()):
            if each is not request.item.claim and not each.is_out:
                yield each

    def _reasons(self, request: Request) -> list[Claim]:
        """Those that may be why this is a duplicate."""
        window_us = self.book.rules.window_us + LATE_US
        return [
            each for each in self._others(request)
            if each.first_us < request.left_us and each.last_us + window_us > request.arrived_us
        ]  # fmt: skip

    def _is_duplicate(self, request: Request) -> Claim | None:
        """One that surely is why, if there is one."""
        window_us = self.book.rules.window_us - LATE_US
        for each in self._others(request):
            is_sure = 0 < each.proven_us < request.arrived_us and not each.is_void
            if is_sure and each.first_us + window_us > request.left_us:
                return each
        return None

    def answered(self, request: Request, reply: Reply, may_be_full: bool) -> Iterator[str]:
        """STORED or NOT_STORED was said; what is wrong with that.

        What was surely not stored is `refused` from then on, and what surely was is proven.
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
        """It was surely not accepted."""
        claim.is_out = claim.thing.refused = True

    def proven(self, claim: Claim, now_us: int) -> Iterator[str]:
        """It was accepted; what is wrong with that."""
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
        """Its put will not be answered any more."""
        if thing.claim is not None:
            thing.claim.last_us = min(thing.claim.last_us, now_us)

    def lost(self, came: set[int], us: int) -> list[Thing]:
        """Of what was owed: those groups of which nothing came, and nothing ever was seen."""
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
        """A `delete q/id=` has come."""
        things = [each.thing for each in self.claims.get(request.id, ()) if not each.is_out]
        found = self.book.surely_ready(request.arrived_us, request.arrived_us)
        cancel = self.cancels[request] = Cancel([], [each for each in found if each in things])
        for thing in things:
            self._may_end(cancel, thing)

    def may_end(self, request: Request) -> list[Thing]:
        """What this cancel may end, of what there is."""
        return [thing for thing, _, _ in self.cancels[request].things]

    def _may_end(self, cancel: Cancel, thing: Thing) -> None:
        thing.closes += 1
        cancel.things.append((thing, thing.doubt, thing.closes))
        if not thing.gone:
            self.book.suspect(thing, NEVER)

    def cancelled(self, request: Request, reply: Reply) -> Iterator[str]:
        """It was answered; what is wrong with that."""
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
        self._settle(cancel, now_us)

    def uncancelled(self, request: Request, now_us: int) -> None:
        """It got an error, or no answer."""
        if request in self.cancels:
            self._settle(self.cancels.pop(request), now_us)

    def _settle(self, cancel: Cancel, now_us: int) -> None:
        for thing, _, _ in cancel.things:
            if thing.doubt_until_us == NEVER:
                thing.doubt_until_us = now_us

    # -- what makes it uncertain ------------------------------------------------------------

    def forget(self, before_us: int = 0) -> None:
        """Everything may be forgotten; what was settled before then surely is."""
        for id_, claims in list(self.claims.items()):
            self.claims[id_] = [each for each in claims if each.last_us >= before_us]
            for each in claims:
                each.is_void = True

    def end_life(self, forgets: bool, now_us: int) -> None:
        """The server ended; `forgets`: what was answered may not be on disk."""
        for request in list(self.cancels):
            self.uncancelled(request, now_us)
        for claims in self.claims.values():
            for claim in claims:
                claim.last_us = min(claim.last_us, now_us)
                claim.is_void |= forgets
