"""Metrics of a real daemon: each event of an item is seen in its family."""

from __future__ import annotations

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon import DaemonProcess

_CONFIG = "[queues.jobs]\nmax_attempts = 2\n"


def scrape(server: DaemonProcess, query: str = "") -> dict[str, float]:
    """Return the samples by name and labels, one family at most once."""
    text = httpx.get(f"http://127.0.0.1:{server.http_port}/metrics{query}", timeout=20).text
    found, names = dict[str, float](), list[str]()
    for family in text_string_to_metric_families(text):
        names.append(family.name)
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            key = f"{sample.name.removeprefix('kestrelpy_')}{{{labels}}}"
            assert key not in found
            found[key] = sample.value
    assert len(names) == len(set(names))
    assert all(name.startswith("kestrelpy_") for name in names)
    return found


def test_each_event_of_an_item_is_counted_in_its_family(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config=_CONFIG, http_port="0") as server:
        client = server.client()
        for number in range(4):
            client.set("jobs", b"%d" % number)
        client.set("jobs/id=a", b"x")
        client.set("jobs/id=a", b"x")
        client.set("jobs/delay=1h", b"later")
        assert client.get("jobs/open") == b"0"
        client.get("jobs/close")
        for _ in range(2):
            assert client.get("jobs/open") == b"1"
            client.get("jobs/abort")
        client.get("jobs/open")
        with server.socket() as other:
            other.sendall(b"get jobs/nonsense\r\nversion\r\nquit\r\n")
            while other.recv(4096):
                pass
        found = scrape(server)
    for key, value in {
        "items{queue=jobs,state=ready}": 2, "items{queue=jobs,state=leased}": 1,
        "items{queue=jobs,state=dead}": 1, "items{queue=jobs,state=delayed}": 1,
        "items_stored_total{queue=jobs}": 6, "deliveries_total{queue=jobs}": 4,
        "redeliveries_total{queue=jobs}": 1, "items_confirmed_total{queue=jobs}": 1,
        "deliveries_returned_total{queue=jobs}": 2, "items_dead_total{queue=jobs}": 1,
        "items_duplicate_total{queue=jobs}": 1, "item_service_seconds_count{}": 1,
        "item_waiting_seconds_count{}": 3, "connections{wire=memcache}": 1,
        "requests_total{status=client_error,wire=memcache}": 1, "queues{state=ok}": 1,
        "mode{mode=up}": 1,
    }.items():  # fmt: skip
        assert found[key] == value, key
    assert found["sync_seconds_count{}"] > 0
    assert found["batch_records_count{}"] > 0
    assert found["disk_free_bytes{}"] > 0
    assert found["journal_segments{queue=jobs}"] > 0
    assert found["recovery_seconds{}"] > 0


def test_a_kill_loses_no_item_that_the_metrics_counted(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as server:
        for number in range(5):
            server.client().set("jobs", b"%d" % number)
        before = scrape(server)
        server.kill()
        server.http_port = "0"
        server.start()
        after = scrape(server)
    for key in ("items{queue=jobs,state=ready}", "items_stored_total{queue=jobs}"):
        assert before[key] == after[key] == 5
