"""The end of a run: the server starts once more and everything is fetched from it.

    resume ─▶ stats ─▶ get until END ─▶ q/dead until END ─▶ a set and a get: none is missing

If items move between queues, they go on moving meanwhile: all queues are emptied again and again,
until no more items come.

Retained items are read before that, after that, and once more after a power cut.

One rule: every item that must be there comes, no other one does, and `stats` said so before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.books import NEVER, Book, Thing
from tests.simulation.clients import DELAYS_MS
from tests.simulation.historian import OPTIONS
from tests.simulation.requests import Reply, Request
from tests.simulation.shelf import Pass, Shelf
from tests.simulation.streams import Stream, key_of
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_PATIENCE_US: Final = 5_000_000
_FETCHES_MAX: Final = 5_000
# After this time without an item, every transfer that rests between two attempts has gone on.
_QUIET_US: Final = 3_000_000


class Drain:
    """One client, alone with the server."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.checker = world.checker
        self.wire: Wire | None = None
        self._came = set[tuple[str, int]]()

    def run(self) -> None:
        """Drain all queues; report a violation if anything is wrong."""
        world = self.world
        world.restart_cleanly()
        if self.checker.violations:
            return
        self.wire = world.connect()
        assert self.wire is not None
        world.timeline.run_until(world.timeline.us + 10_000 + max(DELAYS_MS) * 1000)
        books = [*self.checker.books.values()]
        self._read_again()
        if any(book.rules.moves for book in books):
            self._drain_together(books)
        else:
            for book in books:
                self._drain(book)
                if self.checker.violations:
                    return
        self._is_scheduled()
        self._read_again()
        if (self.checker.shelves or self.checker.streams) and not self.checker.violations:
            world.crash("power")
            world.start()
            world.ensure_up()
            self.wire = world.connect()
            self._read_again()

    def _read_again(self) -> None:
        """Read all retained items, from the first to the last, and the versions of keys."""
        for stream in self.checker.streams.values():
            self._read_versions(stream)
        for shelf in self.checker.shelves.values():
            reading = Pass(shelf.book.name, self.world.timeline.us)
            reply = Reply("NONE")
            while reply.word != "END" and not self.checker.violations:
                options = self.world.random.choice(OPTIONS)
                key = f"peek/after={reading.after}{options}"
                reply = self.ask(Request("gets", shelf.book.name, key, reading=reading))
                reading.after = (reply, *reply.more)[-1].number
            self.world.count("readings of what is retained")
            self._count_gaps(shelf)

    def _read_versions(self, stream: Stream) -> None:
        """Read the last version; if no version is ever forgotten, also each one before it."""
        name, rules = stream.book.name, stream.book.rules
        key = f"key={key_of(name)}/peek"
        last = self.ask(Request("gets", name, key)).number
        if rules.retain_us != NEVER or self.checker.violations:
            return
        for version in range(1, last + 1):
            self.ask(Request("gets", name, f"{key}/at_version={version}"))
        self.world.count("readings of versions")
        for wrong in stream.whole(last):
            self.checker.complain(wrong)

    def _count_gaps(self, shelf: Shelf) -> None:
        """Check that a marker older than all retained items has a gap after it, and a newer one
        has none.

        Between the two are expired items, which may count as retained or not.
        """
        name = shelf.book.name
        for _ in range(2):
            earliest, first = self._stat(shelf, "marker_earliest"), self._shown(shelf, 0)
            there = shelf.at(earliest)
            is_wrong = there is not None and not there.expiry and first > earliest
            if is_wrong and self._stat(shelf, "marker_earliest") == earliest:  # it was not over now
                self.checker.complain(f"{name} begins with {earliest}, but {first} is shown")
            after = self.world.random.choice((1, earliest - 2, first - 1, first))
            before = self._stat(shelf, "gaps")
            shown = self._shown(shelf, max(after, 0))
            shelf.may_have_gaps = True  # perhaps no client was ever shown this marker
            gaps = self._stat(shelf, "gaps") - before
            if not shown or self._stat(shelf, "marker_earliest") != earliest:
                continue  # or its time was over just now
            is_gap = 0 < after < earliest - 1
            is_none = after >= first - 1
            self.world.count("gaps" if is_gap else "no gaps")
            if (is_gap and gaps != 1) or (is_none and gaps):
                self.checker.complain(
                    f"{gaps} gaps of {name} behind {after} were counted, and it begins with "
                    f"{earliest}"
                )

    def _shown(self, shelf: Shelf, after: int) -> int:
        """Return the marker of the next item after this one; 0: there is none."""
        return self.ask(Request("gets", shelf.book.name, f"peek/after={after}")).number

    def _stat(self, shelf: Shelf, name: str) -> int:
        queue = shelf.book.name
        options = "" if name == "gaps" else "markers"
        stats = self.ask(Request("stats", queue, options)).stats
        return int(stats.get(f"queue_{queue}_{name}", 0))

    def _is_scheduled(self) -> None:
        """Check that items whose place is not certain are at one of the possible places."""
        checker, us = self.checker, self.world.timeline.us
        came = {number for _, number in self._came}
        missing = [
            (thing, "nor what has its id")
            for once in checker.once.values() for thing in once.lost(came, us)
        ]  # fmt: skip
        missing += [(t, "nor what was to take its place") for t in checker.hands.lost(came, us)]
        for thing, other in missing:
            if not any(book.takes_lost for book in checker.books.values()):
                checker.complain(f"lost: neither {thing} came {other}")

    def ask(self, request: Request) -> Reply:
        """Send a request, and return its answer."""
        world, wire = self.world, self.wire
        assert wire is not None
        wire.send([request])
        end = world.timeline.us + _PATIENCE_US
        while request.reply is None and world.timeline.us < end and not self.checker.violations:
            world.timeline.run_until(world.timeline.us + 1_000)
        if request.reply is None:
            self.checker.complain(f"no answer to {request}")
            return Reply("NONE")
        return request.reply

    def end_pause(self, book: Book) -> None:
        if self.ask(Request("resume", book.name)).word not in ("OK", "NOT_FOUND"):
            self.checker.complain(f"{book.name} cannot be resumed")

    def _drain_together(self, books: list[Book]) -> None:
        timeline, checker = self.world.timeline, self.checker
        for book in books:
            self.end_pause(book)
        stored = [t for book in books for t in book.things.values() if t.stored_us]
        sure = [t for t in stored if not t.doubt]
        began_us = quiet_us = timeline.us
        came = set[int]()
        while timeline.us < quiet_us + _QUIET_US and not checker.violations:
            timeline.run_until(timeline.us + 100_000)
            for book in books:
                for thing in self.fetch_all(book, "") + self.fetch_all(book, "dead"):
                    came.add(thing.number)
                    quiet_us = timeline.us
        missing = [t for t in sure if t.number not in came and not self._may_have_expired(t)]
        if len(missing) > sum(book.takes_lost for book in books) and not checker.violations:
            checker.complain(
                f"lost: {', '.join(map(str, missing))} where items go from queue to queue "
                f"(drained from {began_us} us)"
            )
        for book in books:
            stats = self.ask(Request("stats", book.name)).stats
            self._count(book, stats, [], [], False)
            self._last(book)

    def _may_have_expired(self, thing: Thing) -> bool:
        """True if it may have expired and ended, and not moved to another queue without an expiry.
        """
        book = self.checker.books[thing.queue]
        goes = book.rules.expire_to and not (thing.roams or book.may_be_dead(thing))
        return thing.may_be_expired(self.world.timeline.us) and not goes

    def _drain(self, book: Book) -> None:
        self.end_pause(book)
        sure = [t for t in book.things.values() if t.stored_us and not t.doubt]
        began_us = self.world.timeline.us
        stats = self.ask(Request("stats", book.name)).stats
        came = self.fetch_all(book, "")
        dead = self.fetch_all(book, "dead")
        if self.checker.violations:
            return
        # Expired items that were not read back yet still count.
        there_may_be = [*book.things.values(), *book.ghosts.values(), *came]
        expiring = [t for t in there_may_be if t.expires_first_ms]
        self._count(book, stats, came, dead, bool(expiring))
        there = {thing.number for thing in came + dead}
        missing = [t for t in sure if t.number not in there]
        missing = [t for t in missing if not t.may_be_expired(self.world.timeline.us)]
        if len(missing) > book.takes_lost:
            self.checker.complain(
                f"lost: {', '.join(map(str, missing))}, and only {book.takes_lost} plain gets "
                f"had no answer (drained from {began_us} us)"
            )
        self._last(book)

    def _last(self, book: Book) -> None:
        """It goes on."""
        thing = self.world.new_thing(book.name, 10)
        reply = self.ask(Request("set", book.name, item=thing))
        if reply.word != "STORED":
            self.checker.complain(f"a last set into {book.name} was answered {reply}")
        reply = self.ask(Request("get", book.name))
        # Behind what a deleted queue left to a child stands what its successor's was given, leased.
        has_another = book.parent is not None and book.parent.deleted_us > 0
        if reply.flags != thing.number and not has_another:
            self.checker.complain(f"a last get from {book.name} was answered {reply}")

    def fetch_all(self, book: Book, options: str) -> list[Thing]:
        came: list[Thing] = []
        for _ in range(_FETCHES_MAX):
            reply = self.ask(Request("get", book.name, options))
            if reply.word != "VALUE" or self.checker.violations:
                break
            thing = self.checker.kids.thing(reply.flags, book)
            assert thing is not None
            came.append(thing)
            self._came.add((book.name, thing.number))
        return came

    def _count(
        self,
        book: Book,
        stats: dict[str, str],
        came: list[Thing],
        dead: list[Thing],
        expiring: bool,
    ) -> None:
        """Check that `stats` at rest counted the items that came."""
        if not stats:
            if came or dead:
                self.checker.complain(f"{book.name} has no stats, but {len(came)} items")
            return
        expected = {"dead": len(dead), "open_transactions": 0, "waiters": 0, "leased": 0}
        expected["delayed"] = 0
        if not expiring:
            expected |= {"items": len(came)}
            if not book.rules.discards:  # the size of a head dropped unread is an estimate
                expected |= {"bytes": sum(len(t.body) for t in came)}
        for name, value in expected.items():
            said = stats.get(f"queue_{book.name}_{name}")
            if said != str(value):
                self.checker.complain(f"stats {book.name} {name} is {said}, but {value} came")
