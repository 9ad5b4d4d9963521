"""When what came in is written, and how long a sync thread waits for the interpreter then."""

from __future__ import annotations

from kestrelpy.server.gathering import GATHER_MS_MAX, HURRY_MS, Gathering
from kestrelpy.server.process import SWITCH_SECONDS, SWITCH_SECONDS_HURRIED


def turn(gathering: Gathering, now_ms: int, fed: int, is_crowded: bool = False) -> bool:
    """One turn in which so many connections had bytes, with a sync in flight behind it."""
    for _ in range(fed):
        gathering.feed()
    is_over = gathering.is_over(now_ms)
    gathering.end_turn(now_ms, is_crowded, 1)
    return is_over


def test_one_client_alone_waits_for_nobody() -> None:
    gathering = Gathering()

    assert [turn(gathering, ms, 1) for ms in range(1, 5)] == [True] * 4


def test_bytes_of_a_turn_in_which_nothing_was_pending_count_for_nothing() -> None:
    gathering = Gathering()
    gathering.feed()
    gathering.end_turn(1, False, 0)

    assert turn(gathering, 2, 1)


def test_of_one_client_with_more_to_do_more_is_to_be_expected() -> None:
    gathering = Gathering()
    gathering.feed(has_more=True)

    assert not gathering.is_over(1)


def test_of_several_clients_all_that_comes_in_one_breath_is_written_together() -> None:
    gathering = Gathering()

    assert not turn(gathering, 1, 2)
    assert not turn(gathering, 2, 1)
    assert turn(gathering, 2, 0)


def test_who_comes_first_of_a_crowd_waits_for_the_others() -> None:
    gathering = Gathering()
    turn(gathering, 1, 2)
    turn(gathering, 1, 0)

    assert not turn(gathering, 2, 1), "the last write was for two"
    assert turn(gathering, 2, 0)
    assert turn(gathering, 3, 1), "and the last one for one"


def test_a_busy_loop_cannot_starve_a_sync() -> None:
    gathering = Gathering()
    over = [turn(gathering, ms, 2) for ms in range(10, 10 + 3 * (GATHER_MS_MAX + 1))]

    assert over == ([False] * GATHER_MS_MAX + [True]) * 3


def test_sync_threads_have_the_interpreter_soon_for_a_while_beside_a_crowd() -> None:
    switched: list[float] = []
    gathering = Gathering(switched.append)

    turn(gathering, 1, 1)
    assert switched == [], "nobody uses up a share"
    turn(gathering, 2, 1, is_crowded=True)
    turn(gathering, 3, 0, is_crowded=True)
    assert switched == [SWITCH_SECONDS_HURRIED]
    turn(gathering, 2 + HURRY_MS, 0, is_crowded=True)
    assert switched == [SWITCH_SECONDS_HURRIED, SWITCH_SECONDS]


def test_what_only_the_heavy_stored_is_no_reason_to_hurry() -> None:
    switched: list[float] = []
    gathering = Gathering(switched.append)

    turn(gathering, 1, 0, is_crowded=True)

    assert switched == []
