"""Mistakes planted into the engine's driver, its commits, its cache and the member.

One rule: as in `plants`: each is one that a tired person could make, where the real code stands.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest import mock

from journal.engine.cache import Cache, CachedFile
from journal.engine.commits import Commits
from journal.engine.engine import EngineAway
from journal.engine.postgres import postgres_engine
from journal.engine.postgres.postgres_engine import PostgresEngine
from kestrelpy.core.log.log import JournalLog
from kestrelpy.fleet.member import FleetMember
from tests.simulation.plants import Around, around

_MORE_LOOKS: Final = 50  # some 25 ms of a slow standby


def _in_statements(old: str, new: str) -> Any:
    """Say something else in every statement of a commit that says this."""
    changed = {
        which: text.replace(old, new) for which, text in postgres_engine._COMMITS.items()
    }
    assert changed != postgres_engine._COMMITS, "the statement says it in other words by now"
    return mock.patch.object(postgres_engine, "_COMMITS", changed)


def fence_left_out_where_bytes_are_written() -> Any:
    return _in_statements(
        "SELECT own.id, u.file, u.pos, %(seq)s, u.n, u.data\n    FROM own, unnest(",
        "SELECT %(slice)s, u.file, u.pos, %(seq)s, u.n, u.data\n    FROM unnest(",
    )


def fence_left_out_where_bytes_are_deleted() -> Any:
    return _in_statements(
        "DELETE FROM kestrelpy.extent USING own\n    WHERE extent.slice = own.id AND",
        "DELETE FROM kestrelpy.extent\n    WHERE extent.slice = %(slice)s AND",
    )


def fence_without_the_epoch() -> Any:
    return _in_statements("AND epoch = %(epoch)s ", "")


def read_before_commit_after_a_reconnect() -> Any:
    return mock.patch.object(
        postgres_engine, "_SEQ_NOW",
        "SELECT seq FROM kestrelpy.slice WHERE id = %s AND epoch = %s",
    )  # fmt: skip


def notice_ignored() -> Any:
    return mock.patch.object(postgres_engine._Line, "_notice", lambda line, notice: None)


def emptied_list_of_standbys_not_noticed() -> Any:
    return mock.patch.object(postgres_engine._Line, "_refuse_none", lambda line, named: None)


def answered_when_it_is_written() -> Any:
    def make(real: Around) -> Around:
        def advance(log: JournalLog) -> None:
            real(log)
            log.lsn_stored = log.journal.commit.lsn_written
            log.item_stored = log.journal.commit.item_written

        return advance

    return around(JournalLog, "advance", make)


def confirmed_when_it_is_written() -> Any:
    def make(real: Around) -> Around:
        def advance(log: JournalLog) -> None:
            real(log)
            log.lsn_written = log.journal.commit.lsn_written

        return advance

    return around(JournalLog, "advance", make)


def beat_instead_of_the_commit() -> Any:
    def make(real: Around) -> Around:
        def commit(engine: PostgresEngine, at: Any, ops: Any) -> None:
            real(engine, at, [] if engine._is_unsure else ops)

        return commit

    return around(PostgresEngine, "commit", make)


@contextlib.contextmanager
def cache_believed_after_a_takeover() -> Iterator[None]:
    def begin(cache: Cache) -> None:
        cache.here = cache.folder
        os.makedirs(cache.folder, exist_ok=True)

    def make(real: Around) -> Around:
        def add(cache: Cache, number: int, size: int) -> CachedFile:
            file: CachedFile = real(cache, number, size)
            with contextlib.suppress(FileNotFoundError):
                file.present.add(0, min(os.path.getsize(file.local), size))
            return file

        return add

    with mock.patch.object(Cache, "begin", begin), around(Cache, "add", make):
        yield


@contextlib.contextmanager
def owner_answers_until_a_commit_fails() -> Iterator[None]:
    def is_sure(member: FleetMember) -> bool:
        return member.files.commits is None or member.files.commits.failure is None

    with mock.patch.object(FleetMember, "is_sure", is_sure):
        yield


def sure_since_the_last_attempt() -> Any:
    def make(real: Around) -> Around:
        def commit(commits: Commits, ops: Any) -> None:
            real(commits, ops)
            commits.sure_since_s = commits._clock()

        return commit

    return around(Commits, "_commit_ops", make)


def claimed_though_the_owner_has_committed() -> Any:
    def make(real: Around) -> Around:
        def claim(engine: PostgresEngine, number: int, member: Any, seen: int, *_: Any) -> Any:
            for _ in range(_MORE_LOOKS):  # time passes since it was seen that nobody owns it
                engine.owners()
            return real(engine, number, member, seen)

        return claim

    return around(PostgresEngine, "claim", make)


def lost_commit_taken_for_done() -> Any:
    def make(real: Around) -> Around:
        def commit(engine: PostgresEngine, at: Any, ops: Any) -> None:
            with contextlib.suppress(EngineAway):
                real(engine, at, ops)

        return commit

    return around(PostgresEngine, "commit", make)


# Each with the troubles in which it is found.
PLANTS_FLEET: Final[Mapping[str, tuple[Callable[[], AbstractContextManager[Any]], set[str]]]] = {
    plant.__name__: (plant, troubles) for plant, troubles in (
        (fence_left_out_where_bytes_are_written, {"stop", "cut"}),
        (fence_left_out_where_bytes_are_deleted, {"stop", "cut"}),
        (fence_without_the_epoch, {"stop", "cut"}),
        (read_before_commit_after_a_reconnect, {"link, restart, failover"}),
        (notice_ignored, {"cancels, failover"}),
        (emptied_list_of_standbys_not_noticed, {"names, failover"}),
        (answered_when_it_is_written, {"kill"}),
        (confirmed_when_it_is_written, {"kill"}),
        (beat_instead_of_the_commit, {"loses"}),
        (cache_believed_after_a_takeover, {"kill", "stop", "loses"}),
        (owner_answers_until_a_commit_fails, {"stop", "cut"}),
        (sure_since_the_last_attempt, {"names", "cut", "link", "lags"}),
        (claimed_though_the_owner_has_committed, {"names", "lags", "link"}),
        (lost_commit_taken_for_done, {"loses"}),
    )
}  # fmt: skip
