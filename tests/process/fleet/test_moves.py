"""`kestrelpy fleet import` and `export` on a real server, killed in the middle."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from journal.engine.postgres import make_tables
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.fleet import engine_moves
from kestrelpy.cli.fleet.fleet import EngineAt
from kestrelpy.examples.fleet.postgres_server import PostgresServer
from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess
from tests.support.postgres import running_postgres

SECONDS = 60.0
ITEMS = 2000
BODY = "x" * 2000


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command(1, tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="module")
def started() -> Iterator[PostgresServer]:
    with running_postgres() as running:
        yield running


@pytest.fixture
def server(started: PostgresServer) -> PostgresServer:
    """A server with empty tables."""
    started.ask("DROP SCHEMA IF EXISTS kestrelpy CASCADE")
    make_tables(started.address)
    return started


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that a daemon has left."""
    folder = tmp_path_factory.mktemp("filled") / "data"
    config = '[journal]\nsegment_min = "256KiB"\nsegment_max = "256KiB"\n'
    with DaemonProcess(folder, config=config) as daemon, closing(daemon.client()) as client:
        for number in range(ITEMS):
            assert client.set("jobs", f"{number} {BODY}")
        client.set("mail", "one")
        assert client.get("jobs/open") is not None
        assert client.get("jobs/close") is None
        assert daemon.stop() == 0
    return folder


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "data"))


def words(server: PostgresServer) -> dict[str, str]:
    """The environment of a user whose configuration names the engine."""
    return {
        "KESTRELPY_FLEET_ENGINE": server.address, "KESTRELPY_FLEET_SINGLE": "true",
        "KESTRELPY_FLEET_TAKEOVER": "500ms",
    }  # fmt: skip


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def counted(daemon: DaemonProcess) -> tuple[int, int]:
    with closing(daemon.client()) as client:
        jobs, mail = (client.stats(queue)[f"queue_{queue}_items".encode()] for queue in
                      ("jobs", "mail"))  # fmt: skip
    return int(jobs), int(mail)


def member(server: PostgresServer, folder: Path) -> DaemonProcess:
    config = (
        f'[fleet]\nengine = "{server.address}"\nsingle = true\nname = "a"\ntakeover = "500ms"\n'
    )
    return DaemonProcess(folder, config=config)


def test_a_data_directory_goes_into_an_engine_and_out_though_each_mover_is_killed(
    server: PostgresServer, command: Command, data: Path, tmp_path: Path
) -> None:
    said = words(server)
    moving = command.start("fleet", "import", str(data), **said)
    until(lambda: server.ask("SELECT 1 FROM kestrelpy.extent LIMIT 1"))
    moving.kill()
    moving.communicate()
    assert server.ask("SELECT importing FROM kestrelpy.slice") == [(True,)]
    with member(server, tmp_path / "a") as daemon:
        assert "standby: a data directory is being moved in" in daemon.ready_line

        ended = command("fleet", "import", str(data), **said)
        assert ended.code == 0, ended
        assert ended.out.decode().startswith(f"moved {data} to {server.address}/1: 2 queues, ")
        until(lambda: any(line.startswith("ready") for line in daemon.lines))
        assert counted(daemon) == (ITEMS - 1, 1)
        for words_ in (("import", str(data)), ("export", str(tmp_path / "out"))):
            ended = command("fleet", *words_, **said)
            assert ended.is_sentence(2), ended
            assert "a owns the slice; stop it" in ended.err
        assert daemon.stop() == 0

    out = tmp_path / "out"
    moving = command.start("fleet", "export", str(out), **said)
    until((tmp_path / "out~export" / "export.json").exists)
    moving.kill()
    moving.communicate()
    assert not out.exists()
    ended = command("fleet", "export", str(out), **said)
    assert ended.code == 0, ended
    with DaemonProcess(out) as daemon:
        assert counted(daemon) == (ITEMS - 1, 1)
        assert daemon.stop() == 0


