"""The producer on plain pymemcache: every line, with its number, sent again when it must be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrelpy.examples.producer import Producer, numbered_lines, standard_library_files
from tests.process.client.proxy import Proxy
from tests.support.daemon import DaemonProcess


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data") as running:
        yield running


def test_lines_are_numbered_over_all_files(tmp_path: Path) -> None:
    for name, text in (("a", b"x\r\ny\n"), ("b", b"\nlast")):
        (tmp_path / name).write_bytes(text)
    files = [tmp_path / "a", tmp_path / "b"]

    assert list(numbered_lines(files, None)) == [(0, b"x"), (1, b"y"), (2, b""), (3, b"last")]
    assert list(numbered_lines(files, 2)) == [(0, b"x"), (1, b"y")]


def test_the_real_text_is_large() -> None:
    lines = sum(1 for _ in numbered_lines(standard_library_files(), 100_000))

    assert lines == 100_000


def test_every_line_is_stored(daemon: DaemonProcess, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [(number, b"line %d" % number) for number in range(100)]

    assert Producer([("127.0.0.1", daemon.port)], "q", iter(lines)).run() == 100

    client = daemon.client()
    stored = {client.get("q") for _ in lines}
    assert stored == {b"%d %b" % line for line in lines}
    assert capsys.readouterr().out == ""


def test_a_line_without_its_acknowledgement_is_sent_again_and_named(
    daemon: DaemonProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with Proxy(daemon.port) as wire:

        def lines() -> Iterator[tuple[int, bytes]]:
            for number in range(50):
                if number == 25:
                    wire.cut()
                yield number, b"x"

        Producer([wire.address], "q", lines()).run()

    client = daemon.client()
    stored = {body.split()[0] for body in iter(lambda: client.get("q"), None)}
    assert stored == {b"%d" % number for number in range(50)}
    resent = capsys.readouterr().out.splitlines()
    assert resent
    assert all(line.startswith("resent ") for line in resent)
