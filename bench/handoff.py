"""Hand-off along three queues, compared with plain durable sets, in turns.

    set    a set into a queue of its own: on disk before the answer
    hand   get Q/open, then set Q-2/confirm ... Q-2 to Q-3: stored and confirmed before the answer;
           the next open goes along with it, so one trip is one hand-off, fetch included

Half of the connections serve the first queue, half the second; both are filled before the clock
starts.

One rule: a ratio is taken within a round, the turns follow each other at once, every other round
runs backwards, and the median over the rounds counts.
"""

from collections.abc import Callable
from statistics import median

from bench.daemon import Daemon
from bench.figures import Figure
from bench.loadgen import Result
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

WHERE = "three queues, 50 connections"
FIRST, SECOND, THIRD = CHAIN = ("chain", "chain-2", "chain-3")
PLAIN = "plain"


def handoff(bench: Bench) -> list[Figure]:
    """Return all figures."""
    count, rounds = bench.sizes.active_keys, bench.sizes.rounds
    rates: dict[str, list[float]] = {"set": [], "hand": []}
    with Daemon(bench.parent, bench.python) as daemon:

        def load(dialect: str, queue: str, in_flight: int = 1) -> Result:
            return bench.load(dialect, daemon.port, queue, ops=count, in_flight=in_flight)

        turns: dict[str, Callable[[], Result]] = {
            "set": lambda: load("memcache-set", PLAIN),
            "hand": lambda: load("memcache-handoff", FIRST),
        }
        line = daemon.connect()
        for number in range(rounds):
            for queue in (FIRST, SECOND):
                load("memcache-set", queue, in_flight=16)
            for turn in turns if number % 2 == 0 else reversed(turns):
                done = turns[turn]()
                if turn == "hand" and (done.empty or done.ops != count):
                    raise ServerFailed(f"{done.ops} of {count} were handed off")
                rates[turn].append(done.ops_per_s)
            bench.say(f"hand-off: round {number + 1} of {rounds}")
        there = sum(int(line.stats(queue.encode())["items"]) for queue in CHAIN)
        line.close()
        if there != 2 * rounds * count:
            raise ServerFailed(f"{there} items are in the chain, and not {2 * rounds * count}")
    ratio = median(a / b for a, b in zip(rates["hand"], rates["set"], strict=True))
    return [
        Figure(WHERE, "hand-offs, over plain durable sets", ratio, at_least=Goals.handoff_ratio),
        Figure(WHERE, "hand-offs", median(rates["hand"]), "/s"),
    ]
