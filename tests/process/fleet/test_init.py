"""`kestrelpy fleet init` on a real server: tables, settings, rights, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from journal.engine import EngineAway, Layout, Member
from journal.engine.postgres import PostgresEngine
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.process.cli.command import Command, Ended

SCHEMA = Path(__file__).parents[3] / "journal/engine/postgres/schema.sql"
RESET = {"synchronous_standby_names": "", "fsync": "on", "full_page_writes": "on"}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with folder_of_servers() as made:
        yield made


@pytest.fixture(scope="module")
def started(folder: Path) -> Iterator[PostgresServer]:
    made = PostgresServer(folder)
    made.make()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def server(started: PostgresServer) -> PostgresServer:
    """A server without tables, and safe for one copy."""
    for name, value in RESET.items():
        if started.ask(f"SHOW {name}") != [(value,)]:
            started.set(name, value)
    started.ask("DROP SCHEMA IF EXISTS kestrelpy CASCADE")
    return started


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command(1, tmp_path_factory.mktemp("cli"))


def refused(ended: Ended, code: int = 2) -> str:
    """The one sentence of a refusal."""
    assert ended.code == code, ended
    (line,) = ended.err.splitlines()
    assert line.startswith("kestrelpy: ")
    return line.removeprefix("kestrelpy: ")


def test_it_makes_the_tables_once_and_a_daemon_can_use_them(
    server: PostgresServer, command: Command
) -> None:
    first = command("fleet", "init", server.address, "--single")
    again = command("fleet", "init", server.address, "--single")

    well = b"the server's settings lose nothing that it has acknowledged\n"
    assert (first.code, first.out) == (
        0, f"{server.address}: made the tables\n".encode() + well
    )  # fmt: skip
    assert (again.code, again.out) == (
        0, f"{server.address}: the tables are there\n".encode() + well
    )  # fmt: skip
    with closing(PostgresEngine(server.address, is_single=True)) as engine:
        assert engine.owners() == {}


def test_the_printed_statements_are_those_of_the_file(command: Command) -> None:
    assert command("fleet", "init", "--print").out.decode() == SCHEMA.read_text()


def test_it_names_each_setting_that_would_lose_something(
    server: PostgresServer, command: Command
) -> None:
    server.set("fsync", "off")
    ended = command("fleet", "init", server.address)

    assert ended.code == 1
    assert ended.err.splitlines() == [
        "kestrelpy: fsync is off: a power cut loses what was acknowledged; set it to on",
        "kestrelpy: synchronous_standby_names is empty: a failover loses what was acknowledged; "
        "name a standby there, or say `single = true` if one copy is enough",
    ]
    assert server.ask("SELECT number FROM kestrelpy.version") == [(3,)]

    server.set("synchronous_standby_names", "ANY 1 (n2, n3)")
    ended = command("fleet", "init", server.address)  # it waits for no standby
    assert ended.code == 1
    assert b"warning: no standby answers" in ended.out
    assert b"warning: synchronous_standby_names is ANY 1 (n2, n3)" in ended.out


def test_tables_of_another_version_are_refused_or_brought_up(
    server: PostgresServer, command: Command
) -> None:
    command("fleet", "init", server.address, "--single")
    server.ask("UPDATE kestrelpy.version SET number = 4")

    says = "the tables have version 4, and this kestrelpy knows up to 3; install the newer"
    assert says in refused(command("fleet", "init", server.address, "--single"))
    with closing(PostgresEngine(server.address, True)) as engine:
        with pytest.raises(EngineAway, match=says):
            engine.owners()

        server.ask("UPDATE kestrelpy.version SET number = 1")
        server.ask("DROP TABLE kestrelpy.member, kestrelpy.fleet")
        server.ask("ALTER TABLE kestrelpy.slice DROP asked, DROP importing")
        with pytest.raises(EngineAway, match="`kestrelpy fleet init` brings them there"):
            engine.owners()
        assert command("fleet", "init", server.address, "--single").code == 0
        assert engine.owners() == {}


def test_data_of_before_slices_is_in_one(server: PostgresServer, command: Command) -> None:
    command("fleet", "init", server.address, "--single")
    with closing(PostgresEngine(server.address, True)) as engine:
        engine.claim(1, Member("a"), 0)
        server.ask("UPDATE kestrelpy.version SET number = 2")
        server.ask("DROP TABLE kestrelpy.fleet")
        command("fleet", "init", server.address, "--single")

        assert engine.agree(Layout(16, "a*")) == Layout(1)


def test_without_tables_the_engine_says_what_makes_them(server: PostgresServer) -> None:
    with (
        closing(PostgresEngine(server.address, True)) as engine,
        pytest.raises(EngineAway, match="are not there; make them with `kestrelpy fleet init`"),
    ):
        engine.owners()


def test_the_daemons_role_gets_what_it_needs_and_what_it_lacks_is_named(
    server: PostgresServer, command: Command
) -> None:
    server.ask("DROP ROLE IF EXISTS small")
    server.ask("CREATE ROLE small LOGIN")
    address = server.address.replace("kestrel@", "small@")

    assert "permission denied for database" in refused(command("fleet", "init", address))
    command("fleet", "init", server.address, "--single")
    assert "permission denied for schema" in refused(command("fleet", "init", address))
    command("fleet", "init", server.address, "--single", "--role", "small")
    assert command("fleet", "init", address, "--single").code == 0
    server.ask("REVOKE INSERT ON kestrelpy.file FROM small")
    lacks = refused(command("fleet", "init", address, "--single"), 1)
    assert lacks.startswith("this role has no INSERT on kestrelpy.file; `kestrelpy fleet init --ro")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("/postgres", "/nothing", 'database "nothing" does not exist; make it with createdb'),
        ("kestrel@", "nobody@", 'role "nobody" does not exist; make it with createuser'),
        ("127.0.0.1", "nohost.invalid", "resolve host 'nohost.invalid'.*: is the name right"),
        (":[0-9]+/", ":1/", "Connection refused: is the server running, and is the port right"),
        ("kestrel@", "kestrel:a@sekret@", "written as % and two digits"),
        ("kestrel@", "kestrel:a%zsekret@", "the address cannot be read"),
        ("kestrel@", "kestrel:sekret@locked.", "resolve host 'locked.127.0.0.1'"),
        ("/postgres", "/postgres?nope=1", "the address cannot be read"),
        ("/postgres", "/postgres/2", "name the engine, and not one slice of it"),
        ("postgresql", "mysql", "an engine has an address like postgresql://"),
    ],
)
def test_what_cannot_be_reached_is_one_sentence_without_a_secret(
    started: PostgresServer, command: Command, old: str, new: str, says: str
) -> None:
    said = refused(command("fleet", "init", re.sub(old, new, started.address)))

    assert re.search(says, said), said
    assert "sekret" not in said


def test_a_wrong_password_is_named_as_one(server: PostgresServer, command: Command) -> None:
    server.ask("DROP ROLE IF EXISTS guarded")
    server.ask("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{before}")
    try:
        server.ask("SELECT pg_reload_conf()")
        for secret, says in (
            (":sekret", "password authentication failed .* the password is wrong"),
            ("", "no password supplied: give the password in ~/.pgpass"),
        ):
            address = server.address.replace("kestrel@", f"guarded{secret}@")
            said = refused(command("fleet", "init", address, HOME="/nonexistent"))
            assert re.search(says, said), said
            assert "sekret" not in said
    finally:
        rules.write_text(before)
        server.ask("SELECT pg_reload_conf()")


def test_without_an_engine_it_asks_for_one(command: Command) -> None:
    assert refused(command("fleet", "init")) == (
        "no engine is named: say its ADDRESS, like postgresql://user@host:port/database or "
        "s3://bucket/prefix?endpoint=https://host"
    )
    (command.folder / "f.toml").write_text('[fleet]\nengine = "postgresql://k:sekret@127.0.0.1:1/q"')
    said = refused(command("fleet", "init", "--config", "f.toml"))
    assert said.startswith("postgresql://k@127.0.0.1:1/q: ")
