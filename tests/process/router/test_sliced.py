"""A sliced queue over real slices: whatever is killed, each item is there once, or again.

Promise stored: kill of a slice under load.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheError

from tests.process.router.test_slices import eventually, said, slices_of
from tests.support.daemon import DaemonProcess

SLICES = 3
CONFIG = f"[fleet]\nslices = {SLICES}\n[queues.jobs]\nsliced = true\n"
ITEMS = 300  # of each producer
GONE = (OSError, MemcacheError, EOFError)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG) as running:
        yield running


def figures(router: DaemonProcess) -> dict[str, str]:
    lines = said(router, b"stats jobs\r\n", b"END\r\n").decode().splitlines()[:-1]
    return {line.split()[1].removeprefix("queue_jobs_"): line.split()[2] for line in lines}


def until_done(act: Callable[[], bool], is_over: threading.Event) -> None:
    """Do it again and again, over broken connections."""
    while not is_over.is_set():
        try:
            if act():
                return
        except GONE:
            continue


def test_a_waiting_worker_gets_what_comes_to_any_slice(router: DaemonProcess) -> None:
    worker, got = router.client(30.0), list[bytes]()
    for number in range(9):
        assert worker.set(f"jobs/id=first-{number}", "x")
        assert worker.get("jobs") == b"x"
    for number in range(12):
        waiting = threading.Thread(target=lambda: got.append(worker.get("jobs/open/t=20s")))
        waiting.start()
        eventually(lambda: figures(router).get("waiters") == str(SLICES))
        assert router.client().set(f"jobs/id={number}", f"item {number}")
        waiting.join(30)
        assert worker.get("jobs/close") is None
    assert got == [b"item %d" % number for number in range(12)]
    assert figures(router)["waiters"] == "0"
    assert len([*(router.data_dir / "slices-3").glob("*/jobs*")]) == SLICES


def test_killed_slices_lose_nothing_and_keep_the_order_of_keys(router: DaemonProcess) -> None:
    acked, handled, lock = set[bytes](), list[bytes](), threading.Lock()
    is_over = threading.Event()

    def produce(key: str) -> None:
        client = router.client(30.0)
        for number in range(ITEMS):
            body = f"{key} {number}".encode()

            def put(body: bytes = body, number: int = number) -> bool:
                return bool(client.set(f"jobs/key={key}/id={key}-{number}", body))

            until_done(put, is_over)
            with lock:
                acked.add(body)

    def work() -> None:
        client = router.client(30.0)
        while not is_over.is_set():
            try:
                found = client.gets("jobs/open/lease=60s/t=200ms")
                if found[0] is None:
                    continue
                body, token = found
                with lock:
                    handled.append(body)
                until_done(
                    lambda token=token: client.delete(f"jobs/token={int(token)}") in (True, False),
                    is_over,
                )
            except GONE:
                continue

    producers = [threading.Thread(target=produce, args=(key,)) for key in "abcd"]
    workers = [threading.Thread(target=work) for _ in range(3)]
    for each in (*producers, *workers):
        each.start()
    chance = random.Random(7)
    for _ in range(3):
        number = chance.randint(1, SLICES)
        pid = slices_of(router)[number]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda n=number, p=pid: slices_of(router).get(n) not in (None, p))
    for each in producers:
        each.join(120)
    eventually(lambda: acked <= {*handled})
    is_over.set()
    for each in workers:
        each.join(30)
    assert len(acked) == 4 * ITEMS
    assert {*handled} == acked
    for key in (b"a", b"b", b"c", b"d"):
        firsts = list(dict.fromkeys(each for each in handled if each.startswith(key + b" ")))
        assert firsts == [b"%b %d" % (key, number) for number in range(ITEMS)]
    again = sum(count - 1 for count in Counter(handled).values())
    assert again <= 3 * len(workers), "more was repeated than was in hand at the kills"


def test_a_queue_of_before_is_found_and_the_way_back_is_refused(
    router: DaemonProcess,
) -> None:
    router.config_file.write_text(f"[fleet]\nslices = {SLICES}\n")
    router.stop()
    router.start()
    assert router.client().set("jobs", "before")
    router.config_file.write_text(CONFIG)
    assert said(router, b"reload\r\n", b"\r\n") == b"Reloaded config.\r\n"
    for number in range(9):
        assert router.client().set(f"jobs/id={number}", "after")
    client = router.client()
    found = [client.get("jobs") for _ in range(11)]
    assert Counter(found) == {b"after": 9, b"before": 1, None: 1}
    router.config_file.write_text(f"[fleet]\nslices = {SLICES}\n")
    refusal = said(router, b"reload\r\n", b"\r\n")
    assert b"queue jobs is in several slices" in refusal
    assert router.client().set("jobs/id=10", "x")  # it goes on
    assert said(router, b"delete jobs\r\n", b"\r\n") == b"DELETED\r\n"
    assert said(router, b"reload\r\n", b"\r\n") == b"Reloaded config.\r\n"
