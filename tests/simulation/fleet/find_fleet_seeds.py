"""Write down which seed finds each planted mistake of a fleet:
`python -m tests.simulation.fleet.find_fleet_seeds`.

The table is written anew when the daemon or the simulation has changed so much that the tests
search for long. A seed that still finds its mistake stays.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Final

from tests.simulation.fleet.plants_fleet import PLANTS_FLEET
from tests.simulation.fleet.world import run_fleet, troubles_of

FLEET_SEEDS_MAX: Final = 1000
FLEET_TABLE: Final = Path(__file__).parent / "seeds.json"


def fleet_seeds() -> dict[str, int]:
    """Return the table: a seed for the name of each planted mistake."""
    seeds: dict[str, int] = json.loads(FLEET_TABLE.read_text()) if FLEET_TABLE.exists() else {}
    return seeds


def is_found_by(name: str, seed: int) -> bool:
    """True if the checker complains of the run of this seed with this mistake, and of none without
    it: such a seed would prove nothing."""
    with PLANTS_FLEET[name][0]():
        is_found = bool(run_fleet(seed).violations)
    return is_found and not run_fleet(seed).violations


def find_seed(name: str, most: int = FLEET_SEEDS_MAX) -> int | None:
    """Return the seed of the table if it finds the mistake, else the first below `most`, of those
    with its troubles, that does; None if none does."""
    troubles, known = PLANTS_FLEET[name][1], fleet_seeds().get(name)
    seeds = (seed for seed in range(most) if troubles & {*troubles_of(seed)})
    first = () if known is None else (known,)
    found = next((seed for seed in chain(first, seeds) if is_found_by(name, seed)), None)
    print(f"{name}: {found}", flush=True)
    return found


if __name__ == "__main__":
    names = sys.argv[1:] or [*PLANTS_FLEET]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(names, pool.map(find_seed, names), strict=True))
    print(found)
    FLEET_TABLE.write_text(json.dumps(fleet_seeds() | found, indent=2, sort_keys=True) + "\n")
