"""A report on the queues, as one page: rates, depth, latencies, repeated deliveries, deaths.

    python -m kestrelpy.spark.jobs.report PATH... --out DIR
    spark-submit .../report/__main__.py PATH... --out DIR

    journals ──▶ events, items ──metrics──▶ figures ──page──▶ DIR/report.html
                                               └────────────▶ DIR/*.csv

A fan-out child is a queue here, `orders+audit`: an item for all readers is put for each of them.

A PATH is a data directory, the folder of a journal, a backup or an archive (`archive_to`), or a
glob of these. Records of one journal that are in several places are read once. A daemon may be
running.

One rule: the page names damaged and reclaimed records, and shows all others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kestrelpy.durations import parse_duration_ms
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files import children
from kestrelpy.spark.jobs.common.job import Outcome, Progress, Request, counted, run
from kestrelpy.spark.jobs.common.queries import sized
from kestrelpy.spark.jobs.report.figures import QUEUES_MAX, ReportFigures, ReportRow, write_csv

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kestrelpy.spark.files import History
    from kestrelpy.spark.files import PlannedJournal as Logged
    from kestrelpy.spark.jobs.report.metrics import Journal, RecordSpan

OUT: Final = "kestrelpy-report"
PAGE: Final = "report.html"
TITLE: Final = "What went through the queues"
_PROBLEMS_MAX: Final = 20
_QUEUES_PLOTTED_MAX: Final = 100  # each has four pictures
_INTERVAL_MS: Final = 1_000  # the interval of the first count of events


@dataclass(frozen=True, slots=True)
class PageLook:
    """The look of the page: `queues` with plots of their own; `interval` as a duration."""

    title: str = TITLE
    queues: int = QUEUES_MAX
    interval: str | None = None

    @property
    def interval_ms(self) -> int | None:
        """The width of a point in time; None: the span decides. Raises KestrelError."""
        if self.interval is None:
            return None
        try:
            found = parse_duration_ms(self.interval)
        except ValueError as error:
            raise KestrelError(f"The interval {error}.") from None
        if found < _INTERVAL_MS or found % _INTERVAL_MS:
            raise KestrelError(
                f"The interval {self.interval} is not whole seconds. Say 1s or more."
            )
        return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="report", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", metavar="PATH", help="data directory, backup, archive")
    parser.add_argument("--out", default=OUT, metavar="DIR", help=f"default: {OUT}")
    parser.add_argument("--title", default=TITLE)
    parser.add_argument(
        "--queues", type=int, default=QUEUES_MAX, metavar="N",
        help=f"the N busiest have plots of their own, the others together (default {QUEUES_MAX})",
    )  # fmt: skip
    parser.add_argument(
        "--interval", metavar="DURATION", help="of a point in time, like 5m; default: by the span"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="for programs")
    parser.add_argument("--summary", metavar="FILE", help="keep the JSON there")
    parser.add_argument("--master", help="where Spark runs; default: as it is configured")
    said = parser.parse_args(argv)
    request = Request(
        tuple(said.paths), said.out, said.as_json, said.summary, master=said.master
    )  # fmt: skip
    return command(request, PageLook(said.title, said.queues, said.interval))


def command(request: Request, look: PageLook) -> int:
    """Make the report and print its outcome; return the exit code."""

    def work(spark: SparkSession, asked: Request, progress: Progress) -> Outcome:
        out = Path(asked.out or OUT)
        return outcome(report(spark, asked.paths, out, look, progress), out)

    return run("report", work, request)


def report(
    spark: SparkSession, paths: Sequence[str], out: Path, look: PageLook, progress: Progress
) -> ReportFigures:
    """Write the page and the tables into `out`; return the figures. Raises KestrelError."""
    from kestrelpy.spark.files import plan_events
    from kestrelpy.spark.jobs.common.queries import at_once
    from kestrelpy.spark.jobs.report.metrics import ACCURACY, ShownLimits, measure

    if not 1 <= look.queues <= _QUEUES_PLOTTED_MAX:
        raise KestrelError(
            f"{look.queues} queues with plots of their own is out of range. Say 1 to "
            f"{_QUEUES_PLOTTED_MAX}; the others are shown together."
        )
    limits = ShownLimits(queues=look.queues, interval_ms=look.interval_ms)
    _make_folder(out)
    progress.step("looking at the journals")
    with at_once(spark) as begin:
        importing = begin(_page)  # matplotlib takes as long as the plan
        history = plan_events(paths)
        spans, problems, bytes_ = record_spans(history)
        events, items = _tables(spark, paths, history.journals)
    page = importing.result()
    with sized(spark, bytes_):
        figures = measure(events, items, spans, limits, progress.step)
    if figures is None:
        raise KestrelError(
            f"There is no event under {', '.join(paths)}: nothing was ever put there, or it is "
            "kept somewhere else. Name the directory of archive_to as well."
        )
    progress.step("drawing")
    figures = replace(figures, problems=problems)
    text = page(figures, look.title, int(time.time() * 1000), ACCURACY)
    try:
        write_csv(figures, out)
        (out / PAGE).write_text(text, encoding="utf-8")
    except OSError as error:
        where = error.filename or out
        raise KestrelError(f"{where} cannot be written: {error.strerror}.") from None
    return figures


def outcome(figures: ReportFigures, out: Path) -> Outcome:
    """Return the outcome as text and facts."""
    total, page = figures.total, (out / PAGE).resolve()
    text = (
        f"{page}: {counted(total.put, 'item')} put and {total.confirmed:,} confirmed in "
        f"{counted(figures.queues, 'queue')} on {counted(figures.servers, 'server')}, "
        f"{total.repeated:,} deliveries repeated, {total.died:,} dead"
    )
    if figures.broken:
        text += f"; {counted(figures.broken, 'journal')} without a whole history"
    if figures.problems:
        text += "".join(f"\n{each}" for each in figures.problems)
    counts = {name: value for name, value in asdict(total).items() if isinstance(value, int)}
    facts: dict[str, object] = {
        "page": str(page), "servers": figures.servers, "queues": figures.queues,
        "journals": figures.journals, "journals_not_whole": figures.broken,
        "first_ms": figures.first_ms, "last_ms": figures.last_ms,
        "interval_ms": figures.interval_ms, **counts, "repeated_share": _share(total),
        "waiting": _percentiles(total, "waiting"), "service": _percentiles(total, "service"),
        "problems": list(figures.problems),
    }  # fmt: skip
    return Outcome(text, facts)


def record_spans(history: History) -> tuple[dict[Journal, RecordSpan], tuple[str, ...], int]:
    """Return each reader's records without a gap, the problems, and the bytes of all splits."""
    from kestrelpy.spark.jobs.report.metrics import UNNAMED, RecordSpan

    spans = {}
    for each in history.journals:
        begin = each.whole_from
        name = (each.server or UNNAMED, each.queue, each.generation)
        spans[name] = RecordSpan(begin, each.lsn_next - 1)
        for child in children(each.reader_names):
            since = 1 if begin <= max(child.named_lsn, 1) else begin
            full = (name[0], f"{each.queue}+{child.name}", each.generation)
            spans[full] = RecordSpan(since, each.lsn_next - 1)
    problems = [each.sentence for each in history.problems]
    problems += [each.sentence() for each in history.damages]
    if len(problems) > _PROBLEMS_MAX:
        more = len(problems) - _PROBLEMS_MAX
        problems[_PROBLEMS_MAX:] = [f"... and {more:,} more; kestrelpy journal verify names all"]
    return spans, tuple(problems), sum(split.bytes for split in history.splits)


