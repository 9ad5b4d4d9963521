"""The fleet of a write, and the notes that its servers keep of the batch they are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.options import NOTES_QUEUE
from kestrelpy.spark.write.fleet import Run, begun, find_fleet
from kestrelpy.spark.write.write_options import parse_write_options
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[DaemonProcess]]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    with DaemonProcess(folder / "a") as a, DaemonProcess(folder / "b") as b:
        yield [a, b]


def begin(run: Run, *daemons: DaemonProcess, new_fleet: bool = False) -> list[str]:
    """Begin a batch on these daemons; return their ids."""
    servers = ",".join(f"127.0.0.1:{each.port}" for each in daemons)
    options = parse_write_options({"servers": servers, "writeTimeout": "2s"}, streams=True)
    with closing(find_fleet(options)) as fleet:
        begun(fleet, run, new_fleet)
        return fleet.servers


def refused(run: Run, *daemons: DaemonProcess) -> str:
    with pytest.raises(KestrelError) as caught:
        begin(run, *daemons)
    return str(caught.value)


def notes(daemon: DaemonProcess, scope: str) -> int:
    """Return how many notes of a writer a server keeps."""
    with Raw(("127.0.0.1", daemon.port)) as raw:
        key = b"%b/peek/after=0/n=100" % NOTES_QUEUE.encode()
        raw.send(b"gets %b/full\r\n" % key)
        found = 0
        while (line := raw.line()) != b"END":
            found += scope.encode() == line.split(b" ")[-2]
            raw.read(int(line.split(b" ")[3]) + 2)
        return found


def test_a_batch_is_begun_again_by_the_same_fleet_however_it_is_listed(
    daemons: list[DaemonProcess],
) -> None:
    a, b = daemons
    servers = begin(Run("again", 0), a, b)

    assert begin(Run("again", 0), b, a) == servers == sorted(servers)
    assert begin(Run("again", 1, is_later=True), a, b) == servers
    assert [notes(each, "again") for each in daemons] == [1, 1]


def test_a_repeated_batch_with_another_fleet_is_refused(daemons: list[DaemonProcess]) -> None:
    a, b = daemons
    ids = begin(Run("other", 3), a)

    text = refused(Run("other", 3, is_later=True), a, b)

    assert text.startswith(
        f"The batch 3 of the writer other was begun on the servers {ids[0]}, and"
    )
    assert "Name the servers of before until this batch is done, then change them" in text


def test_the_next_batch_may_have_another_fleet(daemons: list[DaemonProcess]) -> None:
    a, b = daemons
    begin(Run("grown", 0), a)
    begin(Run("grown", 1, is_later=True), a, b)
    begin(Run("grown", 2, is_later=True), b)
    begin(Run("grown", 2, is_later=True), b)


def test_a_fleet_that_never_saw_the_writer_is_refused_after_the_first_batch(
    daemons: list[DaemonProcess],
) -> None:
    a, b = daemons
    begin(Run("moved", 0), a)

    text = refused(Run("moved", 1, is_later=True), b)

    assert "have seen no batch of the writer moved, and this is its batch 1" in text
    begin(Run("moved", 1, is_later=True), b, new_fleet=True)
    begin(Run("moved", 2, is_later=True), b)


def test_a_task_that_is_left_over_stores_nothing(daemons: list[DaemonProcess]) -> None:
    a, b = daemons
    begin(Run("late", 5), a, b)

    assert refused(Run("late", 4, is_later=True), a, b).startswith(
        "The batch 4 of the writer late is over: batch 5 has begun."
    )
    with pytest.raises(KestrelError, match="is over"):
        begin(Run("late", 4, is_later=True), a, b, new_fleet=True)


def test_one_server_under_two_addresses_is_refused(daemons: list[DaemonProcess]) -> None:
    port = daemons[0].port
    options = parse_write_options({"servers": f"127.0.0.1:{port},localhost:{port}"}, streams=True)
    with pytest.raises(KestrelError, match="are one server: its id is"):
        find_fleet(options)


def test_a_note_of_a_later_version_and_what_is_no_note_are_refused(
    daemons: list[DaemonProcess],
) -> None:
    a, _ = daemons
    for scope, body, words in (
        ("later", b'{"version": 2}', "is of version 2, and this version of kestrelpy knows 1"),
        ("alien", b"hello", "is no note of the sink. Remove it"),
    ):
        with Raw(("127.0.0.1", a.port)) as raw:
            head = f"set {NOTES_QUEUE}/key={scope} 0 0 {len(body)}\r\n".encode()
            raw.ask(head + body + b"\r\n", b"STORED\r\n")
        assert words in refused(Run(scope, 0), a)


def test_a_server_that_takes_no_note_is_named(daemons: list[DaemonProcess]) -> None:
    a, _ = daemons
    with Raw(("127.0.0.1", a.port)) as raw:
        raw.ask(b"status readonly\r\n", b"END\r\n")
        try:
            text = refused(Run("shut", 0), a)
        finally:
            raw.ask(b"status up\r\n", b"END\r\n")
    assert text.startswith(f"The server 127.0.0.1:{a.port} stored nothing for 2 s: readonly")
