"""`kestrelpy journal` is `python -m journal` by another name."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import Command
from tests.support.daemon import DaemonProcess


def test_journal_reads_a_data_directory(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as other:
        other.client().set("jobs", b"hello")
        other.stop()

    verified = kestrelpy("journal", "verify", str(tmp_path / "data"))
    dumped = kestrelpy("journal", "dump", "--bodies", str(tmp_path / "data"))

    assert verified.code == 0, verified
    assert b"queue jobs, 1 segment" in verified.out
    assert dumped.code == 0, dumped
    assert b"hello" in dumped.out


def test_what_is_no_journal_is_one_sentence_and_exit_code_2(
    kestrelpy: Command, tmp_path: Path
) -> None:
    ended = kestrelpy("journal", "verify", str(tmp_path))

    assert ended.code == 2, ended
    assert ended.err.count("\n") == 1
    assert kestrelpy("journal").code == 2
    assert b"dump" in kestrelpy("journal", "--help").out
