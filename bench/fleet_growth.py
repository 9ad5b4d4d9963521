"""The size of a fleet's tables while items come and go.

One rule: the load sets the rate, not the machine; the report names a second that took longer.
"""

import time
from typing import TYPE_CHECKING

from bench.figures import MIB, Figure
from bench.fleet import load, owning_member, three_servers
from bench.scenarios import Bench, Goals

if TYPE_CHECKING:
    from kestrelpy.examples.fleet.cluster import Cluster

RATE = 1000  # sets and confirms a second
LIVE = 10_000  # items that stay
BODY_BYTES = 1 << 10
_TELL_S = 30.0
_SIZE = """
SELECT sum(pg_total_relation_size(c.oid))::int8, sum(pg_indexes_size(c.oid))::int8
FROM pg_class c WHERE relnamespace = 'kestrelpy'::regnamespace AND relkind = 'r'"""
_LIVE = "SELECT count(*), coalesce(sum(octet_length(data)), 0)::int8 FROM kestrelpy.extent"
_VACUUMED = """
SELECT relname, autovacuum_count, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = 'kestrelpy' ORDER BY relname"""


def growth(bench: Bench) -> list[Figure]:
    """Measure the size of the tables while items are set and confirmed at a given rate."""
    sizes = list[float]()
    late = rounds = 0
    with three_servers() as servers, owning_member(bench, servers) as port:
        load(bench, port, "memcache-set", 50, LIVE, BODY_BYTES)
        began = told = time.monotonic()
        while (now := time.monotonic()) < began + bench.sizes.growth_seconds:
            load(bench, port, "memcache-set", 50, RATE, BODY_BYTES)
            load(bench, port, "memcache-consume", 50, RATE, BODY_BYTES)
            rounds += 1
            late += time.monotonic() - now > 1.0
            time.sleep(max(now + 1.0 - time.monotonic(), 0.0))
            if now - told > _TELL_S:
                told = now
                sizes.append(_size(bench, servers, now - began))
        sizes.append(_size(bench, servers, time.monotonic() - began))
        rate = rounds * RATE / (time.monotonic() - began)
    allowed = 3 * LIVE * BODY_BYTES / MIB + Goals.fleet_tables_mib
    where = f"{rate:,.0f} sets and confirms a second for {bench.sizes.growth_seconds / 60:g} min"
    bench.say(f"{where}: {late} of {rounds} seconds took longer")
    return [
        Figure(where, "tables, at the end", sizes[-1], "MiB", at_most=allowed),
        Figure(where, "tables, largest", max(sizes), "MiB", at_most=allowed),
        Figure(where, "tables, halfway", sizes[len(sizes) // 2], "MiB"),
    ]


def _size(bench: Bench, servers: "Cluster", seconds: float) -> float:
    """Return the size of the tables in MiB; print the other facts about them."""
    whole, indexes = (int(str(each)) for each in servers.primary.ask(_SIZE)[0])
    rows, held = (int(str(each)) for each in servers.primary.ask(_LIVE)[0])
    tables = ", ".join(
        f"{name} vacuumed {count} times, {dead} dead rows"
        for name, count, dead in servers.primary.ask(_VACUUMED)
    )
    bench.say(
        f"{seconds:5.0f} s: tables {whole / MIB:.1f} MiB, {indexes / MIB:.1f} of it indexes; "
        f"{rows} extents with {held / MIB:.1f} MiB; {tables}"
    )
    return whole / MIB
