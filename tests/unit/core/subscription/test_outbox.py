"""Dead letters and where they go on to: the log records a death before the item moves."""

from __future__ import annotations

from typing import Any, cast

import pytest

from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.memory_budget import MemoryBudget
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.outbox import AT_ONCE_MS, EXPIRED, onward
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.core.timers import NEVER_MS, Alarm, Timers
from kestrelpy.core.trash import Trash
from tests.support.draft_log import DraftLog

ITEM = Item(7, 7, b"body", 0, 1000, 0)


def subscription(**settings: Any) -> tuple[Subscription, DraftLog]:
    log, alarm = DraftLog(), Alarm[Any](Timers(), object())
    memory = MemoryBudget(Trash(Timers()))
    made = Subscription(
        b"jobs", Policy(**settings), cast(Log, log), ClockOffset(0), [], alarm, memory, []
    )
    made._apply_put(7, 4)
    return made, log


@pytest.mark.parametrize(
    ("settings", "expired", "other"),
    [
        ({}, b"", b""),
        ({"dead_letter_to": b"dead"}, b"dead", b"dead"),
        ({"expire_to": b"late"}, b"late", b""),
        ({"expire_to": b"late", "dead_letter_to": b"dead"}, b"late", b"dead"),
    ],
)
def test_expired_items_go_to_a_queue_of_their_own_if_there_is_one(
    settings: dict[str, Any], expired: bytes, other: bytes
) -> None:
    policy = Policy(**settings)
    assert (onward(policy, EXPIRED), onward(policy, b"abort")) == (expired, other)


def test_a_death_is_in_the_log_and_the_item_among_the_dead() -> None:
    reader, log = subscription()

    lsn = reader.outbox.dead_letter(ITEM, 3, 900, 1000, b"abort")

    assert lsn == 1
    (dead,) = log.drafts
    assert (dead.kind, dead.item, dead.small, dead.number) == (Kind.DEAD, 7, 3, 900)
    assert decode_meta(dead.meta)[Tag.REASON] == b"abort"
    death = reader.dead.deaths[7]
    assert (death.attempts, death.reason) == (3, b"abort")
    assert 7 in reader.live, "a dead letter stays until a client or a transfer ends it"
    assert (reader.outgoing, reader.alarm.at_ms) == ([], NEVER_MS)


def test_where_dead_letters_go_on_the_next_tick_takes_them() -> None:
    reader, _ = subscription(dead_letter_to=b"dead")

    reader.outbox.dead_letter(ITEM, 3, 900, 1000, b"abort")

    assert reader.outgoing == [7]
    assert reader.alarm.at_ms == AT_ONCE_MS


def test_on_a_full_disk_a_death_is_recorded_if_its_record_has_room() -> None:
    for reason, has_room, records in (EXPIRED, False, 0), (b"abort", False, 0), (b"abort", True, 1):
        reader, log = subscription(expire_to=b"late")
        log.is_full = True

        lsn = reader.outbox.dead_letter(ITEM, 0, 0, 1000, reason, has_room)

        assert (lsn, len(log.drafts)) == (records, records)
        assert reader.dead.unlogged == (set() if records else {ITEM.id})
        assert 7 in reader.dead.deaths


@pytest.mark.parametrize(
    ("most", "words"), [(100, "at max_attempts = 100 it is dead"), (None, "max_attempts is none")]
)
def test_an_operator_is_warned_of_an_item_that_comes_back_again_and_again(
    most: int | None, words: str
) -> None:
    reader, _ = subscription(max_attempts=most)

    reader.outbox.note_attempts(7)

    assert reader.notes == [f"queue jobs: item 7 came back 10 times; {words}"]
    assert reader.needs_read, "so that the notes are looked at"


def test_each_death_is_counted() -> None:
    reader, _ = subscription()
    reader.outbox.dead_letter(ITEM, 3, 900, 1000, b"abort")
    assert reader.counters.dead == 1
