"""What holds for every test."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Machines are noisy: no test fails for having been slow.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


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
