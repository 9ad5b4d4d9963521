"""A PostgreSQL in memory: a primary, its synchronous standby, and all that may happen to both.

    statement ──▶ row lock ──▶ log of the primary ──▶ log of the standby ──▶ visible, answered
                                     │                        │
                 a restart shows it from here on              a promoted standby has it from here on

    a wait that is cancelled:  visible and answered with a warning; the standby may not have it
    a list that is emptied:    visible and answered without one

What is on the way to a server that dies is lost with its answer; a connection is lost before a
statement, behind it, or before the server comes to it.

One rule: an answer without a warning, while a standby is named, is on both disks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import psycopg

from journal.engine.postgres.settings import STANDBY_NAMES
from tests.simulation.fleet.fibers import Fibers
from tests.simulation.fleet.statements import (
    Change,
    Rows,
    SliceRow,
    Tables,
    effect_of,
    is_read,
    settings_of,
)
from tests.simulation.loop import Moments, Timeline

_TRIP_US: Final = (50, 100, 100, 200, 500)
_FLUSH_US: Final = (100, 200, 200, 400, 2_000)
_FATES: Final = ("before", "behind", "late")  # of a statement whose connection is lost
_SILENCE_US: Final = 500_000
_WARNING: Final = "canceling wait for synchronous replication due to user request"


class Outcome(NamedTuple):
    """What becomes of a statement."""

    rows: Rows = []  # noqa: RUF012  # never changed
    warning: str = ""
    error: str = ""


class _Notice(NamedTuple):
    severity_nonlocalized: str
    message_primary: str


@dataclass(eq=False)
class Pending:
    """A statement that a client waits for."""

    text: str
    values: Any
    answer: Callable[[Outcome], None]


@dataclass(eq=False)
class Node:
    """One server: its log, and the tables as far as they are visible."""

    name: str
    tables: Tables = field(default_factory=Tables)
    log: list[list[Change]] = field(default_factory=list)
    visible: int = 0  # records of the log
    is_up: bool = True
    is_primary: bool = True
    is_gone: bool = False  # dead: it does not come again
    begun: int = 0  # how often it was started: connections of an earlier time are gone
    queue: deque[Pending] = field(default_factory=deque)  # for the lock of the slice's row
    writing: Pending | None = None

    def show(self, upto: int) -> None:
        """Make the records up to this one visible."""
        while self.visible < upto:
            for change in self.log[self.visible]:
                change(self.tables)
            self.visible += 1


class Cluster:
    """The servers, as the clients and the run's troubles see them."""

    def __init__(self, timeline: Timeline, random: Random, tell: Callable[[str], None]) -> None:
        self.timeline = timeline
        self.random = random
        self.tell = tell
        self.count: Callable[[str], None] = lambda what: None
        self.complain: Callable[[str], None] = lambda what: None
        self.primary = Node("n1")
        self.standby: Node | None = Node("n2", is_primary=False)
        self.has_link = True  # does the log reach the standby?
        self.lag_us = 0  # how much longer that takes than usual
        self.names = "n2"  # synchronous_standby_names
        self.cancels = 0.0  # how likely a wait is cancelled
        self.loses = 0.0  # how likely a connection is lost with a statement
        self._servers = 2
        self._waits: list[tuple[Node, int, Callable[[str], None]]] = []  # for the standby
        self._shipping = False

    @property
    def row(self) -> SliceRow | None:
        """Who owns the slice, as anybody can see who asks the primary."""
        return self.primary.tables.slices.get(1)

    # -- statements -------------------------------------------------------------------------

    def run(self, node: Node, begun: int, pending: Pending) -> None:
        """A statement has come to a server."""
        if not node.is_up or node.begun != begun:
            pending.answer(Outcome(error="server closed the connection unexpectedly"))
            return
        settings = {
            "synchronous_standby_names": self.names, "synchronous_commit": "on", "fsync": "on",
            "full_page_writes": "on", "server_version_num": "150000", "server_version": "15.0",
        }  # fmt: skip
        rows = settings_of(pending.text, settings)
        if rows is None and is_read(pending.text):
            rows = effect_of(pending.text, pending.values, node.tables, self.timeline.us).rows
        if rows is not None:
            pending.answer(Outcome(rows))
            return
        node.queue.append(pending)
        self._next(node)

    def _next(self, node: Node) -> None:
        """The next statement has the lock of the row."""
        while node.writing is None and node.queue:
            pending = node.queue.popleft()
            effect = effect_of(pending.text, pending.values, node.tables, self.timeline.us)
            if effect.wrong:
                self.complain(effect.wrong)
            if not effect.changes:
                pending.answer(Outcome(effect.rows))
                continue
            node.writing, begun = pending, node.begun
            us = self.random.choice(_FLUSH_US)
            self.timeline.after(us, partial(self._flushed, node, begun, pending, effect))

    def _flushed(self, node: Node, begun: int, pending: Pending, effect: Any) -> None:
        """The record is on the disk of the primary."""
        if not node.is_up or node.begun != begun:
            return
        node.log.append(effect.changes)
        record = len(node.log)

        def over(warning: str) -> None:
            node.show(record)
            node.writing = None
            pending.answer(Outcome(effect.rows, warning))
            self._next(node)

        if not self.names:
            over("")
            return
        self._waits.append((node, record, over))
        if self.random.random() < self.cancels:
            us = self.random.choice((0, 200, 1_000))
            self.timeline.after(us, lambda: self._cancel(node, record))
        self._ship()

    def _cancel(self, node: Node, record: int) -> None:
        """Somebody ends the wait for the standby."""
        found = [each for each in self._waits if each[:2] == (node, record)]
        if found and node.is_up:
            self.tell("a wait for the standby is cancelled")
            self.count("waits cancelled")
            self._waits.remove(found[0])
            found[0][2](_WARNING)

    def _ship(self) -> None:
        """Send the log to the standby."""
        if not self._shipping:
            self._shipping = True
            us = self.random.choice(_FLUSH_US) + self.lag_us
            self.timeline.after(us, self._shipped)

    def _shipped(self) -> None:
        self._shipping = False
        node, standby = self.primary, self.standby
        if standby is None or not self.has_link or not node.is_up:
            return
        standby.log.extend(node.log[len(standby.log) :])
        done = [each for each in self._waits if each[0] is node and each[1] <= len(standby.log)]
        self._waits = [each for each in self._waits if each not in done]
        for _, _, over in done:
            over("")
        if len(standby.log) < len(node.log):
            self._ship()

    # -- troubles ---------------------------------------------------------------------------

    def set_link(self, is_there: bool) -> None:
        """Primary and standby see each other, or do not."""
        self.has_link = is_there
        self._ship()

    def set_names(self, names: str) -> None:
        """The list of the standbys is changed: who waits for none waits no more."""
        self.names = names
        if not names:
            waits, self._waits = self._waits, []
            for _, _, over in waits:
                over("")
        self._ship()

    def restart_primary(self, down_us: int) -> None:
        """kill -9 of the primary, and it comes again: what its log has is visible then."""
        node = self.primary
        if not node.is_up:
            return
        self.tell(f"{node.name} is killed, and comes again")
        self.count("primaries restarted")
        self._down(node)

        def up() -> None:
            if node is self.primary and not node.is_gone:
                node.is_up = True
                node.show(len(node.log))
                self.tell(f"{node.name} is there again")
                self._ship()

        self.timeline.after(down_us, up)

    def fail_over(self, after_us: int, cut_off_us: int) -> None:
        """The standby is promoted. The old primary is dead, or nobody reaches it but those who
        have a connection, for so long."""
        old, standby = self.primary, self.standby
        if standby is None:
            return
        self.count("failovers")
        self.tell(f"{old.name} is {'cut off' if cut_off_us else 'dead'}, {standby.name} takes over")
        self.standby = None
        self.has_link = True
        if cut_off_us:
            self.timeline.after(cut_off_us, lambda: self._lost(old))
        else:
            self._lost(old)

        def promoted() -> None:
            standby.is_primary = True
            standby.show(len(standby.log))
            self.primary, old.is_primary = standby, False
            self.tell(f"{standby.name} is the primary")
            self.timeline.after(after_us, joined)

        def joined() -> None:
            self._servers += 1
            new = Node(f"n{self._servers}", is_primary=False)
            new.log = list(standby.log)
            self.standby = new
            self._ship()

        self.timeline.after(after_us, promoted)

    def _lost(self, node: Node) -> None:
        node.is_gone = True
        self._down(node)

    def _down(self, node: Node) -> None:
        node.is_up = False
        node.begun += 1
        lost = [*node.queue, *([node.writing] if node.writing is not None else [])]
        node.queue.clear()
        node.writing = None
        self._waits = [each for each in self._waits if each[0] is not node]
        for pending in lost:
            pending.answer(Outcome(error="server closed the connection unexpectedly"))


