"""The checker is worth something: it finds every planted mistake, soon."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.simulation.plants import PLANTS
from tests.simulation.plants_kept import PLANTS_KEPT
from tests.simulation.plants_versions import PLANTS_VERSIONS
from tests.simulation.simulation import Simulation

ALL = (*PLANTS, *PLANTS_KEPT, *PLANTS_VERSIONS)
SEEDS_MAX = 900
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")


@pytest.mark.slow
@pytest.mark.timeout(1500)  # what takes a crash at the right moment is found after hundreds of runs
@pytest.mark.parametrize("plant", ALL, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_found(
    plant: Callable[[], AbstractContextManager[object]],
) -> None:
    for seed in range(SEEDS_MAX):
        with plant():
            outcome = Simulation(seed).run()
        if outcome.violations:
            print(f"found with seed {seed}: {outcome.violations[0]}")
            return
    pytest.fail(f"{plant.__name__} was not found in {SEEDS_MAX} runs", pytrace=False)
