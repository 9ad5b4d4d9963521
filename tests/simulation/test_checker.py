"""The checker is worth something: it finds every planted mistake, soon."""

from __future__ import annotations

import pytest

from tests.simulation import find_seeds
from tests.simulation.find_seeds import ALL, SEEDS_MAX, find, known_seeds
from tests.simulation.simulation import Simulation

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")


@pytest.mark.slow
@pytest.mark.timeout(1500)  # what takes a crash at the right moment is found after hundreds of runs
@pytest.mark.parametrize("name", ALL)
def test_a_planted_mistake_is_found(name: str) -> None:
    known, seed = known_seeds().get(name), find(name)
    assert seed is not None, f"{name} was not found in {SEEDS_MAX} runs"
    if seed != known:
        print(f"{name}: seed {seed} finds it, {known} does not: python -m {find_seeds.__name__}")


@pytest.mark.slow
def test_a_run_without_a_mistake_finds_none() -> None:
    for seed in sorted(set(known_seeds().values()))[:10]:
        assert Simulation(seed).run().violations == []
