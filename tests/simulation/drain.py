"""The end of a run: the server starts once more and everything is fetched from it.

    resume ─▶ stats ─▶ get until END ─▶ q/dead until END ─▶ a set and a get: none is missing

One rule: what must be there comes, what must not does not, and `stats` said so before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.books import Book, Thing
from tests.simulation.requests import Reply, Request
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.world import World

_PATIENCE_US: Final = 5_000_000
_FETCHES_MAX: Final = 5_000


class Drain:
    """One client, alone with the server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = world.ledger
        self.wire: Wire | None = None

    def run(self) -> None:
        """Ends with a violation at the latest when something is wrong."""
        world = self.world
        world.restart_cleanly()
        if self.ledger.violations:
            return
        self.wire = world.connect()
        assert self.wire is not None
        world.timeline.run_until(world.timeline.us + 10_000)
        for book in self.ledger.books.values():
            self._drain(book)
            if self.ledger.violations:
                return

    def ask(self, request: Request) -> Reply:
        """Say it and wait for the answer."""
        world, wire = self.world, self.wire
        assert wire is not None
        wire.send([request])
        end = world.timeline.us + _PATIENCE_US
        while request.reply is None and world.timeline.us < end and not self.ledger.violations:
            world.timeline.run_until(world.timeline.us + 1_000)
        if request.reply is None:
            self.ledger.complain(f"no answer to {request}")
            return Reply("NONE")
        return request.reply

    def _drain(self, book: Book) -> None:
        if self.ask(Request("resume", book.name)).word not in ("OK", "NOT_FOUND"):
            self.ledger.complain(f"{book.name} cannot be resumed")
        sure = [t for t in book.things.values() if t.stored_us and not t.doubt]
        began_us = self.world.timeline.us
        stats = self.ask(Request("stats", book.name)).stats
        came = self._fetch_all(book, "")
        dead = self._fetch_all(book, "dead")
        if self.ledger.violations:
            return
        # What expired and was not read back yet is counted until it is.
        there_may_be = [*book.things.values(), *book.ghosts.values(), *came]
        expiring = [t for t in there_may_be if t.expires_first_ms]
        self._count(book, stats, came, dead, bool(expiring))
        there = {thing.number for thing in came + dead}
        missing = [t for t in sure if t.number not in there]
        missing = [t for t in missing if not t.may_be_expired(self.world.timeline.us)]
        if len(missing) > book.takes_lost:
            self.ledger.complain(
                f"lost: {', '.join(map(str, missing))}, and only {book.takes_lost} plain gets "
                f"had no answer (drained from {began_us} us)"
            )
        thing = self.world.new_thing(book.name, 10)
        reply = self.ask(Request("set", book.name, item=thing))
        if reply.word != "STORED":
            self.ledger.complain(f"a last set into {book.name} was answered {reply}")
        reply = self.ask(Request("get", book.name))
        if reply.flags != thing.number:
            self.ledger.complain(f"a last get from {book.name} was answered {reply}")

    def _fetch_all(self, book: Book, options: str) -> list[Thing]:
        came: list[Thing] = []
        for _ in range(_FETCHES_MAX):
            reply = self.ask(Request("get", book.name, options))
            if reply.word != "VALUE" or self.ledger.violations:
                break
            came.append(self.ledger.things[reply.flags])
        return came

    def _count(
        self,
        book: Book,
        stats: dict[str, str],
        came: list[Thing],
        dead: list[Thing],
        expiring: bool,
    ) -> None:
        """`stats` at rest is what comes out."""
        if not stats:
            if came or dead:
                self.ledger.complain(f"{book.name} has no stats, but {len(came)} items")
            return
        expected = {"dead": len(dead), "open_transactions": 0, "waiters": 0, "leased": 0}
        if not expiring:
            expected |= {"items": len(came)}
            if not book.rules.discards:  # the size of a head that is dropped unread is a guess
                expected |= {"bytes": sum(len(t.body) for t in came)}
        for name, value in expected.items():
            said = stats.get(f"queue_{book.name}_{name}")
            if said != str(value):
                self.ledger.complain(f"stats {book.name} {name} is {said}, but {value} came")
