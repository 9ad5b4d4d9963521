"""Two whole members on one replicated engine: every promise of a fleet, whatever happens to it.

    python -m tests.simulation.fleet SEED            one run as a story
    python -m tests.simulation.fleet 0-999           a thousand, a minute and a half on two cores
    make soak TIME=30m                               seeds that no run has seen

One rule: a failure names its seed, and the seed is all it takes to see it again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.fleet import find_fleet_seeds
from tests.simulation.fleet.find_fleet_seeds import find_seed, fleet_seeds
from tests.simulation.fleet.plants_fleet import PLANTS_FLEET
from tests.simulation.fleet.world import run_fleet
from tests.support.soak import Soak

SEEDS = range(10, 50)
SEARCHED_MAX = 100  # a minute: the table is written anew when it has grown old
# A life that ends in the middle leaves work behind that was never begun.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
# What the runs are for; each of these happens in them, or they have become too tame.
WANTED = {
    "takeovers", "owners fenced", "members killed", "members stopped", "members told to end",
    "members cut off", "primaries restarted", "failovers", "waits cancelled", "stored", "confirmed",
    "statements lost", "answers lost",
}  # fmt: skip


def run(seed: int) -> Counter[str]:
    outcome = run_fleet(seed)
    if outcome.violations:
        pytest.fail(
            f"seed {seed}: {outcome.violations[0]}\n" + "\n".join(outcome.story[-25:])
            + f"\n\nthe whole story: python -m tests.simulation.fleet {seed}",
            pytrace=False,
        )  # fmt: skip
    return Counter(outcome.counts)


@pytest.mark.slow
def test_every_promise_of_a_fleet_holds_in_every_kind_of_trouble() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen += run(seed)

    assert not WANTED - set(seen)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS_FLEET)
def test_a_planted_mistake_of_a_fleet_is_found(name: str) -> None:
    """The table says which run has found it; find_fleet_seeds writes it anew."""
    seed = find_seed(name, SEARCHED_MAX)
    assert seed is not None, (
        f"{name}: neither seed {fleet_seeds().get(name)} nor those below {SEARCHED_MAX} find it: "
        f"python -m {find_fleet_seeds.__name__} searches on, and writes the table"
    )


@pytest.mark.slow
def test_the_run_of_a_fleet_follows_from_its_seed() -> None:
    stories = set()
    for hash_seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-m", "tests.simulation.fleet", "3"],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout.splitlines()
        stories.add(b"\n".join(line for line in told if not line.startswith(b"seed")))
    assert len(stories) == 1


@pytest.mark.soak
def test_every_promise_of_a_fleet_holds_for_long(soak: Soak) -> None:
    for seed in soak.seeds():
        run(seed)
