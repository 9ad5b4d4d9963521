"""Every command that takes a data directory (`to_read`), with the address of an engine instead."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from journal.__main__ import main
from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess

ITEMS = 300


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command(1, tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with folder_of_servers() as folder:
        made = PostgresServer(folder)
        made.make()
        made.start()
        make_tables(made.address)
        yield made
        made.stop()


@pytest.fixture(scope="module")
def owner(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a slice that a daemon owns, with items."""
    config = f'[fleet]\nengine = "{server.address}"\nsingle = true\nname = "a"\n'
    with DaemonProcess(tmp_path_factory.mktemp("fleet") / "a", config=config) as daemon:
        with closing(daemon.client()) as client:
            for number in range(ITEMS):
                assert client.set("jobs", f"{number} " + "x" * 1000)
            assert client.get("jobs/open") is not None
            assert client.get("jobs/close") is None
        yield f"{server.address}/1"
        assert daemon.stop() == 0


def test_verify_and_dump_read_an_engine_beside_its_daemon(owner: str, command: Command) -> None:
    ended = command("journal", "verify", "--json", "--data-dir", owner)
    assert ended.code == 0, ended
    (found,) = [each for each in json.loads(ended.out)["journals"] if each["queue"] == "jobs"]
    assert found["live_items"] == ITEMS - 1
    assert owner in command("journal", "verify", owner).err + owner
    lines = command("journal", "dump", owner, "--queue", "jobs").out.decode().splitlines()
    assert sum(" put " in line for line in lines) == ITEMS, lines[:3]


def test_a_backup_of_an_engine_is_one_of_the_folder_kind(
    owner: str, command: Command, tmp_path: Path
) -> None:
    backup, restored = str(tmp_path / "backup"), str(tmp_path / "restored")
    ended = command("backup", backup, "--data-dir", owner)
    assert ended.code == 0, ended
    assert f"backup of {owner} in {backup}: " in ended.out.decode()
    assert command("restore", backup, "--data-dir", restored).code == 0
    with (
        DaemonProcess(Path(restored)) as daemon, closing(daemon.client()) as client
    ):  # fmt: skip
        assert client.stats("jobs")[b"queue_jobs_items"] == ITEMS - 1
        assert daemon.stop() == 0


def test_what_is_read_is_the_engine_of_the_configuration(
    owner: str, server: PostgresServer, command: Command, tmp_path: Path
) -> None:
    ended = command("journal", "verify", "--json", KESTRELPY_FLEET_ENGINE=server.address)
    assert json.loads(ended.out)["data_dir"] == owner
    ended = command("restore", str(tmp_path), KESTRELPY_FLEET_ENGINE=server.address)
    assert ended.is_sentence(2) and "works on a folder" in ended.err


AWAY = "postgresql://k:sekret@127.0.0.1:1/q"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("journal", "verify", AWAY), "Connection refused"),
        (("journal", "dump", "--data-dir", f"{AWAY}/1"), "Connection refused"),
        (("journal", "dump", "--data-dir", f"{AWAY}/two"), "a slice is a number"),
        (("journal", "verify", "--data-dir", "mysql://k:sekret@h/q"), "an address like postgresql"),
        (("journal", "verify", AWAY, "--data-dir", AWAY), "say one of them"),
        (("journal", "repair", "--data-dir", AWAY), "`kestrelpy fleet export` moves the data of"),
        (("backup", "copy", "--data-dir", AWAY), "Connection refused"),
        (("backup", AWAY, "--data-dir", "data"), "DEST is a folder"),
        (("restore", "copy", "--data-dir", AWAY), "`kestrelpy fleet import` moves it back"),
        (("restore", AWAY, "--data-dir", "data"), "BACKUP is a folder"),
        (("import-kestrel", "src", "--data-dir", AWAY), "this command works on a folder"),
        (("import-kestrel", AWAY, "--data-dir", "data"), "SRC is a folder"),
        (("export-kestrel", "dest", "--data-dir", AWAY), "this command works on a folder"),
        (("export-kestrel", AWAY, "--data-dir", "data"), "DEST is a folder"),
        (("serve", "--data-dir", AWAY), "an engine is named by [fleet] engine"),
        (("spark", "audit", AWAY), "read folders. Make one with kestrelpy"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_each_port_says_one_sentence_and_makes_no_folder(
    command: Command, words: tuple[str, ...], says: str
) -> None:
    ended = command(*words)

    assert ended.code == 2, ended
    assert len(ended.err.splitlines()) == 1, ended
    assert says in ended.err
    assert "sekret" not in ended.err + ended.out.decode()
    assert os.listdir(command.folder) == []


def test_a_slice_without_data_is_named_as_one(server: PostgresServer, command: Command) -> None:
    server.ask("CREATE DATABASE empty")
    address = server.address.replace("/postgres", "/empty")
    ended = command("journal", "verify", address)
    assert ended.is_sentence(2) and "the tables of kestrelpy are not there" in ended.err
    make_tables(address)
    ended = command("journal", "verify", address)
    assert ended.is_sentence(2) and "there is no data here: nobody has claimed it" in ended.err


def test_the_tools_of_the_journal_name_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", AWAY]) == 2
    assert capsys.readouterr().err == (
        "journal: postgresql://k@127.0.0.1:1/q: an engine's data is read by `kestrelpy journal`\n"
    )
