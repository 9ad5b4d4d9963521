"""The checker: hears every request and every reply, and knows what the spec promises.

    arrived ─▶ notes what may happen       said ─▶ notes what certainly happened, and checks it
    lost, ended, fault, end_life, begin_life: certain facts become uncertain, or allowed again

One rule: it reports a violation only if no correct server could have given this reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.books import EARLY_US, LATE_US, NEVER, Book, Rules, Thing, unix_ms
from tests.simulation.handing import Hands
from tests.simulation.judge import is_in_doubt, surely_behind, wrong_with
from tests.simulation.kids import Kids
from tests.simulation.once import Once
from tests.simulation.requests import (
    INVALID,
    JOURNAL,
    MOVES,
    NO_ROOM,
    SHORT,
    NotWellFormed,
    Reply,
    Request,
    Talk,
)
from tests.simulation.shelf import Shelf
from tests.simulation.standing import SWITCHES
from tests.simulation.streams import Stream, key_of
from tests.simulation.token_leases import Lease, TokenLeases


class Checker:
    """All queues of one run, and every connection of the present life."""

    def __init__(
        self,
        rules: dict[str, Rules],
        now: Callable[[], int],
        tell: Callable[[str], None],
    ) -> None:
        self.books = {name: Book(name, each) for name, each in rules.items()}
        for at, name in enumerate(rules):  # items go to a later queue, and never back
            if rules[name].moves:
                self.books[name].sources = [self.books[other] for other in [*rules][:at]]
        self.leases = {name: TokenLeases() for name in rules}
        self.things: dict[int, Thing] = {}
        self.once = {name: Once(book) for name, book in self.books.items()}
        self.shelves = {n: Shelf(book) for n, book in self.books.items() if book.rules.retains}
        self.streams = {
            name: Stream(self, book) for name, book in self.books.items() if book.rules.versions
        }
        self.hands = Hands(self)
        self.kids = Kids(self)
        self.talks: list[Talk] = []
        self.violations: list[str] = []
        self.answers = 0
        self.is_leaving = False
        self.no_room_us = 0  # a segment could not be prepared in this life
        self.has_faults = False  # something failed in this life
        self.was_short = False  # a file could not be opened for the moment, in this life
        self.was_unreadable = False  # a read failed, in this life or an earlier one
        self.is_damaged = False  # a start could not read records, and said so: anything may be lost
        self._now = now
        self._tell = tell

    def mistake(self, text: str) -> None:
        """Report that the server logged an exception that it did not expect."""
        self._break(f"a mistake of ours: {text}")

    def complain(self, text: str) -> None:
        """Report a broken promise, unless the disk has already lost records."""
        if not self.is_damaged:
            self._break(text)

    def _break(self, text: str) -> None:
        self.violations.append(text)
        self._tell(f"VIOLATION: {text}")

    # -- connections ------------------------------------------------------------------------

    def connected(self, talk: Talk) -> None:
        self.talks.append(talk)

    def ended(self, talk: Talk) -> None:
        """Note that the client has ended its connection; the server will give back its items."""
        self._tell(f"{talk.number}: says no more")
        talk.at_end = True
        if talk.held is not None and talk.held.holder is talk:
            talk.held_to_end = True
            talk.held.holder, talk.held.ready_us = None, NEVER

    def closed_by_server(self, talk: Talk) -> None:
        if not (talk.at_end or self.is_leaving):
            self.complain(f"connection {talk.number} was closed by the server")

    def lost(self, talk: Talk) -> None:
        """Note that the server has learned that the connection is gone."""
        self._tell(f"{talk.number}: hangs up")
        now = self._now()
        talk.is_over = True
        self.talks.remove(talk)
        self._count_unseen(talk)
        for request in talk.asked:
            self._give_up(request, now)
        held = talk.held
        if held is None or held.gone:
            return
        if held.holder is talk or (talk.held_to_end and now < talk.until_us):
            # A server that ends gives nothing back: the next one finds it ready.
            held.holder, held.ready_us = None, NEVER if self.is_leaving else now

    def _count_unseen(self, talk: Talk) -> None:
        """Count a close after an open without an answer: it confirmed an unknown item."""
        opened = set()
        for request in talk.asked:
            if request.ending == "close" and request.queue in opened and not request.token:
                self.books[request.queue].takes_lost += 1
            if request.opens:
                opened.add(request.queue)

    def _give_up(self, request: Request, now: int) -> None:
        """Note that a request will never be answered; its effect, if any, is complete."""
        book = self.books[request.queue]
        self.hands.unanswered(request, now)
        self.once[book.name].uncancelled(request, now)
        if request in book.underway:
            book.underway.remove(request)
            book.died_us.append(now)
            book.takes_lost += request.takes
            book.opens_lost += request.opens
            book.lost_open(request, now)
        book.standing.unanswered(request)
        if request in book.wipes:
            book.half_deleted |= request.verb == "delete"
            book.end_wipe(request, now)
            if request.verb == "delete":
                self._deleted(book)
        if request.item is not None:
            self.once[book.name].unanswered(request.item, now)
            self._expires(request, request.item, now)
        if request.token:
            lease = self.leases[book.name].by_token.get(request.token)
            if lease is not None and lease.thing.doubt_until_us == NEVER:
                lease.thing.doubt_until_us = now
            return
        held = request.talk.held if request.talk is not None else None
        if request.ending == "close" and held is not None and held.doubt_until_us == NEVER:
            held.doubt_until_us = now

    def _deleted(self, book: Book) -> None:
        """Note that a delete of this queue has arrived, or is over."""
        self.leases[book.name].forget(self._now())
        self.once[book.name].forget()
        self.kids.lost_their_parent(book, self._now())
        if book.name in self.streams:
            self.streams[book.name].forget()

    def _expires(self, request: Request, thing: Thing, now: int) -> None:
        if request.expiry > 0:
            thing.expires_last_ms = unix_ms(now) + request.expiry * 1000
            self.kids.expires(thing)

    def not_stored(self, thing: Thing) -> None:
        """Note that the item was certainly not stored: it must never be seen."""
        thing.refused = True
        if thing.claim is not None:
            thing.claim.is_out = True
        self.books[thing.queue].things.pop(thing.number, None)
        self.kids.refused(thing)

    def _proven(self, thing: Thing, now: int) -> None:
        """Note that the item was seen, or another answer proves it: it is stored and on disk."""
        first = thing.original or thing
        if first.claim is not None:
            for wrong in first.claim.once.proven(first.claim, now):
                self.complain(wrong)
        self.hands.new_is_there(first, now)
        self.kids.seen(thing, now)

    # -- requests ---------------------------------------------------------------------------

    def arrived(self, talk: Talk, request: Request) -> None:
        """Note that the server has the last byte of a request."""
        self._tell(f"{talk.number}> {request}")
        now = request.arrived_us = self._now()
        request.talk = talk
        if not request.noreply:
            talk.asked.append(request)
        book = self.books[request.queue]
        held = talk.held if talk.held_queue == request.queue and not request.token else None
        thing = request.item
        if book.parent is not None:
            self.kids.named(request, book)
        for shelf in self.shelves.values():
            shelf.spend(request)
        if request.token:
            self._token_named(request, book)
        if thing is not None:
            thing.arrived_us = now
            thing.talk = talk
            if request.expiry:
                thing.expires_first_ms = unix_ms(now) + max(request.expiry, 0) * 1000
                if request.expiry < 0:
                    thing.expires_last_ms = unix_ms(now)
            self.things[thing.number] = thing
            book.put(thing)
            self.kids.put(thing, book)
            if book.name in self.shelves:
                self.shelves[book.name].put(thing)
            if book.name in self.streams and thing.key == key_of(book.name):
                self.streams[book.name].arrived(thing)
            if request.id:
                self.once[book.name].arrived(request, thing)
                if book.name in self.shelves and self.once[book.name].cancels:
                    self.shelves[book.name].cancel([thing])
            if request.hands_off:
                self.hands.arrived(talk, request, thing)
        elif request.cancels:
            self.once[book.name].cancel(request)
            if book.name in self.shelves:
                self.shelves[book.name].cancel(self.once[book.name].may_end(request))
        elif request.wipes:
            self._note_sure(request, book, now)
            book.wipe(request, now)
            if request.verb == "delete":
                self._deleted(book)
        elif request.verb in MOVES:
            book.move_arrived(request, now)
        elif request.verb == "touch" and held is not None:
            talk.until_us = min(talk.until_us, now + request.seconds * 1_000_000 - EARLY_US)
            talk.over_us = NEVER
            if held.holder is talk:
                held.held_until_us, held.over_us = talk.until_us, NEVER
        else:
            book.standing.arrived(request)
        if request.ending and held is not None:
            if held.holder is talk:
                request.was_sure = True
                held.holder, held.ready_us = None, NEVER
            if request.ending == "close":
                self._close_came(request, held, book)
            elif request.delay_us:
                held.put_off()
        if request.fetches:
            book.underway.append(request)
            book.fetched_us = now

    def _token_named(self, request: Request, book: Book) -> None:
        leases = self.leases[book.name]
        request.was_sure = leases.arrived(request)
        if request.confirms and request.token in leases.by_token:
            thing = leases.by_token[request.token].thing
            if not thing.gone:
                self._close_came(request, thing, book)
        elif request.delay_us and request.token in leases.by_token:
            leases.by_token[request.token].thing.put_off()

    def _close_came(self, request: Request, thing: Thing, book: Book) -> None:
        thing.closes += 1
        request.alone = 0 if thing.doubt else thing.closes
        book.suspect(thing, NEVER)

    def _note_sure(self, request: Request, book: Book, now: int) -> None:
        """Note the items that a flush or delete certainly finds."""
        if book.wipes:
            request.found = []
        elif request.verb == "delete":
            request.found = [t for t in book.things.values() if t.stored_us and not t.doubt]
        elif not book.excuses(request):
            request.found = book.surely_ready(now, now)

    # -- replies ----------------------------------------------------------------------------

    def said(self, talk: Talk, data: bytes) -> None:
        """Take the bytes that the server has sent."""
        talk.buffer += data
        try:
            while (request := talk.parse()) is not None:
                assert request.reply is not None
                request.left_us = self._now()
                self._tell(f"{talk.number}< {request.reply}")
                self.answers += 1
                self._answered(talk, request, request.reply)
                talk.answered.append(request)
        except NotWellFormed as wrong:
            self.complain(f"connection {talk.number}: {wrong}")
            talk.buffer = b""

    def _answered(self, talk: Talk, request: Request, reply: Reply) -> None:
        book = self.books[request.queue]
        now = request.left_us
        if reply.word == "SERVER_ERROR":
            book.standing.unanswered(request)
            self.once[book.name].uncancelled(request, now)
            self._refused(talk, request, reply, book)
        elif reply.word == "CLIENT_ERROR" and (
            # (a target refuses what is moved to it)
            request.hands_off or request.verb in MOVES or INVALID.search(reply.error)
        ):
            self._refused(talk, request, reply, book)
        elif (
            book.failed_us
            and not book.is_parentless  # with its last item it goes, and there is another
            and request.arrived_us > book.failed_us
            and not (request.peeks or request.verb == "stats")
        ):
            self.complain(f"{reply} to {request}, but the journal of {book.name} has failed")
        elif reply.word == "CLIENT_ERROR":
            is_right = "close or abort the open item first" in reply.error and talk.may_hold
            is_right |= "to the dead letters at once" in reply.error and request.delay_us > 0
            if not is_right:
                self.complain(f"{request} was answered {reply}")
        elif request.item is not None:
            self._stored(request, reply, request.item, book)
        elif request.cancels:
            for wrong in self.once[book.name].cancelled(request, reply):
                self.complain(wrong)
        elif request.token:
            self._token_answered(request, reply, book)
            if reply.word == "VALUE":
                self._shown(talk, request, reply, book)
            elif request.opens:
                self._nothing(request, book)
        elif request.verb in MOVES:
            book.open_moves.remove(request)
        elif request.declares or request.verb in SWITCHES:
            if any(each.verb == "delete" for each in book.wipes):
                book.standing.deleted(now)  # before this or after it: not known
            for wrong in book.standing.answered(request, reply):
                self.complain(wrong)
        elif request.wipes:
            self._wiped(request, reply, book)
        elif request.verb == "touch":
            self._touched(talk, request, reply, book)
        elif request.stream:
            shelf = self.shelves.get(book.name)
            for wrong in self.streams[book.name].looked(request, reply, shelf):
                self.complain(wrong)
        elif request.verb in ("get", "gets"):
            if request.ending or request.opens:
                talk.overdue.discard(request.queue)
            if request.ending:
                self._ended_lease(talk, request, book)
            if reply.word == "VALUE":
                for each in (reply, *reply.more):
                    self._shown(talk, request, each, book)
                    request.behind = each.number
            elif request.fetches or request.peeks:
                held = talk.held if talk.held_queue == request.queue else None
                if request.opens and held is not None and request.left_us >= talk.until_us:
                    self.over(talk, held, request)  # a further open is refused else
                self._nothing(request, book)
            if request.after >= 0 and book.name in self.shelves and not talk.at_end:
                for wrong in self.shelves[book.name].answered(request, reply):
                    self.complain(wrong)
        elif request.verb == "stats" and book.name in self.shelves:
            for wrong in self.shelves[book.name].counted(request, reply):
                self.complain(wrong)
        if book.parent is not None and "ERROR" not in reply.word:
            self.kids.answered(request, book)
        if request in book.underway:
            book.underway.remove(request)
        if request in book.wipes:
            book.end_wipe(request, now)
            if request.verb == "delete":
                self._deleted(book)

    def _token_answered(self, request: Request, reply: Reply, book: Book) -> None:
        leases, now = self.leases[book.name], request.left_us
        judge = leases.touched if request.verb == "touch" else leases.ended
        for wrong in judge(request, reply):
            self.complain(wrong)
        lease = leases.by_token.get(request.token)
        if lease is None or request.verb == "touch":
            return
        thing, is_done = lease.thing, reply.word in ("END", "DELETED", "VALUE")
        if request.confirms:
            if is_done and not thing.gone:
                book.remove(thing, book.rules.confirmed, now)
            elif thing.doubt_until_us == NEVER:
                thing.doubt_until_us = now
        elif is_done and request.was_sure and thing.holder is None and not thing.gone:
            self._is_back(request, thing)
            thing.sure_ends += request.ending == "abort"

    def _refused(self, talk: Talk, request: Request, reply: Reply, book: Book) -> None:
        now = request.left_us
        held = talk.held if talk.held_queue == request.queue else None
        if request.item is not None:
            self.once[book.name].unanswered(request.item, now)
            self._expires(request, request.item, now)
        if request.hands_off:
            for wrong in self.hands.refused(talk, request, reply):
                self.complain(wrong)
            return
        if request.verb in MOVES:
            return  # it goes on or not: the items that it may have moved are known
        if request.token and INVALID.search(reply.error):
            self._token_answered(request, reply, book)
        elif "lease expired" in reply.error and request.ending == "close" and held is not None:
            if now < talk.until_us and book.deleted_us < talk.held_arrived_us:
                self.complain(f"{request} answered {reply}, but the lease of {held} is not over")
            self.over(talk, held, request)
        elif "lease expired" in reply.error and request.confirms and request.queue in talk.overdue:
            talk.overdue.remove(request.queue)
        elif "was not removed from disk" in reply.error and self.has_faults:
            book.half_deleted = True  # (why not may be that another one's journal failed)
        elif JOURNAL.search(reply.error):
            if not book.may_fail:
                self.complain(f"{request} answered {reply}, but nothing failed there")
            elif book.deleted_us < request.arrived_us and (
                book.parent is None or book.linked_us < NEVER  # else it is not there, perhaps
            ):
                book.failed_us = book.failed_us or now
            book.opens_lost += request.opens
            book.takes_lost += request.takes or (request.ending == "close" and held is None)
            talk.open_failed_us = now if request.opens else talk.open_failed_us
        elif "was deleted" in reply.error and (
            book.is_being_deleted or book.deleted_us >= request.arrived_us
        ):
            book.opens_lost += request.opens
            book.takes_lost += request.takes or (request.ending == "close" and held is None)
            talk.open_failed_us = now if request.opens else talk.open_failed_us
        elif self.is_leaving and request.opens and "the server stops" in reply.error:
            pass  # a wait over HTTP is answered when the server ends
        elif request.item is not None and self.is_refused_for_now(reply):
            self.not_stored(request.item)
        elif self.was_short and SHORT.search(reply.error):
            if request.ending and held is not None and held.doubt_until_us == NEVER:
                held.doubt_until_us = now
        elif (
            (
                request.declares or request.verb in SWITCHES or request.token
                or request.lease_us or request.cancels or book.parent is not None
            )  # (who names a child first makes a record)
            and self.no_room_us
            and NO_ROOM.search(reply.error)
        ):
            pass
        else:
            self.complain(f"{request} answered {reply} without a reason")

    def is_refused_for_now(self, reply: Reply) -> bool:
        """True if there is no room, or no file could be opened, and the reply says so."""
        is_short = self.was_short and SHORT.search(reply.error)
        return bool(is_short or (self.no_room_us and NO_ROOM.search(reply.error)))

    def over(self, talk: Talk, held: Thing, request: Request) -> None:
        """Note that the lease of an item was over before this close came, which did not confirm it.

        The item stays in doubt if another close of it is under way, or had no answer.
        """
        if request.alone and request.alone == held.closes and not held.gone:
            held.doubt = False
            held.doubt_until_us = self._now()
            if self.books[held.queue].last_wipe_us >= talk.held_arrived_us:
                held.doubt = True
        talk.held = None

    def _stored(self, request: Request, reply: Reply, thing: Thing, book: Book) -> None:
        now, most = request.left_us, book.rules.max_items
        sure = book.surely_ready(request.arrived_us, now)
        there = book.possible(request.arrived_us) - (reply.word == "NOT_STORED")
        is_of_stream = book.name in self.streams and thing.key == key_of(book.name)
        if is_of_stream:
            for wrong in self.streams[book.name].answered(request, reply):
                self.complain(wrong)
            if reply.word != "STORED":
                self.not_stored(thing)
                return
        if request.hands_off:
            for wrong in self.hands.answered(request, reply):
                self.complain(wrong)
        if request.id:
            once = self.once[book.name]
            for wrong in once.answered(request, reply, most is not None and there >= most):
                self.complain(wrong)
            if once.reason is not None:
                self._proven(once.reason, now)
        if thing.refused and reply.word == "STORED":  # a duplicate
            self.not_stored(thing)
            return
        if reply.word == "NOT_STORED":
            self.not_stored(thing)
            discards = book.rules.discards and not book.may_be_delayed(request.arrived_us)
            discards &= book.deleted_us < request.arrived_us  # else delayed items are not known
            if request.verb == "set" and (most is None or there < most or discards):
                self.complain(f"{request} answered NOT_STORED, but {book.name} is not full")
            if request.verb == "add" and not there and not request.id:
                self.complain(f"{request} answered NOT_STORED, but {book.name} is empty")
            return
        if book.rules.always_synced and 0 < book.fault_us < request.arrived_us:
            self.complain(f"{request} answered STORED after a write or sync had failed")
        self._expires(request, thing, now)
        if request.id and thing.claim is not None and not thing.claim.proven_us:
            return  # this one, or one before it: it is a duplicate then
        excuses = book.excuses(request)
        if most is not None and not book.rules.discards and len(sure) - excuses >= most:
            self.complain(f"{request} answered STORED, but {book.name} holds {len(sure)}")
        if request.verb == "add" and len(sure) > excuses and not (request.id or is_of_stream):
            self.complain(f"{request} answered STORED, but {book.name} is not empty")
        if not thing.stored_us:
            thing.stored(now)
        self.kids.stored(thing, now)
        if request.arrived_us <= book.last_wipe_us:
            book.suspect(thing)

    def _wiped(self, request: Request, reply: Reply, book: Book) -> None:
        now = request.left_us
        found: Sequence[Thing] = request.found
        if reply.word == "NOT_FOUND" and found and book.wipes == [request]:
            self.complain(f"{request} answered NOT_FOUND, but {found[0]} is there")
        if reply.word == "DELETED":
            self.once[book.name].forget(request.arrived_us)
            if book.name in self.shelves:
                self.shelves[book.name].erase(request.arrived_us, now)
            if book.name in self.streams:
                self.streams[book.name].erase(request.arrived_us)
            for thing in list(book.things.values()):
                if thing.stored_us and thing.stored_us < request.arrived_us and not (
                    book.may_leave(thing, now)
                ):
                    # A removed file is gone at once; the end of a child is a record of its queue.
                    how = book.rules.flushed if book.parent is not None else "synced"
                    book.remove(thing, how, now)
        elif request.verb == "flush" and book.fetched_us < request.arrived_us:
            for thing in found:
                if not thing.gone and thing.holder is None:
                    book.remove(thing, book.rules.flushed, now)

    def _touched(self, talk: Talk, request: Request, reply: Reply, book: Book) -> None:
        held = talk.held
        if held is None or talk.held_queue != book.name or reply.word != "TOUCHED":
            return
        length_us = request.seconds * 1_000_000
        talk.until_us = request.arrived_us + length_us - EARLY_US
        talk.over_us = request.left_us + length_us
        if held.holder is talk:
            held.held_until_us, held.over_us = talk.until_us, talk.over_us

    def _ended_lease(self, talk: Talk, request: Request, book: Book) -> None:
        """Note that close, abort or defer succeeded, for the item of this connection, if any."""
        thing, now = talk.held, request.left_us
        if thing is None or talk.held_queue != book.name:
            # It may have been sent before the error of its open came: then its item is unknown.
            is_blind = request.ending == "close" and request.arrived_us < talk.open_failed_us
            book.takes_lost += is_blind
            return
        talk.held = None
        deleted = book.deleted_us >= talk.held_arrived_us
        if request.ending == "close":
            if deleted or thing.gone:
                thing.doubt_until_us = min(thing.doubt_until_us, now)
                return
            if talk.over_us + LATE_US < request.arrived_us:
                self.complain(f"{request} confirmed {thing}, but its lease was over")
            book.remove(thing, book.rules.confirmed, now)
            return
        is_back = request.was_sure and now < talk.until_us
        if is_back and thing.holder is None and not thing.gone and not deleted:
            self._is_back(request, thing)
            thing.sure_ends += request.ending == "abort"

    def _is_back(self, request: Request, thing: Thing) -> None:
        """Note that the item is ready again, or will be when it is due, unless it is leased."""
        if thing.leased_us > request.arrived_us:
            return
        late_us = request.delay_us + LATE_US if request.delay_us else 0
        thing.ready_us = request.left_us + late_us
        if request.delay_us:
            thing.available_us = thing.ready_us
            if not self.books[request.queue].may_be_dead(thing):
                thing.put_off_us = request.arrived_us + request.delay_us - EARLY_US

    # -- what is shown ----------------------------------------------------------------------

    def _nothing(self, request: Request, book: Book) -> None:
        """Check an END: no item may have been certainly there."""
        talk = request.talk
        assert talk is not None
        if request.dead or talk.at_end or book.may_fail:
            return
        if (book.rules.max_leased or book.standing.may_lease_nothing(request)) and (
            not request.peeks
        ):
            return
        if request.after >= 0:
            sure = [[thing] for thing in surely_behind(request, book)]
        else:
            sure = book.fetchable(request.arrived_us, request.left_us)
        if len(sure) > book.excuses(request):
            self.complain(f"{request} answered END, but {sure[0][0]} is ready")

    def _is_there(self, request: Request, thing: Thing, book: Book) -> bool:
        """Return True if the item may be in this queue; if it came from another one, note that."""
        source = self.books[thing.queue]
        if source is book:
            thing.may_go_back = False
            return True
        if book in source.sources and thing.may_go_back:
            if request.after < 0:
                book.arrive(thing, source, request)
            return True
        if source in book.sources and source.may_leave(thing, request.left_us):
            if request.after < 0:
                book.arrive(thing, source, request)
            return True
        # An observer sees an item in transfer in both queues. A lease may be over before its answer
        # leaves.
        is_old = request.arrived_us <= thing.came_us and not request.takes
        return book in source.sources and (request.after >= 0 or is_old)

    def _shown(self, talk: Talk, request: Request, reply: Reply, book: Book) -> None:
        now = request.left_us
        thing = self.kids.thing(reply.flags, book)
        if thing is None or not thing.arrived_us or not self._is_there(request, thing, book):
            self.complain(f"{request} shows item {reply.flags}, which was never stored there")
            return
        if book.name in self.shelves:
            for wrong in self.shelves[book.name].shown(request, reply, thing):
                self.complain(wrong)
        if thing.queue != book.name:  # where it was before: a lease of it was over at once
            if request.opens and not request.lease_us:
                talk.overdue.add(book.name)
            return
        fresh = book.is_fresh(request, now)
        if not request.peeks:
            for wrong in book.standing.leased(request):
                self.complain(wrong)
        for wrong in wrong_with(request, reply, thing, book, fresh):
            self.complain(wrong)
        self._proven(thing, now)
        if request.after < 0:
            self.hands.old_is_there(thing, request)
        lease: Lease | None = None
        if request.lease_us:
            thing.ends += 1
            lease = self.leases[book.name].leased(request, reply.number, thing)
        elif request.opens:
            thing.ends += 1
            if talk.held is not None and talk.held_queue != book.name:
                talk.overdue.add(talk.held_queue)  # that lease was over, and no close of it came
            talk.held, talk.held_queue, talk.held_arrived_us = thing, book.name, request.arrived_us
            talk.until_us = request.arrived_us + book.rules.lease_us - EARLY_US
            talk.over_us = now + book.rules.lease_us
        if request.after >= 0 and book.rules.retains:
            thing.stored_us = thing.stored_us or now
            return  # done or not: not known
        if thing.gone and not thing.may_return and (
            request.arrived_us <= thing.gone_us or is_in_doubt(request, thing, book)
        ):
            return  # an old answer, from before it went, or it is in doubt
        book.back(thing)
        thing.stored_us = thing.stored_us or now
        was_asked_behind = request.arrived_us > max(thing.doubt_until_us, book.last_wipe_us)
        if was_asked_behind and not (request.after >= 0 and thing.roams):  # (or is it on its way?)
            thing.doubt = False
        if request.after >= 0:
            return  # it may be leased, or dead
        if request.peeks:
            if thing.ready_us == NEVER and thing.holder is None and not request.dead:
                thing.ready_us = now + LATE_US
            return
        if request.takes:
            book.remove(thing, book.rules.confirmed, now)
            return
        thing.holder = (lease or talk) if fresh else None
        thing.from_the_dead = request.dead
        thing.ready_us, thing.leased_us = NEVER, now
        held = lease or talk
        thing.held_until_us, thing.over_us = held.until_us, held.over_us
        if any(each.ending == "close" and each.queue == book.name for each in talk.asked):
            thing.closes += 1
            book.suspect(thing, NEVER)

    # -- lives of the server ----------------------------------------------------------------

    def fault(self, verb: str, queue: str) -> None:
        """Note that a verb of the disk failed, for this queue if one is named."""
        self.has_faults = True
        self.was_unreadable |= verb in ("read", "open", "size", "names")
        for shelf in self.shelves.values():
            shelf.is_unsure |= self.was_unreadable
        if queue not in self.books:
            return
        book = self.books[queue]
        is_old = book.half_deleted or any(each.verb == "delete" for each in book.wipes)
        # They may have the old log still.
        is_old |= any(each.is_parentless for each in book.children)
        for each in (book, *book.children):  # they have one log
            each.may_fail = True
            if verb in ("write", "sync") and not (is_old or each.is_parentless):
                each.fault_us = each.fault_us or self._now()

    def end_life(self, how: str) -> None:
        """Note that the server ended: clean, kill or power."""
        for talk in self.talks:
            self._count_unseen(talk)
        for book in self.books.values():
            leases = self.leases[book.name]
            lasting = {lease for lease in leases.by_token.values() if lease.thing.holder is lease}
            if any(wipe.verb == "delete" for wipe in book.wipes):
                self._deleted(book)
            self.once[book.name].end_life(
                how == "power" and not book.rules.always_synced, self._now()
            )
            book.end_life(how, self._now())
            if book.name in self.shelves:
                self.shelves[book.name].end_life(how == "power" and not book.rules.always_synced)
            if book.name in self.streams and how == "power" and not book.rules.always_synced:
                self.streams[book.name].is_void = True
            if how == "power" or self.has_faults:  # on a full disk it may stand in no record
                for thing in book.things.values():
                    thing.put_off_us = 0
            if self.no_room_us or self.was_short:  # nor do the attempts that were counted
                for thing in book.things.values():
                    thing.sure_ends = 0
            leases.end_life(how, self._now(), lasting)
        self.hands.end_life(self._now())
        self.kids.end_life(how)
        self.talks.clear()
        self.is_leaving = False
        self.no_room_us = 0
        self.has_faults = self.was_short = False

    def begin_life(self) -> None:
        """Note that the server answers again."""
        for book in self.books.values():
            book.begin_life(self._now())
