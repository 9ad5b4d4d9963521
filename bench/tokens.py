"""Very many leases by token: each trip compared with the same trip by connection.

    by token        open, renew, confirm      a restart with all of them alive
    by connection   open, renew, confirm

One client makes both trips over one connection, many requests at once. Its own work is the same for
both, since it makes the requests before the clock runs. A renewal by connection writes nothing, so
one by token is also compared with a confirm by connection, which writes a record.

One rule: a ratio is taken within a round, the trips follow each other at once, every other round
runs backwards, and the median over the rounds counts. A trip of a round takes a tenth of a second,
and twice that on a busy machine, so there are many rounds.
"""

import time
from statistics import median

from bench.daemon import Daemon, Line
from bench.figures import KIB, Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

AT_ONCE = 100  # requests sent before their answers are read
TRIPS = ("open", "renew", "confirm")
WAYS = ("token", "connection")
QUEUE = b"jobs"
LEASE = b"lease=1h"


def tokens(bench: Bench) -> list[Figure]:
    """Return all figures."""
    alive, trips = bench.sizes.token_leases, bench.sizes.token_trips
    rounds = bench.sizes.token_rounds
    where = f"{alive:,} leases by token alive"
    config = f"[server]\nmax_open_reads = {trips}\n"
    with Daemon(bench.parent, bench.python, config) as daemon:
        _fill(bench, daemon, alive)
        line = daemon.connect()
        before = daemon.memory_bytes()
        _open(line, "token", alive)
        each = (daemon.memory_bytes() - before) / alive / KIB
        bench.say(f"{where}: lent")
        took: dict[tuple[str, str], list[float]] = {}
        for number in range(rounds):
            _fill(bench, daemon, len(WAYS) * trips)  # the opened items come from memory
            for way in WAYS if number % 2 == 0 else WAYS[::-1]:
                for trip, seconds in _round(line, way, trips).items():
                    took.setdefault((trip, way), []).append(trips / seconds)
        bench.say(f"{where}: {rounds} rounds of {trips:,} trips")
        line.close()
        daemon.kill()
        began = time.monotonic()
        daemon.start()
        line = daemon.connect()
        if line.stats(QUEUE)["leased"] != str(alive):
            raise ServerFailed("leases by token are gone after a restart")
        line.close()
        restart = time.monotonic() - began
    figures = [Figure(where, "memory of each", each, "KiB")]
    for trip in TRIPS:
        figures += [
            Figure(where, f"{trip}, over the same by connection", _ratio(took, trip, trip),
                   at_least=Goals.token_ratio),
            Figure(where, trip, median(took[trip, "token"]), "/s"),
        ]  # fmt: skip
    ratio = _ratio(took, "renew", "confirm")
    figures.append(Figure(where, "renew, over a confirm by connection", ratio))
    return [*figures, Figure(where, "start after kill -9, all of them alive", restart, "s")]


def _fill(bench: Bench, daemon: Daemon, items: int) -> None:
    bench.load("memcache-set", daemon.port, QUEUE.decode(), ops=items, in_flight=16)


def _ratio(took: dict[tuple[str, str], list[float]], trip: str, other: str) -> float:
    """Return the ratio of a trip by token to another by connection, round by round."""
    pairs = zip(took[trip, "token"], took[other, "connection"], strict=True)
    return median(by_token / by_connection for by_token, by_connection in pairs)


def _round(line: Line, way: str, trips: int) -> dict[str, float]:
    """Open all, renew all and confirm all; return the seconds of each."""
    began = time.monotonic()
    numbers = _open(line, way, trips)
    opened = time.monotonic()
    names = [b"/token=%d" % n if way == "token" else b"" for n in numbers]
    touches = [b"touch %b%b 3600\r\n" % (QUEUE, name) for name in names]
    closes = [b"get %b/close%b\r\n" % (QUEUE, name) for name in names]
    goes_on = time.monotonic()
    _say(line, touches, b"TOUCHED\r\n")
    renewed = time.monotonic()
    _say(line, closes, b"END\r\n")
    done = time.monotonic()
    return {"open": opened - began, "renew": renewed - goes_on, "confirm": done - renewed}


def _open(line: Line, way: str, count: int) -> list[int]:
    """Lease `count` items; return their tokens."""
    request = b"gets %b/open%b\r\n" % (QUEUE, b"/" + LEASE if way == "token" else b"")
    numbers = []
    for first in range(0, count, AT_ONCE):
        some = min(AT_ONCE, count - first)
        line.send(request * some)
        for _ in range(some):
            answer = line.line()
            if not answer.startswith(b"VALUE "):
                raise ServerFailed(answer.decode(errors="replace"))
            numbers.append(int(answer.rpartition(b" ")[2]))
            line.rest_of_item()
    return numbers


def _say(line: Line, requests: list[bytes], answer: bytes) -> None:
    """Send all requests; raise ServerFailed unless each has this answer."""
    for first in range(0, len(requests), AT_ONCE):
        some = requests[first : first + AT_ONCE]
        line.send(b"".join(some))
        for _ in some:
            if (found := line.line() + b"\r\n") != answer:
                raise ServerFailed(found.decode(errors="replace"))
