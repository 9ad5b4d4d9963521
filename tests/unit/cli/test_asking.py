"""A question before something is gone for good: only a clear yes counts."""

from __future__ import annotations

import io

import pytest

from kestrelpy.cli.asking import asked


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ("y\n", True), ("yes\n", True), (" YES \n", True), ("Y", True),
        ("", False), ("\n", False), ("n\n", False), ("yes please\n", False), ("yy\n", False),
        ("ja\n", False),
    ],
)  # fmt: skip
def test_only_a_clear_yes_counts(
    answer: str, counts: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    assert asked("3 items go for good. Remove?") == counts

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "3 items go for good. Remove? [y/N] ")
