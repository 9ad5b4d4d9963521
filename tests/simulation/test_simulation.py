"""The whole server, hundreds of lives at a time: every promise of the spec, whatever happens.

    python -m tests.simulation SEED            one run as a story
    make soak TIME=30m                         seeds that no run has seen

One rule: a failure names its seed, and the seed is all it takes to see it again.

Promise segment-goes: power cuts during rotation, snapshots, compaction, removal, recovery.
Promise http-lease: kill, power cut on a memory disk.
Promises: stored, token, observer, retain, key, version, schedule, move, paused, memory, fair-share,
    http-stored, http-hang-up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from journal.compaction import reclaim
from kestrelpy.server.journals import idle_journals
from tests.simulation import simulation
from tests.simulation.simulation import Simulation
from tests.support.soak import Soak

GROUPS = 16
SEEDS_IN_GROUP = 20
# A life that ends in the middle leaves work behind that was never begun.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
# What a run is for; each of these happens in any hundred runs, or the runs have become too tame.
WANTED = {
    "clean ends", "crash kill", "crash power", "crash while starting", "starts failed",
    "fault create", "fault remove", "fault read", "fault sync",
    "fault write", "gaps", "no gaps", "shortage create", "shortage open", "shortage read",
    "connections of HTTP",
}  # fmt: skip


def run(seed: int) -> Counter[str]:
    outcome = Simulation(seed).run()
    if outcome.violations:
        pytest.fail(
            f"seed {seed}: {outcome.violations[0]}\n"
            + "\n".join(outcome.story[-25:])
            + f"\n\nthe whole story: python -m tests.simulation {seed}",
            pytrace=False,
        )
    return Counter(outcome.counts)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_promise_holds(group: int) -> None:
    for seed in range(group * SEEDS_IN_GROUP, (group + 1) * SEEDS_IN_GROUP):
        run(seed)


@pytest.mark.slow
def test_every_promise_holds_while_journals_free_their_disk_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reclaim, "IDLE_MS", 300)
    monkeypatch.setattr(reclaim, "RESERVE_BYTES", 3000)
    monkeypatch.setattr(idle_journals, "STEP_SECONDS", 0.01)
    # An idle journal is looked at after 0.3 s and trimmed in steps of 10 ms, at rest as well.
    monkeypatch.setattr(simulation, "TURNS_ASLEEP_MAX", 400)
    for seed in range(10):
        run(seed)


@pytest.mark.slow
def test_a_hundred_runs_see_every_kind_of_trouble() -> None:
    seen: Counter[str] = Counter()
    for seed in range(GROUPS * SEEDS_IN_GROUP, GROUPS * SEEDS_IN_GROUP + 100):
        seen += run(seed)
        if not WANTED - set(seen):
            break
    assert set(seen) >= WANTED


@pytest.mark.slow
def test_one_seed_is_one_run_whatever_the_process() -> None:
    stories = set()
    for hash_seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "3", "9"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout.splitlines()
        stories.add(b"\n".join(line for line in told if not line.startswith(b"seed")))
    assert len(stories) == 1


@pytest.mark.soak
def test_every_promise_holds_for_long(soak: Soak) -> None:
    for seed in soak.seeds():
        run(seed)
