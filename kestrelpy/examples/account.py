"""An event-sourced account: events are stored, and the balance follows from them.

    python -m kestrelpy.examples.account [--server HOST:PORT]

    opened 1   deposited 2   withdrawn 3   ...           key=123: its events, numbered
    a teller knows the account up to event 7 ──▶ decides ──▶ cas account/key=123 ... 7
                     ▲                                        │ EXISTS: there is an event 8
                     └──────── reads it, and decides again ───┘

No balance is stored. Each teller has read the account up to some event. It adds an event only if
that was the last one; otherwise it reads on.
"""

from __future__ import annotations

import json
import threading
import uuid

from pymemcache.client.base import PooledClient

from kestrelpy.examples import fresh

QUEUE = "account"
SETTINGS = 'retain = "forever"\n'
TELLERS = 4
VISITS = 15


class Account:
    """One account, up to the last event that was read: `version` events."""

    def __init__(self, queue: PooledClient, number: str) -> None:
        self.queue, self.key = queue, f"{QUEUE}/key={number}"
        self.version = self.balance = self.conflicts = 0

    def read_on(self) -> None:
        """Read the events since."""
        while event := self.queue.get(f"{self.key}/peek/at_version={self.version + 1}"):
            self.apply(json.loads(event))

    def apply(self, event: dict[str, int]) -> None:
        """Apply one event to the balance."""
        self.version += 1
        self.balance += event.get("deposited", 0) - event.get("withdrawn", 0)

    def happen(self, event: dict[str, int]) -> bool:
        """Add an event after the last one that was read; False: there is a newer one."""
        body = json.dumps(event)
        if self.version:
            written = self.queue.cas(self.key, body, str(self.version))
        else:
            written = self.queue.add(self.key, body)
        if written:
            self.apply(event)
        self.conflicts += not written
        return bool(written)

    def deposit(self, amount: int) -> None:
        """Add an amount."""
        while not self.happen({"deposited": amount}):
            self.read_on()

    def withdraw(self, amount: int) -> bool:
        """Take an amount; False: the balance is too low."""
        self.read_on()
        while self.balance >= amount:
            if self.happen({"withdrawn": amount}):
                return True
            self.read_on()
        return False


def main() -> None:
    """Run four tellers on one account, then read the account from its beginning."""
    with fresh.server(__doc__) as server:
        queue, number = server.client(), uuid.uuid4().hex[:8]
        fresh.declare(queue, QUEUE, SETTINGS)
        given: list[int] = []
        conflicts: list[int] = []

        def serve(teller: int) -> None:
            account = Account(queue, number)
            for visit in range(VISITS):
                account.deposit(10 + teller)
                if account.withdraw(2 * visit):
                    given.append(2 * visit)
            conflicts.append(account.conflicts)

        threads = [threading.Thread(target=serve, args=(teller,)) for teller in range(TELLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        account = Account(queue, number)
        account.read_on()
        assert account.version == TELLERS * VISITS + len(given)
        assert account.balance == sum(10 + n for n in range(TELLERS)) * VISITS - sum(given) >= 0
        _, version = queue.gets(f"{QUEUE}/key={number}/peek")
        assert int(version) == account.version
        server.say(
            f"{account.version} events by {TELLERS} tellers, {sum(conflicts)} conflicts; the "
            f"balance of {account.balance} follows from them"
        )


if __name__ == "__main__":
    main()