def test_the_slices_of_an_engine_are_others_in_another_one(
    server: PostgresServer, command: Command, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def run(*given: str) -> None:
        ended = command("fleet", *given)
        assert ended.code == 0, ended

    refused = command("fleet", "reslice", **words(server))
    assert refused.is_sentence(2), refused
    assert "`kestrelpy fleet export` each slice" in refused.err
    run("reslice", str(data), "--slices", "2")
    for number in ("1", "2"):
        run("import", str(data / "slices-2" / number), f"{server.address}/{number}", "--single")
    for number in ("1", "2"):
        run("export", f"{server.address}/{number}", str(out / "slices-2" / number), "--single")
    run("reslice", str(out), "--slices", "3")
    assert sorted(each.name for each in (out / "slices-3").iterdir()) == ["1", "2", "3"]

    server.ask("DROP SCHEMA kestrelpy CASCADE")  # another database
    make_tables(server.address)
    for number in ("1", "2", "3"):
        run("import", str(out / "slices-3" / number), f"{server.address}/{number}", "--single")
    last = tmp_path / "last"
    for number in ("1", "2", "3"):
        run("export", f"{server.address}/{number}", str(last / "slices-3" / number), "--single")
    run("reslice", str(last), "--slices", "1")
    with DaemonProcess(last) as daemon:
        assert counted(daemon) == (ITEMS - 1, 1)
        assert daemon.stop() == 0


def test_what_cannot_be_moved_is_one_sentence(
    server: PostgresServer, command: Command, data: Path, tmp_path: Path
) -> None:
    said = words(server)
    (tmp_path / "empty").mkdir()
    for given, says in (
        (("import", "nowhere"), "nowhere: no data directory of kestrelpy"),
        (("import", str(tmp_path / "empty")), "empty: no data directory of kestrelpy"),
        (("import", server.address), "say one folder, DIR, and one engine"),
        (("import", str(data), "postgresql://k:sekret@127.0.0.1:1/q"), "Connection refused"),
        (("export", str(data)), "is not empty; an export needs a folder of its own"),
    ):
        ended = command("fleet", *given, **said)
        assert ended.is_sentence(2), ended
        assert says in ended.err and "sekret" not in ended.err
    with DaemonProcess(data) as daemon:
        ended = command("fleet", "import", str(data), server.address, "--single")
        assert ended.is_sentence(2)
        assert "another kestrelpy is using this data directory" in ended.err
        assert daemon.stop() == 0
    assert server.ask("SELECT count(*) FROM kestrelpy.slice") == [(0,)]


def test_an_engine_that_goes_away_meanwhile_ends_the_command_with_a_sentence(
    server: PostgresServer, command: Command, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_moves, "_PATIENCE_SECONDS", 0.3)
    at = EngineAt(server.address, True, 1.0)

    def watch(doing: str) -> Callable[[int, int], None]:
        def gone(done: int, total: int) -> None:
            if not server.has_ended:
                server.kill()

        return gone

    monkeypatch.setattr(engine_moves, "watch", watch)
    with pytest.raises(CommandError, match="run the command again, and it goes on where it ended"):
        engine_moves.move_in(str(data), at)
    server.start()
    monkeypatch.setattr(engine_moves, "watch", lambda doing: lambda done, total: None)
    engine_moves.move_in(str(data), at)
    assert server.ask("SELECT importing, released FROM kestrelpy.slice") == [(False, True)]


def test_an_import_that_is_given_up_leaves_an_empty_slice(
    server: PostgresServer, command: Command, data: Path, tmp_path: Path
) -> None:
    said = words(server)
    for given, says in (
        ((server.address,), "no data directory is being moved in; nothing was done"),
        ((str(data),), "--give-up takes the engine alone, and no DIR"),
        ((str(data), server.address), "--give-up takes the engine alone, and no DIR"),
    ):
        ended = command("fleet", "import", "--give-up", *given, **said)
        assert ended.is_sentence(2) and says in ended.err, ended

    moving = command.start("fleet", "import", str(data), **said)
    until(lambda: server.ask("SELECT 1 FROM kestrelpy.extent LIMIT 1"))
    moving.kill()
    moving.communicate()
    ended = command("fleet", "import", "--give-up", **said)
    assert ended.code == 0, ended
    assert ended.out.decode().endswith("it is empty, and any member may claim it\n"), ended
    for table in ("file", "extent"):
        assert server.ask(f"SELECT count(*) FROM kestrelpy.{table}") == [(0,)]
    with member(server, tmp_path / "a") as daemon:
        assert daemon.ready_line.startswith("ready")
        assert daemon.stop() == 0
