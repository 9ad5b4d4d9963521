"""What holds for every test."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Machines are noisy: no test fails for having been slow.
settings.register_profile("search", deadline=None, print_blob=True)
settings.register_profile("house", settings.get_profile("search"), derandomize=True)


def pytest_configure(config: pytest.Config) -> None:
    """The soak looks for examples that nobody has seen; all other tests have the same ones each
    time, so that what fails was broken by the last change."""
    settings.load_profile("search" if config.getoption("markexpr") == "soak" else "house")


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    """A daemon in this process settles down for good (`kestrelpy.server.process`): then all that
    later tests leave behind would stay."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    if gc.get_threshold() != thresholds:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
