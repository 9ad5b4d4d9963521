"""Lines of real text, and the log-like messages that are made of them: for `pipeline`.

    import asyncio        ──▶  17<tab>asyncio<tab>import asyncio
    (in asyncio/base.py)  ──▶  {"number": 17, "timestamp": "2026-01-31T12:00:00.123+00:00",
                                "level": "INFO", "service": "asyncio", "message": "import asyncio"}

The service is the package of the line, the level is guessed from its words, and each level has a
queue of its own.

One rule: a message has a number, by which a run can be checked.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kestrelpy.examples.producer import standard_library_files

QUEUES: Final = {
    "ERROR": "log.error", "WARNING": "log.warning", "INFO": "log.info", "DEBUG": "log.debug",
}  # fmt: skip
LINES: Final = "lines"  # the queue of the lines as they are
DONE: Final = "done"  # the queue of the messages that were handled
WORDS: Final = (
    ("ERROR", ("raise ", "error", "except")),
    ("WARNING", ("warn", "deprecat")),
    ("INFO", ("def ", "class ", "import ", "return")),
)
OTHERWISE: Final = "DEBUG"


@dataclass(frozen=True, slots=True)
class Message:
    """One line of the sources as a message."""

    number: int
    service: str
    level: str
    text: str

    @property
    def queue(self) -> str:
        """The queue of its level."""
        return QUEUES[self.level]

    @property
    def checksum(self) -> int:
        """The checksum of its text."""
        return zlib.crc32(self.text.encode())

    def line(self) -> str:
        """Return the line of the input."""
        return f"{self.number}\t{self.service}\t{self.text}\n"

    def body(self) -> bytes:
        """Return the body, with the present time."""
        said = {
            "number": self.number,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": self.level,
            "service": self.service,
            "message": self.text,
        }
        return json.dumps(said).encode()


def number_and_checksum(body: bytes) -> tuple[int, int]:
    """Return the number and the checksum of a message's body."""
    said = json.loads(body)
    return int(said["number"]), zlib.crc32(said["message"].encode())


def messages(lines_max: int) -> Iterator[Message]:
    """Yield Python's own sources, line by line, without empty lines."""
    files = standard_library_files()
    number = 0
    for file in files:
        service = file.stem if file.parent == files[0].parent else file.parent.name
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.strip()
                if not text:
                    continue
                if number == lines_max:
                    return
                yield Message(number, service, _level(text.lower()), text)
                number += 1


def _level(text: str) -> str:
    for level, words in WORDS:
        if any(word in text for word in words):
            return level
    return OTHERWISE
