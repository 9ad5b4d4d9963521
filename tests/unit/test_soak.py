"""The time of a soak is shared, and its seeds can be repeated."""

from __future__ import annotations

import pytest

from tests.support import soak as module
from tests.support.soak import Soak, share, whole_time


def test_seeds_follow_each_other_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 1.0, 2.0, 3.5])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(moments))
    soak = Soak(7, 3.0)

    assert [*soak.seeds()] == [7, 8, 9]
    assert str(soak) == "3 rounds, seeds 7 to 9"


def test_a_test_without_time_has_one_seed_at_least() -> None:
    assert [*Soak(7, 0.0).seeds()] == [7]


def test_tests_share_the_time_and_no_seed() -> None:
    first, last = share(5, 60.0, 0, 3), share(5, 60.0, 2, 3)

    assert (first.first, first.seconds) == (5, 20.0)
    assert last.first - first.first == 2_000_000


def test_the_time_is_written_as_every_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KESTRELPY_SOAK_TIME", "2m")

    assert whole_time() == 120


def test_each_seed_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*Soak(3, 0.0).seeds()] == [3]

    assert capsys.readouterr().out == "seed 3\n"
