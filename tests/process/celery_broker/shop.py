"""A Celery application for the tests: each task writes a line when it has run."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery, Task
from celery.exceptions import Reject

import kestrelpy.kombu

assert kestrelpy.kombu.Transport
FOLDER = os.environ["SHOP_FOLDER"]

app = Celery("shop", broker=os.environ["SHOP_BROKER"], backend=os.environ.get("SHOP_RESULTS", f"file://{FOLDER}/results"))
app.conf.update(
    task_acks_late="SHOP_EARLY" not in os.environ,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    broker_transport_options={"lease": os.environ.get("SHOP_LEASE", "5s"), "patience": "20s"},
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    control_queue_ttl=60.0,
    broker_use_ssl={"ca_certs": os.environ["SHOP_CA"]} if "SHOP_CA" in os.environ else None,
)


def note(word: str) -> None:
    """Write a line, whole, whoever else writes."""
    handle = os.open(f"{FOLDER}/ran", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{word}\n".encode())
    os.close(handle)


@app.task(name="shop.count")
def count(number: int) -> None:
    note(str(number))


@app.task(name="shop.slow")
def slow(word: str, seconds: float) -> None:
    note(f"begun {word}")
    time.sleep(seconds)
    note(f"ended {word}")


@app.task(name="shop.add", ignore_result=False)
def add(*numbers: Any) -> int:
    note(f"add {numbers}")
    return sum(numbers)


@app.task(name="shop.total", ignore_result=False)
def total(numbers: list[int]) -> int:
    note(f"total {sum(numbers)}")
    return sum(numbers)


@app.task(name="shop.flaky", bind=True, max_retries=5)
def flaky(self: Task, word: str, failures: int) -> None:
    if self.request.retries < failures:
        note(f"failed {word}")
        raise self.retry(countdown=0.2)
    note(f"did {word}")


@app.task(name="shop.step", bind=True, max_retries=5)
def step(self: Task, number: int, failures: int = 0) -> int:
    note(f"step {number} {self.request.retries}")
    time.sleep(0.05)
    if self.request.retries < failures:
        raise self.retry(countdown=0.2)
    return number + 1


@app.task(name="shop.end")
def end(number: int, word: str) -> None:
    note(f"end {word} {number}")


@app.task(name="shop.when")
def when(word: str) -> None:
    note(f"{word} {time.time()}")


@app.task(name="shop.refuse", bind=True)
def refuse(self: Task, word: str, requeue: bool) -> None:
    note(f"refused {word} {self.request.delivery_info['redelivered']}")
    again = requeue and not self.request.delivery_info["redelivered"]
    if again or not requeue:
        raise Reject("no", requeue=requeue)
