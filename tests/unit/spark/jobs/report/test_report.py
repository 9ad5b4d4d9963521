"""The report over real journals: its files, its text, and its refusals."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs import report as job
from kestrelpy.spark.jobs.common.job import Progress
from kestrelpy.spark.jobs.report import PageLook, report
from kestrelpy.spark.jobs.report.figures import ReportFigures
from tests.support.daemon import DaemonProcess
from tests.unit.spark.jobs.audit.test_audit_readers import Fanned, one_removed
from tests.unit.spark.jobs.stories import journal_of, retold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HOSTILE = '<script>&"R&D"'
QUIET = Progress(sys.stderr, watched=False)


def work_through(daemon: DaemonProcess) -> None:
    """In each queue ten items: six confirmed, one at its second try, one dead, three left."""
    for queue in ("jobs", HOSTILE):
        client = daemon.client()
        for number in range(10):
            client.set(queue, b"item %d" % number)
        client.get(f"{queue}/open")
        client.get(f"{queue}/abort")
        for _ in range(6):
            client.get(f"{queue}/open")
            client.get(f"{queue}/close")
        for _ in range(2):
            client.get(f"{queue}/open")
            client.get(f"{queue}/abort")
        client.close()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a daemon that is still running."""
    folder = tmp_path_factory.mktemp("report") / "data"
    with DaemonProcess(folder, config="[queue_defaults]\nmax_attempts = 2\n") as daemon:
        work_through(daemon)
        yield folder


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, data_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ReportFigures]:
    out = tmp_path_factory.mktemp("out") / "deep" / "report"
    return out, report(spark, [str(data_dir)], out, PageLook(title="All is <well>"), QUIET)


def test_what_the_daemon_did_is_what_the_report_says(made: tuple[Path, ReportFigures]) -> None:
    _, figures = made

    assert {each.name for each in figures.series} == {"jobs", HOSTILE}
    for row in figures.rows:
        counts = (row.put, row.confirmed, row.returned, row.died, row.ready, row.dead)
        assert counts == (10, 6, 2, 1, 3, 1)
        assert (row.delivered, row.repeated, row.unknown) == (7, 2, 0)
        assert row.waiting is not None
        assert row.waiting.count == 7
    for series in figures.series:
        assert series.buckets[-1].depth == 3
    assert {(each.queue, each.reason, each.count) for each in figures.deaths} == {
        ("jobs", "abort", 1), (HOSTILE, "abort", 1),
    }  # fmt: skip
    assert (figures.servers, figures.queues, figures.broken, figures.problems) == (1, 2, 0, ())
    assert [each.is_whole for each in figures.histories] == [True, True]


def test_the_page_and_its_tables_name_every_queue(made: tuple[Path, ReportFigures]) -> None:
    out, _ = made

    assert {each.name for each in out.iterdir()} == {
        "report.html", "minutes.csv", "queues.csv", "dead.csv", "histories.csv",
    }  # fmt: skip
    page = (out / "report.html").read_text()
    assert "&lt;script&gt;&amp;&quot;R&amp;D&quot;" in page
    assert HOSTILE not in page
    assert "<title>All is &lt;well&gt;</title>" in page
    for name in ("minutes.csv", "queues.csv", "dead.csv", "histories.csv"):
        with (out / name).open(newline="") as file:
            assert {row["queue"] for row in csv.DictReader(file)} == {"jobs", HOSTILE}


def test_the_command_answers_with_a_sentence_or_with_json(
    spark: SparkSession, data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.json"

    code = job.main([str(data_dir), "--out", str(tmp_path / "r"), "--summary", str(summary)])

    assert code == 0
    said = capsys.readouterr().out
    assert said == (
        f"{tmp_path / 'r' / 'report.html'}: 20 items put and 12 confirmed in 2 queues on 1 server, "
        "4 deliveries repeated, 2 dead\n"
    )
    facts = json.loads(summary.read_text())
    assert facts["job"] == "report"
    assert (facts["put"], facts["confirmed"], facts["died"], facts["ready"]) == (20, 12, 2, 6)
    assert facts["repeated_share"] == 4 / 14
    assert facts["waiting"]["count"] == 14


def test_with_one_queue_to_plot_the_other_is_the_rest(
    spark: SparkSession, data_dir: Path, tmp_path: Path
) -> None:
    figures = report(spark, [str(data_dir)], tmp_path, PageLook(queues=1, interval="10m"), QUIET)

    assert [(each.name, each.queues) for each in figures.series[1:]] == [(None, 1)]
    assert figures.interval_ms == 600_000
    assert sum(each.put for each in figures.series[1].buckets) == 10


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (PageLook(interval="soon"), 'The interval "soon" is not a duration'),
        (PageLook(interval="5ms"), "The interval 5ms is not whole seconds. Say 1s or more."),
        (PageLook(queues=0), "0 queues with plots of their own is out of range. Say 1 to 100"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(
    spark: SparkSession, data_dir: Path, tmp_path: Path, look: PageLook, said: str
) -> None:
    with pytest.raises(KestrelError) as refused:
        report(spark, [str(data_dir)], tmp_path, look, QUIET)

    assert str(refused.value).startswith(said)


def test_a_place_without_journals_is_refused_in_a_sentence(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = job.main([str(tmp_path / "nowhere"), "--out", str(tmp_path / "r")])

    assert code == 2
    said = capsys.readouterr().err
    assert said.startswith("kestrelpy: ")
    assert "nowhere" in said
    assert "Traceback" not in said


def test_a_folder_that_cannot_be_made_is_named(
    spark: SparkSession, data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    code = job.main([str(data_dir), "--out", str(tmp_path / "file" / "r")])

    assert code == 2
    assert f"The folder {tmp_path / 'file' / 'r'} cannot be made" in capsys.readouterr().err


def test_a_child_is_a_queue_of_the_report(spark: SparkSession, tmp_path: Path) -> None:
    folders = [str(build(tmp_path / build.__name__)) for build in (one_removed, one_dead)]

    figures = report(spark, folders, tmp_path / "out", PageLook(), QUIET)

    rows = {row.queue: row for row in figures.rows}
    counts = {
        name: (row.put, row.confirmed, row.dropped, row.ready, row.dead, row.unknown)
        for name, row in rows.items()
    }
    assert counts == {
        "jobs": (11, 4, 0, 7, 0, 0),
        "other": (3, 0, 0, 3, 0, 0),
        # Five of eight were confirmed, and three went with it; of one that was named anew one was.
        "jobs+audit": (8 + 1, 5 + 1, 3, 0, 0, 0),
        "jobs+cursor": (9, 0, 0, 11, 0, 0),  # it was named with two that had been put before
        "other+weak": (3, 1, 0, 1, 1, 0),
        "other+all": (3, 0, 2, 1, 0, 0),
    }
    assert rows["other+weak"].repeated == 1
    assert {(each.queue, each.reason) for each in figures.deaths} == {("other+weak", "abort")}
    assert figures.broken == 0
    assert "other+weak" in (tmp_path / "out" / "report.html").read_text()


def one_dead(folder: Path) -> Path:
    """Of three items a child has confirmed one, one is dead and one ready; a cursor passes two."""
    story = Fanned(max_attempts=2)
    story.child(b"weak")
    story.child(b"all")
    story.put(b"1", b"2", b"3")
    story.take_of(b"weak", 1)
    story.give_back_of(b"weak")
    story.give_back_of(b"weak")
    story.confirm_up_to(b"all", 2)
    source = journal_of(story.save(folder / "first"))
    return retold(source, folder / "data", lambda drafts: None, "other")
