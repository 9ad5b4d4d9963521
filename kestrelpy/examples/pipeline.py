# ruff: noqa: PLC0415
"""The whole pipeline on real input, with accidents: `python -m kestrelpy.examples.pipeline`.

    lines of Python's own sources ──backfill──▶ queue `lines` of three daemons
       ──streaming query: parse, enrich──▶ a queue for each level       ✕ kill -9 query and daemon
       ──twelve workers: abort, hang up, ...──▶ queue `done`            ✕ kill -9 daemon
                 └──▶ dead letters ──redrive──▶ workers ──▶ queue `done`
       ──drain──▶ Parquet by date
    the journals of all three ──▶ lifecycle (Parquet) ─ audit ─ report (HTML, CSV)

Workers fail with some messages, and always with a few, which become dead letters and are handled
after the redrive. At the end a referee compares the workers' records with the journals, line by
line, and the lines that came out with the lines that went in.

One rule: missing packages are reported at the start, not at the end.

Exit code 0: the audit holds, and each line came out once, as it went in; 1: not. The path of the
report is printed; the files of a run stay in its folder.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from kestrelpy.examples.crew import Books, Crew
from kestrelpy.examples.messages import DONE, LINES, QUEUES, Message, messages
from kestrelpy.examples.referee import Journals, verdict
from kestrelpy.examples.trio import DAEMONS, Daemon, Failed
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.session import NEEDED_BY_JOBS, session, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES_SENT: Final = 60_000
_BATCHES: Final = 6  # of the streaming query, about
# The shares of parsed lines at which the query and a daemon are killed, and of handled messages.
_KILL_QUERY: Final = 0.2
_KILL_DAEMON: Final = 0.5
_KILL: Final = 0.5
_LOOK_SECONDS: Final = 0.05
_LOG_SHOWN: Final = 2_000
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
_NUMBER: Final = "cast(get_json_object(cast(value as string), '$.number') as int) as number"
_JOURNAL_ITEM: Final = ["server", "queue", "generation", "item"]


class Run:
    """One run, from the first line to the verdict."""

    def __init__(self, folder: Path, sent: list[Message]) -> None:
        self.folder, self.sent = folder, sent
        self.daemons = [Daemon(folder / f"daemon-{n}") for n in range(1, DAEMONS + 1)]
        self._began = time.monotonic()
        self._query: subprocess.Popen[bytes] | None = None

    @property
    def paths(self) -> list[str]:
        """The folders with the journals."""
        return [path for daemon in self.daemons for path in daemon.paths]

    @property
    def servers(self) -> str:
        """The addresses of the daemons, as jobs take them."""
        return ",".join(f"127.0.0.1:{each.port}" for each in self.daemons)

    def run(self) -> bool:
        """Run all of it; return True if all is well. Raises Failed or KestrelError."""
        for daemon in self.daemons:
            daemon.start()
        ports = ", ".join(str(each.port) for each in self.daemons)
        self.say(f"three daemons are ready on ports {ports}")
        from pyspark.sql import SparkSession

        was_there = SparkSession.getActiveSession() is not None
        spark = session("kestrelpy pipeline", "local[2]", None if was_there else _SETTINGS)
        try:
            self.say("Spark is ready")
            self._backfill()
            self._parse()
            books = self._handle()
            out = self.folder / "tables"
            self._job("drain", *self._where(DONE), "--out", str(out))
            for daemon in self.daemons:
                daemon.stop()
            return self._check(spark, books, out)
        finally:
            if not was_there:
                spark.stop()

    def _where(self, queues: str) -> list[str]:
        return ["--servers", self.servers, "--queues", queues]

    def _backfill(self) -> None:
        file = self.folder / "lines.txt"
        file.write_text("".join(message.line() for message in self.sent), encoding="utf-8")
        self._job("backfill", str(file), "--servers", self.servers, "--queue", LINES)

    # -- the query -------------------------------------------------------------------------------

    def _parse(self) -> None:
        """Run the streaming query; kill it and a daemon on the way. Raises Failed."""
        accidents = [(_KILL_QUERY, self._kill_query), (_KILL_DAEMON, self._kill_daemon)]
        self._start_query()
        while True:
            assert self._query is not None
            code = self._query.poll()
            if code == 0 and not accidents:
                break
            if code is not None:
                log = (self.folder / "parser.log").read_text()[-_LOG_SHOWN:]
                raise Failed(f"the query ended with exit code {code}, too early or badly:\n{log}")
            if accidents and self._parsed() >= len(self.sent) * accidents[0][0]:
                accidents.pop(0)[1]()
            self._wait()
        self.say(f"all {self._parsed():,} lines are parsed")

    def _start_query(self) -> None:
        command = [
            sys.executable, "-m", "kestrelpy.examples.parser", self.servers,
            str(self.folder / "checkpoint"), "--at-once", str(max(len(self.sent) // _BATCHES, 1)),
        ]  # fmt: skip
        with (self.folder / "parser.log").open("a") as log:
            # In a group of its own: a kill takes its virtual machine and workers with it.
            self._query = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _kill_query(self) -> None:
        self.say(f"{self._parsed():,} lines parsed: kill -9 the query, and start it again")
        self._end_query()
        self._start_query()

    def _end_query(self) -> None:
        if self._query is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._query.pid, signal.SIGKILL)
            self._query.wait()

    def _kill_daemon(self) -> None:
        self.say(f"{self._parsed():,} lines parsed: kill -9 daemon 3, and start it again")
        self.daemons[2].kill()
        self.daemons[2].start()

    def _parsed(self) -> int:
        return sum(each.total(list(QUEUES.values())) for each in self.daemons)

    def _wait(self) -> None:
        time.sleep(_LOOK_SECONDS)

    # -- the workers -----------------------------------------------------------------------------

    def _handle(self) -> Books:
        """Run workers until every queue is empty, and again after a redrive. Raises Failed."""
        books = Books()
        crew = Crew(self.daemons, [], books, done=DONE)
        self._watch(crew, books, kill=True)
        dead = len(self.sent) - len(books.handled)
        self.say(f"{len(books.handled):,} handled, {dead:,} dead; "
                 f"{books.failed.total():,} deliveries failed on the way")  # fmt: skip
        self._job("redrive", *self._where(",".join(QUEUES.values())))
        self._watch(Crew(self.daemons, [], books, done=DONE, mended=True), books, kill=False)
        self.say("all handled")
        return books

    def _watch(self, crew: Crew, books: Books, *, kill: bool) -> None:
        """Let the workers empty the queues; `kill` a daemon meanwhile."""
        crew.start_work()
        moved, before = time.monotonic(), 0
        try:
            while kill or not self._is_empty():
                self._wait()
                now, handled = time.monotonic(), books.handled.total()
                if crew.has_stored_all and handled != before:
                    before, moved = handled, now
                if now - moved > _STALL_SECONDS:
                    raise Failed(f"nothing was handled for {_STALL_SECONDS:.0f} seconds")
                if kill and handled >= len(self.sent) * _KILL:
                    self.say(f"{handled:,} handled: kill -9 daemon 2, and start it again")
                    self.daemons[1].kill()
                    self.daemons[1].start()
                    kill = False
        finally:
            crew.stop()

    def _is_empty(self) -> bool:
        return all(each.is_empty(list(QUEUES.values())) for each in self.daemons)

    # -- the verdict -----------------------------------------------------------------------------

    def _check(self, spark: SparkSession, books: Books, out: Path) -> bool:
        """Run the jobs over the journals, and the referee. Raises Failed or KestrelError."""
        self._job("lifecycle", *self.paths, "--out", str(self.folder / "lifecycle"))
        audited = self._job("audit", *self.paths)
        self._job("report", *self.paths, "--out", str(self.folder / "report"))
        journals = numbers_in(spark, self.paths, _repeated(audited))
        expected = {each.number: each.checksum for each in self.sent}
        sentences, is_well = verdict(expected, books, journals, len(QUEUES))
        print("\n".join(sentences))
        came = numbers_out(spark, out)
        is_same = came == Counter(expected.keys())
        print(f"{len(expected):,} lines went in, {came.total():,} came out"
              + ("" if is_same else ": THEY DIFFER"))  # fmt: skip
        return is_well and is_same

    def _job(self, name: str, *words: str) -> dict[str, object]:
        """Run one job of `kestrelpy spark`; return its summary. Raises Failed."""
        summary = self.folder / f"{name}.json"
        main = import_module(f"kestrelpy.spark.jobs.{name}").main
        self.say(f"{name} ...")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = main([*words, "--summary", str(summary)])
        (self.folder / f"{name}.txt").write_text(said.getvalue())
        if code:
            raise Failed(f"{name} ended with exit code {code}:\n{said.getvalue()}")
        self.say(f"{name}: {said.getvalue().splitlines()[-1].strip()}")
        found: dict[str, object] = json.loads(summary.read_text())
        return found

    def end(self) -> None:
        """Leave no process running."""
        self._end_query()
        for daemon in self.daemons:
            daemon.kill()

    def say(self, text: str) -> None:
        """Print one line of progress."""
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


def numbers_in(spark: SparkSession, paths: list[str], repeated: int) -> Journals:
    """Return the messages that were put, confirmed, and are dead letters, by the journals."""

    from pyspark.sql import functions as fn

    def read(mode: str, schema: str) -> DataFrame:
        return spark.read.format("kestrel").option("mode", mode).schema(schema).load(paths)

    events = read("events", _BODIES).where(fn.col("queue").isin(*QUEUES.values()))
    put = events.where("op = 'put'").selectExpr(*_JOURNAL_ITEM, _NUMBER)
    # A hand-off ends its source with a move.
    ended = events.where("op in ('confirm', 'move')").select(*_JOURNAL_ITEM)
    confirmed = ended.join(put, _JOURNAL_ITEM)
    dead = read("items", "value binary, state string").where("state = 'dead'").selectExpr(_NUMBER)
    return Journals(_counted(put), _counted(confirmed), _counted(dead), repeated)


def numbers_out(spark: SparkSession, out: Path) -> Counter[int]:
    """Return the messages that were drained."""
    return _counted(spark.read.parquet(str(out)).selectExpr(_NUMBER))


def _counted(rows: DataFrame) -> Counter[int]:
    return Counter(dict(rows.groupBy("number").count().collect()))


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
    parser.add_argument("--lines", type=int, default=LINES_SENT, metavar="N")
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
            is_well = run.run()
        finally:
            run.end()
    except (Failed, KestrelError) as error:
        print(f"FAILED: {error}")
        return 1
    print(f"the report: {folder / 'report' / 'report.html'}")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
