"""The servers of a job: how they are named, asked all at once, and given rows.

    --servers a:22133,b:22133 --queues 'jobs*' --option readTimeout=60s
        └──▶ the options of the source ──▶ `ask_each` ──▶ stats ──▶ `FleetFigures` of each queue

    name of the write ──▶ scope, epoch 0     the servers remember the ids of a scope
    row               ──▶ id                 the same in every run

A job that stores rows and is killed is run again with the same words: servers answer a row that
they have already as a duplicate, and store the rows that came since. The name of a write does not
depend on the servers, so a run over other servers is noticed.

Jobs that only ask servers start no Spark: they run in any Python, and under spark-submit.

One rule: all servers are asked before a job changes anything, so a wrong address changes nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import LiveConnection, ServerUnreachable, patience_of, retried
from kestrelpy.spark.named import refuse_unknown_queues
from kestrelpy.spark.offsets import Address
from kestrelpy.spark.options import Options, parse_options
from kestrelpy.spark.write import parse_write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("kestrelpy.spark")
_T = TypeVar("_T")

_AT_ONCE: Final = 16  # servers
_COUNTS: Final = ("items", "bytes", "total_items", "age", "leased", "delayed", "dead")


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """What a server says of a queue, or of a child (`orders+audit`), when `at` was the time."""

    queue: str
    items: int
    bytes: int
    total_items: int
    age: int
    leased: int
    delayed: int
    dead: int
    at: float  # seconds of this machine's monotonic clock

    @property
    def unfinished(self) -> int:
        """Items that its consumers have not confirmed, without dead letters."""
        return self.items + self.leased + self.delayed


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """A server and its queues."""

    address: Address
    server: str  # its id
    queues: Mapping[str, FleetFigures]


def add_flags(parser: argparse.ArgumentParser, *, must_name_queues: bool = False) -> None:
    """Add the flags that name servers and queues, and those of the answer."""
    parser.add_argument("--servers", required=True, metavar="LIST", help="host:port,host:port")
    parser.add_argument(
        "--queues", required=must_name_queues, default="*", metavar="LIST",
        help="names or globs, with commas between them",
    )  # fmt: skip
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="of the source: readTimeout=60s, skipUnreachable=true, user=anna, tls=true",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", dest="as_json", help="for programs")
    parser.add_argument("--summary", metavar="FILE", help="keep the JSON there")


def fleet_options(
    servers: str, queues: str, words: Sequence[str] = (),
    more: Mapping[str, str | None] | None = None,
) -> Options:  # fmt: skip
    """Return the options of the source. Raises KestrelError."""
    given = {"servers": servers, "queues": queues}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise KestrelError(f"--option {word!r} is not understood. Say NAME=VALUE.")
        given[name] = value
    given.update({name: value for name, value in (more or {}).items() if value is not None})
    return parse_options(given)


def ask_each(options: Options, one: Callable[[LiveConnection], _T]) -> list[tuple[Address, _T]]:
    """Return what each server answers; with `skipUnreachable` without those that do not.

    `one` gets a new connection, and again a new one if that breaks. Raises KestrelError.
    """
    patience = patience_of(options)

    def ask(address: Address) -> _T | None:
        def once() -> _T:
            wire = LiveConnection(address, patience)
            try:
                return one(wire)
            finally:
                wire.close()

        try:
            return retried(address, patience, once)
        except ServerUnreachable as error:
            if not options.skip_unreachable:
                raise
            log.warning("%s", error.skipped)
            return None

    with ThreadPoolExecutor(min(_AT_ONCE, len(options.servers))) as pool:
        answers = zip(options.servers, pool.map(ask, options.servers), strict=True)
        return [(address, answer) for address, answer in answers if answer is not None]


def is_meant(options: Options, queue: str) -> bool:
    """True if a job that takes or copies items is to do so with this queue.

    A wildcard does not mean the children of a queue, which have its items as well, unless it has a
    `+`; and never the notes of the sink.
    """
    if not options.chooses(queue):
        return False
    globs = [glob for glob in options.queues if "+" in glob or "+" not in queue]
    return any(fnmatch.fnmatchcase(queue, glob) for glob in globs)


def look(options: Options) -> list[ServerFigures]:
    """Return the figures of the chosen queues and their children. Raises KestrelError.

    A queue is chosen by its own name, a child also by that of its queue.
    """

    def one(wire: LiveConnection) -> tuple[str, dict[str, FleetFigures]]:
        stats, at = wire.stats("").items(), time.monotonic()
        return dict(stats).get("server_id", ""), _figures(dict(stats), at)

    seen = []
    for address, (server, queues) in ask_each(options, one):
        if not server:
            raise KestrelError(f"{address} does not say its id: is it kestrelpy?")
        chosen = {
            name: figures for name, figures in queues.items()
            if options.chooses(name) or options.chooses(name.partition("+")[0])
        }  # fmt: skip
        seen.append(ServerFigures(address, server, chosen))
    _refuse_twice(seen)
    if seen:
        refuse_unknown_queues(
            options, {queue for each in seen for queue in each.queues},
            f"on {', '.join(str(each.address) for each in seen)}",
            "kestrelpy queues ls shows what there is.",
            is_whole=len(seen) == len(options.servers),
        )  # fmt: skip
    return seen


def _figures(stats: Mapping[str, str], at: float) -> dict[str, FleetFigures]:
    numbers: dict[str, dict[str, int]] = {}
    for name, text in stats.items():
        if not name.startswith("queue_") or not text.isdigit():
            continue
        for count in _COUNTS:
            if name.endswith(f"_{count}"):
                queue = name[len("queue_") : -len(count) - 1]
                numbers.setdefault(queue, {})[count] = int(text)
    return {
        queue: FleetFigures(queue, **each, at=at)
        for queue, each in sorted(numbers.items())
        if len(each) == len(_COUNTS)
    }


def _refuse_twice(seen: Sequence[ServerFigures]) -> None:
    """Raise KestrelError if two addresses are those of one server: it would count twice."""
    known: dict[str, Address] = {}
    for each in seen:
        other = known.setdefault(each.server, each.address)
        if other != each.address:
            raise KestrelError(
                f"{other} and {each.address} are one server (its id is {each.server}). Name it "
                "once."
            )


_DIGEST_BYTES: Final = 12


def write_words(servers: str, name: str, words: Sequence[str], queue: str | None) -> dict[str, str]:
    """Return the options of the sink. Raises KestrelError."""
    given = {"servers": servers, "scope": name, "epoch": "0"}
    if queue is not None:
        given["queue"] = queue
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or not option:
            raise KestrelError(f"--option {word!r} is not understood. Say NAME=VALUE.")
        given[option] = value
    parse_write_options(given, streams=False)
    return given


def name_of(job: str, *words: str) -> str:
    """Return a name for a write that these words describe."""
    text = "\0".join(words).encode()
    return f"{job}.{blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Count:
    """What became of the rows of a write."""

    rows: int
    special: int
    stored: int
    repeated: int
    differing: tuple[str, ...] = ()


def stored_with(rows: DataFrame, given: Mapping[str, str], special: str) -> Count:
    """Store the rows without the column `special`, and count those with a true value there."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    counts = Observation()
    with tempfile.TemporaryDirectory(prefix="kestrelpy-") as folder:
        report = os.path.join(folder, "report")
        (
            rows.observe(
                counts, fn.count(fn.lit(1)).alias("rows"), fn.count_if(special).alias("true")
            )
            .drop(special)
            .write.format("kestrel").options(**{"report": report, **given}).mode("append").save()
        )  # fmt: skip
        with open(given.get("report", report), encoding="utf-8") as file:
            said = json.loads(file.read())
    return Count(
        int(counts.get["rows"]), int(counts.get["true"]), said["stored"], said["repeated"],
        tuple(said["ids"]),
    )  # fmt: skip
