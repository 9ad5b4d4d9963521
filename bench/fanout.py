"""Fan-out: the cost of ten children for producers and the disk.

    set none | set ten        a queue without children, one with ten that have no reader, in turns
    fill one, ten             as many items into a queue with one child, and with ten: their files

One rule: a ratio is taken within a round, the turns follow each other at once, every other round
runs backwards, and the median over the rounds counts.
"""

from statistics import median

from bench.daemon import Daemon, Line
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

CHILDREN = 10
AT_ONCE = 20  # of each connection, while filling
CONFIG = """
[journal]
segment_max = "1MiB"
"""


def fanout(bench: Bench) -> list[Figure]:
    """Return all figures."""
    return [*_rates(bench), *_disk(bench)]


def _rates(bench: Bench) -> list[Figure]:
    where = f"{CHILDREN} children without a reader"
    rates: dict[str, list[float]] = {"none": [], "ten": []}
    with Daemon(bench.parent, bench.python) as daemon:
        line = daemon.connect()
        _name(line, "ten", CHILDREN)
        turns = list(rates)
        for number in range(bench.sizes.rounds):
            for queue in turns if number % 2 == 0 else turns[::-1]:
                done = bench.load(
                    "memcache-set", daemon.port, queue, seconds=bench.sizes.seconds,
                    seed=number + 1,
                )  # fmt: skip
                rates[queue].append(done.ops_per_s)
            bench.say(f"{where}: round {number + 1} of {bench.sizes.rounds}")
        line.close()
    ratio = median(a / b for a, b in zip(rates["ten"], rates["none"], strict=True))
    return [
        Figure(where, "durable set, over one without children", ratio,
               at_least=Goals.fanout_ratio),
        Figure(where, "durable set", median(rates["ten"]), "/s"),
    ]  # fmt: skip


def _disk(bench: Bench) -> list[Figure]:
    count = bench.sizes.fanout_items
    where = f"{count:,} items of 100 B, before any confirm"
    size: dict[int, int] = {}
    for children in (1, CHILDREN):
        with Daemon(bench.parent, bench.python, CONFIG) as daemon:
            line = daemon.connect()
            _name(line, "orders", children)
            bench.load("memcache-set", daemon.port, "orders", ops=count, in_flight=AT_ONCE)
            daemon.wait_until_steady()
            for number in range(children):
                waits = line.ask(b"get orders+c%d/peek\r\n" % number)
                if not waits.startswith(b"VALUE "):
                    raise ServerFailed(f"child {number} has nothing")
                line.rest_of_item()
            size[children] = daemon.disk_bytes()
            line.close()
    return [
        Figure(where, "disk of each, one child", size[1] / count, "B"),
        Figure(where, f"disk of each, {CHILDREN} children", size[CHILDREN] / count, "B"),
        Figure(where, f"disk, {CHILDREN} children over one", size[CHILDREN] / size[1],
               at_most=Goals.fanout_disk),
    ]  # fmt: skip


def _name(line: Line, queue: str, children: int) -> None:
    """Name each child once, and read nothing of it."""
    for number in range(children):
        if line.ask(f"get {queue}+c{number}\r\n".encode()) != b"END":
            raise ServerFailed("a new child has something")
