"""When a batch is written, and how long a sync thread then waits for the interpreter."""

from __future__ import annotations

from kestrelpy.server.commit_delay import DELAY_MS_MAX, HURRY_MS, CommitDelay
from kestrelpy.server.process import SWITCH_SECONDS, SWITCH_SECONDS_HURRIED


def turn(commit_delay: CommitDelay, now_ms: int, has_input: bool, is_crowded: bool = False) -> bool:
    """Run one turn, with a sync in flight after it."""
    if has_input:
        commit_delay.note_input(now_ms)
    is_over = commit_delay.is_over(now_ms)
    commit_delay.end_turn(now_ms, is_crowded, 1)
    return is_over


def test_requests_that_come_together_are_written_together() -> None:
    commit_delay = CommitDelay()

    assert [turn(commit_delay, 1, fed) for fed in (True, True, False)] == [False, False, True]


def test_bytes_of_a_turn_in_which_nothing_was_pending_count_for_nothing() -> None:
    commit_delay = CommitDelay()
    commit_delay.note_input(1)
    commit_delay.end_turn(1, False, 0)

    assert turn(commit_delay, 2, has_input=False)


def test_a_busy_loop_cannot_starve_a_sync() -> None:
    commit_delay = CommitDelay()
    over = [turn(commit_delay, ms, has_input=True) for ms in range(10, 10 + 3 * (DELAY_MS_MAX + 1))]

    assert over == ([False] * DELAY_MS_MAX + [True]) * 3


def test_sync_threads_have_the_interpreter_soon_for_a_while_beside_a_crowd() -> None:
    switched: list[float] = []
    commit_delay = CommitDelay(switched.append)

    turn(commit_delay, 1, has_input=True)
    assert switched == [], "no connection uses up its share"
    turn(commit_delay, 2, has_input=True, is_crowded=True)
    turn(commit_delay, 3, has_input=False, is_crowded=True)
    assert switched == [SWITCH_SECONDS_HURRIED]
    turn(commit_delay, 2 + HURRY_MS, has_input=False, is_crowded=True)
    assert switched == [SWITCH_SECONDS_HURRIED, SWITCH_SECONDS]


def test_sets_of_heavy_connections_alone_are_not_hurried() -> None:
    switched: list[float] = []
    commit_delay = CommitDelay(switched.append)

    turn(commit_delay, 1, has_input=False, is_crowded=True)

    assert switched == []


def test_without_a_sync_in_flight_nothing_is_hurried() -> None:
    switched: list[float] = []
    commit_delay = CommitDelay(switched.append)

    for now_ms in (1, 2):
        commit_delay.note_input(now_ms)
        commit_delay.end_turn(now_ms, is_crowded=True, syncs=0)

    assert switched == []


def test_a_hurry_ends_with_the_sync_that_it_was_for() -> None:
    switched: list[float] = []
    commit_delay = CommitDelay(switched.append)
    turn(commit_delay, 1, has_input=True, is_crowded=True)

    commit_delay.end_turn(1, is_crowded=True, syncs=0)

    assert switched == [SWITCH_SECONDS_HURRIED, SWITCH_SECONDS]
    assert not commit_delay.is_hurried
