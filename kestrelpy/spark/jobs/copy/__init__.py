"""Items of a fleet into queues of another one, each once, however often it runs.

    python -m kestrelpy.spark.jobs.copy --servers a:22133,b:22133 --queues 'jobs*' --to c:22133

Ready, leased and delayed items are copied as they are now, with body, key, flags and expiry; the
source keeps them. A delayed item that has no marker yet is not seen before it is due. The id of a
copy is made of the item that it was made of (server, queue, generation, marker), so a repeated run
stores none again, and copies what came since.

A key with a number or another value that is no text comes from a rule of its queue. No client can
name it, so the rule of the target makes it again.

One rule: the job may be killed and run again with the same words, on the same servers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.fleet import (
    ask_each,
    fleet_options,
    is_meant,
    look,
    name_of,
    stored_with,
    write_words,
)
from kestrelpy.spark.jobs.common.job import Outcome, Progress, counted, in_spark, perform
from kestrelpy.spark.live import LiveConnection
from kestrelpy.spark.live import partitions as live
from kestrelpy.spark.options import Options

_STATES: Final = ("ready", "lent", "delayed")
_ID_DIGITS: Final = 32
_BY_RULE: Final = "by_rule"
_COLUMNS: Final = (
    "server string, queue string, marker bigint, key string, keys array<binary>, value binary, "
    "flags bigint, expires timestamp, state string"
)
_OF_BOTH: Final = ("user", "password", "tls", "connectTimeout", "readTimeout")


@dataclass(frozen=True, slots=True)
class Ways:
    """From where to where. `queue` None: to the queues of the same names."""

    servers: str
    queues: str
    to: str
    queue: str | None = None
    name: str | None = None

    @property
    def write(self) -> str:
        """The name of the write."""
        if self.name is not None:
            return self.name
        return name_of("copy", self.queues, self.queue or "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="copy", description=__doc__.splitlines()[0])
    parser.add_argument("--servers", required=True, metavar="LIST", help="from host:port,host:port")
    parser.add_argument("--queues", required=True, metavar="LIST", help="names or globs")
    parser.add_argument("--to", required=True, metavar="LIST", help="to host:port,host:port")
    parser.add_argument("--to-queue", metavar="QUEUE", help="default: the same names")
    parser.add_argument("--name", help="of the write; default: made of the queues' names")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE",
                        help="of the source: readTimeout=60s")  # fmt: skip
    parser.add_argument("--to-option", action="append", default=[], metavar="NAME=VALUE",
                        help="of the sink: writeTimeout=10m")  # fmt: skip
    parser.add_argument("--json", action="store_true", dest="as_json", help="for programs")
    parser.add_argument("--summary", metavar="FILE", help="keep the JSON there")
    parser.add_argument("--master", help="where Spark runs; default: as it is configured")
    said = parser.parse_args(argv)
    ways = Ways(said.servers, said.queues, said.to, said.to_queue, said.name)
    return command(ways, said.option, said.to_option, said.as_json, said.summary, said.master)


def command(
    ways: Ways, words: Sequence[str], to_words: Sequence[str], as_json: bool, summary: str | None,
    master: str | None,
) -> int:  # fmt: skip
    """Copy and print how many items there were; return the exit code."""

    def act(progress: Progress) -> Outcome:
        options = fleet_options(ways.servers, ways.queues, words)
        given = write_words(ways.to, ways.write, to_words, ways.queue)
        sources = {each.server for each in look(options)}
        targets = fleet_options(ways.to, "*", [w for w in to_words if w.startswith(_OF_BOTH)])
        both = sources & {server for _, server in ask_each(targets, LiveConnection.server_id)}
        if both and ways.queue is None:
            raise KestrelError(
                f"The server {min(both)} is on both sides, and its queues would be copied to "
                "themselves. Say --to-queue, or other servers."
            )

        def work(spark: SparkSession) -> Outcome:
            progress.step("copying items")
            source = {"servers": ways.servers, "queues": ways.queues}
            source |= dict(word.split("=", 1) for word in words)
            rows = _rows(spark, options, source, ways)
            found = stored_with(rows, given, _BY_RULE)
            by_rule = found.special
            text = (
                f"{counted(found.stored, 'item')} copied, {found.repeated:,} were there already "
                f"(--name {ways.write})"
            )
            if by_rule:
                text += (
                    f"\n{counted(by_rule, 'item')} with a key that a rule made: the target needs "
                    "the same settings key and key_format, else they have no key there"
                )
            facts: dict[str, object] = {
                "items": found.rows, "stored": found.stored, "repeated": found.repeated,
                "keys_by_rule": by_rule, "name": ways.write,
            }  # fmt: skip
            return Outcome(text, facts)

        return in_spark("copy", master, progress, work)

    return perform("copy", act, as_json, summary)


def _rows(
    spark: SparkSession, options: Options, source: dict[str, str], ways: Ways
) -> DataFrame:
    """Return the items as rows of the sink, with ids from what they are copies of.

    `by_rule` is true for a key that cannot be named.
    """
    generations = [
        (server.server, queue, markers.generation)
        for server in live.look(options)
        for queue, markers in server.queues.items()
        if is_meant(options, queue)
    ]
    known = spark.createDataFrame(generations, "server string, queue string, generation bigint")
    items = spark.read.format("kestrel").options(**source).schema(_COLUMNS).load()
    items = items.where(fn.col("state").isin(*_STATES))
    lineage = fn.concat_ws("|", "server", "queue", "generation", "marker")
    columns = ["value", "flags", "expires"] + ([] if ways.queue else ["queue"])
    return items.join(fn.broadcast(known), ["server", "queue"]).select(
        *columns, fn.col("keys").alias("key"),
        fn.substring(fn.sha2(lineage, 256), 1, _ID_DIGITS).alias("id"),
        (fn.col("key").isNotNull() & fn.col("keys").isNull()).alias(_BY_RULE),
    )  # fmt: skip
