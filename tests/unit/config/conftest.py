"""Every test of the configuration may write a file of its own."""

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kestrelpy.toml"
