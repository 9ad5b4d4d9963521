"""The rate of storing, memory and disk while a backlog grows, in ten steps.

One rule: one daemon and one load from the first item to the last; a step is a tenth of it.
"""

import json
import platform
import time
from dataclasses import asdict

from bench import plots
from bench.daemon import Daemon
from bench.figures import MIB, Figure
from bench.loadgen import OUT
from bench.scenarios import Bench

STEPS = 10
BODY_BYTES = 100


def curve(bench: Bench) -> list[Figure]:
    """Store a backlog; write `growth.json` and, with matplotlib, `growth.png`."""
    each = bench.sizes.small_items // STEPS
    where = f"{each * STEPS:,} x {BODY_BYTES} B in {STEPS} steps"
    steps: list[plots.Step] = []
    with Daemon(bench.parent, bench.python) as daemon:
        bench.load("memcache-set", daemon.port, "warm", ops=1000, body_bytes=BODY_BYTES)
        empty = daemon.memory_bytes()
        for number in range(1, STEPS + 1):
            stored = bench.load(
                "memcache-set", daemon.port, "backlog", ops=each, body_bytes=BODY_BYTES,
                in_flight=16, seed=number,
            )  # fmt: skip
            items = number * each
            steps.append(plots.Step(
                items, stored.ops_per_s, (daemon.memory_bytes() - empty) / MIB,
                daemon.disk_bytes() / (items * BODY_BYTES),
            ))  # fmt: skip
            bench.say(f"{where}: {items:,} items, {stored.ops_per_s:,.0f}/s")
    _write(where, steps)
    first, last = steps[0], steps[-1]
    return [
        Figure(where, "sets at the last step over the first", last.sets_per_s / first.sets_per_s),
        Figure(where, "memory at the last step", last.memory_mib, "MiB"),
        Figure(where, "disk over bytes of bodies at the last step", last.disk_over_bodies),
    ]


def _write(where: str, steps: list[plots.Step]) -> None:
    about = f"{where}; {time.strftime('%Y-%m-%d %H:%M')}, {platform.machine()}"
    OUT.mkdir(parents=True, exist_ok=True)
    said = {"about": about, "steps": [asdict(step) for step in steps]}
    (OUT / "growth.json").write_text(json.dumps(said, indent=1) + "\n")
    if plots.missing() is None:
        plots.of_growth(steps, about, OUT)
