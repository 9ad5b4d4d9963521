"""The whole way on real input: three daemons, accidents, and what Spark says of it afterwards."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kestrelpy.examples.messages import QUEUES
from kestrelpy.spark.session import what_is_missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
LINES = 2_500


def pipeline(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kestrelpy.examples.pipeline", *words],
        capture_output=True, text=True, timeout=590, check=False, cwd=ROOT,
    )  # fmt: skip


def test_an_audit_holds_over_three_daemons_of_which_one_was_killed(tmp_path: Path) -> None:
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    out = tmp_path / "out"

    ended = pipeline("--lines", str(LINES), "--out", str(out))

    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = ended.stdout
    assert "kill -9 daemon 2, and start it again" in said
    assert re.search(rf"^{LINES:,} lines: [\d,]+ handled and confirmed, [1-9]\d* dead, 0 lost$",
                     said, re.MULTILINE)  # fmt: skip
    assert f"the report: {out / 'report' / 'report.html'}" in said
    page = (out / "report" / "report.html").read_text()
    with (out / "report" / "queues.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(QUEUES)
    for queue in QUEUES.values():
        assert queue in page
        assert len({row["server"] for row in rows if row["queue"] == queue}) == 3
    audited, reported = (json.loads((out / f"{n}.json").read_text()) for n in ("audit", "report"))
    assert audited["holds"] is True
    assert reported["repeated"] == audited["totals"]["repeated"] > 0
    assert reported["put"] == audited["totals"]["stored"] >= LINES
    assert reported["journals_not_whole"] == 0  # the archives have what was reclaimed
    assert list((out / "lifecycle").rglob("*.parquet"))


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    ended = pipeline("--lines", "10", "--out", str(tmp_path))

    assert ended.returncode == 1
    assert "is not empty: say a folder that is" in ended.stdout
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