def _tables(
    spark: SparkSession, paths: Sequence[str], journals: Sequence[Logged]
) -> tuple[DataFrame, DataFrame]:
    """Return events and items of each reader, children under names of their own.

    Damaged records are skipped; they are among the problems.
    """
    from kestrelpy.spark.jobs.report.tables import EVENTS, ITEMS

    def read(mode: str, schema: str) -> DataFrame:
        reader = spark.read.format("kestrel").option("mode", mode).schema(schema)
        return reader.option("failOnDataLoss", "false").load(list(paths))

    if not any(children(each.reader_names) for each in journals):
        return read("events", EVENTS), read("items", ITEMS)
    from kestrelpy.spark.jobs.report.tables import MORE, events_of_each, items_of_children

    items = read("items", ITEMS).unionByName(items_of_children(spark, paths))
    return events_of_each(read("events", EVENTS + MORE), journals), items


def _page() -> Callable[[ReportFigures, str, int, str], str]:
    """Return the function that draws the page. Raises KestrelError without matplotlib."""
    try:
        from kestrelpy.spark.jobs.report.page import page
    except ImportError as error:
        raise KestrelError(
            f"The plots of a report need a package that is not installed ({error.name}). "
            "Install it: pip install 'kestrelpy[spark]'"
        ) from None
    return page


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KestrelError(
            f"The folder {out} cannot be made: {error.strerror}. Say another one with --out."
        ) from None


def _share(total: ReportRow) -> float:
    """Return repeated deliveries for each delivered item, as the audit does."""
    return total.repeated / total.delivered if total.delivered else 0.0


def _percentiles(total: ReportRow, name: str) -> dict[str, int] | None:
    found = getattr(total, name)
    return None if found is None else asdict(found)
