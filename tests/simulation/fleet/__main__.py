"""`python -m tests.simulation.fleet SEED [SEED...]`: each run of a fleet as a story, its verdict.
`python -m tests.simulation.fleet 0-999`: these seeds on every core, and only what is wrong.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.fleet.world import FleetOutcome, run_fleet


def verdict(seed: int) -> FleetOutcome:
    """Return what came of it, without its story."""
    outcome = run_fleet(seed)
    outcome.story = []
    return outcome


def _collect_seldom() -> None:
    """Collect garbage less often, and not among the modules: that took a fifth of the time."""
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)


def run_many(first: int, last: int) -> int:
    """Run these seeds; return 1 if a promise was broken in one of them."""
    began, counts, broken = time.perf_counter(), Counter[str](), 0
    with ProcessPoolExecutor(os.cpu_count(), initializer=_collect_seldom) as pool:
        for outcome in pool.map(verdict, range(first, last + 1), chunksize=4):
            counts.update(outcome.counts)
            if outcome.violations:
                broken = 1
                print(f"seed {outcome.seed}: VIOLATION: {outcome.violations[0]}", flush=True)
    print(", ".join(f"{name} {number}" for name, number in sorted(counts.items())))
    print(f"{last - first + 1} seeds in {time.perf_counter() - began:.1f} s")
    return broken


def main(arguments: list[str]) -> int:
    """Tell the runs of these seeds."""
    broken = 0
    for argument in arguments:
        first, dash, last = argument.partition("-")
        if dash:
            broken |= run_many(int(first), int(last))
            continue
        began = time.perf_counter()
        outcome = run_fleet(int(argument))
        print("\n".join(outcome.story))
        counts = ", ".join(f"{name} {number}" for name, number in sorted(outcome.counts.items()))
        print(f"seed {argument}: {counts}; {time.perf_counter() - began:.2f} s")
        for violation in outcome.violations:
            print(f"seed {argument}: VIOLATION: {violation}")
        broken |= bool(outcome.violations)
    return broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
