"""The cost of a sync: many queues written at once, slow disks, one client, large items.

A slow disk is simulated: `slow_sync.c` makes each sync of a program take a fixed time, for every
server alike. Each server has the same load in turns, on queues that the round before has grown.

One rule: a ratio is taken within a round; the table shows the median over the rounds.
"""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.loadgen import BUILD_LIMIT_S, HERE, OUT, Load, LoadFailed, Result, run
from bench.scenarios import Bench, Goals
from bench.servers import REDIS, Kestrelpy, started

SOURCE = HERE / "slow_sync.c"
SYNC_MS = 5.0
SLOW_CONNECTIONS = (50, 200)
LARGE_BYTES = 64 << 10
LARGE_CONNECTIONS = 10
_IN_TURN = {"KESTRELPY_QUEUE_DEFAULTS_SYNC_IN_TURN": "true"}  # Redis has no use for it


def missing(name: str) -> str | None:
    """Return one sentence if this scenario cannot be measured here."""
    return REDIS.missing() if name in ("slow", "one", "bodies") else None


def build(out: Path = OUT) -> Path:
    """Compile slow_sync.c; raise LoadFailed with the compiler's words."""
    made = out / "slow_sync.so"
    if made.exists() and made.stat().st_mtime > SOURCE.stat().st_mtime:
        return made
    out.mkdir(parents=True, exist_ok=True)
    fresh = out / f"slow_sync.{os.getpid()}"
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"]
    ran = subprocess.run(
        [*command, str(fresh), str(SOURCE)],
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    if ran.returncode != 0:
        raise LoadFailed(f"slow_sync.c does not compile:\n{ran.stderr}")
    fresh.replace(made)
    return made


def many(bench: Bench) -> list[Figure]:
    """Compare as many queues as connections with one queue for all of them."""
    count = bench.sizes.spread_queues
    where = f"{count:,} queues written at once"
    rates, tails = [], []
    with started(Kestrelpy(python=bench.python), bench.parent) as port:
        for number in range(-1, bench.sizes.rounds):  # the first one makes the queues
            one = _load(bench, port, "memcache-set", "one", count)
            each = _load(bench, port, "memcache-spread", "many", count)
            if number >= 0:
                rates.append(each.ops_per_s / one.ops_per_s)
                tails.append(each.p99_us / one.p99_us)
                bench.say(
                    f"{where}: {each.ops_per_s:,.0f}/s, p99 {each.p99_us / 1000:.0f} ms; one: "
                    f"{one.ops_per_s:,.0f}/s, p99 {one.p99_us / 1000:.0f} ms"
                )
    return [
        Figure(where, "sets, against one queue", median(rates), "x", at_least=Goals.spread_ratio),
        Figure(where, "p99 against one queue's", median(tails), "x", at_most=Goals.spread_p99),
    ]


def slow(bench: Bench) -> list[Figure]:
    """Compare sets with 5 ms a sync with Redis."""
    extra = {"LD_PRELOAD": str(build()), "SLOW_SYNC_US": str(int(SYNC_MS * 1000))}
    figures = []
    for connections in SLOW_CONNECTIONS:
        where = f"{SYNC_MS:g} ms a sync, {connections} connections"
        pairs = _beside_redis(bench, connections, where, extra)
        ours, peers = (
            median(pair[which].p99_us / 1000 / SYNC_MS for pair in pairs) for which in (0, 1)
        )
        figures += [
            Figure(where, "sets, against Redis", _ratio(pairs), "x", at_least=Goals.slow_ratio),
            Figure(where, "p99", ours, "syncs", at_most=Goals.slow_p99_syncs),
            Figure(where, "p99 of Redis", peers, "syncs"),
        ]  # fmt: skip
    return figures


def one(bench: Bench) -> list[Figure]:
    """Compare sets of one connection on the disk as it is with Redis."""
    where = "one connection"
    pairs = _beside_redis(bench, 1, where, {})
    in_turn = _beside_redis(bench, 1, f"{where}, sync_in_turn", _IN_TURN)
    return [
        Figure(where, "sets, against Redis", _ratio(pairs), "x", at_least=Goals.one_ratio),
        Figure(where, "with sync_in_turn", _ratio(in_turn), "x", at_least=Goals.in_turn_ratio),
    ]


def bodies(bench: Bench) -> list[Figure]:
    """Compare bodies of 64 KiB with Redis, and small items alone with small items during large
    ones: ten of 1 MiB a second."""
    where = f"{LARGE_BYTES >> 10} KiB, {LARGE_CONNECTIONS} connections"
    pairs = _beside_redis(bench, LARGE_CONNECTIONS, where, {}, LARGE_BYTES)
    tails, crowd = [], "small items beside ten of 1 MiB a second"
    with started(Kestrelpy(python=bench.python), bench.parent) as port:
        for number in range(-1, bench.sizes.rounds):
            alone = _load(bench, port, "memcache-set", "small", LARGE_CONNECTIONS)
            with _large_items(port):
                beside = _load(bench, port, "memcache-set", "small", LARGE_CONNECTIONS)
            if number >= 0:
                tails.append(beside.p99_us / alone.p99_us)
                bench.say(
                    f"{crowd}: p99 {beside.p99_us / 1000:.2f} ms; alone {alone.p99_us / 1000:.2f}"
                )
    return [
        Figure(where, "MB/s, against Redis", _ratio(pairs), "x", at_least=Goals.large_ratio),
        Figure(crowd, "p99, over alone", median(tails), "x", at_most=Goals.large_p99),
    ]


@contextmanager
def _large_items(port: int) -> Iterator[None]:
    """Have a client store ten items of 1 MiB a second in a queue of its own."""
    over = threading.Event()
    failures: list[str] = []

    def store() -> None:
        request = b"set large 0 0 %d\r\n%b\r\n" % (1 << 20, bytes(1 << 20))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            while not over.wait(0.1):
                line.sendall(request)
                if (answer := line.recv(1 << 10)) != b"STORED\r\n":
                    failures.append(answer.decode("ascii", "replace").strip())
                    return

    thread = threading.Thread(target=store)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failures:
        raise LoadFailed(f"an item of 1 MiB was answered {failures[0]!r}")


def _beside_redis(
    bench: Bench, connections: int, where: str, extra: dict[str, str], body_bytes: int = 100
) -> Sequence[tuple[Result, Result]]:
    """Return the results of each round: ours, and those of Redis."""
    pairs = []
    with (
        started(Kestrelpy(python=bench.python), bench.parent, extra) as port,
        started(REDIS, bench.parent, extra) as peer,
    ):
        for number in range(-1, bench.sizes.rounds):  # the first one does not count
            found = _load(bench, port, "memcache-set", "bench", connections, body_bytes)
            peers = _load(bench, peer, REDIS.store, "bench", connections, body_bytes)
            if number >= 0:
                pairs.append((found, peers))
                bench.say(
                    f"{where}: {found.ops_per_s:,.0f}/s, p50 {found.p50_us / 1000:.2f} ms, p99 "
                    f"{found.p99_us / 1000:.2f} ms; Redis: {peers.ops_per_s:,.0f}/s, p50 "
                    f"{peers.p50_us / 1000:.2f} ms, p99 {peers.p99_us / 1000:.2f} ms"
                )
    return pairs


def _ratio(pairs: Sequence[tuple[Result, Result]]) -> float:
    return median(ours.ops_per_s / peers.ops_per_s for ours, peers in pairs)


def _load(
    bench: Bench, port: int, dialect: str, queue: str, connections: int, body_bytes: int = 100
) -> Result:
    load = Load(
        dialect, port, connections, body_bytes=body_bytes, seconds=bench.sizes.seconds, queue=queue
    )
    return run(bench.binary, load)
