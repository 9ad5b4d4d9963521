"""Thousands of tasks while workers and the daemon are killed: each runs, and nothing is left.

Canvases keep results in Celery's file backend, the one that needs no server and no package. Its
limits are not the broker's: it has no counter for a chord, so Celery asks once a second, by a task
that it retries, whether all parts are done; and a result is not written in one step, so that a
killed worker may leave an empty one, which counts as none until the task has run again.

Promise celery: 10,000 tasks, a part of them with countdowns, with kills of workers and of the
    daemon, also under a producer; a task longer than its lease; workers that are told to stop.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.process.celery_broker.workers import Shop, shop_of

pytest.importorskip("celery", reason="celery is not installed: pip install 'kestrelpy[celery]'")

SEND = """
from concurrent.futures import ThreadPoolExecutor
def put(n):
    count.apply_async((n,), countdown=0.5 if n % 50 == 0 else None)
with ThreadPoolExecutor(8) as pool:
    list(pool.map(put, range({first}, {last})))
"""


def survive(
    shop: Shop, tasks: int, worker_kills: int, daemon_kills: int, rng: random.Random
) -> int:
    """Send tasks, kill on the way, and wait until all have run; return how many ran twice."""
    shop.send(SEND.format(first=0, last=tasks // 2))
    workers = [shop.start(jobs=2) for _ in range(2)]
    kills = ["worker"] * worker_kills + ["daemon"] * daemon_kills
    rng.shuffle(kills)
    for number, kill in enumerate(kills, 1):
        mark = number * tasks // (2 * len(kills) + 2)
        shop.until(lambda mark=mark: len(set(shop.ran())) >= mark, 120)
        if kill == "worker":
            victim = rng.randrange(len(workers))
            shop.kill(workers[victim])
            workers[victim] = shop.start(jobs=2)
        else:
            shop.daemon.kill()
            shop.daemon.start()
    # Once more while a producer publishes, which waits until the daemon is back.
    publishing = threading.Thread(
        target=shop.send, args=(SEND.format(first=tasks // 2, last=tasks),)
    )
    stored = shop.counts()["total_items"]
    publishing.start()
    shop.until(lambda: shop.counts()["total_items"] >= stored + tasks // 8)
    shop.daemon.kill()
    shop.daemon.start()
    publishing.join(120)
    shop.until(lambda: len(set(shop.ran())) == tasks, 300)
    shop.until(shop.is_empty)
    ran = Counter(shop.ran())
    assert set(ran) == {str(number) for number in range(tasks)}
    for worker in workers:
        shop.stop(worker)
    assert shop.is_empty()
    return sum(ran.values()) - tasks


@pytest.mark.parametrize(
    ("tasks", "worker_kills", "daemon_kills"),
    [(3_000, 2, 2), pytest.param(10_000, 6, 6, marks=pytest.mark.sweep)],
)
def test_no_task_is_lost_when_workers_and_the_daemon_are_killed(
    tmp_path: Path, tasks: int, worker_kills: int, daemon_kills: int
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    with shop_of(tmp_path, lease="3s") as shop:
        twice = survive(shop, tasks, worker_kills, daemon_kills, random.Random(seed))
        print(f"{tasks} tasks, {twice} of them ran twice")
        # The two workers have at most 4 * 2 tasks each in their hands when one, or the daemon, is
        # killed.
        assert twice <= 16 * (worker_kills + daemon_kills + 1), f"seed {seed}"


CANVASES = """
for n in range({chains}):
    chain(step.s(1000 * n), step.s(failures=2), step.s(), end.s(str(n))).apply_async()
    flaky.delay(str(n), 2)
for n in range({chords}):
    chord([add.s(1000 * n, part) for part in range(10)], total.s()).apply_async()
"""


def test_chains_chords_and_retries_end_when_workers_and_the_daemon_are_killed(
    tmp_path: Path,
) -> None:
    chains, chords = 60, 6
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kills = ["worker", "daemon", "worker", "daemon"]
    rng.shuffle(kills)
    with shop_of(tmp_path, lease="3s") as shop:
        workers = [shop.start(jobs=2) for _ in range(2)]
        shop.send(CANVASES.format(chains=chains, chords=chords))
        least = chains * 9 + chords * 11  # lines, if nothing ran twice
        for number, kill in enumerate(kills, 1):
            mark = number * least // (len(kills) + 1)
            shop.until(lambda mark=mark: len(shop.ran()) >= mark)
            if kill == "worker":
                victim = rng.randrange(len(workers))
                shop.kill(workers[victim])
                workers[victim] = shop.start(jobs=2)
            else:
                shop.daemon.kill()
                shop.daemon.start()
        ends = {f"end {n} {1000 * n + 3}" for n in range(chains)}
        retried = {f"did {n}" for n in range(chains)}
        totals = {f"total {10_000 * n + 45}" for n in range(chords)}

        shop.until(lambda: ends | retried | totals <= set(shop.ran()))
        shop.until(shop.is_empty)

        ran = Counter(shop.ran())
        told = {line for line in ran if line.startswith(("end ", "did ", "total "))}
        assert told == ends | retried | totals, f"seed {seed}"  # nothing with a part of its results
        assert shop.counts()["dead"] == 0
        print(f"{sum(ran.values())} lines where {least} would do")
        for worker in workers:
            shop.stop(worker)
        assert shop.is_empty()