class Network:
    """What is between one process and the servers."""

    def __init__(self, cluster: Cluster, fibers: Fibers, moments: Moments) -> None:
        self.cluster = cluster
        self.fibers = fibers
        self.moments = moments
        self.is_cut = False

    def connect(self, conninfo: str, **named: Any) -> SimConnection:
        """Stands for `psycopg.connect`."""
        fiber = self.fibers.current
        if fiber is None:
            self.fibers.park(None)
        assert fiber is not None
        cluster = self.cluster
        node = cluster.primary
        self.fibers.sleep(cluster.random.choice(_TRIP_US) / 1e6)
        node = cluster.primary
        if self.is_cut:
            self.fibers.sleep(named["connect_timeout"] * 0.2 * cluster.random.random())
            raise psycopg.OperationalError("connection timeout expired")
        if not node.is_up:
            raise psycopg.OperationalError("connection refused")
        return SimConnection(self, node)

    def ask(self, connection: SimConnection, text: str, values: Any) -> Outcome:
        """Send a statement and wait for what becomes of it."""
        cluster, random = self.cluster, self.cluster.random
        fiber = self.fibers.current
        if fiber is None:
            self.fibers.park(None)  # says that the loop waits
        assert fiber is not None
        waits, trip = fiber.waits, random.choice(_TRIP_US)
        fate = random.choice(_FATES) if random.random() < cluster.loses else ""

        def end(outcome: Outcome, after_us: int) -> None:
            cluster.timeline.after(
                after_us, lambda: self.fibers.answer(fiber, waits, outcome)
            )

        def lost() -> None:
            end(Outcome(error="could not receive data from server: Connection timed out"),
                random.randrange(_SILENCE_US))  # fmt: skip

        def answered(outcome: Outcome) -> None:
            if self.is_cut:
                lost()
            elif fate == "behind" and not outcome.error:
                cluster.count("answers lost")
                end(Outcome(error="connection reset by peer"), trip)
            else:
                end(outcome, trip)

        def arrive() -> None:
            if self.is_cut:
                lost()
            elif fate == "before":
                cluster.count("statements lost")
                end(Outcome(error="connection reset by peer"), trip)
            elif fate == "late":  # the server had it already, and does it when it comes to it
                cluster.count("statements late")
                end(Outcome(error="connection reset by peer"), trip)
                late = Pending(text, values, lambda outcome: None)
                cluster.timeline.after(
                    random.randrange(300_000),
                    lambda: cluster.run(connection.node, connection.begun, late),
                )
            else:
                cluster.run(connection.node, connection.begun, Pending(text, values, answered))

        cluster.timeline.after(trip, arrive)
        outcome = self.fibers.park(None)
        assert isinstance(outcome, Outcome)
        return outcome


