"""A durable observer: it reads every item, stores its marker, and takes no item.

    python -m kestrelpy.examples.observer [--server HOST:PORT]

    orders ──open, close──▶ a worker: done
       └────peek/after=17──▶ the observer ──▶ one file: {"marker": 18, "turnover": 4711}

The observer stores the marker together with its results, in one file that is replaced as a whole.
So a killed observer goes on after the last item that it counted, and counts no item twice. The
queue retains done items, so the worker may be quicker than the observer.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from pymemcache.client.base import Client

from kestrelpy.examples import fresh

QUEUE = "observer.orders"
SETTINGS = 'retain = "1h"\n'
COUNT = 300
KILLS = 4


def observe(address: tuple[str, int], path: str, after: int) -> None:
    """Count the sales after the marker in the file, or after `after`."""
    queue, file = Client(address, timeout=60, default_noreply=False), Path(path)
    known = {"marker": after, "orders": 0, "turnover": 0}
    if file.exists():
        known = json.loads(file.read_text())
    while True:
        body, marker = queue.gets(f"{QUEUE}/peek/after={known['marker']}/t=1s")
        if body is None:
            continue
        known["marker"] = int(marker)
        known["orders"] += 1
        known["turnover"] += json.loads(body)["price"]
        replace_file(file, json.dumps(known))


def replace_file(file: Path, text: str) -> None:
    """Replace the file as a whole, or not at all, whatever is killed."""
    new = file.with_suffix(".new")
    with new.open("w") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    new.replace(file)


def main() -> None:
    """Send three hundred orders to a quick worker; kill the observer four times."""
    processes, chance = multiprocessing.get_context("spawn"), random.Random(3)
    with fresh.server(__doc__) as server, tempfile.TemporaryDirectory() as folder:
        queue, path = server.client(), f"{folder}/observer.json"
        fresh.declare(queue, QUEUE, SETTINGS)
        latest = queue.stats("markers")[f"queue_{QUEUE}_marker_latest".encode()]

        def start() -> Any:
            observer = processes.Process(
                target=observe, args=(server.address, path, latest), daemon=True
            )
            observer.start()
            return observer

        observer, turnover, kills = start(), 0, 0
        for number in range(COUNT):
            price = chance.randrange(1, 100)
            turnover += price
            queue.set(QUEUE, json.dumps({"price": price}))
            queue.get(QUEUE)  # the worker is quick: the order is done before the observer looks
            if number % (COUNT // (KILLS + 1)) == 0 and number:
                kills += 1
                time.sleep(chance.uniform(0.2, 0.6))
                observer.kill()
                observer.join()
                observer = start()

        known: dict[str, int] = {}
        while known.get("orders") != COUNT:
            time.sleep(fresh.LOOK_SECONDS)
            known = json.loads(Path(path).read_text()) if Path(path).exists() else {}
            assert known.get("orders", 0) <= COUNT, "counted twice"
        observer.kill()
        observer.join()
        assert known["turnover"] == turnover
        server.say(
            f"{COUNT} orders were done before the observer saw them, it was killed {kills} times, "
            f"and its turnover of {turnover} is right"
        )


if __name__ == "__main__":
    main()
