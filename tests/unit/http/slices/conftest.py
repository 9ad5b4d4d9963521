"""A router without slices, for tests that look at one request."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from kestrelpy.http.slices.ports import SlicesPort
from tests.support.sliced_web import SlicedWeb


@pytest.fixture
def router(tmp_path: Path) -> SlicesPort:
    return cast(SlicesPort, SlicedWeb(tmp_path, ""))
