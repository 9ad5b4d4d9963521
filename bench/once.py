"""Deduplication: the cost of ten million remembered ids, and of a million keys with versions.

    fill      set ids/id=<each>, pipelined, through the server, in a window that none leaves
    checked   set with an id of its own | plain set        in turns, with all of them remembered
    kill -9   start                                        until it serves

Memory is that of a process that has just started and has no items, so it holds only the remembered
ids and versions.

One rule: a ratio is taken within a round, the turns right one after the other, every other
round backwards.
"""

from dataclasses import dataclass
from statistics import median

from bench.daemon import Daemon, Line
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

AT_ONCE = 20  # of each connection, while filling
CONFIG = """
[queue_defaults]
max_memory = "1MiB"
dedupe_window = "30d"
"""


@dataclass(frozen=True)
class _Case:
    where: str
    named: str  # the begin of a set that is checked
    queue: str
    count: int


def once(bench: Bench) -> list[Figure]:
    """Return all figures."""
    ids, keys = bench.sizes.once_ids, bench.sizes.once_keys
    return [
        *_measure(bench, _Case(f"{ids:,} ids in the window", "named/id=", "named", ids)),
        *_measure(bench, _Case(f"{keys:,} keys with versions", "named/key=", "named", keys)),
    ]


def _measure(bench: Bench, case: _Case) -> list[Figure]:
    where, count, rounds = case.where, case.count, bench.sizes.rounds
    with Daemon(bench.parent, bench.python, CONFIG) as daemon:
        line = daemon.connect()
        bench.load("memcache-set", daemon.port, "plain", ops=count, in_flight=AT_ONCE)
        line = _anew(daemon, line, b"plain")
        before = daemon.memory_bytes()
        filled = bench.load("memcache-named", daemon.port, case.named, ops=count, in_flight=AT_ONCE)
        bench.say(f"{where}: filled at {filled.ops_per_s:,.0f}/s")
        rates: dict[str, list[float]] = {"plain": [], case.named: []}
        turns = list(rates)
        for number in range(rounds):
            for queue in turns if number % 2 == 0 else turns[::-1]:
                dialect = "memcache-set" if queue == "plain" else "memcache-named"
                done = bench.load(
                    dialect, daemon.port, queue, seconds=bench.sizes.seconds, seed=number + 2
                )
                rates[queue].append(done.ops_per_s)
        total = line.stats(case.queue.encode())["total_items"]
        line.close()
        daemon.kill()
        start = daemon.start()
        line = daemon.connect()
        if line.stats(case.queue.encode())["total_items"] != total:
            raise ServerFailed(f"{where}: not all items are there after a restart")
        _check_first(daemon, case)
        line = _anew(daemon, line, case.queue.encode())
        each = (daemon.memory_bytes() - before) / int(total)
        line.close()
    ratio = median(a / b for a, b in zip(rates[case.named], rates["plain"], strict=True))
    return [
        Figure(where, "memory of each", each, "B", at_most=Goals.once_bytes),
        Figure(where, "a checked set, over a plain one", ratio, at_least=Goals.once_ratio),
        Figure(where, "a checked set", median(rates[case.named]), "/s"),
        Figure(where, "kill -9 to serving", start, "s", at_most=Goals.once_start_s),
    ]


def _anew(daemon: Daemon, line: Line, queue: bytes) -> Line:
    """Remove all items and start a new process, which has only what it remembers."""
    line.ask(b"flush %b\r\n" % queue)
    line.close()
    daemon.wait_until_steady()
    daemon.stop()
    daemon.start()
    return daemon.connect()


def _check_first(daemon: Daemon, case: _Case) -> None:
    """Check that the first id is still remembered."""
    line = daemon.connect()
    name = case.named.encode() + b"00000001-0000000000"
    answer = line.ask(b"add %b 0 0 1\r\nx\r\n" % name)
    line.close()
    if answer != b"NOT_STORED":
        raise ServerFailed(f"{case.where}: forgotten after a restart: {answer.decode()}")
