"""The ids and scopes that a queue remembers: until the window is over, swept or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from journal.format.item_header import ItemHeader
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.log import records
from kestrelpy.core.log.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.dedupe_window import NOT_DUE, DedupeWindow
from kestrelpy.core.timers import Alarm, Timers
from tests.support.draft_log import DraftLog

OFFSET_MS = 1_000_000
WINDOW_MS = 60_000
POLICY = Policy(dedupe_window_ms=WINDOW_MS, scope_window_ms=2 * WINDOW_MS)


def window() -> tuple[DedupeWindow, Alarm[Any]]:
    alarm: Alarm[Any] = Alarm(Timers(), object())
    made = DedupeWindow(alarm, ClockOffset(OFFSET_MS))
    made.set_secret(b"secret")
    return made, alarm


def see(found: DedupeWindow, item: int, at_ms: int = 0, scope: bytes = b"", epoch: int = 0) -> None:
    header = ItemHeader(b"id %d" % item, scope, epoch)
    found.ids._apply_seen(header, item, OFFSET_MS + at_ms)


def sweep_all(found: DedupeWindow, policy: Policy, log: DraftLog, until_ms: int) -> None:
    """Sweep whenever it is due."""
    while found.due_ms <= until_ms:
        found.sweep(policy, cast(Log, log), found.due_ms)


def test_with_nothing_remembered_no_sweep_is_due() -> None:
    found, alarm = window()

    found.begin_sweeping(POLICY, 0)

    assert found.is_empty
    assert found.due_ms == NOT_DUE < alarm.at_ms


def test_an_entry_is_swept_within_a_quarter_of_the_window_after_its_end() -> None:
    found, alarm = window()
    see(found, 1)
    found.versions._apply_written(b"key", 1, 1, OFFSET_MS)
    found.begin_sweeping(POLICY, 0)
    assert alarm.at_ms == found.due_ms <= WINDOW_MS // 4

    sweep_all(found, POLICY, DraftLog(), WINDOW_MS - 1)
    assert found.ids.table.count == found.versions.table.count == 1
    sweep_all(found, POLICY, DraftLog(), WINDOW_MS + WINDOW_MS // 2)

    assert found.is_empty
    assert found.due_ms == NOT_DUE


def test_a_sweep_before_its_time_does_nothing() -> None:
    found, _ = window()
    see(found, 1)
    found.begin_sweeping(replace(POLICY, dedupe_window_ms=1), 1000)
    due_ms = found.due_ms

    found.sweep(replace(POLICY, dedupe_window_ms=1), cast(Log, DraftLog()), due_ms - 1)

    assert (found.ids.table.count, found.due_ms) == (1, due_ms)


@pytest.mark.parametrize("setting", [{"dedupe_window_ms": None}, {"retain_ms": None}])
def test_what_is_never_too_old_is_never_swept(setting: dict[str, Any]) -> None:
    found, _ = window()
    found.versions._apply_written(b"key", 1, 1, OFFSET_MS)

    found.begin_sweeping(replace(POLICY, **setting), 0)

    assert found.due_ms == NOT_DUE


def test_an_unused_scope_is_forgotten_by_a_record() -> None:
    found, _ = window()
    log = DraftLog()
    see(found, 1, 0, b"old", 3)
    see(found, 2, 1000, b"new", 3)
    policy = replace(POLICY, dedupe_window_ms=None)
    found.begin_sweeping(policy, 0)
    found.due_ms = policy.scope_window_ms or 0

    found.sweep(policy, cast(Log, log), found.due_ms)

    assert list(found.ids.scopes) == [b"new"]
    (forgotten,) = log.drafts
    assert (forgotten.kind, forgotten.small) == (Kind.IDS, records.FORGOTTEN)
    assert decode_meta(forgotten.meta) == {Tag.SCOPE: b"old"}
    assert found.due_ms != NOT_DUE, "the other one will be too old"


def test_without_room_for_a_record_scopes_stay() -> None:
    found, _ = window()
    log = DraftLog()
    log.no_room = "disk is full"
    see(found, 1, 0, b"old", 3)
    found.due_ms = 10 * WINDOW_MS

    found.sweep(POLICY, cast(Log, log), found.due_ms)

    assert list(found.ids.scopes) == [b"old"]
    assert log.drafts == []


def test_a_scope_whose_time_is_over_begins_anew_with_the_next_id() -> None:
    found, _ = window()
    log = DraftLog()
    see(found, 1, 0, b"s", 3)
    stamp = ItemHeader(b"another", b"s", 1)

    found.renew(stamp, POLICY, cast(Log, log), OFFSET_MS + 2 * WINDOW_MS - 1)
    assert b"s" in found.ids.scopes
    found.renew(stamp, POLICY, cast(Log, log), OFFSET_MS + 2 * WINDOW_MS)

    assert b"s" not in found.ids.scopes
    assert len(log.drafts) == 1


def test_a_snapshot_stores_scopes_and_how_long_entries_count() -> None:
    found, _ = window()
    see(found, 1, 5, b"s", 3)
    found.versions._apply_written(b"key", 1, 1, OFFSET_MS)

    stored = found.remembered(POLICY)
    retained = found.remembered(replace(POLICY, retain_ms=None))

    (scope,) = stored.scopes
    assert (scope.scope, scope.epoch, scope.since, scope.used_ms) == (b"s", 3, 1, OFFSET_MS + 5)
    assert stored.fresh is found.fresh
    other, _ = window()
    other.expect([], stored.scopes)
    assert (other.ids.scopes[b"s"].epoch, other.ids.scopes[b"s"].used_ms) == (3, OFFSET_MS + 5)
    assert stored != retained
