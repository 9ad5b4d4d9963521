"""Observers of a retained log: how fast one reads done items, and the cost for producers.

    alone    an observer with `n=`, from the beginning to the end
    beside   sets for a while | sets, and an observer at 50,000 items a second      in turns

One rule: every answer is checked: its markers go on where those of the last one ended.
"""

import socket
import threading
import time
from statistics import median
from typing import Self

from bench.daemon import ANSWER_LIMIT_S, Daemon
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

BODY_BYTES = 100
QUEUE = b"jobs"
PACE = 50_000  # items a second
_ONE_ANSWER = 10_000
_PACED_ANSWER = 2_500
_RECEIVE_BYTES = 1 << 20
_CONFIG = '[queue_defaults]\nretain = "forever"\n'


def observers(bench: Bench) -> list[Figure]:
    """Return all figures."""
    items, rounds = bench.sizes.retained_items, bench.sizes.rounds
    where = f"{items:,} retained items"
    rates: dict[str, list[float]] = {"alone": [], "beside": []}
    reads, paces = [], []
    with Daemon(bench.parent, bench.python, _CONFIG) as daemon:
        name = QUEUE.decode()
        bench.load("memcache-set", daemon.port, name, ops=items, body_bytes=BODY_BYTES, in_flight=9)
        bench.load("memcache-consume", daemon.port, name, ops=items, body_bytes=BODY_BYTES)
        bench.say(f"{where}: all are done")
        for number in range(rounds):
            reads.append(_all(daemon.port, items))
            for turn in list(rates) if number % 2 == 0 else list(rates)[::-1]:
                if turn == "beside":
                    with _Paced(daemon.port, items) as paced:
                        done = _sets(bench, daemon.port)
                    paces.append(paced.rate)
                else:
                    done = _sets(bench, daemon.port)
                rates[turn].append(done)
            bench.say(f"{where}: round {number + 1} of {rounds}")
    ratio = median(a / b for a, b in zip(rates["beside"], rates["alone"], strict=True))
    return [
        Figure(where, "one observer alone", median(reads), "/s", at_least=Goals.observed_items),
        Figure(
            where, f"sets beside one at {median(paces):,.0f}/s, over sets alone", ratio,
            at_least=Goals.observed_ratio,
        ),
        Figure(where, "sets alone", median(rates["alone"]), "/s"),
    ]  # fmt: skip


def _sets(bench: Bench, port: int) -> float:
    # Into another queue, so that every turn reads the same items.
    done = bench.load("memcache-set", port, "more", seconds=bench.sizes.seconds)
    return done.ops_per_s


def _all(port: int, items: int) -> float:
    """Read from the beginning to the end; return the items a second."""
    began, observer = time.monotonic(), Observer(port)
    while observer.after < items:
        observer.read(_ONE_ANSWER)
    observer.close()
    return items / (time.monotonic() - began)


class Observer:
    """One connection that keeps its marker."""

    def __init__(self, port: int) -> None:
        self.after = 0
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_LIMIT_S)
        self._room = bytearray(_RECEIVE_BYTES)

    def read(self, most: int) -> int:
        """Read at most `most` items, at least one; return how many. Raises ServerFailed."""
        self._socket.sendall(b"gets %b/peek/after=%d/n=%d\r\n" % (QUEUE, self.after, most))
        parts, tail = [], b""
        while not tail.endswith(b"\r\nEND\r\n"):
            size = self._socket.recv_into(self._room)
            if not size:
                raise ServerFailed("kestrelpy closed the connection of an observer")
            parts.append(bytes(self._room[:size]))
            tail = tail[-16:] + parts[-1][-16:]
        answer = b"".join(parts)
        count, at = answer.count(b"VALUE "), answer.rfind(b"VALUE ")
        last = int(answer[at : answer.index(b"\r\n", at)].rpartition(b" ")[2])
        if last != self.after + count:
            raise ServerFailed(f"{count} items behind {self.after} end at {last}")
        self.after = last
        return count

    def close(self) -> None:
        self._socket.close()


class _Paced:
    """An observer that reads at a given rate, from the beginning, again and again, until the end of
    the `with` block."""

    def __init__(self, port: int, items: int) -> None:
        self._observer = Observer(port)
        self._items = items
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self.rate = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._observer.close()

    def _read(self) -> None:
        began, count = time.monotonic(), 0
        while not self._over.wait(max(began + count / PACE - time.monotonic(), 0)):
            if self._observer.after >= self._items:
                self._observer.after = 0
            count += self._observer.read(_PACED_ANSWER)
        self.rate = count / (time.monotonic() - began)
