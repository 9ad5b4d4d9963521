"""A Spark session that suits the source, or one sentence about a missing package or Java.

    pyspark >= 4.1   pyarrow >= 18   Java >= 17

One rule: requirements are checked before Spark starts, because Spark's own error for them is a page
of Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kestrelpy.spark.errors import KestrelError, sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL: Final = "pip install 'kestrelpy[spark]'"
# For Arrow batches and filters of Python sources; pyspark itself needs this pyarrow.
NEEDED: Final = {"pyspark": (4, 1), "pyarrow": (18, 0), "numpy": (1, 26)}
# pyspark needs pandas for the Arrow functions that the jobs call, though neither uses it.
NEEDED_BY_JOBS: Final = {**NEEDED, "pandas": (2, 2)}
# Of the jobs that only ask servers.
NEEDED_BY_SERVERS: Final = {name: NEEDED[name] for name in ("pyarrow", "numpy")}
JAVA_NEEDED: Final = 17  # Spark 4 runs on nothing older
_JAVA_ANSWER_SECONDS: Final = 30
_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')

SETTINGS: Final[Mapping[str, str]] = {
    # Executors on the same machine talk to Spark without TCP: half the cost of a task.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Our errors are a sentence; lines of our source around it are of no use.
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    name: str = "kestrelpy", master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session of this process; make it if there is none. Raises KestrelError.

    `master` is where it runs; None: as spark-submit or its configuration says, else `local[*]`.
    `settings` win over ours.
    """
    missing = what_is_missing()
    if missing is not None:
        raise KestrelError(missing)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # Otherwise Spark starts `python3`, which may have none of our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        why = sentence_of(error)
        if "JAVA_GATEWAY_EXITED" in why:
            why = "its Java process ended at once. Its output is above; correct that setting"
        raise KestrelError(f"Spark did not start: {why}") from None
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Register `format("kestrel")` with this session. Raises KestrelError if Spark is too old."""
    missing = missing_packages()
    if missing is not None:
        raise KestrelError(missing)
    from kestrelpy.spark.source import KestrelSource

    spark.dataSource.register(KestrelSource)


def what_is_missing(packages: Mapping[str, tuple[int, int]] = NEEDED) -> str | None:
    """Return what a session lacks on this machine, as one sentence with its remedy, or None."""
    return missing_packages(packages) or _missing_java()


def missing_packages(packages: Mapping[str, tuple[int, int]] = NEEDED) -> str | None:
    """Return which package is missing or too old, as one sentence with its remedy, or None."""
    for package, needed in packages.items():
        least = ".".join(map(str, needed))
        try:
            # By an import: a Spark distribution brings a pyspark that no package manager knows.
            version = str(getattr(import_module(package), "__version__", "0"))
        except ImportError:
            return f"The package {package} is not installed. Install it: {INSTALL}"
        found = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
        if found < needed:
            return (
                f"The package {package} is {version}, and at least {least} is needed. "
                f"Install it: {INSTALL}"
            )
    return None


def _missing_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    remedy = (
        f"Install Java {JAVA_NEEDED} or newer (Debian, Ubuntu: apt install "
        f"openjdk-{JAVA_NEEDED}-jre-headless), or say where it is with JAVA_HOME"
    )
    if java is None:
        return f"There is no Java on this machine, and Spark runs on it. {remedy}"
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_ANSWER_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "does not answer" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        return f"Java cannot be started at {java}: {why}. {remedy}"
    version = _VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode or version is None:
        return f"Java cannot be started at {java}: it says {_short(answer.stderr)}. {remedy}"
    if int(version[1]) < JAVA_NEEDED:
        return f"Java at {java} is version {version[1]}, too old for Spark. {remedy}"
    return None


def _short(text: str) -> str:
    return repr(" ".join(text.split())[:100])
