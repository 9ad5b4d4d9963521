"""The examples of docs/pipeline.md, typed from start to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.process.cli.test_docs import environment_of
from tests.support.daemon import DaemonProcess
from tests.support.pages import ROOT, blocks
from tests.support.raw import Raw
from tests.support.spark_shell import SparkShell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "pipeline.md"
LINES = Counter(["one", "two", "two"])


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with DaemonProcess(tmp_path / "a" / "data") as a, DaemonProcess(tmp_path / "b" / "data") as b:
        yield [a, b]


def test_the_examples_of_the_page_run(
    spark: SparkSession, tmp_path: Path, servers: list[DaemonProcess]
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "lines.txt").write_text("\n".join(LINES.elements()) + "\n")
    with Raw(("127.0.0.1", servers[0].port)) as raw:
        raw.ask(b"set jobs 0 0 5\r\nfirst\r\n", b"STORED\r\n")
    addresses = ",".join(f"127.0.0.1:{each.port}" for each in servers)
    python = [block.text for block in blocks(PAGE.read_text()) if block.kind == "python"]
    examples = [text for text in python if "fleet=" not in text]  # test_fleet_page.py has that one
    names: dict[str, Any] = {}

    for text in examples:
        text = text.replace("a:22133,b:22133", addresses)
        text = text.replace("/srv/*/archive/*", "/srv/b/data")  # no segment was archived yet
        exec(compile(text.replace("/srv/", f"{tmp_path}/"), PAGE.name, "exec"), names)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()

    assert len(examples) == 3
    assert names["spark"] is spark
    assert names["events"].where("op = 'put'").count() >= 1
    out = spark.read.schema("value binary").parquet(f"{tmp_path}/out").collect()
    # Once by the batch write and once by the stream.
    twice = Counter(line.encode() for line in (LINES + LINES).elements())
    assert Counter(row.value for row in out) == twice + Counter([b"first"])


def test_each_job_of_the_page_runs_as_it_is_typed(
    spark: SparkSession, tmp_path: Path, servers: list[DaemonProcess]
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "orders.csv").write_text("order_number,city\n1,Bern\n2,Köln\n")
    for daemon in servers:
        client = daemon.client()
        client.get("orders+drain/peek")
        client.set("orders", b"first")
        client.set("log.error", b"bad")
        client.get("log.error/open")
        client.get("log.error/abort/dead=timeout")
    # Where copies go; they end with the test.
    with DaemonProcess(tmp_path / "c") as c, DaemonProcess(tmp_path / "d") as d:
        shell = SparkShell(tmp_path, environment_of(servers[0], tmp_path))
        known = {
            "a:22133,b:22133": ",".join(f"127.0.0.1:{each.port}" for each in servers),
            "c:22133,d:22133": f"127.0.0.1:{c.port},127.0.0.1:{d.port}",
            "/srv/a/archive": "/srv/b/data",  # no segment was archived yet
            "/srv/": f"{tmp_path}/",
        }
        said = {}
        for block in blocks(PAGE.read_text()):
            for line in block.text.splitlines() if block.kind == "sh" else ():
                typed = line
                for word, meant in known.items():
                    typed = typed.replace(word, meant)
                out = shell.run(f"{typed} && echo it has worked")
                assert out.endswith("it has worked\n"), f"{line}\n{out}"
                said[line.split()[2]] = out
        shell.close()

        assert said.keys() == {
            "lifecycle", "audit", "report", "lag", "redrive", "drain", "backfill", "copy"
        }
        assert "2 items" in said["drain"]
        assert "2 rows of 1 file: 2 stored in orders" in said["backfill"]
        assert "4 items copied" in said["copy"]
        assert b"first" in {daemon.client().get("orders") for daemon in (c, d)}
