"""Runs a job: its arguments, a session, a line of progress, an outcome.

    python -m kestrelpy.spark.jobs.<job> PATH...   spark-submit .../<job>/__main__.py PATH...
    kestrelpy spark <job> PATH...

    exit code   0 done, and it holds     1 it does not     2 it could not be done

The text goes to stdout (with `--json` one line of JSON instead), progress to stderr if that is a
terminal; `--summary FILE` writes the JSON in any case.

One rule: every job ends with one sentence, and the exit code agrees with it.
"""

from __future__ import annotations

import argparse
import atexit
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import glob
from importlib import import_module
from typing import TYPE_CHECKING, Final, TextIO

from journal.errors import JournalError
from kestrelpy.spark.errors import KestrelError, refuse_engine, sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOLDS: Final = 0
BREACH: Final = 1
UNUSABLE: Final = 2
EXAMPLES: Final = 20
_STDERR: Final = 2
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"  # spark-submit has started the virtual machine
_WARNING: Final = "Data is missing: "  # of `kestrelpy.spark.files.partitions`, on executors
_LOOK_SECONDS: Final = 0.25
_JAVA_WORDS: Final = "SPARK_SUBMIT_OPTS"  # a user's own options there win: Java takes the last one
# At that level Java has room for 48 MiB of compiled code, and Spark ends it when there is no more.
_COMPILE_LESS: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# Of segments, with the room that is made ahead in the newest of each queue.
_LITTLE_BYTES: Final = 128 << 20
# Spark's default, made for a cluster of many machines.
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_PARTITIONS_UNSAID: Final = "200"
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",  # errors come as one sentence
    "spark.driver.memory": "2g",  # only if this process starts the virtual machine
}


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of a job: folders (globs), where its tables go, how it answers."""

    paths: tuple[str, ...]
    out: str | None = None
    as_json: bool = False
    summary: str | None = None
    examples: int = EXAMPLES
    master: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job: the text for people, the facts for programs, the exit code."""

    text: str
    facts: dict[str, object]
    code: int = HOLDS


