"""The daemon's log on stderr: for people or for machines, one line per message.

    message ──▶ a line ──▶ LINES_MAX of them wait ──▶ a thread ──▶ stderr
                             └── no room: lost, and counted in the next line that is written

One rule: a log that is full, slow or gone neither ends nor delays the process.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_STDERR: Final = 2
LINES_MAX: Final = 1000
_FLUSH_SECONDS: Final = 1.0  # the longest that an end waits for a log without a reader


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


class LineWriter(logging.Handler):
    """Writes lines to a descriptor, on a thread."""

    def __init__(
        self, descriptor: int, at_failure: Callable[[OSError], None] | None = None
    ) -> None:
        """`at_failure` is called on the thread when a line cannot be written."""
        super().__init__()
        self._descriptor = descriptor
        self._at_failure = at_failure
        self._is_stuck = False  # True if nothing was written since a flush that was not over
        self._lines: queue.Queue[str] = queue.Queue(LINES_MAX)
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message soon; count it as lost if too many wait."""
        self.say(self.format(record))

    def say(self, line: str) -> None:
        """Write the line soon; count it as lost if too many wait."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._lost += 1

    def flush(self) -> None:
        """Return when everything is written, or after _FLUSH_SECONDS; at once if nothing was
        written since another flush had to give up."""
        lines = self._lines
        with lines.all_tasks_done:
            if not self._is_stuck:
                self._is_stuck = not lines.all_tasks_done.wait_for(
                    lambda: not lines.unfinished_tasks, _FLUSH_SECONDS
                )

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            lost, self._lost = self._lost, 0
            if lost:
                line = f"{self._of_lost(lost)}\n{line}"
            if not self._write(f"{line}\n".encode("utf-8", "backslashreplace")):
                self._lost += lost + 1
            self._is_stuck = False
            self._lines.task_done()

    def _of_lost(self, count: int) -> str:
        text = f"{count} lines of this log are lost: it could not be written"
        return self.format(logging.LogRecord("kestrelpy", logging.WARNING, "", 0, text, (), None))

    def _write(self, data: bytes) -> bool:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                if self._at_failure is not None:
                    self._at_failure(error)
                return False
        return True


def log_to_stderr(log_format: Literal["text", "json"], level: str) -> None:
    """Log in this format from now on. A later call replaces the format of an earlier one."""
    root = logging.getLogger()
    mine = [each for each in root.handlers if isinstance(each, LineWriter)]
    if not mine:
        open_standard_files()
    handler = mine[0] if mine else LineWriter(_STDERR)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # a message that cannot be formatted must not stop the daemon


def open_standard_files() -> None:
    """Open each of descriptors 0 to 2 that is closed: otherwise the next file that is opened, maybe
    a journal, is taken for standard output or for the log."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one


def _utc(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z"
