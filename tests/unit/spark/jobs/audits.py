"""Audits in tests: their breaches, or that there are none."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kestrelpy.spark.jobs.audit import audit
from kestrelpy.spark.jobs.audit.findings import JournalFindings, outcome
from kestrelpy.spark.jobs.common.job import BREACH, HOLDS, Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audited(spark: SparkSession, *folders: Path, out: Path | None = None) -> list[JournalFindings]:
    """Audit data directories."""
    paths = [str(each) for each in folders]
    return audit(spark, paths, Progress(io.StringIO(), False), 5, str(out) if out else None)


def audit_holds(spark: SparkSession, *data_dirs: Path) -> list[JournalFindings]:
    """Audit these data directories; fail if there is a breach."""
    found = audited(spark, *data_dirs)
    told = outcome(found, None)
    assert told.code == HOLDS, told.text
    return found


def breach(found: Sequence[JournalFindings]) -> str:
    """Return the lines about breaches; assert that there are some."""
    told = outcome(found, None)
    assert told.code == BREACH, told.text
    return "\n".join(line for line in told.text.splitlines() if "BREACH" in line)
