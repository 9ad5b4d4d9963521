"""The whole circle on real input: three daemons, accidents, and what Spark says afterwards."""

from __future__ import annotations

import csv
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kestrelpy.examples.messages import QUEUES
from kestrelpy.examples.pipeline import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LINES = 1_000


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Restore the signal handlers of this process after a run, which sets its own."""
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def test_each_line_goes_once_around_the_circle_with_a_query_and_two_daemons_killed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    code = main(["--lines", str(LINES), "--out", str(out)])

    said = capsys.readouterr().out
    assert code == 0, said
    assert spark.range(3).count() == 3, "a session that was there goes on"
    for accident in ("the query", "daemon 2", "daemon 3"):
        assert f"kill -9 {accident}, and start it again" in said
    assert re.search(rf"^{LINES:,} lines: {LINES:,} handled and confirmed, 0 dead, 0 lost$", said,
                     re.MULTILINE)  # fmt: skip
    assert f"{LINES:,} lines went in, {LINES:,} came out\n" in said
    assert f"the report: {out / 'report' / 'report.html'}" in said
    page = (out / "report" / "report.html").read_text()
    with (out / "report" / "queues.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for queue in (*QUEUES.values(), "lines", "done"):
        assert queue in page
        # A level with a few lines may have them all on one server.
        servers = {row["server"] for row in rows if row["queue"] == queue}
        assert len(servers) == 3 if queue in ("lines", "done") else servers
    facts = {path.stem: json.loads(path.read_text()) for path in out.glob("*.json")}
    assert facts["audit"]["holds"] is True
    assert facts["backfill"]["rows"] == facts["drain"]["items"] == LINES
    assert facts["redrive"]["redriven"] > 0
    assert facts["redrive"]["stay"] == 0
    assert facts["report"]["repeated"] == facts["audit"]["totals"]["repeated"] > 0
    assert facts["report"]["put"] == facts["audit"]["totals"]["stored"] >= 3 * LINES
    assert facts["report"]["journals_not_whole"] == 0  # the archives have what was reclaimed
    assert list((out / "lifecycle").rglob("*.parquet"))


def test_a_folder_with_something_in_it_is_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()

    assert main(["--lines", "10", "--out", str(tmp_path)]) == 1

    assert "is not empty: say a folder that is" in capsys.readouterr().out
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
