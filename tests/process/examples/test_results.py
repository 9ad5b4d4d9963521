"""The referee of `lines`: a line lost, altered or doubled without a reason is found."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from kestrelpy.examples.results import Results, verdict

LINES = [b"zero", b"one", b"two"]
EXPECTED = [b"%08x" % zlib.crc32(line) for line in LINES]
DONE = [b"done %d %b\n" % (number, checksum) for number, checksum in enumerate(EXPECTED)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "worker-1"


def results(file: Path, *lines: bytes) -> Results:
    file.write_bytes(b"".join(lines))
    found = Results([file])
    found.read()
    return found


def test_every_line_once_is_well(file: Path) -> None:
    assert verdict(EXPECTED, results(file, *DONE), {}) == (
        ["3 of 3 lines handled, 0 lost", "handled twice: 0"],
        True,
    )


def test_a_line_that_no_worker_handled_is_lost(file: Path) -> None:
    sentences, well = verdict(EXPECTED, results(file, *DONE[:2]), {})

    assert not well
    assert sentences[0] == "2 of 3 lines handled, 1 lost"
    assert sentences[-1] == "LOST: 1, for instance [2]"


def test_a_line_that_was_altered_does_not_pass(file: Path) -> None:
    sentences, well = verdict(EXPECTED, results(file, *DONE[:2], b"done 2 00000000\n"), {})

    assert not well
    assert sentences[-1] == "NOT AS IT WAS SENT: 1, for instance [2]"


def test_a_line_that_was_never_sent_does_not_pass(file: Path) -> None:
    assert not verdict(EXPECTED, results(file, *DONE, b"done 3 00000000\n"), {})[1]


def test_a_line_handled_twice_needs_a_reason_each_time(file: Path) -> None:
    seen = results(file, *DONE, DONE[1], DONE[1])

    sentences, well = verdict(EXPECTED, seen, {1: ["leased when a was killed"]})
    assert not well
    assert sentences[1:] == [
        "handled twice: 2",
        "    1 leased when a was killed",
        "TWICE WITHOUT A REASON: 1, for instance [1]",
    ]

    assert verdict(EXPECTED, seen, {1: ["leased when a was killed", "leased when b was"]})[1]


def test_a_file_is_read_as_it_grows_and_never_half_a_line(file: Path) -> None:
    seen = results(file, DONE[0], DONE[1][:6])
    assert (seen.handled, seen.last_done(0)) == (1, 0)

    with file.open("ab") as more:
        more.write(DONE[1][6:] + b"unsure 1\n")

    assert seen.read()
    assert not seen.read()
    assert (seen.handled, seen.last_done(0), seen.unsure) == (2, 1, [1])
