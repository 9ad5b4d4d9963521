"""HTTP before several slices, as real processes: a slice is killed under waiting clients.

Promise stored: kill of a slice under load.
"""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from kestrelpy.placement import Placement
from tests.process.router.test_slices import CONFIG, QUEUES, SLICES, eventually, slices_of
from tests.process.router.test_users import ANNA, ROOT
from tests.support.daemon import DaemonProcess
from tests.support.guarded import certificate

AS_ROOT = ("root", "plum")
AS_ANNA = ("anna", "pear")
VIEW = "/views?view=overview"


@pytest.fixture
def router(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG, http_port="0") as running:
        yield running


def client_of(router: DaemonProcess, authority: str = "") -> httpx.Client:
    """A client; with a file of certificates to trust it speaks TLS."""
    place = f"127.0.0.1:{router.http_port}"
    if not authority:
        return httpx.Client(base_url=f"http://{place}", timeout=30)
    trust = ssl.create_default_context(cafile=authority)
    return httpx.Client(base_url=f"https://{place}", timeout=30, verify=trust)


def is_waiting(client: httpx.Client) -> bool:
    said = client.get("/admin/connections")
    return said.is_success and any(each["is_waiting"] for each in said.json()["connections"])


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


def test_users_have_their_rights_in_every_slice_over_tls(tmp_path: Path) -> None:
    certificate(tmp_path, "server")
    config = CONFIG.replace("[server]", '[server]\ntls_cert = "server.pem"\ntls_key = "server.key"')
    with (
        DaemonProcess(tmp_path / "data", config=config + ANNA + ROOT, http_port="0") as router,
        client_of(router, str(tmp_path / "server.pem")) as client, ThreadPoolExecutor() as threads,
    ):  # fmt: skip
        check_rights(client, others=["g"])
        asking = threads.submit(
            lambda: client_of(router, str(tmp_path / "server.pem")).post(
                "/queues/a/leases?wait=20s&count=1", auth=AS_ANNA
            )
        )
        assert asking.result().json()["leases"][0]["body"] == "1"
        asking = threads.submit(
            lambda: client_of(router, str(tmp_path / "server.pem")).post(
                "/queues/c/leases?wait=20s", auth=AS_ANNA
            )
        )
        eventually(lambda: any(
            each["is_waiting"] and each["user"] == "anna"
            for each in client.get("/admin/connections", auth=AS_ROOT).json()["connections"]
        ))  # fmt: skip
        router.config_file.write_text(config + ROOT)
        os.kill(router.pid, signal.SIGHUP)
        assert asking.result().status_code == 401  # a reload takes the right from a wait


def check_rights(client: httpx.Client, others: Sequence[str]) -> None:
    """Check that Anna may write the queue a, and not these, and that root may do everything."""
    assert client.get("/ready").status_code == 200
    for path in ("/admin/queues", "/metrics", "/stats.json", VIEW, "/admin/me", "/health"):
        assert client.get(path).status_code == 401, path
        assert client.get(path, auth=("root", "wrong")).status_code == 401, path
        assert client.get(path, auth=AS_ROOT).status_code == 200, path
    for path in ("/admin/queues", "/metrics", "/stats.json", VIEW, "/admin/me"):
        assert client.get(path, auth=AS_ANNA).status_code == 403, path
    bearer = {"Authorization": "Bearer anna:pear"}
    assert client.post("/queues/a/items", content="1", headers=bearer).status_code == 201
    assert client.post("/queues/a/items", content="1").status_code == 401
    for name in others:
        said = client.post(f"/queues/{name}/items", content="1", auth=AS_ANNA)
        assert said.status_code == 403, name
        assert client.post(f"/queues/{name}/items", content="1", auth=AS_ROOT).status_code == 201
    move = {"target": "b", "all": True}
    assert client.post("/admin/queues/a/move", json=move, auth=AS_ANNA).status_code == 403
    for path in ("/admin/drain", "/admin/reload", "/admin/queues/a/purge"):
        assert client.post(path, auth=AS_ANNA).status_code == 403, path
