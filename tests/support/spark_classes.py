"""An archive of the classes that Spark's JVM loads: with it a JVM is up in half the time.

    python -m tests.support.spark_classes      makes .venv/spark-classes.jsa, in ten seconds

One rule: a JVM that cannot use the archive (another Java, other jars) starts without it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from kestrelpy.spark.session import session, what_is_missing

ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
# Spark's processes are short here: a JVM that compiles quickly, and less well, takes half the time.
# Such a JVM would have room for 48 MiB of compiled code; when that is full, a thread of Spark
# fails, and Spark ends the JVM.
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


def submit_options(archive: Path = ARCHIVE) -> str:
    """Return the options of Spark's JVM in tests, with the archive if it is there."""
    if not archive.is_file():
        return _QUICK
    # A JVM that starts without the archive says so on its output: no test reads that.
    return f"{_QUICK} -XX:SharedArchiveFile={archive} -Xlog:disable"


def make_archive(archive: Path = ARCHIVE) -> str:
    """Run one small query, write the classes that it loaded; return what became of it."""
    missing = what_is_missing()
    if missing is not None:
        return f"no archive of Spark's classes: {missing}"
    archive.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_QUICK} -XX:ArchiveClassesAtExit={archive} -Xlog:disable"
    made = session("classes", "local[2]", {"spark.ui.enabled": "false"})
    made.range(10).selectExpr("sum(id)").collect()
    gateway = made.sparkContext._gateway
    made.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends, and writes the archive as it does
    gateway.proc.wait()
    return f"{archive.name}: " + ("made" if archive.is_file() else "not made: the JVM wrote none")


if __name__ == "__main__":
    print(make_archive())
