"""The cost of a set and a take in instructions, which do not depend on the load of the machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.path import Load, ValgrindLoad, missing
from kestrelpy.compiled import KIND

# Measured on Python 3.11, by `python -m bench path --depth ...`.
COSTS = {
    "pure Python": {
        1: {"set": 77_000, "take": 114_000},
        16: {"set": 27_000, "take": 91_000},
    },
    "compiled": {
        1: {"set": 20_000, "take": 34_000},
        16: {"set": 7_200, "take": 28_500},
    },
}
GROWTH_MAX = 1.2
each_depth = pytest.mark.parametrize("depth", [1, 16])


def check(load: Load, depth: int) -> None:
    """Neither a set nor a take has grown by more than a fifth."""
    try:
        found = load.costs()
    finally:
        load.close()
    for name, before in COSTS[KIND][depth].items():
        assert found[name] <= before * GROWTH_MAX, f"a {name}: {found[name]:.0f}, it was {before}"


def skip(why: str) -> None:
    print(why)
    pytest.skip(why)


@pytest.fixture(autouse=True)
def _python() -> None:
    if sys.version_info[:2] != (3, 11):
        skip("the instructions of a set were measured on Python 3.11 alone")


@each_depth
def test_a_set_and_a_take_cost_no_more_than_they_did(tmp_path: Path, depth: int) -> None:
    load = Load(sys.executable, tmp_path, depth)
    if load.count() < 0:
        load.close()
        skip("the kernel counts no instructions here (perf_event_open); make sweep has valgrind")
    check(load, depth)


@pytest.mark.sweep
@each_depth
def test_a_set_and_a_take_cost_no_more_than_they_did_by_valgrind(
    tmp_path: Path, depth: int
) -> None:
    if why := missing():
        skip(why)
    check(ValgrindLoad(sys.executable, tmp_path, depth), depth)
