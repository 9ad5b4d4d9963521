"""An engine on PostgreSQL: each commit is one statement, fenced by the row of the slice.

    UPDATE slice SET seq = 42 WHERE id = 1 AND epoch = 7 AND seq = 41    the fence
      └─ INSERT INTO extent ..., file ...; UPDATE file; DELETE ...       only if that found the row

After a lost connection it is not known whether the statement was committed. The next connection
first makes a commit of its own: when that is durable, so is everything before it. Then it reads the
number.

One rule: an answer counts only if it came without a warning. If the wait for the standby was
cancelled, the server answers with a success and a warning.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import psycopg

from journal.engine.address import SLICE, name_of
from journal.engine.batch import Batch, batch_of
from journal.engine.engine import (
    PIECE_BYTES,
    Claim,
    EngineAway,
    EngineFull,
    Fenced,
    FileFacts,
    Layout,
    Member,
    Op,
    Owner,
    Piece,
    Seat,
    Takeover,
)
from journal.engine.postgres.connecting import connect
from journal.engine.postgres.errors import reason
from journal.engine.postgres.round_trip import round_trip
from journal.engine.postgres.settings import (
    NO_STANDBY,
    STANDBY_NAMES,
    UnsafeSettings,
    refuse_other_tables,
    refuse_unsafe,
)

# An extent fits into a page of PostgreSQL, and is not moved to a table of its own.
EXTENT_BYTES: Final = 8000

_FENCE: Final = """
WITH own AS (
    UPDATE kestrelpy.slice SET seq = seq + 1, beat = clock_timestamp()
    WHERE id = %(slice)s AND epoch = %(epoch)s AND seq = %(seq)s RETURNING id
)"""
_EXTENTS: Final = """
, extents AS (
    INSERT INTO kestrelpy.extent
    SELECT own.id, u.file, u.pos, %(seq)s, u.n, u.data
    FROM own, unnest(%(e_file)b::int8[], %(e_pos)b::int8[], %(e_n)b::int4[], %(e_data)b::bytea[])
        AS u(file, pos, n, data)
)"""
_NAMES: Final = """
, created AS (
    INSERT INTO kestrelpy.file
    SELECT own.id, u.file, u.path, u.size
    FROM own, unnest(%(c_file)b::int8[], %(c_path)b::text[], %(c_size)b::int8[])
        AS u(file, path, size)
), renamed AS (
    UPDATE kestrelpy.file SET path = u.path
    FROM own, unnest(%(r_file)b::int8[], %(r_path)b::text[]) AS u(file, path)
    WHERE file.slice = own.id AND file.id = u.file
), deleted AS (
    DELETE FROM kestrelpy.file USING own
    WHERE file.slice = own.id AND file.id = ANY (%(d_file)b::int8[])
), freed AS (
    DELETE FROM kestrelpy.extent USING own
    WHERE extent.slice = own.id AND extent.file = ANY (%(d_file)b::int8[])
)"""
_COUNT: Final = " SELECT count(*) FROM own"
_COMMITS: Final = {
    (writes, names): _FENCE + _EXTENTS * writes + _NAMES * names + _COUNT
    for writes in (False, True) for names in (False, True)
}  # fmt: skip

_CLAIM: Final = """
INSERT INTO kestrelpy.slice AS s (id, epoch, seq, member, address, beat)
VALUES (%(slice)s, 1, 0, %(member)s, %(address)s, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET
    epoch = s.epoch + 1, member = excluded.member, address = excluded.address,
    beat = excluded.beat, released = false
WHERE s.epoch = %(seen)s AND s.seq = coalesce(%(seq)s, s.seq)
RETURNING epoch, seq"""
# Ends statements that the server has received only in part: the client sleeps, or is cut off, and
# such a statement holds the row meanwhile. A statement that waits for a standby is left alone, and
# so is a transaction that stays open between two statements: ours never do.
_FREE: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = 'kestrelpy'
    AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL AND wait_event = 'ClientRead'
    AND state = 'active'
    AND state_change < clock_timestamp() - interval '500 milliseconds'"""
_SEQ_NOW: Final = """
UPDATE kestrelpy.slice SET beat = clock_timestamp() WHERE id = %s AND epoch = %s RETURNING seq"""
_RELEASE: Final = """
UPDATE kestrelpy.slice SET released = true WHERE id = %s AND epoch = %s RETURNING seq"""
_BEGIN_IMPORT: Final = """
UPDATE kestrelpy.slice SET importing = true WHERE id = %s AND epoch = %s RETURNING seq"""
_END_IMPORT: Final = """
UPDATE kestrelpy.slice SET importing = false, released = true
WHERE id = %s AND epoch = %s RETURNING seq"""
_OWNERS: Final = """
SELECT s.id, s.member, s.address, s.epoch, s.seq,
       extract(epoch FROM clock_timestamp() - s.beat)::float8, s.released, s.asked = s.epoch,
       s.importing, coalesce(m.takeover, 0)
FROM kestrelpy.slice s LEFT JOIN kestrelpy.member m
    ON m.name = s.member AND m.address = s.address"""
# Members that have said nothing for a day are forgotten, but for those that are to own nothing when
# they come again. What an operator has said of a name holds at another address as well.
_NOTE: Final = """
WITH gone AS (
    DELETE FROM kestrelpy.member WHERE beat < clock_timestamp() - interval '1 day'
        AND NOT drained AND (name, address) <> (%(member)s, %(address)s)
)
INSERT INTO kestrelpy.member AS m (name, address, takeover, beat, waits, drained)
VALUES (%(member)s, %(address)s, %(takeover)s, clock_timestamp(),
        coalesce(%(waits)s::int[], '{}'),
        EXISTS (SELECT FROM kestrelpy.member WHERE name = %(member)s AND drained))
ON CONFLICT (name, address) DO UPDATE SET takeover = excluded.takeover, beat = excluded.beat,
    waits = coalesce(%(waits)s::int[], m.waits)
RETURNING 1"""
_MEMBERS: Final = """
SELECT name, address, takeover, extract(epoch FROM clock_timestamp() - beat)::float8, drained,
       waits
FROM kestrelpy.member ORDER BY name, address"""
# Of each slice some claims are kept.
_NOTE_TAKEOVER: Final = """
WITH old AS (
    DELETE FROM kestrelpy.takeover WHERE slice = %(slice)s AND epoch <= %(epoch)s - 20
)
INSERT INTO kestrelpy.takeover
VALUES (%(slice)s, %(epoch)s, %(member)s, %(address)s, %(before)s, %(why)s, %(idle)s, %(took)s,
        clock_timestamp())
ON CONFLICT DO NOTHING RETURNING 1"""
_TAKEOVERS: Final = """
SELECT slice, epoch, member, address, before, why, idle, took,
       extract(epoch FROM clock_timestamp() - at)::float8
FROM kestrelpy.takeover ORDER BY at DESC, slice LIMIT 200"""
_AGREE: Final = """
INSERT INTO kestrelpy.fleet AS f (id, slices, groups) VALUES (1, %(slices)s, %(groups)s)
ON CONFLICT (id) DO UPDATE SET slices = f.slices RETURNING slices, groups"""
_LAYOUT: Final = "SELECT slices, groups FROM kestrelpy.fleet"
# The extent that reaches furthest begins less than one extent's size before the last one.
_FILES: Final = """
SELECT s.epoch, s.seq, f.id, f.path, f.size, coalesce((
    SELECT max(e.pos + octet_length(e.data)) FROM kestrelpy.extent e
    WHERE e.slice = f.slice AND e.file = f.id AND e.pos > (
        SELECT l.pos FROM kestrelpy.extent l WHERE l.slice = f.slice AND l.file = f.id
        ORDER BY l.pos DESC LIMIT 1) - %(extent)s), 0)
FROM kestrelpy.slice s LEFT JOIN kestrelpy.file f ON f.slice = s.id
WHERE s.id = %(slice)s"""
# Reads the extents with some of the first or the last bytes of their file.
_EDGES: Final = """
SELECT s.epoch, s.seq, x.file, x.size, x.pos, x.data
FROM kestrelpy.slice s LEFT JOIN (
    SELECT f.slice, f.size, e.* FROM kestrelpy.file f CROSS JOIN LATERAL (
        SELECT e.file, e.pos, e.seq AS made, e.n, e.data FROM kestrelpy.extent e
        WHERE e.slice = f.slice AND e.file = f.id AND e.pos < %(front)s
        UNION ALL
        SELECT e.file, e.pos, e.seq, e.n, e.data FROM kestrelpy.extent e
        WHERE e.slice = f.slice AND e.file = f.id AND e.pos >= %(front)s AND e.pos < f.size
            AND e.pos > f.size - %(back)s - %(extent)s
            AND e.pos + octet_length(e.data) > f.size - %(back)s
    ) e
) x ON x.slice = s.id
WHERE s.id = %(slice)s ORDER BY x.file, x.made, x.n"""
_READ: Final = """
SELECT s.epoch, s.seq, e.pos, e.data
FROM kestrelpy.slice s LEFT JOIN kestrelpy.extent e
    ON e.slice = s.id AND e.file = %(file)s AND e.pos > %(first)s AND e.pos < %(end)s
WHERE s.id = %(slice)s ORDER BY e.seq, e.n"""

# For the connection that reads: it commits only what a member says of itself, which may be lost.
_WAITS_FOR_NOBODY: Final = "SET synchronous_commit = off"

T = TypeVar("T")

# The driver logs each lost connection; we log the loss once.
logging.getLogger("psycopg").setLevel(logging.ERROR)


class PostgresEngine:
    """`Engine` on one PostgreSQL, which replicates itself. A connection for commits, one for
    reads."""

    def __init__(self, conninfo: str, is_single: bool = False) -> None:
        """`conninfo` is an address as libpq takes it. `is_single`: one copy is enough."""
        self._conninfo = conninfo
        self._name = name_of(conninfo)
        self._is_single = is_single
        self._committing = _Line(self._connect)
        self._reading = _Line(self._connect_to_read)
        self._is_unsure = False  # the outcome of the last commit is not known
        self._is_waiting = False  # a connection is ready for a claim that has not come

    def claim(
        self, number: int, member: Member, seen: int, seq: int | None = None
    ) -> Claim:
        values = {
            "slice": number, "member": member.name, "address": member.address, "seen": seen,
            "seq": seq,
        }  # fmt: skip
        self._look(_FREE, {})
        self._is_waiting = False
        rows = self._ask(self._committing, _CLAIM, values)
        if not rows:
            raise Fenced(number, seen, "another process claimed the slice, or its owner committed")
        self._is_unsure = False
        return Claim(number, *rows[0])

    def commit(self, at: Claim, ops: Sequence[Op]) -> None:
        if self._is_unsure:
            seq = self._one(_SEQ_NOW, at)
            self._is_unsure = False
            if seq == at.seq + 1:
                return
        batch = batch_of(ops)
        has_names = bool(batch.created or batch.renamed or batch.deleted)
        statement = _COMMITS[bool(batch.written), has_names]
        try:
            done = self._committing.commit(statement, _values(at, batch), not self._is_single)
        except psycopg.errors.DiskFull as error:
            # The server has undone all of the statement, and the question for the standbys that
            # follows it writes nothing.
            raise EngineFull(self._name, reason(error)) from None
        except psycopg.Error as error:
            self._is_unsure = True
            raise EngineAway(self._name, reason(error)) from None
        if not done:
            # A statement of a lost connection may be done after the next one was sent. Then this
            # commit is done, and the epoch is still ours.
            self._is_unsure = True
            if self._one(_SEQ_NOW, at) != at.seq + 1:
                raise Fenced(at.slice, at.epoch, "another process has claimed the slice")
            self._is_unsure = False

    def begin_import(self, at: Claim) -> None:
        """Mark the slice: no daemon claims it. Raise Fenced or EngineAway."""
        self._one(_BEGIN_IMPORT, at)

    def end_import(self, at: Claim) -> None:
        """Take the mark away and release the slice. Raise Fenced or EngineAway."""
        self._one(_END_IMPORT, at)

    def release(self, at: Claim) -> None:
        self._one(_RELEASE, at)

    def files(self, at: Claim) -> list[FileFacts]:
        rows = self._look(_FILES, _of_files(at))
        self._check(at, rows)
        return _facts(rows)

    def edges(self, at: Claim, front: int, back: int) -> list[Piece]:
        rows = self._look(_EDGES, _of_files(at) | {"front": front, "back": back})
        self._check(at, rows)
        return [*_edges(rows, front, back)]

    def read(self, at: Claim, file: int, offset: int, size: int) -> bytes:
        return b"".join(
            self._read_piece(at, file, begin, count) for begin, count in _parts(offset, size)
        )

    def _read_piece(self, at: Claim, file: int, offset: int, size: int) -> bytes:
        rows = self._look(_READ, _of_read(at, file, offset, size))
        self._check(at, rows)
        return _bytes(rows, offset, size)

    def owners(self) -> dict[int, Owner]:
        return _owners(self._look(_OWNERS, {}))

    def note(
        self, member: Member, takeover_s: float, waits: Sequence[int] | None = None
    ) -> None:
        values = {
            "member": member.name, "address": member.address, "takeover": takeover_s,
            "waits": None if waits is None else list(waits),
        }  # fmt: skip
        self._look(_NOTE, values)
        if not self._committing.is_open:
            # Connect now: clients wait for a claim. The claim reports an error of the connection.
            with contextlib.suppress(psycopg.Error):
                self._committing.open()
                self._is_waiting = True

    def members(self) -> list[Seat]:
        return _members(self._look(_MEMBERS, {}))

    def note_takeover(self, takeover: Takeover) -> None:
        self._look(_NOTE_TAKEOVER, {
            "slice": takeover.slice, "epoch": takeover.epoch, "member": takeover.member.name,
            "address": takeover.member.address, "before": takeover.before, "why": takeover.why,
            "idle": takeover.idle_s, "took": takeover.took_s,
        })  # fmt: skip

    def takeovers(self) -> list[Takeover]:
        return _takeovers(self._look(_TAKEOVERS, {}))

    def agree(self, layout: Layout) -> Layout:
        return Layout(*self._ask(self._committing, _AGREE, layout._asdict())[0])

    def close(self) -> None:
        self._committing.close()
        self._reading.close()

    # -- connections --------------------------------------------------------------------------

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = connect(self._conninfo)
        try:
            refuse_unsafe(connection, self._is_single)
            refuse_other_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_to_read(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._is_waiting:
            self._committing.close()  # most likely it is lost as well, and has not noticed yet
        connection = self._connect()
        connection.execute(_WAITS_FOR_NOBODY)
        return connection

    def _ask(self, line: _Line, statement: str, values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of an answer that came without a warning; raise EngineAway."""
        try:
            return line.ask(statement, values, line is self._committing and not self._is_single)
        except psycopg.Error as error:
            raise EngineAway(self._name, reason(error)) from None

    def _look(self, statement: str, values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a read. If the connection was lost while it was unused, connect
        again."""
        if self._reading.is_open:
            with contextlib.suppress(EngineAway):
                return self._ask(self._reading, statement, values)
        return self._ask(self._reading, statement, values)

    def _one(self, statement: str, at: Claim) -> int:
        """Commit a change of the slice's row; return its number of commits. Raise Fenced."""
        rows = self._ask(self._committing, statement, (at.slice, at.epoch))
        if not rows:
            raise Fenced(at.slice, at.epoch, "another process has claimed the slice")
        seq: int = rows[0][0]
        return seq

    def _check(self, at: Claim, rows: list[tuple[Any, ...]]) -> None:
        """Raise Fenced or EngineAway if the server that answered does not know of our commits."""
        epoch, seq = rows[0][:2] if rows else (0, 0)
        if epoch > at.epoch:
            raise Fenced(at.slice, at.epoch, "another process has claimed the slice")
        if epoch < at.epoch or seq < at.seq:
            self._reading.close()
            raise EngineAway(self._name, "the server that answered is behind: not the primary")


class _Line:
    """A connection that is made when it is needed, for one thread at a time."""

    def __init__(self, connect: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._connect = connect
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._warnings: list[str] = []
        self._known = set[str]()  # the statements that this connection has prepared
        self._lock = threading.Lock()

    def ask(
        self, statement: str, values: Any, needs_standby: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return the rows; raise psycopg.Error, also for a warning. Then the connection is gone.

        With `needs_standby` the same packet asks, after the statement, whether the server still
        names a standby: if the list is emptied during the wait, the wait ends with a success and
        without a warning.
        """
        with self._answering() as connection:
            cursor = connection.cursor(binary=True)
            if needs_standby:
                return self._ask_both(connection, cursor, statement, values)
            return cursor.execute(statement.encode(), values, prepare=True).fetchall()

    def commit(self, statement: str, values: dict[str, Any], needs_standby: bool) -> bool:
        """Return True if the statement was done: it answers with a count. Raise as `ask` does."""
        with self._answering() as connection:
            count, named = round_trip(connection, statement, values, self._known, needs_standby)
            if needs_standby:
                self._refuse_none(named)
            return bool(count)

    @contextlib.contextmanager
    def _answering(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Give the connection for one answer; raise psycopg.Error, also for a warning, and let go
        of the connection then."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    self._connection.add_notice_handler(self._notice)
                    self._known = set()
                self._warnings.clear()
                yield self._connection
                if self._warnings:
                    raise psycopg.OperationalError(f"answered with a warning: {self._warnings[0]}")
            except BaseException:
                self._drop()
                raise

    def open(self) -> None:
        """Make the connection, if there is none; raise psycopg.Error."""
        with self._answering():
            pass

    @property
    def is_open(self) -> bool:
        """True if a connection was made, and is not known to be lost."""
        return self._connection is not None

    def _ask_both(
        self, connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any], statement: str,
        values: Any,
    ) -> list[tuple[Any, ...]]:  # fmt: skip
        with connection.pipeline() as pipeline, connection.cursor() as asking:
            cursor.execute(statement.encode(), values, prepare=True)
            pipeline.sync()
            asking.execute(STANDBY_NAMES, prepare=True)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            named = asking.fetchone()
        self._refuse_none(named[0] if named is not None else "")
        return rows

    @staticmethod
    def _refuse_none(named: str) -> None:
        if not named:
            raise UnsafeSettings(NO_STANDBY)

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _notice(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized != "NOTICE":
            self._warnings.append(notice.message_primary or "")


def facts_of(connection: psycopg.Connection[tuple[Any, ...]], at: Claim) -> list[FileFacts]:
    """Return every file of the slice as this connection sees it; raise psycopg.Error."""
    return _facts(connection.execute(_FILES, _of_files(at)).fetchall())


def read_of(
    connection: psycopg.Connection[tuple[Any, ...]], at: Claim, file: int, offset: int, size: int
) -> bytes:
    """Return bytes of a file as this connection sees it; raise psycopg.Error."""
    cursor = connection.cursor(binary=True)
    found = bytearray()
    for begin, count in _parts(offset, size):
        rows = cursor.execute(_READ, _of_read(at, file, begin, count)).fetchall()
        found += _bytes(rows, begin, count)
    return bytes(found)


def owners_of(connection: psycopg.Connection[tuple[Any, ...]]) -> dict[int, Owner]:
    """Return who claimed each slice last; raise psycopg.Error."""
    return _owners(connection.execute(_OWNERS).fetchall())


def _owners(rows: list[tuple[Any, ...]]) -> dict[int, Owner]:
    return {row[0]: Owner(Member(row[1], row[2]), *row[3:]) for row in rows}


def layout_of(connection: psycopg.Connection[tuple[Any, ...]]) -> Layout:
    """Return how queues are spread: over one slice, if nobody has said it; raise psycopg.Error."""
    rows = connection.execute(_LAYOUT).fetchall()
    return Layout(*rows[0]) if rows else Layout(SLICE)


def members_of(connection: psycopg.Connection[tuple[Any, ...]]) -> list[Seat]:
    """Return the processes that may own slices, by name; raise psycopg.Error."""
    return _members(connection.execute(_MEMBERS).fetchall())


def _members(rows: list[tuple[Any, ...]]) -> list[Seat]:
    return [
        Seat(Member(name, address), takeover_s, age_s, is_drained, tuple(waits))
        for name, address, takeover_s, age_s, is_drained, waits in rows
    ]


def takeovers_of(connection: psycopg.Connection[tuple[Any, ...]]) -> list[Takeover]:
    """Return the last takeovers, the newest first; raise psycopg.Error."""
    return _takeovers(connection.execute(_TAKEOVERS).fetchall())


def _takeovers(rows: list[tuple[Any, ...]]) -> list[Takeover]:
    return [
        Takeover(number, epoch, Member(name, address), *rest)
        for number, epoch, name, address, *rest in rows
    ]


def _parts(offset: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a large read: the server sorts the rows of each in memory. It sorts those
    of a whole segment on its disk, which takes twice as long."""
    for begin in range(offset, offset + size, PIECE_BYTES):
        yield begin, min(PIECE_BYTES, offset + size - begin)


def _of_files(at: Claim) -> dict[str, int]:
    return {"slice": at.slice, "extent": EXTENT_BYTES}


def _facts(rows: list[tuple[Any, ...]]) -> list[FileFacts]:
    return [
        FileFacts(file, path, max(size, end), end)
        for *_, file, path, size, end in rows if file is not None
    ]


def edges_of(
    connection: psycopg.Connection[tuple[Any, ...]], at: Claim, front: int, back: int
) -> list[Piece]:
    """Return the edges of every file as this connection sees them; raise psycopg.Error."""
    cursor = connection.cursor(binary=True)
    rows = cursor.execute(_EDGES, _of_files(at) | {"front": front, "back": back}).fetchall()
    return [*_edges(rows, front, back)]


def _edges(rows: list[tuple[Any, ...]], front: int, back: int) -> Iterator[Piece]:
    """Yield the edges of each file, of its extents that have some of these bytes."""
    of_file = dict[tuple[int, int], list[tuple[Any, ...]]]()
    for *_, file, size, begin, data in rows:
        if file is not None:
            of_file.setdefault((file, size), []).append((begin, data))
    for (file, size), extents in of_file.items():
        first = min(front, size)
        yield Piece(file, 0, _bytes(extents, 0, first))
        if size - back >= first:
            yield Piece(file, size - back, _bytes(extents, size - back, back))


def _of_read(at: Claim, file: int, offset: int, size: int) -> dict[str, int]:
    return {
        "slice": at.slice, "file": file, "first": offset - EXTENT_BYTES, "end": offset + size
    }  # fmt: skip


def _bytes(rows: list[tuple[Any, ...]], offset: int, size: int) -> bytes:
    """Return these bytes of a file, of its extents in the order of their commits."""
    found = bytearray(size)
    for *_, begin, data in rows:
        if begin is None or begin >= offset + size:
            continue
        cut = data[max(offset - begin, 0) : offset + size - begin]
        place = max(begin - offset, 0)
        found[place : place + len(cut)] = cut
    return bytes(found)


def _values(at: Claim, batch: Batch) -> dict[str, Any]:
    """The parameters of a commit."""
    extents = [
        (file, offset + at_byte, data[at_byte : at_byte + EXTENT_BYTES])
        for file, written in batch.written.items()
        for offset, data in written
        for at_byte in range(0, len(data), EXTENT_BYTES)
    ]
    return {
        "slice": at.slice, "epoch": at.epoch, "seq": at.seq,
        "e_file": [each[0] for each in extents], "e_pos": [each[1] for each in extents],
        "e_n": list(range(len(extents))), "e_data": [each[2] for each in extents],
        "c_file": list(batch.created), "c_path": [each[0] for each in batch.created.values()],
        "c_size": [each[1] for each in batch.created.values()],
        "r_file": list(batch.renamed), "r_path": list(batch.renamed.values()),
        "d_file": batch.deleted,
    }  # fmt: skip
