"""The owner of a fleet is killed, or sleeps and wakes, under mixed load, on real servers.

Nothing that was acknowledged is lost, nothing that was confirmed comes again, each id and each time
of a schedule is stored once, tokens are good over a takeover, and an owner that was superseded
answers nothing.

Promise takeover: the owner killed 100 times, and asleep for 0.5 to 60 s, under producers, keyed
    workers by connection and by token, ids, delays and a schedule, on a real PostgreSQL with its
    standby.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.fleet.campaign import SEEDS_OF_A_TEST, run
from tests.support.soak import Soak


@pytest.mark.slow
def test_an_owner_that_is_killed_or_sleeps_under_load_loses_nothing(tmp_path: Path) -> None:
    run(tmp_path, ("kill", "sleep"), lambda: SEEDS_OF_A_TEST)


@pytest.mark.soak
def test_an_owner_that_is_killed_again_and_again_loses_nothing(tmp_path: Path, soak: Soak) -> None:
    run(tmp_path, ("kill",), soak.seeds)


@pytest.mark.soak
def test_an_owner_that_sleeps_again_and_again_answers_nothing_late(
    tmp_path: Path, soak: Soak
) -> None:
    run(tmp_path, ("sleep",), soak.seeds)
