"""Write down which seed finds each planted mistake: `python -m tests.simulation.find_seeds`.

A table of seeds lets the tests begin where a mistake was found before. It is written again when the
daemon or the simulation has changed so much that the tests search for minutes. A seed that still
finds its mistake stays.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, count, islice
from pathlib import Path

from tests.simulation.plan import has_http
from tests.simulation.plants import PLANTS
from tests.simulation.plants_http import PLANTS_HTTP
from tests.simulation.plants_retained import PLANTS_RETAINED
from tests.simulation.plants_versions import PLANTS_VERSIONS
from tests.simulation.simulation import Simulation

SEEDS_MAX = 600
TABLE = Path(__file__).parent / "seeds.json"
HTTP = {plant.__name__ for plant in PLANTS_HTTP}
ALL = {
    plant.__name__: plant
    for plant in (*PLANTS, *PLANTS_RETAINED, *PLANTS_VERSIONS, *PLANTS_HTTP)
}


def known_seeds() -> dict[str, int]:
    """Return the table: a seed for the name of each planted mistake."""
    seeds: dict[str, int] = json.loads(TABLE.read_text())
    return seeds


def is_found(name: str, seed: int) -> bool:
    """True if the checker complains of a run with this mistake."""
    with ALL[name]():
        return bool(Simulation(seed).run().violations)


def find(name: str, most: int = SEEDS_MAX) -> int | None:
    """Return the seed of the table if it finds the mistake, else the first of so many that does;
    None if none does. A mistake of HTTP is searched for in as many runs with clients of HTTP."""
    known = known_seeds().get(name)
    seeds = islice(filter(has_http, count()) if name in HTTP else count(), most)
    first = () if known is None else (known,)
    return next((seed for seed in chain(first, seeds) if is_found(name, seed)), None)


if __name__ == "__main__":
    found = dict[str, int | None](known_seeds())
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, seed in zip(ALL, pool.map(find, ALL), strict=True):
            print(f"{name}: {seed}", flush=True)
            found[name] = seed
            fresh = TABLE.with_suffix(".new")  # others read the table meanwhile
            fresh.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
            fresh.replace(TABLE)
