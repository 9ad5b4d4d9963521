"""Workers while connections are cut and their server is killed: nothing is lost or doubled.

Promise worker: connections cut at any moment and kills of the real daemon under four workers;
    leases that end while a worker holds them, a full disk.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from pathlib import Path

import pytest

from kestrelpy.client import Worker, WorkerItem
from tests.process.cli.command import counts, eventually
from tests.process.client.items import put
from tests.process.client.proxy import Proxy
from tests.support.daemon import DaemonProcess

ITEMS = 3_000
WORKERS = 4
KILLS = 3
CUTS = 40
SECONDS = 120.0


@pytest.mark.slow
def test_through_cuts_and_kills_each_item_is_handled_and_twice_only_if_that_was_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    handled: Counter[bytes] = Counter()
    lock = threading.Lock()

    def handle(item: WorkerItem) -> None:
        with lock:
            handled[item.body] += 1

    with DaemonProcess(tmp_path / "data") as daemon, Proxy(daemon.port) as wire:
        put(daemon, "q", *(b"%d" % number for number in range(ITEMS)))
        workers = [Worker("q", wire.address, wait="1s", lease="10s") for _ in range(WORKERS)]
        threads = [threading.Thread(target=each.run, args=(handle,)) for each in workers]
        with caplog.at_level(logging.WARNING):
            for thread in threads:
                thread.start()
            # An accident every few items, until there are none left.
            accidents = ["kill"] * KILLS + ["cut"] * CUTS
            rng.shuffle(accidents)
            for number, accident in enumerate(accidents, 1):
                mark = number * ITEMS // (len(accidents) + 2)
                eventually(lambda mark=mark: len(handled) >= mark, SECONDS)
                if accident == "kill":
                    daemon.kill()
                    daemon.start()
                else:
                    wire.cut()
            # An item in an answer that was cut stays leased until its lease is over.
            eventually(lambda: len(handled) == ITEMS, SECONDS)
            for each in workers:
                each.stop()
            for thread in threads:
                thread.join(SECONDS)

        twice = sum(handled.values()) - ITEMS
        assert twice <= caplog.text.count("may be handled again"), f"seed {seed}"
        left = counts(daemon, "q")
        assert (left["items"], left["open_transactions"]) == (0, 0), f"seed {seed}"
