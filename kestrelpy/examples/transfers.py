"""Money transfers: never two at a time on one account, all others side by side.

    python -m kestrelpy.examples.transfers [--server HOST:PORT]

    {"from": "A", "to": "B"} ──▶ leased: A and B are locked
    {"from": "B", "to": "C"} ──▶ waits, and C waits for it    {"from": "C", "to": "D"} ──▶ waits
    {"from": "E", "to": "F"} ──▶ leased

A transfer reads two balances and writes them, without any lock: the queue does not lease a transfer
while another one with the same account is leased. Each account sees its transfers in the order in
which they were stored.

The publisher declares the queue's key. `key_match = "any"`: one common account is enough.
`key_unordered`: from and to mean the same. A message without them is refused.
"""

from __future__ import annotations

import json
import random
import threading
import time

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheClientError

from kestrelpy.examples import fresh

QUEUE = "bank.transfers"
KEY = """
key_format = "json"
key = ["from", "to"]
key_match = "any"
key_unordered = true
"""
ACCOUNTS = [f"account-{number}" for number in range(1, 21)]
TRANSFERS = 200
WORKERS = 8


class Bank:
    """Balances without a lock, and the numbers of the transfers that were made."""

    def __init__(self) -> None:
        self.balances = dict.fromkeys(ACCOUNTS, 1000)
        self.made: set[int] = set()  # in your service: written together with the balances
        self.busy: list[str] = []
        self.most_at_once = self.clashes = 0

    def transfer(self, number: int, from_: str, to: str, amount: int) -> None:
        """Make one transfer; two at once with a common account would lose money here."""
        self.clashes += from_ in self.busy or to in self.busy
        self.busy += [from_, to]
        self.most_at_once = max(self.most_at_once, len(self.busy) // 2)
        have, has = self.balances[from_], self.balances[to]
        time.sleep(0.005)  # time for another transfer to come in between
        if number not in self.made:  # it may come twice, if a worker died before its confirm
            self.made.add(number)
            amount = min(amount, have)  # so the order also matters
            self.balances[from_], self.balances[to] = have - amount, has + amount
        self.busy.remove(from_)
        self.busy.remove(to)


def work(queue: PooledClient, bank: Bank, over: threading.Event) -> None:
    """Take and make transfers, as one of several workers."""
    while not over.is_set():
        body, token = queue.gets(f"{QUEUE}/open/lease=10s/t=200ms")
        if body is None:
            continue
        asked = json.loads(body)
        bank.transfer(asked["number"], asked["from"], asked["to"], asked["amount"])
        queue.delete(f"{QUEUE}/token={int(token)}")  # confirm


def main() -> None:
    """Make two hundred transfers with eight workers, and compare with one after the other."""
    with fresh.server(__doc__) as server:
        queue, bank, over = server.client(), Bank(), threading.Event()
        fresh.declare(queue, QUEUE, KEY)
        try:
            queue.set(QUEUE, json.dumps({"number": 0, "from": ACCOUNTS[0]}))
        except MemcacheClientError as error:
            server.say(f"refused: {error.args[0].decode()}")

        asked, chance = [], random.Random(1)
        for number in range(1, TRANSFERS + 1):
            from_, to = chance.sample(ACCOUNTS, 2)
            amount = chance.randrange(1, 900)
            asked.append((number, from_, to, amount))
            message = {"number": number, "from": from_, "to": to, "amount": amount}
            queue.set(QUEUE, json.dumps(message))
        threads = [threading.Thread(target=work, args=(queue, bank, over)) for _ in range(WORKERS)]
        for thread in threads:
            thread.start()
        fresh.wait_until_empty(queue, QUEUE)
        over.set()
        for thread in threads:
            thread.join()

        slow = Bank()  # one after the other
        for number, from_, to, amount in asked:
            slow.transfer(number, from_, to, amount)
        assert bank.clashes == 0
        assert bank.balances == slow.balances
        server.say(
            f"{len(bank.made)} transfers, up to {bank.most_at_once} at a time; every balance "
            "is what it would be one after the other"
        )


if __name__ == "__main__":
    main()
