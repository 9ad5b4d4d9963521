"""The checker is worth something: it finds every planted mistake, soon."""

from __future__ import annotations

import pytest

from tests.simulation import find_seeds
from tests.simulation.find_seeds import ALL, find, known_seeds
from tests.simulation.simulation import Simulation

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")


# Half a minute: the searches of a table that is old took longer than all other tests together.
SEARCHED_MAX = 50


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_planted_mistake_is_found(name: str) -> None:
    seed = find(name, SEARCHED_MAX)
    assert seed is not None, (
        f"{name}: neither seed {known_seeds().get(name)} nor those below {SEARCHED_MAX} find it: "
        f"python -m {find_seeds.__name__} searches on, and writes the table"
    )


@pytest.mark.slow
def test_a_run_without_a_mistake_finds_none() -> None:
    for seed in sorted(set(known_seeds().values()))[:10]:
        assert Simulation(seed).run().violations == []
