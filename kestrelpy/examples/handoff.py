"""A workflow by hand-off: each step stores its result and confirms its order with one command.

    python -m kestrelpy.examples.handoff [--server HOST:PORT]

    shop.paid ──▶ shop.packed ──▶ shop.sent
      ▲  │ not paid yet: delayed, with the results so far
      └──┘

A step takes an order, does its work, and stores the result in the next queue with `confirm=`: in
one step the order is in the next queue and gone from this one, or neither. Workers die before the
hand-off and right after they sent it; no order is lost and none is handed off twice.

Side effects of a step may still happen twice, if a worker dies before its hand-off. So a step here
only computes, and its result is the order that it hands off.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter

from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError

from kestrelpy.examples import fresh

ORDERS = 60
WORKERS = 2  # of each step
DEATHS = 0.15  # how often a worker dies before its hand-off, and as often right after
NEXT = {"shop.paid": "shop.packed", "shop.packed": "shop.sent"}


class Died(Exception):
    """The worker has died, and its connection is gone."""


class Worker(threading.Thread):
    """The worker of one step; a new one replaces it when it dies."""

    def __init__(self, server: fresh.Server, step: str, chance: random.Random) -> None:
        super().__init__()
        self.server = server
        self.step = step
        self.chance = chance
        self.over = threading.Event()
        self.deaths = self.late = self.refused = 0

    def run(self) -> None:
        while not self.over.is_set():
            queue = Client(self.server.address, timeout=60, default_noreply=False)
            try:
                while not self.over.is_set():
                    self.work(queue)
            except Died:
                self.deaths += 1
            finally:
                queue.close()

    def work(self, queue: Client) -> None:
        """Take one order, and hand it off or delay it."""
        body, token = queue.gets(f"{self.step}/open/lease=500ms/t=200ms")
        if body is None:
            return
        order, named = json.loads(body), f"confirm={self.step}:{int(token)}"
        if self.step == "shop.paid" and order["asked"] < order["number"] % 3:
            order["asked"] += 1  # the bank has nothing yet: ask again later
            to = f"{self.step}/{named}/delay=100ms"
        else:
            order["steps"].append(self.step)
            to = f"{NEXT[self.step]}/{named}"
        if self.chance.random() < DEATHS:
            raise Died  # its lease ends, and another worker does this step
        if self.chance.random() < DEATHS:
            queue.set(to, json.dumps(order), noreply=True)  # asked for, and the answer not heard
            self.late += 1
            raise Died
        try:
            queue.set(to, json.dumps(order))  # True: it is there, and not here any more
        except MemcacheClientError:
            self.refused += 1  # the lease was over: another worker has the order


def main() -> None:
    """Send sixty orders; two thirds of them are not paid at first."""
    with fresh.server(__doc__) as server:
        queue: PooledClient = server.client()
        workers = [
            Worker(server, step, random.Random(f"{step} {n}")) for step in NEXT
            for n in range(WORKERS)
        ]  # fmt: skip
        for number in range(ORDERS):
            queue.set("shop.paid", json.dumps({"number": number, "asked": 0, "steps": []}))
        for worker in workers:
            worker.start()
        fresh.wait_until_empty(queue, *NEXT)
        for worker in workers:
            worker.over.set()
        for worker in workers:
            worker.join()

        sent: Counter[int] = Counter()
        while (body := queue.get("shop.sent")) is not None:
            order = json.loads(body)
            sent[order["number"]] += 1
            assert order["steps"] == list(NEXT), "each step is in it once"
            assert order["asked"] == order["number"] % 3
        assert sent == Counter(range(ORDERS)), "each order is there, once"
        deaths = sum(worker.deaths for worker in workers)
        late = sum(worker.late for worker in workers)
        server.say(f"{deaths} workers died, {late} of them with a hand-off under way")
        server.say(f"{len(sent)} orders were sent, each once, through each step once")


if __name__ == "__main__":
    main()
