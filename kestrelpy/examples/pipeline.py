# ruff: noqa: PLC0415
"""The whole pipeline on real input, with accidents: `python -m kestrelpy.examples.pipeline`.

    lines of Python's own sources ──▶ log-like messages ──▶ three daemons ──▶ twelve workers
                                                             ✕ kill -9 one     abort, hang up, ...
    the journals of all three ──Spark──▶ lifecycle (Parquet) ─ audit ─ report (HTML, CSV)

Workers fail with some messages, and always with a few, which become dead letters. One daemon is
killed and started again meanwhile. Then the jobs of `kestrelpy spark` read the journals, and a
referee compares the workers' records with the journals, line by line.

One rule: missing packages are reported at the start, not at the end.

Exit code 0: the audit holds and no message was lost, altered, or handled twice without a reason; 1:
not. The path of the report is printed; the files of a run stay in its folder.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from kestrelpy.examples.crew import Books, Crew
from kestrelpy.examples.messages import QUEUES, Message, messages
from kestrelpy.examples.referee import Journals, verdict
from kestrelpy.examples.trio import DAEMONS, Daemon, Failed
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.session import NEEDED_BY_JOBS, session, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES: Final = 60_000
_WORK_BEGINS: Final = 0.2  # the share of stored messages at which the workers start
_KILL: Final = 0.5  # the share of handled messages at which a daemon is killed
_LOOK_SECONDS: Final = 0.05
_TELL_SECONDS: Final = 5.0
_STALL_SECONDS: Final = 120.0
_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "4",
}
_BODIES: Final = (
    "server string, queue string, generation bigint, item bigint, op string, value binary"
)
_JOURNAL_ITEM: Final = ["server", "queue", "generation", "item"]


class Run:
    """One run, from the first line to the verdict."""

    def __init__(self, folder: Path, sent: list[Message]) -> None:
        self.folder, self.sent = folder, sent
        self.daemons = [Daemon(folder / f"daemon-{n}") for n in range(1, DAEMONS + 1)]
        self._began = time.monotonic()

    @property
    def paths(self) -> list[str]:
        """The folders with the journals."""
        return [path for daemon in self.daemons for path in daemon.paths]

    def put_and_handle(self) -> Books:
        """Run producers and workers until every queue is empty. Raises Failed."""
        for daemon in self.daemons:
            daemon.start()
        ports = ", ".join(str(each.port) for each in self.daemons)
        self.say(f"three daemons are ready on ports {ports}")
        crew = Crew(self.daemons, self.sent)
        try:
            self._watch(crew)
        finally:
            crew.stop()
        for daemon in self.daemons:
            daemon.stop()
        self.say(f"all handled; {crew.books.failed.total():,} deliveries failed on the way")
        return crew.books

    def _watch(self, crew: Crew) -> None:
        """Start the workers and kill a daemon, each at its time."""
        books, all_ = crew.books, len(self.sent)
        works = killed = False
        reported = moved = time.monotonic()
        before = (0, 0)
        while not (crew.has_stored_all and killed and self._is_empty()):
            time.sleep(_LOOK_SECONDS)
            now, at = time.monotonic(), (books.stored, books.handled.total())
            if at != before:
                before, moved = at, now
            if now - moved > _STALL_SECONDS:
                raise Failed(f"nothing was stored or handled for {_STALL_SECONDS:.0f} seconds")
            if now - reported > _TELL_SECONDS:
                reported = now
                self.say(f"{at[0]:,} of {all_:,} lines stored, {len(books.handled):,} handled")
            if not works and at[0] >= all_ * _WORK_BEGINS:
                self.say(f"{at[0]:,} lines stored: the workers come")
                crew.start_work()
                works = True
            if not killed and at[1] >= all_ * _KILL:
                self.say(f"{len(books.handled):,} handled: kill -9 daemon 2, and start it again")
                self.daemons[1].kill()
                self.daemons[1].start()
                killed = True

    def _is_empty(self) -> bool:
        return all(each.is_empty(list(QUEUES.values())) for each in self.daemons)

    def check(self, books: Books) -> bool:
        """Run the jobs over the journals, and the referee. Raises Failed or KestrelError."""
        spark = session("kestrelpy pipeline", "local[2]", _SETTINGS)
        try:
            self.say("Spark is ready")
            self._job("lifecycle", "--out", str(self.folder / "lifecycle"))
            audited = self._job("audit")
            self._job("report", "--out", str(self.folder / "report"))
            journals = numbers_in(spark, self.paths, _repeated(audited))
        finally:
            spark.stop()
        expected = {each.number: each.checksum for each in self.sent}
        sentences, is_well = verdict(expected, books, journals, len(QUEUES))
        print("\n".join(sentences))
        return is_well

    def _job(self, name: str, *words: str) -> dict[str, object]:
        """Run one job of `kestrelpy spark`; return its summary. Raises Failed."""
        from kestrelpy.spark.jobs.audit import audit
        from kestrelpy.spark.jobs.lifecycle import lifecycle
        from kestrelpy.spark.jobs.report import report

        summary = self.folder / f"{name}.json"
        main = {"lifecycle": lifecycle.main, "audit": audit.main, "report": report.main}[name]
        self.say(f"{name} ...")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = main([*self.paths, "--summary", str(summary), *words])
        (self.folder / f"{name}.txt").write_text(said.getvalue())
        if code:
            raise Failed(f"{name} ended with exit code {code}:\n{said.getvalue()}")
        self.say(f"{name}: {said.getvalue().splitlines()[-1]}")
        found: dict[str, object] = json.loads(summary.read_text())
        return found

    def end(self) -> None:
        """Leave no process running."""
        for daemon in self.daemons:
            daemon.kill()

    def say(self, text: str) -> None:
        """Print one line of progress."""
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


def numbers_in(spark: SparkSession, paths: list[str], repeated: int) -> Journals:
    """Return the messages that were put, confirmed, and are dead letters, by the journals."""

    def read(mode: str, schema: str) -> DataFrame:
        return spark.read.format("kestrel").option("mode", mode).schema(schema).load(paths)

    events = read("events", _BODIES)
    number = "cast(get_json_object(cast(value as string), '$.number') as int) as number"
    put = events.where("op = 'put'").selectExpr(*_JOURNAL_ITEM, number)
    confirmed = events.where("op = 'confirm'").select(*_JOURNAL_ITEM).join(put, _JOURNAL_ITEM)
    dead = read("items", "value binary, state string").where("state = 'dead'").selectExpr(number)

    def counted(rows: DataFrame) -> Counter[int]:
        return Counter(dict(rows.groupBy("number").count().collect()))

    return Journals(counted(put), counted(confirmed), counted(dead), repeated)


def _repeated(audited: dict[str, object]) -> int:
    totals = audited["totals"]
    assert isinstance(totals, dict), "the audit sums up"
    return int(totals["repeated"])


def _folder(asked: Path | None) -> Path:
    """Return the folder for all files of the run. Raises Failed."""
    if asked is None:
        return Path(tempfile.mkdtemp(prefix="kestrelpy-pipeline-"))
    try:
        asked.mkdir(parents=True, exist_ok=True)
        if any(asked.iterdir()):
            raise Failed(f"{asked} is not empty: say a folder that is, or one that is not there")
    except OSError as error:
        raise Failed(f"{asked} cannot be used: {error.strerror}") from None
    return asked.resolve()


def _end(number: int, _: object) -> NoReturn:
    """End the run on a signal, as an exception does: no process is left running."""
    sys.exit(128 + number)


def main(argv: list[str] | None = None) -> int:
    """Run it from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Three daemons, accidents, and an audit of it.")
    parser.add_argument("--out", type=Path, metavar="DIR", help="empty; default: a new folder")
    parser.add_argument("--lines", type=int, default=LINES, metavar="N")
    options = parser.parse_args(argv)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _end)
    try:
        if missing := what_is_missing(NEEDED_BY_JOBS):
            raise Failed(missing)
        folder = _folder(options.out)
        run = Run(folder, list(messages(options.lines)))
        print(f"{len(run.sent):,} lines of Python's own sources; everything is in {folder}")
        try:
            is_well = run.check(run.put_and_handle())
        finally:
            run.end()
    except (Failed, KestrelError) as error:
        print(f"FAILED: {error}")
        return 1
    print(f"the report: {folder / 'report' / 'report.html'}")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
