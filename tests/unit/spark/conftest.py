"""Fixtures of the tests of Spark; `spark` itself is in `tests/support/spark_fixture.py`."""

from __future__ import annotations

import itertools

import pytest

_names = itertools.count(1)


@pytest.fixture
def queue() -> str:
    """A name that no other test uses."""
    return f"queue-{next(_names)}"
