"""The delay before a failed item is tried again."""

from __future__ import annotations

import pytest

from kestrelpy.client.retry import Backoff, RetryPolicy, retry_delay_ms

MIDDLE = 0.5


def test_the_delay_doubles_from_a_second_to_a_minute() -> None:
    delays = [retry_delay_ms(attempts, MIDDLE) for attempts in range(9)]

    assert delays == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]


def test_chance_moves_a_delay_by_a_tenth_at_most() -> None:
    assert [retry_delay_ms(3, chance) for chance in (0.0, 0.25, 1.0)] == [7200, 7600, 8800]


def test_a_first_delay_beyond_a_minute_stays_as_it_is() -> None:
    assert [retry_delay_ms(attempts, MIDDLE, 90_000) for attempts in (0, 5)] == [90_000, 90_000]


def test_a_large_number_of_attempts_is_no_large_number_to_compute() -> None:
    assert retry_delay_ms(10**12, MIDDLE) == 60_000
    assert retry_delay_ms(10**12, MIDDLE, 1) == 60_000


def test_without_a_first_delay_the_queue_s_settings_decide() -> None:
    assert RetryPolicy(0).words(3, MIDDLE) == "abort"
    assert RetryPolicy(1000).words(3, MIDDLE) == "abort/delay=8000ms"


@pytest.mark.parametrize(("attempts", "last"), [(0, False), (1, False), (2, True), (9, True)])
def test_the_last_attempt_is_the_one_that_makes_the_number_full(attempts: int, last: bool) -> None:
    assert RetryPolicy(0, attempts_max=3).is_last(attempts) is last
    assert not RetryPolicy(0).is_last(attempts)


def test_pauses_double_up_to_the_longest_until_something_works() -> None:
    pause = Backoff(0.5, 3.0)

    assert [pause.next_seconds() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    pause.reset()
    assert pause.next_seconds() == 0.5
