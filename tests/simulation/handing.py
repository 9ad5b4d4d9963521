"""Hand-off: a new item is stored in place of a held one, or nothing changes.

    set q2/confirm[=q:token] ─▶ STORED: the new item is there, the old one gone for good
                             ├─▶ refused: nothing happened, the old item is held as before
                             └─▶ no answer: one of the two; the item seen first says which
                                    the new one ─▶ the old one is never seen again
                                    the old one ─▶ the new one is never seen at all

One rule: an old item and its new one are never both there, and never both lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.books import LATE_US, NEVER, Book, Thing
from tests.simulation.requests import INVALID, JOURNAL, Reply, Request, Talk
from tests.simulation.token_leases import Lease

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


@dataclass(eq=False)
class Hand:
    """One hand-off. Times are microseconds of the run."""

    request: Request
    old: Thing
    book: Book  # in which the old one was
    new: Thing
    lease: Lease | None
    asked_us: int  # when the old one was fetched
    until_us: int
    over_us: int
    was_sure: bool  # the old item was certainly leased to the client that handed it off
    alone: int  # the count of closes then: if it has not grown, no close ended the old item
    settled_us: int = NEVER  # the hand-off happened before this, or never
    came_of_it: str = ""  # "both" sides of it happened, or "neither"; "": not known


class Hands:
    """All hand-offs of a run."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.all: list[Hand] = []

    def arrived(self, talk: Talk, request: Request, new: Thing) -> None:
        """Note that a hand-off has arrived, and of which item, if that is known."""
        checker, lease = self._checker, None
        old: Thing | None
        if request.hand_token:
            lease = checker.leases[request.hand_queue].by_token.get(request.hand_token)
            if lease is None:
                return
            old, name = lease.thing, request.hand_queue
            asked_us, until_us, over_us = lease.asked_us, lease.until_us, lease.over_us
            was_sure = checker.leases[name].arrived(request)
        else:
            old, name = talk.held, talk.held_queue
            asked_us, until_us, over_us = talk.held_arrived_us, talk.until_us, talk.over_us
            was_sure = old is not None and old.holder is talk
        if old is None or old.queue != name:
            return
        book = checker.books[name]
        alone = 0
        if not old.gone:
            old.holder, old.ready_us = None, NEVER
            old.closes += 1
            alone = 0 if old.doubt else old.closes
            book.suspect(old, NEVER)
        hand = Hand(request, old, book, new, lease, asked_us, until_us, over_us, was_sure, alone)
        request.hand, request.alone, new.hand = hand, alone, hand
        old.hands.append(hand)
        self.all.append(hand)

    def answered(self, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the mistakes of a STORED or NOT_STORED."""
        hand, now_us, talk = request.hand, request.left_us, request.talk
        if not self._may_be(request):
            yield f"{request} answered {reply}, but one of its queues is not always synced"
        if hand is None or talk is None:
            return
        hand.settled_us = now_us
        if reply.word != "STORED":
            self._not_confirmed(hand, talk)
            return
        if hand.over_us + LATE_US < request.arrived_us:
            yield f"{request} confirmed {hand.old}, but its lease was over"
        if hand.lease is None:
            talk.held = None
        else:
            yield from self._checker.leases[hand.book.name].ended(request, reply)
        hand.came_of_it = "both"
        if hand.book.deleted_us >= hand.asked_us:
            hand.old.doubt_until_us = min(hand.old.doubt_until_us, now_us)
            return
        self._is_done(hand, now_us)

    def refused(self, talk: Talk, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the mistakes of an error."""
        checker, hand, now_us, why = self._checker, request.hand, request.left_us, reply.error
        new = request.item
        assert new is not None
        goes = f"queue {request.queue} was deleted" in why  # its files may hold the new one yet
        goes &= hand is None or hand.book.name != request.queue
        if JOURNAL.search(why) or goes:  # stored or not: not known before a restart
            if not (self._may_have_failed(request) or self._was_deleted(request)):
                yield f"{request} answered {reply}, but nothing failed there"
            self.unanswered(request, now_us)
            was_taken = "until a restart" not in why  # else it was refused, and is held as before
            if was_taken and hand is not None and talk.held is hand.old:
                talk.held = None
                if self._may_be_full(request):  # then it is held as before
                    talk.open_failed_us = request.left_us
            return
        checker.not_stored(new)
        is_mistaken = "do not go to" in why
        is_over = "nothing to confirm" in why or INVALID.search(why) or "was deleted" in why
        is_over = is_over and not is_mistaken
        if is_over and hand is not None:
            is_sure = hand.was_sure and now_us < hand.until_us
            if is_sure and hand.book.deleted_us < hand.asked_us:
                yield f"{request} answered {reply}, but the lease of {hand.old} is not over"
            if hand.lease is None and talk.held is hand.old:
                checker.over(talk, hand.old, request)
                talk.overdue.add(hand.book.name)
            self._in_doubt(hand, now_us)
        elif is_mistaken:
            families = {each.name.partition("+")[0] for each in self._books(request)}
            if len(families) > 1 or not any(each.deleted_us for each in self._books(request)):
                yield f"{request} answered {reply}, but no queue of one name was deleted"
        elif "confirm needs queues" in why:
            if self._may_be(request) and hand is not None:
                yield f"{request} answered {reply}, but both queues are synced and on disk"
        elif not (is_over or checker.is_refused_for_now(reply)):
            yield f"{request} answered {reply} without a reason"
        if hand is not None:
            hand.settled_us, hand.came_of_it = now_us, "neither"
            if not is_over:
                self._not_confirmed(hand, talk)

    def _may_be_full(self, request: Request) -> bool:
        """True if the answer may have been NOT_STORED, which waited for a record that failed."""
        book = self._checker.books[request.queue]
        most = book.rules.max_items
        return most is not None and book.possible(request.arrived_us) > most  # (it is counted too)

    def _may_have_failed(self, request: Request) -> bool:
        """True if the journal of either queue may have failed."""
        return any(book.may_fail for book in self._books(request))

    def _was_deleted(self, request: Request) -> bool:
        """True if one of its queues was deleted since the old item was leased, or is now."""
        since_us = request.hand.asked_us if request.hand is not None else request.arrived_us
        return any(book.deleted_us >= since_us for book in self._books(request))

    def _books(self, request: Request) -> list[Book]:
        """Return the books of its target, and of its source if that is known."""
        return [self._checker.books[request.queue], *self._source(request)]

    def _source(self, request: Request) -> list[Book]:
        if request.hand_queue:
            return [self._checker.books[request.hand_queue]]
        return [] if request.hand is None else [request.hand.book]

    def unanswered(self, request: Request, now_us: int) -> None:
        """Note that this hand-off will never be answered."""
        hand = request.hand
        if hand is not None and hand.settled_us == NEVER:
            hand.settled_us = now_us
            self._in_doubt(hand, now_us)

    def new_is_there(self, new: Thing, now_us: int) -> None:
        """Note that the new item was seen, or its STORED was."""
        hand = new.hand
        if hand is not None and not hand.came_of_it:
            hand.came_of_it = "both"
            self._is_done(hand, now_us)

    def old_is_there(self, old: Thing, request: Request) -> None:
        """Note that the old item was leased, or shown at the head: its new item must never appear.
        """
        for hand in old.hands:
            if not hand.came_of_it and hand.settled_us < request.arrived_us:
                hand.came_of_it = "neither"
                self._checker.not_stored(hand.new)

    def lost(self, came: set[int], us: int) -> list[Thing]:
        """Return the old items of hand-offs with an unknown result, of which neither item came."""
        missing = []
        for hand in self.all:
            old, new = hand.old, hand.new
            book, other = hand.book, self._checker.books[new.queue]
            if hand.came_of_it or old.gone or new.gone or new.refused or not old.stored_us:
                continue
            if old.closes != hand.alone or new.doubt or old.roams or new.roams:
                continue
            if old.may_be_expired(us) or new.may_be_expired(us) or new.claim is not None:
                continue
            first_us = hand.asked_us
            if max(book.last_wipe_us, other.last_wipe_us) >= first_us:
                continue
            if not {old.number, new.number} & came:
                missing.append(old)
        return missing

    def end_life(self, now_us: int) -> None:
        """The server ended."""
        for hand in self.all:
            if hand.settled_us == NEVER:
                hand.settled_us = now_us
                self._in_doubt(hand, now_us)

    def _may_be(self, request: Request) -> bool:
        """True if both of its queues can be a side of a hand-off."""
        return all(book.rules.always_synced for book in self._books(request))

    def _is_done(self, hand: Hand, now_us: int) -> None:
        old = hand.old
        if not old.gone:
            self._checker.books[old.queue].remove(old, "synced", now_us)
        elif self._checker.books[old.queue].ghosts.pop(old.number, None) is not None:
            old.gone, old.may_return = "synced", False

    def _in_doubt(self, hand: Hand, now_us: int) -> None:
        if hand.old.doubt_until_us == NEVER:
            hand.old.doubt_until_us = now_us

    def _not_confirmed(self, hand: Hand, talk: Talk) -> None:
        """Note that the old item was not confirmed: it is held as before, if its lease lasts."""
        hand.came_of_it = "neither"
        old, now_us = hand.old, hand.request.left_us
        self._in_doubt(hand, now_us)
        if old.gone or not hand.alone or hand.alone != old.closes:
            return
        old.doubt = hand.book.last_wipe_us >= hand.asked_us
        lease = hand.lease
        is_held = hand.was_sure and now_us < hand.until_us and not old.doubt
        if is_held and (lease is not None or not talk.is_over):
            old.holder = lease or talk
            old.held_until_us, old.over_us = hand.until_us, hand.over_us
            if lease is not None:
                lease.unsure = False
