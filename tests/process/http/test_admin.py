"""Administration of a real daemon: an answered action survives a kill, and drain ends it well."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.daemon import STOP_SECONDS, DaemonProcess

_LOOKS_MAX = 2000
JOBS = "/admin/queues/jobs"


def client_of(server: DaemonProcess) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{server.http_port}", timeout=20)


def facts(client: httpx.Client, name: str = "jobs") -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/admin/queues/{name}").json()["facts"]
    return found


def killed(server: DaemonProcess) -> httpx.Client:
    """Kill the daemon, start it again; return a client of the new one."""
    server.kill()
    server.http_port = "0"
    server.start()
    return client_of(server)


def make_dead(client: httpx.Client, count: int) -> None:
    """Make as many dead letters."""
    for _ in range(count):
        client.post("/queues/jobs/items", content=b"x")
        (lease,) = client.post("/queues/jobs/leases").json()["leases"]
        client.delete(f"/queues/jobs/leases/{lease['token']}?bury=why")


def test_answered_actions_survive_a_kill(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as server:
        client = client_of(server)
        make_dead(client, 3)
        for _ in range(2):
            client.post("/queues/jobs/items", content=b"x")
        assert client.post(f"{JOBS}/pause").status_code == 200
        assert client.post(f"{JOBS}/purge", json={"ids": [1]}).json()["done"] == 1
        assert client.post(f"{JOBS}/redrive", json={"ids": [2]}).json()["done"] == 1
        assert client.delete(f"{JOBS}/items/4").json() == {"count": 1}
        client = killed(server)
        found = facts(client)
        assert (found["paused"], found["items"], found["dead"]) == (True, 2, 1)
        assert client.post(f"{JOBS}/flush").json() == {"count": 2}
        found = facts(killed(server))
        assert (found["items"], found["dead"]) == (0, 1)


def test_an_answered_delete_survives_a_kill(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as server:
        client = client_of(server)
        client.post("/queues/jobs/items", content=b"x")
        assert client.delete(JOBS).status_code == 200
        assert killed(server).get(JOBS).status_code == 404


def test_a_kill_during_a_move_leaves_each_item_in_one_queue(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as server:
        client = client_of(server)
        for number in range(30):
            client.post("/queues/jobs/items", content=b"%d" % number)
        body = {"all": True, "target": "other", "rate": 5}
        where = client.post(f"{JOBS}/move", json=body).headers["location"]
        for _ in range(_LOOKS_MAX):
            done = client.get(where).json()["done"]
            if done:
                break
            time.sleep(0.005)
        client = killed(server)
        assert client.get(where).status_code == 404  # jobs end with the process
        seen = list[str]()
        for name in ("other", "jobs"):
            leases = client.post(f"/queues/{name}/leases?count=100").json()["leases"]
            assert name != "other" or len(leases) >= done
            seen += [each["body"] for each in leases]
        assert sorted(map(int, seen)) == list(range(30))


def test_drain_ends_the_process_well(tmp_path: Path) -> None:
    config = "[server]\nallow_shutdown = true\n"
    with DaemonProcess(tmp_path / "data", config=config, http_port="0") as server:
        assert client_of(server).post("/admin/drain").status_code == 202
        assert server._process is not None
        assert server._process.wait(STOP_SECONDS) == 0
    assert any("drain by http 127.0.0.1:" in line for line in server.lines)


def test_an_action_is_one_line_in_the_log_of_the_daemon(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as server:
        client = client_of(server)
        client.post("/queues/jobs/items", content=b"x")
        client.post(f"{JOBS}/flush")
        server.stop()
        for _ in range(_LOOKS_MAX):
            if any("stopped" in line for line in server.lines):
                break
            time.sleep(0.005)
    assert len([line for line in server.lines if ": flush jobs: 1" in line]) == 1
