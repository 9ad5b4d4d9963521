"""The command line logs in and speaks TLS, and says in one sentence what is wrong with either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from kestrelpy.cli.app import app
from tests.process.cli.command import Command
from tests.process.cli.test_app import options_of
from tests.process.cli.test_remote import COMMANDS
from tests.support.guarded import KINDS, PASSWORD, Guarded, certificate

ACCESS = {"--user", "--password-file", "--tls", "--tls-ca", "--tls-cert", "--tls-key"}


@pytest.fixture(scope="module", params=KINDS)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp(request.param), request.param)
    with made.daemon:
        yield made


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("users"), "users")
    with made.daemon:
        made.put("jobs", b"x")
        yield made


@pytest.fixture(scope="module")
def with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("tls"), "tls")
    with made.daemon:
        yield made


def command_of(guarded: Guarded, folder: Path) -> Command:
    return Command(guarded.daemon.port, folder)


def test_every_command_with_a_server_takes_a_login_and_tls() -> None:
    found = options_of(typer.main.get_command(app))
    with_server = {path for path, options in found.items() if "--server" in options}

    assert {"status", "top", "put", "work", "move", "queues ls", "dead ls"} <= with_server
    assert {path: ACCESS - found[path] for path in with_server if ACCESS - found[path]} == {}
    assert not any("--password" in options for options in found.values())


def test_commands_work_with_what_the_environment_says(guarded: Guarded, tmp_path: Path) -> None:
    kestrelpy, known = command_of(guarded, tmp_path), guarded.environment()

    assert kestrelpy("put", "mine", "hello", **known).code == 0
    assert kestrelpy("get", "mine", **known).out == b"hello"
    kestrelpy("put", "mine", "work", **known)
    for words in (["status"], ["queues", "ls"], ["top", "--once"], ["items", "ls", "mine"]):
        ended = kestrelpy(*words, **known)
        assert (ended.code, ended.err) == (0, ""), (words, ended)
    ended = kestrelpy("work", "mine", "--max", "1", "--", "cat", **known)
    assert (ended.code, ended.out) == (0, b"work"), ended


def test_commands_work_with_what_their_options_say(guarded: Guarded, tmp_path: Path) -> None:
    kestrelpy, access = command_of(guarded, tmp_path), guarded.access()
    said = []
    for name in ("user", "password_file", "tls_ca"):
        if value := getattr(access, name):
            said += [f"--{name.replace('_', '-')}", str(value)]

    assert kestrelpy("put", "options", "hello", *said).code == 0
    assert kestrelpy("get", "options", *said).out == b"hello"
    assert kestrelpy("work", "options", "--once", *said, "--", "cat").is_sentence(1)


def test_a_password_in_the_environment_is_one_too(with_users: Guarded, tmp_path: Path) -> None:
    kestrelpy = command_of(with_users, tmp_path)

    assert kestrelpy("status", KESTRELPY_USER="anna", KESTRELPY_PASSWORD=PASSWORD).code == 0


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_wrong_password_is_one_sentence(
    with_users: Guarded, tmp_path: Path, words: list[str]
) -> None:
    wrong = str(with_users.folder / "wrong")

    ended = command_of(with_users, tmp_path)(*words, "--user", "anna", "--password-file", wrong)

    assert ended.is_sentence(1), ended
    assert "no such user, or another password" in ended.err
    assert ended.out == b""


def test_a_worker_with_a_wrong_password_ends_with_one_sentence(
    with_users: Guarded, tmp_path: Path
) -> None:
    said = {"KESTRELPY_USER": "anna", "KESTRELPY_PASSWORD": "letmeout"}

    ended = command_of(with_users, tmp_path)("work", "jobs", "--", "cat", **said)

    assert ended.is_sentence(1), ended
    assert "no such user, or another password" in ended.err


@pytest.mark.parametrize("words", [["status"], ["get", "jobs"], ["queues", "ls"]], ids=" ".join)
def test_a_client_without_a_user_reads_how_to_name_one(
    with_users: Guarded, tmp_path: Path, words: list[str]
) -> None:
    ended = command_of(with_users, tmp_path)(*words)

    assert ended.is_sentence(1), ended
    assert "needs a user and a password (--user, --password-file)" in ended.err


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (["put", "jobs", "x"], "write in queue jobs"),
        (["get", "jobs"], "write in queue jobs"),
        (["queues", "pause", "jobs"], "admin in queue jobs"),
        (["queues", "ls"], "read in all queues"),
        (["work", "jobs", "--", "cat"], "write in queue jobs"),
    ],
)
def test_a_role_that_is_not_enough_is_one_sentence(
    with_users: Guarded, tmp_path: Path, words: list[str], role: str
) -> None:
    reader = {"KESTRELPY_USER": "reader", "KESTRELPY_PASSWORD": PASSWORD}

    ended = command_of(with_users, tmp_path)(*words, **reader)

    assert ended.is_sentence(1), ended
    assert f"forbidden: this needs the role {role}" in ended.err
    assert command_of(with_users, tmp_path)("peek", "jobs", **reader).out == b"x"


@pytest.mark.parametrize("words", [["status"], ["put", "q", "x"], ["queues", "ls"]], ids=" ".join)
def test_tls_and_a_plain_port_are_one_sentence_either_way(
    with_users: Guarded, with_tls: Guarded, tmp_path: Path, words: list[str]
) -> None:
    authority = str(with_tls.folder / "server.pem")

    ended = command_of(with_users, tmp_path)(*words, "--tls-ca", authority)
    assert ended.is_sentence(2), ended
    assert "this port speaks no TLS: leave TLS out" in ended.err

    for known in ({}, with_users.environment()):
        ended = command_of(with_tls, tmp_path)(*words, **known)
        assert ended.is_sentence(2), ended
        assert "this port speaks TLS: say so (--tls or --tls-ca" in ended.err


def test_a_certificate_that_nobody_trusts_is_one_sentence(
    with_tls: Guarded, tmp_path: Path
) -> None:
    ended = command_of(with_tls, tmp_path)("status", "--tls")

    assert ended.is_sentence(2), ended
    assert "its certificate is not trusted: self" in ended.err


def test_a_server_that_wants_certificates_of_clients_gets_one(tmp_path: Path) -> None:
    made = Guarded(tmp_path, "tls", f'tls_client_ca = "{tmp_path}/server.pem"')
    known = made.environment()
    with made.daemon:
        kestrelpy = command_of(made, tmp_path)
        ended = kestrelpy("status", **known)
        assert ended.is_sentence(2), ended
        assert "asks for a certificate of its clients (--tls-cert)" in ended.err

        certificate(tmp_path, "other")
        other = ["--tls-cert", f"{tmp_path}/other.pem", "--tls-key", f"{tmp_path}/other.key"]
        ended = kestrelpy("status", *other, **known)
        assert ended.is_sentence(2), ended
        assert "refuses the certificate of this client (--tls-cert)" in ended.err

        own = ["--tls-cert", f"{tmp_path}/server.pem", "--tls-key", f"{tmp_path}/server.key"]
        assert kestrelpy("status", *own, **known).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "anna"], "user anna has no password"),
        (["--user", "anna", "--password-file", "none"], "none: No such file or directory"),
        (["--tls-ca", "none"], "tls_ca none: No such file or directory"),
        (["--password-file", "none"], "there is a password and no user"),
    ],
)
def test_options_that_cannot_be_are_one_sentence(
    with_users: Guarded, tmp_path: Path, words: list[str], said: str
) -> None:
    for command in (["status"], ["work", "q"]):
        ended = command_of(with_users, tmp_path)(*command, *words, *(["cat"] * (len(command) - 1)))

        assert ended.is_sentence(2), ended
        assert said in ended.err


def test_names_of_queues_are_completed_for_a_user(with_users: Guarded, tmp_path: Path) -> None:
    kestrelpy = command_of(with_users, tmp_path)
    typed = {
        "_KESTRELPY_COMPLETE": "complete_bash", "COMP_WORDS": "kestrelpy put jo", "COMP_CWORD": "2",
    }  # fmt: skip

    assert b"jobs" in kestrelpy(**typed, **with_users.environment()).out
    assert kestrelpy(**typed, KESTRELPY_USER="anna").out.strip() == b""