class SimConnection:
    """Stands for a connection of psycopg, as far as the engine uses it."""

    def __init__(self, network: Network, node: Node) -> None:
        self.node = node
        self.begun = node.begun
        self.network = network
        self.is_closed = False
        self.on_notice: Callable[[Any], None] = lambda notice: None

    def add_notice_handler(self, handler: Callable[[Any], None]) -> None:
        self.on_notice = handler

    def execute(self, query: str | bytes, values: Any = None, **how: Any) -> SimCursor:
        return self.cursor().execute(query, values)

    def cursor(self, binary: bool = False) -> SimCursor:
        return SimCursor(self)

    def pipeline(self) -> SimPipeline:
        return SimPipeline()

    def close(self) -> None:
        self.is_closed = True


class SimPipeline:
    """Each statement is answered before the next is sent: the same for who reads the answers."""

    def sync(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        pass


class SimCursor(SimPipeline):
    """Stands for a cursor of psycopg."""

    def __init__(self, connection: SimConnection) -> None:
        self._connection = connection
        self._rows: Rows = []

    def execute(self, query: str | bytes, values: Any = None, prepare: bool = False) -> Self:
        connection = self._connection
        text = query.decode() if isinstance(query, bytes) else query
        if connection.is_closed:
            raise psycopg.OperationalError("the connection is closed")
        if text.lstrip().startswith("SELECT pg_terminate_backend"):
            self._rows = []  # each statement arrives whole, so that none is left half done
            return self
        outcome = connection.network.ask(connection, text, values)
        if outcome.error:
            connection.is_closed = True
            raise psycopg.OperationalError(outcome.error)
        if outcome.warning:
            connection.on_notice(_Notice("WARNING", outcome.warning))
        self._rows = outcome.rows
        return self

    def fetchall(self) -> Rows:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None


def round_trip(
    connection: SimConnection, text: str, values: Any, prepared: set[str], asks_standby: bool
) -> tuple[int, str]:
    """Stands for the engine's own: each statement is answered before the next is sent."""
    (count,) = connection.execute(text, values).fetchall()[0]
    named = connection.execute(STANDBY_NAMES).fetchone() if asks_standby else None
    return count, named[0] if named else ""
