"""Stalls of one queue: a single command over very many items.

One rule: as in `bench/stalls.py`: one operation, one entry.
"""

import contextlib

from bench.daemon import Line
from bench.servers import ServerFailed
from bench.stalls import Operation, Stage

LEASES = DEAD = 200_000
MILLION = 1_000_000
OBSERVERS = 5_000
CHILDREN = 5_000
BLOCKED = 300_000
SHARING = 40_000
BODY_BYTES = 32  # the smallest body that the load generator makes
PASSING, PASSING_BYTES = 90_000, 1024
SETS = 500
IN_MEMORY = '[server]\nmax_memory = "2GiB"\n[queue_defaults]\nmax_memory = "1GiB"\n'
MANY_FILES = "[server]\nmax_connections = 10000\n"
MANY_CHILDREN = MANY_FILES + "max_queues = 20000\n"

_crowd: list[Line] = []


def _leases(stage: Stage) -> None:
    """Store items, and lease each by a token of its own."""
    count = stage.count(LEASES)
    stage.fill("q", count, BODY_BYTES)
    for first in range(0, count, SETS):
        some = min(SETS, count - first)
        stage.line.send(b"gets q/open/lease=1h\r\n" * some)
        for _ in range(3 * some):
            stage.line.line()


def _dead(stage: Stage) -> None:
    count = stage.count(DEAD)
    stage.fill("q", count, BODY_BYTES)
    for first in range(0, count, SETS):
        some = min(SETS, count - first)
        stage.line.send(b"get q/open\r\nget q/abort/dead=why\r\n" * some)
        for _ in range(4 * some):
            stage.line.line()


def _flush(stage: Stage) -> None:
    stage.ask(b"flush q\r\n", b"END")


def _open(stage: Stage) -> None:
    stage.line.send(b"stats q/open\r\n")
    while stage.line.line() != b"END":
        pass


def _delete(stage: Stage) -> None:
    stage.ask(b"delete q\r\n", b"DELETED")


def _observers(stage: Stage) -> None:
    stage.ask(b"set q 0 0 1\r\nx\r\n", b"STORED")
    for _ in range(stage.count(OBSERVERS)):
        line = stage.daemon.connect()
        line.send(b"gets q/peek/after=1/t=10m\r\n")
        _crowd.append(line)


def _tell(stage: Stage) -> None:
    stage.ask(b"set q 0 0 1\r\nx\r\n", b"STORED")
    for line in _crowd:
        while line.line() != b"END":
            pass
        with contextlib.suppress(OSError):
            line.close()
    _crowd.clear()


def _waiting(stage: Stage) -> None:
    """Make children, each with a client that waits for its next item."""
    stage.ask(b"set q 0 0 1\r\nx\r\n", b"STORED")
    for number in range(stage.count(CHILDREN)):
        line = stage.daemon.connect()
        line.send(b"get q+c%04d/peek\r\nget q+c%04d/t=10m\r\n" % (number, number))
        if (said := line.line()) != b"END":
            raise ServerFailed(f"get q+c{number:04}/peek: {said.decode(errors='replace')}")
        _crowd.append(line)


def _leases_with_keys(stage: Stage) -> None:
    """Store items with keys of their own, and lease each by a token of its own."""
    count = stage.count(LEASES)
    for first in range(0, count, SETS):
        some = range(first, min(first + SETS, count))
        stage.say([b"set q/key=N%d 0 0 1\r\nx\r\n" % n for n in some], b"STORED")
        stage.line.send(b"gets q/open/lease=1h\r\n" * len(some))
        for _ in range(3 * len(some)):
            stage.line.line()


def _million(stage: Stage) -> None:
    stage.fill("q", stage.count(MILLION), BODY_BYTES)


def _upto(stage: Stage) -> None:
    stage.ask(b"delete q/upto=%d\r\n" % stage.count(MILLION), b"DELETED")


