"""The table of seeds names no run that fails by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.simulation.fleet import find_fleet_seeds
from tests.simulation.fleet.find_fleet_seeds import is_found_by


@pytest.mark.parametrize(
    ("with_it", "without_it", "is_found"),
    [(["lost"], [], True), ([], [], False), (["lost"], ["lost"], False)],
)
def test_a_seed_finds_a_mistake_if_its_run_is_well_without_it(
    monkeypatch: pytest.MonkeyPatch, with_it: list[str], without_it: list[str], is_found: bool
) -> None:
    planted = False

    @contextmanager
    def mistake() -> Iterator[None]:
        nonlocal planted
        planted = True
        yield
        planted = False

    def run(seed: int) -> SimpleNamespace:
        return SimpleNamespace(violations=with_it if planted else without_it)

    monkeypatch.setitem(find_fleet_seeds.PLANTS_FLEET, "a mistake", (mistake, set()))
    monkeypatch.setattr(find_fleet_seeds, "run_fleet", run)
    assert is_found_by("a mistake", 1) is is_found
