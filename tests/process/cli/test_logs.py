"""A log line is one line, for any message."""

from __future__ import annotations

import json
import logging
import sys

from kestrelpy.cli.logs import JsonLines, TextLines


def record(message: str, *, exc_info: bool = False) -> logging.LogRecord:
    return logging.LogRecord(
        "kestrelpy", logging.ERROR, "file.py", 1, message, (), sys.exc_info() if exc_info else None
    )


def test_a_text_line_cannot_be_forged_by_what_it_reports() -> None:
    line = TextLines().format(record("queue a\n2026 ERROR forged\r\nb"))

    assert "\n" not in line
    assert "\r" not in line
    assert line.endswith("ERROR kestrelpy: queue a\\n2026 ERROR forged\\r\\nb")


def test_control_characters_are_escaped() -> None:
    said = "a\x1b[2J\x00\x7f\x9b\u2028\u202eb \u00fc"

    line = TextLines().format(record(said))
    assert line.endswith(r": a\x1b[2J\x00\x7f\x9b\u2028\u202eb ü".encode().decode("utf-8"))
    assert json.loads(JsonLines().format(record(said)))["message"] == said
    assert JsonLines().format(record(said)).isprintable()


def test_a_traceback_stays_on_the_line_in_both_formats() -> None:
    try:
        raise ValueError("what")
    except ValueError:
        seen = record("it broke", exc_info=True)

    assert "\n" not in TextLines().format(seen)
    assert "ValueError: what" in TextLines().format(seen)
    facts = json.loads(JsonLines().format(seen))
    assert facts["message"] == "it broke"
    assert facts["level"] == "error"
    assert facts["exception"].endswith("ValueError: what")
    assert "\n" not in JsonLines().format(seen)


def test_characters_that_cannot_be_encoded_are_escaped() -> None:
    assert json.loads(JsonLines().format(record("\udcff")))["message"] == "\udcff"
    assert JsonLines().format(record("ü")).isascii()
