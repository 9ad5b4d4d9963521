"""The daemon's log on stderr: for people or for machines, one line per message."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123Z WARNING kestrelpy: queue jobs: ...`"""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return UTC with milliseconds."""
        return _utc(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, for any message and any traceback."""
        line = super().format(record)
        if line.isprintable():
            return line
        return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        facts = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts)


def log_to_stderr(log_format: Literal["text", "json"], level: str) -> None:
    """Log in this format from now on. A later call replaces an earlier one."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # a stderr that is gone must not stop the daemon


def _utc(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z"
