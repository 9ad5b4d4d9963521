"""The memory that many large items take while all are leased at once, and after all came back.

One rule: every item is leased before memory is measured, and each is fetched again after it came
back.
"""

from bench.daemon import Daemon, Line
from bench.figures import MIB, Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

BODY_BYTES = 10 << 10
AT_ONCE = 100  # requests sent before their answers are read


def leased(bench: Bench) -> list[Figure]:
    """Return all figures."""
    items = bench.sizes.leased_items
    where = f"{items:,} x 10 KiB leased at once"
    config = f'[server]\nmax_open_reads = {items}\n[queue_defaults]\nlease = "none"\n'
    with Daemon(bench.parent, bench.python, config) as daemon:
        empty = daemon.memory_bytes()
        bench.load(
            "memcache-set", daemon.port, "jobs", ops=items, body_bytes=BODY_BYTES, in_flight=4
        )
        waiting = daemon.memory_bytes()
        holder = daemon.connect()
        _fetch(holder, b"get jobs/open\r\n", items)
        held = daemon.memory_bytes()
        bench.say(f"{where}: all are leased")
        holder.close()
        line = daemon.connect()
        _fetch(line, b"get jobs/t=5s\r\n", items)
        line.close()
        return [
            Figure(where, name, (found - empty) / MIB, "MiB", at_most=Goals.memory_mib)
            for name, found in {
                "memory above the empty daemon while they wait": waiting,
                "while they are leased": held,
                "after they came back and were taken": daemon.memory_bytes(),
                "the most": daemon.memory_bytes("VmHWM"),
            }.items()
        ]


def _fetch(line: Line, request: bytes, items: int) -> None:
    """Fetch `items` items, one after the other."""
    for first in range(0, items, AT_ONCE):
        count = min(AT_ONCE, items - first)
        line.send(request * count)
        for number in range(first, first + count):
            if not (answer := line.line()).startswith(b"VALUE "):
                raise ServerFailed(f"item {number} of {items}: {answer.decode(errors='replace')}")
            line.rest_of_item()
