"""`GET /metrics` over HTTP."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.http_client import web


async def test_histograms_of_a_queue_come_when_it_is_named(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        await server.client.post("/queues/jobs/leases")
        plain = (await server.client.get("/metrics")).text
        assert "kestrelpy_queue_waiting_seconds" not in plain
        said = await server.client.get("/metrics?queue=jobs&queue=none")
        assert said.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = {each.name: each for each in text_string_to_metric_families(said.text)}
        labels = {s.labels["queue"] for s in families["kestrelpy_queue_waiting_seconds"].samples}
        assert labels == {"jobs"}
        assert (await server.client.get("/metrics?queue=a%20b")).status_code == 400
        many = "&".join(f"queue=q{n}" for n in range(21))
        assert (await server.client.get(f"/metrics?{many}")).status_code == 400


async def test_of_the_seconds_only_the_start_is_a_time_of_day(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        text = (await server.client.get("/metrics?queue=jobs")).text
        moments = {
            sample.name
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "seconds" in sample.name and sample.value > time.time() - 3 * 86_400
        }
        assert moments == {"kestrelpy_start_time_seconds"}
