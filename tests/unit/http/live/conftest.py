"""A server with three items; most tests of an operation begin with it."""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness


@pytest.fixture
def server() -> ServerHarness:
    """The queue `jobs` has one, two and three; the first failed attempt is the last one."""
    made = ServerHarness()
    made.set_queue(max_attempts=1)
    made.store(b"one", b"two", b"three")
    return made
