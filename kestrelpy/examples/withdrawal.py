"""Withdrawals: none is applied twice, however often it is sent, and none is too large.

    python -m kestrelpy.examples.withdrawal [--server HOST:PORT]

    request ──▶ read the balance (version 7) ──▶ set ledger/key=ann/expect=7/id=w-12
                  ▲                                │ STORED: it is stored, now or before
                  └──── NOT_STORED: a newer ───────┘
                        entry, read again

Each entry of the ledger is stored with two conditions: the version of the entry before it, so that
no worker decides by an old balance; and the withdrawal's own id, so that a repetition is answered
like the first time and stores nothing.
"""

from __future__ import annotations

import json
import random
import threading
import uuid

from pymemcache.client.base import PooledClient

from kestrelpy.examples import fresh

LEDGER = "withdrawal.ledger"
ASKED = "withdrawal.asked"
SETTINGS = """
retain = "forever"
dedupe_window = "forever"
"""
WORKERS = 4
COUNT = 60


def withdraw(queue: PooledClient, account: str, id_: str, amount: int) -> int:
    """Store the withdrawal, or its refusal; return how often another worker was quicker."""
    for tried in range(1000):
        body, version = queue.gets(f"{LEDGER}/key={account}/peek")
        balance = json.loads(body)["balance"]
        taken = amount if amount <= balance else 0
        entry = json.dumps({"id": id_, "taken": taken, "balance": balance - taken})
        if queue.set(f"{LEDGER}/key={account}/expect={int(version)}/id={id_}", entry):
            return tried
    raise RuntimeError("a thousand others were quicker")


def main() -> None:
    """Make sixty withdrawals, each sent twice, from two accounts with four workers."""
    with fresh.server(__doc__) as server:
        queue, over, chance = server.client(), threading.Event(), random.Random(2)
        run = uuid.uuid4().hex[:8]
        accounts = [f"{name}-{run}" for name in ("ann", "ben")]
        fresh.declare(queue, LEDGER, SETTINGS)
        for account in accounts:
            assert queue.add(f"{LEDGER}/key={account}", json.dumps({"balance": 1000}))
        asked = [
            {"id": f"w-{run}-{number}", "account": account, "amount": chance.randrange(1, 90)}
            for number in range(COUNT)
            for account in [chance.choice(accounts)]
        ]
        for each in asked * 2:
            queue.set(ASKED, json.dumps(each))
        quicker: list[int] = []

        def work(dies_at: int) -> None:
            handled = 0
            while not over.is_set():
                body, token = queue.gets(f"{ASKED}/open/lease=1s/t=200ms")
                if body is None:
                    continue
                want, handled = json.loads(body), handled + 1
                quicker.append(withdraw(queue, want["account"], want["id"], want["amount"]))
                if handled == dies_at:
                    server.say(f"a worker dies behind {want['id']}: written, not confirmed")
                    continue
                queue.delete(f"{ASKED}/token={int(token)}")

        threads = [threading.Thread(target=work, args=(5 * n,)) for n in range(WORKERS)]
        for thread in threads:
            thread.start()
        fresh.wait_until_empty(queue, ASKED)
        over.set()
        for thread in threads:
            thread.join()

        written = set()
        for account in accounts:
            body, version = queue.gets(f"{LEDGER}/key={account}/peek")
            balance, last = 1000, json.loads(body)["balance"]
            for number in range(2, int(version) + 1):
                entry = json.loads(queue.get(f"{LEDGER}/key={account}/peek/at_version={number}"))
                assert entry["id"] not in written, "applied twice"
                written.add(entry["id"])
                balance -= entry["taken"]
                assert entry["balance"] == balance >= 0
            assert balance == last
        assert written == {each["id"] for each in asked}
        server.say(
            f"{2 * COUNT} times asked for, {len(written)} withdrawals written once each, "
            f"{sum(quicker)} times somebody was quicker, no account below zero"
        )


if __name__ == "__main__":
    main()
