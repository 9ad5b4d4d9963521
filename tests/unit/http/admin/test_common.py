"""Lines and texts of administration."""

from __future__ import annotations

import pytest

from kestrelpy.http.admin.common import as_line, without_paths


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/var/lib/kestrelpy/q-1/7.seg: sync failed", ".../7.seg: sync failed"),
        ("the disk said no", "the disk said no"),
        ("/admin", "/admin"),
        ("in '/srv/data/x y'", "in '.../x y'"),
    ],
)
def test_a_text_shows_no_folder(text: str, shown: str) -> None:
    assert without_paths(text) == shown


def test_a_line_of_the_log_is_one_line_of_printable_characters() -> None:
    assert as_line("a\nb\x1b[31m\u2028 ok") == "a\\nb\\x1b[31m\\u2028 ok"
    assert len(as_line("x" * 5000)) < 500