class Progress:
    """A line on stderr with the current step and its progress; silent unless `watched`."""

    def __init__(self, stream: TextIO, watched: bool, spark: SparkSession | None = None) -> None:
        self._stream, self._watched, self._spark = stream, watched, spark
        self._step = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if watched else None
        if self._thread is not None:
            self._thread.start()

    def of(self, spark: SparkSession) -> None:
        """Count the tasks of this session."""
        self._spark = spark

    def step(self, words: str) -> None:
        """Set the text of the current step."""
        self._step = words

    def end(self) -> None:
        """Remove the line."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._stream.write("\r\033[K")
            self._stream.flush()

    def _show(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(_LOOK_SECONDS):
            seconds = int(time.monotonic() - began)
            self._stream.write(f"\r\033[K{self._step}{self._tasks()}  {seconds} s")
            self._stream.flush()

    def _tasks(self) -> str:
        if self._spark is None or self._ended.is_set():
            return ""
        tracker = self._spark.sparkContext.statusTracker()
        done = total = 0
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
        return f": {done} of {total} tasks" if total else ""


Work = Callable[["SparkSession", Request, Progress], Outcome]


def run(job: str, work: Work, request: Request) -> int:
    """Run a job over journals and print its outcome; return the exit code."""

    def act(progress: Progress) -> Outcome:
        found = folders(request.paths)  # a mistake is named before Spark starts, in seconds
        with quick_start(found):
            return in_spark(
                job, request.master, progress, lambda spark: work(spark, request, progress)
            )

    return perform(job, act, request.as_json, request.summary)


def perform(
    job: str, act: Callable[[Progress], Outcome], as_json: bool = False, summary: str | None = None
) -> int:
    """Do the work of a job and print its outcome; return the exit code."""
    progress = Progress(os.fdopen(os.dup(_STDERR), "w"), os.isatty(_STDERR))
    began = time.monotonic()
    try:
        with _warnings():
            outcome = act(progress)
        facts = {"job": job, **outcome.facts, "seconds": round(time.monotonic() - began, 3)}
        line = json.dumps(facts, default=str)
        if summary is not None:
            _write(summary, line)
    except (KestrelError, JournalError) as error:
        progress.end()
        print(f"kestrelpy: {error}", file=sys.stderr)
        return UNUSABLE
    finally:
        progress.end()
    print(line if as_json else outcome.text)
    return outcome.code


def in_spark(
    job: str, master: str | None, progress: Progress, act: Callable[[SparkSession], Outcome]
) -> Outcome:
    """Return the outcome of work in a session that suits. Raises KestrelError."""
    progress.step("starting Spark")
    with _session(job, master) as spark, _errors():
        progress.of(spark)
        return act(spark)


def parse(job: str, about: str, argv: Sequence[str] | None = None, out: str = "") -> Request:
    """Parse the command line. `out` is the help of `--out`; "": the option is required."""
    parser = argparse.ArgumentParser(prog=job, description=about)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="data directory, backup, archive")
    parser.add_argument("--out", required=not out, help=out or "where the tables go")
    parser.add_argument("--json", action="store_true", dest="as_json", help="for programs")
    parser.add_argument("--summary", metavar="FILE", help="keep the JSON there")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="of each list, at most")
    parser.add_argument("--master", help="where Spark runs; default: as it is configured")
    said = parser.parse_args(argv)
    return Request(
        tuple(said.paths), said.out, said.as_json, said.summary, said.examples, said.master
    )


def folders(paths: Sequence[str]) -> list[str]:
    """Return the folders that these globs name. Raises KestrelError if one names none."""
    found: dict[str, None] = {}
    for path in paths:
        named = [each for each in sorted(glob(path)) or [path] if os.path.isdir(each)]
        refuse_engine(path)
        if not named:
            raise KestrelError(
                f"There is no folder {path}. Name a data directory, the folder of a journal, a "
                "backup, or an archive."
            )
        found.update(dict.fromkeys(named))
    return list(found)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 item`, `2 items`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@contextmanager
def _warnings() -> Iterator[None]:
    """Print the warnings of this process as those of executors are printed, each once."""
    log, said = logging.getLogger("kestrelpy.spark"), set[str]()

    def is_new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        was_known = text in said
        said.add(text)
        return not was_known

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("kestrelpy: %(message)s"))
    handler.addFilter(is_new)
    log.addHandler(handler)
    propagates, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.propagate = propagates
        log.removeHandler(handler)


@contextmanager
def quick_start(paths: Sequence[str]) -> Iterator[None]:
    """Let the virtual machine compile less well if there is little to read under these folders.

    In a job of seconds it compiles for longer than it runs what it has compiled.
    """
    before = os.environ.get(_JAVA_WORDS)
    if _segment_bytes(paths) <= _LITTLE_BYTES:
        os.environ[_JAVA_WORDS] = " ".join([_COMPILE_LESS, *([before] if before else [])])
    try:
        yield
    finally:
        if before is not None:
            os.environ[_JAVA_WORDS] = before
        else:
            os.environ.pop(_JAVA_WORDS, None)


def _segment_bytes(paths: Sequence[str]) -> int:
    found = 0
    for path in paths:
        for folder, _, names in os.walk(path):
            for name in names:
                if name.endswith(".segment"):
                    with suppress(FileNotFoundError):  # a daemon may be running
                        found += os.stat(os.path.join(folder, name)).st_size
    return found


@contextmanager
def _session(job: str, master: str | None) -> Iterator[SparkSession]:
    """Give a session that suits; stop it at the end unless it was there before."""
    from kestrelpy.spark.session import NEEDED_BY_JOBS, session, what_is_missing

    missing = what_is_missing(NEEDED_BY_JOBS)
    if missing is not None:
        raise KestrelError(missing)
    from pyspark.sql import SparkSession

    was_there = SparkSession.getActiveSession() is not None
    with _aside(not was_there and _GATEWAY not in os.environ):
        spark = session(f"kestrelpy {job}", master, None if was_there else _SETTINGS)
    if not was_there and spark.conf.get(_PARTITIONS) == _PARTITIONS_UNSAID:
        spark.conf.set(_PARTITIONS, str(2 * spark.sparkContext.defaultParallelism))
    try:
        yield spark
    finally:
        if not was_there:
            spark.stop()


@contextmanager
def _aside(is_ours: bool) -> Iterator[None]:
    """Send the stderr of a virtual machine started in this block to a file; relay warnings from it.

    The virtual machine and its processes print a page at every start, and more about workers that
    have ended. Only the executors' warnings about missing data are for people.
    """
    if not is_ours:
        yield
        return
    place, path = tempfile.mkstemp(prefix="kestrelpy-spark-")
    stderr = os.dup(_STDERR)
    sys.stderr.flush()
    os.dup2(place, _STDERR)
    os.close(place)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, _STDERR)
        os.close(stderr)
        atexit.register(_relay, path)


def _relay(path: str) -> None:
    with open(path, encoding="utf-8", errors="replace") as output:
        lines = dict.fromkeys(line for line in output if line.startswith(_WARNING))
    os.unlink(path)
    for line in lines:
        sys.stderr.write(f"kestrelpy: {line}")


@contextmanager
def _errors() -> Iterator[None]:
    """Turn errors of Spark into one sentence."""
    from pyspark.errors import PySparkException

    # Errors of the virtual machine that Spark does not wrap; py4j has no type hints.
    unknown: type[Exception] = import_module("py4j.protocol").Py4JError
    try:
        yield
    except (PySparkException, unknown) as error:
        raise KestrelError(sentence_of(error)) from None


def _write(path: str, line: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise KestrelError(f"{path} cannot be written: {error.strerror or error}.") from None
