"""What the tests of jobs share: the one Spark session, and threads that are moved by hand."""

from __future__ import annotations

import pytest

from tests.support.disk_harness import at_once


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and rewriting are done when a story says so (see `tests.support.disk_harness`)."""
    monkeypatch.setattr("kestrelpy.server.journals.journal_jobs.wrap", at_once)
