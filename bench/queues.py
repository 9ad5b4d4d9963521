"""Thousands of quiet queues with an item each: the cost of each, and the time of a start.

One rule: figures per queue are differences from a daemon without queues.
"""

import time

from bench.daemon import Daemon
from bench.figures import KIB, Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

BODY = bytes(b"x" * 100)
AT_ONCE = 200  # sets sent before their answers are read


def queues(bench: Bench) -> list[Figure]:
    """Return all figures."""
    count = bench.sizes.queues
    where = f"{count:,} queues"
    with Daemon(bench.parent, bench.python) as daemon:
        memory, disk, files = daemon.memory_bytes(), daemon.disk_bytes(), daemon.open_files()
        _store_one_in_each(daemon, count)
        bench.say(f"{where}: made")
        time.sleep(2)  # journals at rest close their files
        figures = [
            Figure(where, "memory per queue", (daemon.memory_bytes() - memory) / count / KIB,
                   "KiB", at_most=Goals.queue_memory_kib),
            Figure(where, "disk per queue", (daemon.disk_bytes() - disk) / count / KIB,
                   "KiB", at_most=Goals.queue_disk_kib),
            Figure(where, "open files, two seconds later", daemon.open_files() - files,
                   at_most=Goals.queue_files),
        ]  # fmt: skip
        for name, end in (("a clean stop", daemon.stop), ("kill -9", daemon.kill)):
            end()
            seconds = daemon.start()
            line = daemon.connect()
            for number in (0, count // 2, count - 1):
                if not line.ask(b"get q%05d/peek\r\n" % number).startswith(b"VALUE "):
                    raise ServerFailed(f"queue q{number:05d} is empty after {name}")
                line.rest_of_item()
            line.close()
            bench.say(f"{where}: started {seconds:.1f} s after {name}")
            figures += [
                Figure(where, f"start after {name}", seconds, "s", at_most=Goals.start_s),
                Figure(where, f"memory per queue after {name}",
                       (daemon.memory_bytes() - memory) / count / KIB, "KiB",
                       at_most=Goals.queue_memory_kib),
                Figure(where, f"disk per queue after {name}",
                       (daemon.disk_bytes() - disk) / count / KIB, "KiB",
                       at_most=Goals.queue_disk_kib),
            ]  # fmt: skip
    return figures


def _store_one_in_each(daemon: Daemon, count: int) -> None:
    line = daemon.connect()
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        line.send(
            b"".join(b"set q%05d 0 0 %d\r\n%b\r\n" % (n, len(BODY), BODY) for n in numbers)
        )
        for number in numbers:
            if (answer := line.line()) != b"STORED":
                raise ServerFailed(f"queue q{number:05d}: {answer.decode(errors='replace')}")
    line.close()
