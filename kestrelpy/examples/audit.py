"""Fan-out: each consumer sees every order, and a slow one does not delay the others.

    python -m kestrelpy.examples.audit [--server HOST:PORT]

    set orders ──▶ one body on disk ──▶ orders          the shop: as quick as it can
                                   ├──▶ orders+mail     a mail for each
                                   └──▶ orders+audit    an audit of each, slow

A child gets every item that is stored after its first mention. It has its own ready list, leases,
attempts and dead letters; an item that one consumer has confirmed is still there for the others.
"""

from __future__ import annotations

import json
import threading
import time

from kestrelpy.examples import fresh

ORDERS = "audit.orders"
MAIL = f"{ORDERS}+mail"
AUDIT = f"{ORDERS}+audit"
COUNT = 200


def main() -> None:
    """Send two hundred orders to three readers; the audit is slow, and fails at one order."""
    with fresh.server(__doc__) as server:
        queue, over = server.client(), threading.Event()
        for child in (MAIL, AUDIT):
            queue.get(f"{child}/peek")  # the first mention: from here on it misses nothing
        seen: dict[str, list[int]] = {name: [] for name in (ORDERS, MAIL, AUDIT)}
        lag: list[int] = []

        def work(name: str, pause: float) -> None:
            failed = False
            while not over.is_set():
                body, token = queue.gets(f"{name}/open/lease=10s/t=200ms")
                if body is None:
                    continue
                order = json.loads(body)["order"]
                if name == AUDIT and order == 17 and not failed:
                    failed = True
                    server.say("the audit fails at order 17, and gives it back")
                    queue.get(f"{name}/abort/token={int(token)}")
                    continue
                time.sleep(pause)
                seen[name].append(order)
                queue.delete(f"{name}/token={int(token)}")

        pauses = {ORDERS: 0.0, MAIL: 0.001, AUDIT: 0.01}
        threads = [threading.Thread(target=work, args=each) for each in pauses.items()]
        for thread in threads:
            thread.start()
        for order in range(COUNT):
            assert queue.set(ORDERS, json.dumps({"order": order}))
        while len(seen[ORDERS]) < COUNT:
            lag.append(queue.stats(AUDIT)[f"queue_{AUDIT}_items".encode()])
            time.sleep(fresh.LOOK_SECONDS)
        server.say(f"the shop is through, the audit has {COUNT - len(seen[AUDIT])} before it")
        fresh.wait_until_empty(queue, MAIL, AUDIT)
        over.set()
        for thread in threads:
            thread.join()

        assert all(orders == [*range(COUNT)] for orders in seen.values())
        server.say(f"each of {len(seen)} readers saw {COUNT} orders, in order, once")


if __name__ == "__main__":
    main()
