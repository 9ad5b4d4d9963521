"""Keys: the cost of a hundred thousand of them for a consumer, and of a blocked one for others.

    active    consume, many keys    | consume, no keys           in turns
    blocked   consume the items     | the same after ten         in turns
              after 100,000 of
              one blocked key

One rule: a ratio is taken within a round, the turns follow each other at once, every other round
runs backwards, and the median over the rounds counts.
"""

import random
import time
from statistics import median

from bench.daemon import Daemon, Line
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

BODY_BYTES = 26  # what tells items apart, as the load generator has it
AT_ONCE = 500  # requests sent before their answers are read
FEW = 10
_SCAN_SECONDS_MAX = 120.0


def keys(bench: Bench) -> list[Figure]:
    """Return all figures."""
    return [*_active(bench), *_blocked(bench), *_memory(bench)]


def _active(bench: Bench) -> list[Figure]:
    count, rounds = bench.sizes.active_keys, bench.sizes.rounds
    where = f"{count:,} active keys"
    rates: dict[bytes, list[float]] = {b"keyed": [], b"plain": []}
    with Daemon(bench.parent, bench.python) as daemon:
        line = daemon.connect()
        turns = list(rates)
        for number in range(rounds):
            order = random.Random(number).sample(range(count), count)
            _store(line, [b"keyed/key=account-%d,%d" % (key, key % 7) for key in order])
            _store(line, [b"plain"] * count)
            for queue in turns if number % 2 == 0 else turns[::-1]:
                done = bench.load(
                    "memcache-consume", daemon.port, queue.decode(), ops=count,
                    body_bytes=BODY_BYTES,
                )  # fmt: skip
                rates[queue].append(done.ops_per_s)
            bench.say(f"{where}: round {number + 1} of {rounds}")
        line.close()
    ratio = median(a / b for a, b in zip(rates[b"keyed"], rates[b"plain"], strict=True))
    return [
        Figure(where, "consume, over the same without keys", ratio, at_least=Goals.key_ratio),
        Figure(where, "consume", median(rates[b"keyed"]), "/s"),
    ]


def _blocked(bench: Bench) -> list[Figure]:
    count, rounds = bench.sizes.blocked_items, bench.sizes.rounds
    where = f"{count:,} waiting items of one blocked key"
    rates: dict[str, list[float]] = {"many": [], "few": []}
    with Daemon(bench.parent, bench.python) as daemon:
        line, first = daemon.connect(), {}
        holders = {"many": daemon.connect(), "few": daemon.connect()}
        for queue, waiting in (("many", count), ("few", FEW)):
            first[queue] = _block(holders[queue], line, queue, waiting)
        bench.say(f"{where}: they wait")
        turns, behind = list(rates), max(count // 10, 50)
        for number in range(rounds):
            for queue in turns:
                _store(line, [f"{queue}/key=B{n}".encode() for n in range(behind)])
            for queue in turns if number % 2 == 0 else turns[::-1]:
                done = bench.load(
                    "memcache-consume", daemon.port, queue, ops=behind, body_bytes=BODY_BYTES
                )
                rates[queue].append(done.ops_per_s)
        waits = int(line.stats(b"many")["items"])
        if waits != count:
            raise ServerFailed(f"{waits} items of the blocked key wait, and not {count}")
    ratio = median(a / b for a, b in zip(rates["many"], rates["few"], strict=True))
    return [
        Figure(where, "what is behind them, over the same behind ten", ratio,
               at_least=Goals.blocked_ratio),
        Figure(where, "what is behind them", median(rates["many"]), "/s"),
        Figure(where, "passing over them, once", first["many"], "s"),
    ]  # fmt: skip


def _memory(bench: Bench) -> list[Figure]:
    count = 10 * bench.sizes.blocked_items  # many, so that buffers do not count
    where = f"{count:,} waiting items of one blocked key, on disk"
    config = '[queue_defaults]\nmax_memory = "256KiB"\n'
    with Daemon(bench.parent, bench.python, config) as daemon:
        line, warm, holder = daemon.connect(), daemon.connect(), daemon.connect()
        _block(warm, line, "warm", 1000)
        before = daemon.memory_bytes()
        _block(holder, line, "many", count)
        each = (daemon.memory_bytes() - before) / count
    return [Figure(where, "memory of each", each, "B", at_most=Goals.blocked_bytes)]


def _block(holder: Line, line: Line, queue: str, count: int) -> float:
    """Lease one item of a key while `count` others of it wait; return the seconds to pass them
    over."""
    name = queue.encode()
    _store(line, [name + b"/key=A"])
    holder.ask(b"get " + name + b"/open\r\n")
    holder.rest_of_item()
    _store(line, [name + b"/key=A"] * count + [name + b"/key=B"])
    began = time.monotonic()
    line.send(b"get %b/t=%ds\r\n" % (name, _SCAN_SECONDS_MAX))
    if not line.line().startswith(b"VALUE "):
        raise ServerFailed(f"{queue}: the item after the blocked ones was not found")
    line.rest_of_item()
    return time.monotonic() - began


def _store(line: Line, targets: list[bytes]) -> None:
    """Store one item under each of these."""
    for first in range(0, len(targets), AT_ONCE):
        some = targets[first : first + AT_ONCE]
        line.send(
            b"".join(
                b"set %b 0 0 %d\r\n00000001 00000 %010d \r\n" % (target, BODY_BYTES, number)
                for number, target in enumerate(some, first)
            )
        )
        for _ in some:
            if (answer := line.line()) != b"STORED":
                raise ServerFailed(answer.decode(errors="replace"))
