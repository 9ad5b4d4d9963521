"""`python -m tests.simulation SEED [SEED...]`: each run as a story, and its verdict."""

from __future__ import annotations

import sys
import time

from tests.simulation.simulation import Simulation


def main(arguments: list[str]) -> int:
    """Print the runs of these seeds as stories; return 1 if any of them broke a promise."""
    broken = 0
    for argument in arguments:
        began = time.perf_counter()
        outcome = Simulation(int(argument)).run()
        print("\n".join(outcome.story))
        counts = ", ".join(f"{name} {number}" for name, number in sorted(outcome.counts.items()))
        print(f"seed {argument}: {counts}; {time.perf_counter() - began:.2f} s")
        for violation in outcome.violations:
            print(f"seed {argument}: VIOLATION: {violation}")
        if not outcome.violations:
            print(f"seed {argument}: every promise holds")
        broken |= bool(outcome.violations)
    return broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
