"""One daemon and one worker for the tests that kill neither; each has task names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.celery_broker.workers import Shop, shop_of


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop_of(tmp_path_factory.mktemp("shop"), lease="2s") as running:
        running.start("-Q", "celery,other")
        yield running
