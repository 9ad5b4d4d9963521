"""The lines of administration in the log."""

from __future__ import annotations

from kestrelpy.http.admin.common import as_line


def test_a_line_of_the_log_is_one_line_of_printable_characters() -> None:
    assert as_line("a\nb\x1b[31m\u2028 ok") == "a\\nb\\x1b[31m\\u2028 ok"
    assert len(as_line("x" * 5000)) < 500
