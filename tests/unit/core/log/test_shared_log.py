"""One log for several subscriptions: the last that needs an item ends it, and no other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from journal.format.kinds import Kind
from journal.format.record import Draft
from journal.sets.id_set import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import Log
from kestrelpy.core.log.shared_log import SharedLog, on_disk
from tests.support.kept_log import KeptLog

ITEM = Item(7, 7, b"body", 0, 1000, 0, lsn=5)


@dataclass
class Needed:
    """The items that some subscription needs."""

    ids: list[int] = field(default_factory=list)

    def is_needed(self, id_: int) -> bool:
        return id_ in self.ids

    def needed_now(self) -> IdSet:
        made = IdSet()
        for id_ in self.ids:
            made.add(id_)
        return made


def shared(number: int = 2, *needed: int) -> tuple[KeptLog, SharedLog]:
    base = KeptLog()
    return base, SharedLog(cast(Log, base), number, Needed(list(needed)))


def test_every_record_carries_the_number_of_its_subscription() -> None:
    base, log = shared(2)

    log.done(ITEM, 0, 900, 1000)
    log.released(7, 9, 1000)
    log.dead(ITEM, 1, 900, 1000, b"abort")
    log.write_lazily(Draft(Kind.MOVED, 7, 0, 0, 1000, b"", b"", 0, 5))
    log.flushed(9, [8], IdSet(), 4, 1000)

    assert [draft.reader for draft in base.drafts] == [2] * 5
    assert log.lsn_appended == base.lsn_appended == 5


def test_the_subscription_that_needs_an_item_last_ends_it() -> None:
    for needed, put_lsn in ((7,), 0), ((), 5):
        base, log = shared(2, *needed)

        log.done(ITEM, 0, 900, 1000)
        log.expired(ITEM, 1000)
        log.write(Draft(Kind.MOVED, 7, 0, 0, 1000, b"", b"", 0, 5))

        assert [draft.put_lsn for draft in base.drafts] == [put_lsn] * 3


def test_a_confirm_is_alike_in_a_log_of_its_own_and_in_a_shared_one() -> None:
    base, log = shared(0)
    own = KeptLog()

    for each in (log, own):
        each.done(ITEM, 3, 900, 1000)

    assert base.drafts == own.drafts


def test_a_flush_names_what_stays_and_recounts_what_anybody_needs() -> None:
    base, log = shared(2, 3, 8)

    log.flushed(9, [8, 3], IdSet(), 4, 1000)

    (flushed,) = base.drafts
    assert (flushed.kind, flushed.item, flushed.number) == (Kind.FLUSHED, 9, 4)
    assert flushed.body == (3).to_bytes(8, "little") + (8).to_bytes(8, "little")
    assert base.recounted == [[3, 8]]


def test_tokens_are_one_sequence_for_all() -> None:
    base, log = shared(2)

    log.tokens(64, 1000)

    assert base.drafts[0].reader == 0


def test_on_a_full_disk_a_return_is_left_out() -> None:
    base, log = shared(2)
    base.full = True

    assert log.returned(ITEM, 1, 900, 1000, b"abort") == base.lsn_appended == 0
    assert base.drafts == []


def test_what_is_true_of_the_log_is_true_for_each() -> None:
    base, log = shared(2)
    base.no_room, base.failure = "disk is full", RuntimeError("gone")
    log.archive_to = "/archive"

    assert (log.no_room, log.failure) == (base.no_room, base.failure)
    assert base.archive_to == "/archive"
    assert log.waiting_stored is base.waiting_stored
    assert log.waiting_written is base.waiting_written
    assert not log.is_over(1000)


def test_in_memory_there_is_no_journal_behind_it() -> None:
    base, log = shared(2)

    assert on_disk(cast(Log, log)) is None
    assert on_disk(cast(Log, base)) is None
    assert log.read_ahead is None
