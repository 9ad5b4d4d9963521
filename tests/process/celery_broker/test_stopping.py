"""A worker that is told to stop ends, also while the daemon is away.

Promise: celery.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.celery_broker.workers import shop_of

pytest.importorskip("celery", reason="celery is not installed: pip install 'kestrelpy[celery]'")


@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_a_worker_stops_while_the_daemon_is_away(tmp_path: Path, pool: str) -> None:
    with shop_of(tmp_path) as shop:
        worker = shop.start("-l", "debug", pool=pool)
        shop.until(lambda: "ready." in shop.logs())
        shop.daemon.kill()
        # Wait until some heartbeats, which come every two seconds, have failed: the first error is
        # a warning, the later ones are logged at the level DEBUG.
        shop.until(lambda: shop.logs().count("the daemon at ") >= 6)

        shop.stop(worker)

        assert worker.returncode == 0, shop.logs()
