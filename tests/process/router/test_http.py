"""HTTP before several slices, as real processes: a slice is killed under waiting clients.

Promise stored: kill of a slice under load.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from kestrelpy.placement import Placement
from tests.process.router.test_slices import CONFIG, QUEUES, SLICES, eventually, slices_of
from tests.support.daemon import DaemonProcess


@pytest.fixture
def router(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG, http_port="0") as running:
        yield running


def client_of(router: DaemonProcess) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{router.http_port}", timeout=30)


def is_waiting(client: httpx.Client) -> bool:
    found = client.get("/admin/connections").json()["connections"]
    return any(each["is_waiting"] for each in found)


def kill(router: DaemonProcess, number: int) -> None:
    """Kill a slice, and return when another process of it has begun."""
    began = slices_of(router)[number]
    os.kill(began, signal.SIGKILL)
    eventually(lambda: slices_of(router).get(number) not in (None, began))


def test_a_killed_slice_ends_its_waits_and_keeps_what_was_stored(router: DaemonProcess) -> None:
    number = Placement(SLICES).slice_of(b"a")
    with client_of(router) as client, ThreadPoolExecutor() as threads:
        for name in QUEUES:
            assert client.post(f"/queues/{name}/items", content=name).status_code == 201
        waiting = threads.submit(
            lambda: client_of(router).post("/queues/a/leases?wait=20s")
        )
        assert waiting.result().json()["leases"][0]["body"] == "a"
        waiting = threads.submit(lambda: client_of(router).post("/queues/a/leases?wait=20s"))
        eventually(lambda: is_waiting(client))
        kill(router, number)
        said = waiting.result()
        assert said.status_code == 502
        assert "may have been carried out, or not" in said.json()["description"]
        eventually(lambda: client.get("/ready").json()["ready"])
        assert client.post("/queues/a/items", content="b").json() == {"id": 2}
        for name in QUEUES[1:]:
            said = client.post(f"/queues/{name}/leases")
            assert said.json()["leases"][0]["body"] == name
        assert client.get("/admin/queues").json()["matched"] == SLICES


def test_a_move_over_http_reaches_a_queue_of_another_slice(router: DaemonProcess) -> None:
    with client_of(router) as client:
        assert client.post("/queues/a/items", content="moved").status_code == 201
        said = client.post("/admin/queues/a/move", json={"target": "c", "all": True})
        assert (said.status_code, said.json()["done"]) == (200, 1)
        said = client.post("/queues/c/leases?wait=20s")
        assert said.json()["leases"][0]["body"] == "moved"


def test_a_drain_over_http_ends_the_router_and_its_slices(router: DaemonProcess) -> None:
    with client_of(router) as client, ThreadPoolExecutor() as threads:
        waiting = threads.submit(lambda: client_of(router).post("/queues/a/leases?wait=20s"))
        eventually(lambda: is_waiting(client))
        assert client.post("/admin/drain").status_code == 202
        said = waiting.result()
    assert (said.status_code, said.json()["description"]) == (
        503, "the server stops: ask again later",
    )  # fmt: skip
    assert router.wait() == 0
