"""Rows to servers, for jobs that may be run again: the same write stores nothing twice.

    name of the write ──▶ scope, epoch 0     the servers remember the ids of a scope
    row               ──▶ id                 the same in every run

A job that is killed is run again with the same words; rows that are stored already are answered as
duplicates. Rows that came since have other ids, and are stored.

One rule: the name does not depend on the servers, so a run over other servers is noticed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.write import parse_write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