def _keyed(stage: Stage, key: bytes, count: int, body_bytes: int = 10) -> None:
    """Store items of one key after a leased one of that key."""
    body = b"x" * body_bytes
    request = b"set q/key=%b 0 0 %d\r\n%b\r\n" % (key, len(body), body)
    stage.ask(request, b"STORED")
    stage.line.send(b"get q/open\r\n")
    while stage.line.line() != b"END":
        pass
    stage.say([request] * count, b"STORED")
    stage.ask(b"set q 0 0 1\r\nx\r\n", b"STORED")


def _blocked(stage: Stage) -> None:
    _keyed(stage, b"K", stage.count(BLOCKED))


def _passing(stage: Stage) -> None:
    _keyed(stage, b"K", stage.count(PASSING), PASSING_BYTES)


def _consume(stage: Stage) -> None:
    """Open the item after all the others, as the first consumer does."""
    line = stage.daemon.connect()
    line.send(b"get q/open/t=60s\r\n")
    while line.line() != b"END":
        pass
    line.close()


def _blocked_by_any(stage: Stage) -> None:
    """Fill the queue with items that share a value of their key with a leased one."""
    count = stage.count(SHARING)
    settings = (
        b'key_match = "any"\ndiscard_old_when_full = true\nmax_items = %d\n' % (count + 1)
    )
    stage.ask(b"set q/declare 0 0 %d\r\n%b\r\n" % (len(settings), settings), b"STORED")
    stage.ask(b"set q/key=H 0 0 1\r\nx\r\n", b"STORED")
    stage.line.send(b"get q/open\r\n")
    while stage.line.line() != b"END":
        pass
    stage.say([b"set q/key=H,V%d 0 0 1\r\nx\r\n" % n for n in range(count)], b"STORED")
    stage.ask(b"set q 0 0 1\r\nx\r\n", b"STORED")
    _consume(stage)


def _sets(stage: Stage) -> None:
    """Set one by one: a pipeline may use the connection's whole share of a turn."""
    for n in range(SETS):
        stage.ask(b"set q/key=N%d 0 0 1\r\nx\r\n" % n, b"STORED")


OPERATIONS: dict[str, Operation] = {
    "flush-leases": Operation("flush beside {} leases by token", LEASES, _flush, begin=_leases),
    "flush-keys": Operation(
        "flush beside {} leases by token with keys", LEASES, _flush, begin=_leases_with_keys
    ),
    "stats-open": Operation("stats q/open of {} leases", LEASES, _open, begin=_leases),
    "delete-leases": Operation(
        "delete of a queue with {} leases by token", LEASES, _delete, prepare=_leases
    ),
    "flush-dead": Operation("flush beside {} dead letters", DEAD, _flush, begin=_dead),
    "waiting-observers": Operation(
        "{} observers told by one set", OBSERVERS, _tell, prepare=_observers,
        config=MANY_FILES, is_fresh_each=True,
    ),
    "waiting-children": Operation(
        "a set for {} children that a client waits for", CHILDREN, _tell, prepare=_waiting,
        config=MANY_CHILDREN, is_fresh_each=True,
    ),
    "upto": Operation("upto over {}", MILLION, _upto, prepare=_million, is_fresh_each=True),
    "upto-memory": Operation(
        "upto over {}, all in memory", MILLION, _upto, prepare=_million, config=IN_MEMORY,
        is_fresh_each=True,
    ),
    "blocked": Operation(
        "the first consumer behind {} of a blocked key", BLOCKED, _consume, prepare=_blocked,
        is_fresh_each=True,
    ),
    "stuck-head": Operation(
        "a head whose key is blocked, {} x 1 KiB passed over", PASSING, _consume,
        prepare=_passing, config=IN_MEMORY, is_fresh_each=True,
    ),
    "any-full": Operation(
        "500 sets that each drop the oldest of {} that wait", SHARING, _sets,
        prepare=_blocked_by_any, is_fresh_each=True,
    ),
}  # fmt: skip
