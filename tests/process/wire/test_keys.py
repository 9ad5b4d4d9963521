"""Keys and `max_leased` under many racing consumers on real sockets, who hang up at random.

Promise: key.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

CONSUMERS = 12
ITEMS = 400
ACCOUNTS = 8
SECONDS = 20.0

SETTINGS = {
    "pair": (["a", "b"], 'key_format = "json"\nkey = ["a", "b"]\n'),
    "unordered": (["b", "a"], 'key_format = "json"\nkey = ["a", "/b"]\nkey_unordered = true\n'),
    "any": (["a", "b"], 'key_format = "json"\nkey = ["a", "b"]\nkey_match = "any"\n'),
    "one after the other": ([], "max_leased = 1\n"),
}


@dataclass
class Referee:
    """The leases by the consumers' own account: each lets an item go before it tells the server."""

    how: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    held: dict[object, int] = field(default_factory=dict)
    confirmed: list[int] = field(default_factory=list)
    deliveries: Counter[int] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def values(self, message: dict[str, int]) -> set[object]:
        """Return the values that two messages must not share while both are leased."""
        a, b = message["a"], message["b"]
        return {
            "pair": {(a, b)},
            "unordered": {(min(a, b), max(a, b))},
            "any": {a, b},
            "one after the other": {"all"},
        }[self.how]

    def take(self, message: dict[str, int]) -> None:
        with self.lock:
            number = message["n"]
            self.deliveries[number] += 1
            for value in self.values(message):
                if value in self.held:
                    self.complaints.append(f"{number} beside {self.held[value]} for {value}")
                self.held[value] = number

    def let_go(self, message: dict[str, int], is_confirmed: bool) -> None:
        with self.lock:
            for value in self.values(message):
                self.held.pop(value, None)
            if is_confirmed:
                self.confirmed.append(message["n"])
                if len(self.confirmed) == ITEMS:
                    self.done.set()


def consume(daemon: DaemonProcess, queue: str, referee: Referee, seed: int) -> None:
    """Fetch, look at something else meanwhile, and confirm; or abort, defer, or hang up."""
    random = Random(seed)
    raw = Raw(("127.0.0.1", daemon.port))
    while not referee.done.is_set():
        found = raw.values(f"{queue}/open/t=50ms".encode())
        if not found:
            continue
        message = json.loads(found[0][1])
        referee.take(message)
        for _ in range(random.choice((0, 0, 1, 5))):
            raw.values(f"{queue}/peek".encode())  # others have time to be wrong meanwhile
        how = random.choice(["close"] * 6 + ["abort", "defer", "hang up"])
        referee.let_go(message, how == "close")
        if how == "hang up":
            raw.hang_up()
            raw = Raw(("127.0.0.1", daemon.port))
        else:
            raw.ask(f"get {queue}/{how}\r\n".encode(), b"END\r\n")
    raw.hang_up()


@pytest.mark.slow
@pytest.mark.parametrize("how", SETTINGS)
def test_never_two_are_leased_for_one_key_and_each_key_is_worked_in_sequence(
    daemon: DaemonProcess, raw: Raw, queue: str, how: str
) -> None:
    seed = Random().randrange(1 << 32)
    print(f"seed {seed}")
    random, referee = Random(seed), Referee(how)
    settings = f'max_attempts = "none"\n{SETTINGS[how][1]}'.encode()
    raw.ask(b"set %b/declare 0 0 %d\r\n%b\r\n" % (queue.encode(), len(settings), settings),
            b"STORED\r\n")  # fmt: skip
    messages = [
        {"n": n, "a": random.randrange(ACCOUNTS), "b": random.randrange(ACCOUNTS)}
        for n in range(ITEMS)
    ]
    consumers = [
        threading.Thread(target=consume, args=(daemon, queue, referee, seed + n))
        for n in range(CONSUMERS)
    ]
    for consumer in consumers:
        consumer.start()
    for message in messages:
        body = json.dumps(message).encode()
        raw.ask(b"set %b 0 0 %d\r\n%b\r\n" % (queue.encode(), len(body), body), b"STORED\r\n")
    referee.done.wait(SECONDS)
    referee.done.set()
    for consumer in consumers:
        consumer.join(SECONDS)

    assert referee.complaints == []
    assert sorted(referee.confirmed) == list(range(ITEMS)), "each is confirmed once"
    for value in {v for message in messages for v in referee.values(message)}:
        mine = [n for n in referee.confirmed if value in referee.values(messages[n])]
        assert mine == sorted(mine), f"in order for {value}"
    stats = raw.stats(b"stats " + queue.encode())
    name = f"queue_{queue}_"
    assert (stats[f"{name}items"], stats[f"{name}keys_in_flight"]) == ("0", "0")
    assert stats[f"{name}keys_blocked"] == "0"
