"""The sizes of all scenarios, and the goal of each figure.

One rule: every goal is here, with the sentence it comes from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.loadgen import Load, Result, run


@dataclass(frozen=True)
class Sizes:
    """The size of each scenario."""

    name: str
    small_items: int  # of 100 B
    large_items: int  # of 10 KiB
    rounds: int
    seconds: float  # of each turn of a comparison
    leases: int
    stuck_items: int
    segment_max: str  # of the journals with a stuck item: small, so that growth shows
    queues: int
    leased_items: int  # of 10 KiB
    hang_seconds: float
    spark_kib_items: int  # of 1 KiB, in a journal
    spark_items: int  # of 100 B
    spark_live_items: int  # of 1 KiB
    spark_events: int
    token_leases: int
    token_rounds: int
    token_trips: int  # of each kind, in each round
    active_keys: int
    blocked_items: int  # of one key
    delayed_items: int
    delayed_seconds: float
    once_ids: int
    once_keys: int
    retained_items: int  # of 100 B
    fanout_items: int
    attack_seconds: float  # alone, and with each attacker
    main_job_lines: int
    stall_scale: float  # of the sizes in the tables of stalls
    web_rounds: int
    web_batches: int  # of 20 messages, in each turn
    web_seconds: float  # of each turn of a setter
    spark_batches: int  # of one item each
    spread_queues: int  # written at once
    growth_seconds: float  # of sets and confirms on a fleet


FULL = Sizes(
    "full", 10_000_000, 1_000_000, 5, 3.0, 1_000_000, 1_000_000, "1MiB", 10_000, 50_000, 10.0,
    600_000, 2_000_000, 300_000, 3_000_000, 100_000, 31, 10_000,
    100_000, 100_000, 1_000_000, 30.0, 10_000_000, 1_000_000, 2_000_000, 1_000_000,
    10.0, 120_000, 1.0, 9, 200, 5.0, 40, 1000, 600.0,
)  # fmt: skip
QUICK = Sizes("quick", 300_000, 20_000, 5, 0.5, 50_000, 50_000, "256KiB", 500, 3_000, 3.0,
              100_000, 300_000, 50_000, 150_000, 20_000, 11, 2_000, 20_000, 20_000,
              50_000, 5.0, 300_000, 50_000, 200_000, 200_000,
              3.0, 30_000, 0.1, 5, 50, 2.0, 15, 1000, 30.0)  # fmt: skip
# For the tests of the bench itself.
TINY = Sizes("tiny", 3000, 300, 1, 0.05, 2000, 2000, "64KiB", 20, 50, 0.5,
             500, 500, 500, 900, 300, 1, 100, 200, 200, 600, 0.5, 1000, 500, 600,
             500, 0.2, 2000, 0.005, 1, 2, 0.2, 3, 20, 0.5)  # fmt: skip


class Goals:
    """The goals. Memory is counted above that of the empty daemon."""

    memory_mib = 150.0
    peak_memory_mib = 150.0
    # A backlog on disk does not slow down producers, and consumers only a little.
    set_ratio = 0.9
    drain_ratio = 0.7
    # Messages a second over one HTTP connection, 20 a request.
    web_posts = 15_000.0
    web_singles = 3_000.0
    web_beside_ms = 1.0
    web_scrape_ms = 100.0
    web_memory_mib = 20.0
    web_start_s = 0.3
    # A hundred open pages, and 10,000 queues.
    pages_core_percent = 1.0
    pages_set_ratio = 0.95
    crowd_view_ms = 1000.0
    # "Start-up does not depend on the length of history": kill -9 to the first item.
    first_item_s = 2.0
    # Disk: at most 2 x what is alive and four segments.
    disk_ratio = 1.0
    # 10,000 quiet queues.
    start_s = 5.0
    queue_memory_kib = 10.0
    queue_disk_kib = 128.0
    queue_files = 500.0
    # "A disk that hangs stops nobody": the turns of the loop itself, with strace running.
    answer_ms = 50.0
    # Spark: rows a second from one partition, and into Parquet.
    spark_over_json = 1.2
    spark_1kib = (400_000.0, 300_000.0)
    spark_100b = (1_000_000.0, 700_000.0)
    spark_live = 100_000.0
    spark_audit_s = 25.0
    # Spark in both directions.
    spark_sink = 60_000.0
    spark_stream = 250_000.0
    spark_stream_live = 100_000.0
    spark_batch_ms = 250.0
    spark_again = 0.2
    spark_small_s = 15.0
    # Each trip by token over the same trip by connection.
    token_ratio = 0.7
    # A delayed item's memory, and how late it comes beside a sync.
    delayed_bytes = 150.0
    late_ms = 50.0
    # Many keys over none; after many items of a blocked key over after ten; the memory of a waiting
    # item with a key.
    key_ratio = 0.8
    blocked_ratio = 0.9
    blocked_bytes = 48.0
    # An observer of a retained log with `n=`, alone and beside sets.
    observed_items = 150_000.0
    observed_ratio = 0.8
    # A hand-off, its fetch included, over a plain durable set.
    handoff_ratio = 0.4
    # Remembered ids, and keys with versions.
    once_bytes = 64.0
    once_ratio = 0.65
    once_start_s = 10.0
    # A set with ten children over one without; the disk of its items over that with one child.
    fanout_ratio = 0.9
    fanout_disk = 1.05
    # The effect of a bad client on another (waits: `answer_ms`), and the memory that is left.
    attack_ratio = 2.0
    left_mib = 64.0
    main_job_ratio = 3.0
    # No operation holds up the loop for longer.
    slice_ms = 20.0
    # The disk: a thousand queues written at once against one; 5 ms a sync; one client.
    spread_ratio = 0.3
    spread_p99 = 10.0
    large_ratio = 1.0  # MB/s of 64 KiB bodies, against Redis
    large_p99 = 3.0  # of small items during ten of 1 MiB a second, over alone
    slow_ratio = 1.1
    slow_p99_syncs = 3.0
    # A fleet on three nodes, over the local disk, and over a table with SKIP LOCKED.
    fleet_sets = 0.6
    fleet_sets_200 = 0.8
    fleet_wide = 1.5
    fleet_consume = 0.6
    fleet_table = 2.0
    fleet_peers = 1.0
    fleet_takeover_s = 2.0  # beyond `takeover`
    fleet_release_s = 0.5
    fleet_tables_mib = 256.0  # beyond three times the live bytes
    one_ratio = 0.7
    in_turn_ratio = 0.95


@dataclass(frozen=True)
class Bench:
    """The means of every scenario."""

    binary: Path
    parent: Path
    python: str
    sizes: Sizes
    say: Callable[[str], None]

    def load(
        self,
        dialect: str,
        port: int,
        queue: str,
        *,
        ops: int | None = None,
        seconds: float | None = None,
        body_bytes: int = 100,
        in_flight: int = 1,
        seed: int = 1,
    ) -> Result:
        """Run the load generator with 50 connections, in words of `Load`."""
        wanted = Load(
            dialect, port, connections=50, in_flight=in_flight, body_bytes=body_bytes, ops=ops,
            seconds=seconds, seed=seed, queue=queue, time_limit_s=3500.0,
        )  # fmt: skip
        return run(self.binary, wanted)
