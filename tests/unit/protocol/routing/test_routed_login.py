"""A router's client logs in once, and each slice is told who it is."""

from __future__ import annotations

from typing import Any

import pytest

from kestrelpy.access import Grant, Role
from kestrelpy.errors import ClientError, ServerError
from kestrelpy.protocol.parse import Command, Parser
from kestrelpy.protocol.routing.routed_login import RoutedLogin


class Check:
    """A login that is over when the test says so."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.name, self.secret = name, secret
        self.is_over, self.grant, self.refusal = False, None, ""
        self.is_given_up = False

    def give_up(self) -> None:
        self.is_given_up = True

    def note_eof(self) -> None:
        pass


class Users:
    def __init__(self) -> None:
        self.are_needed = True
        self.grants = {
            "a na": Grant("a na", Role.WRITE, ["*"]),
            "root": Grant("root", Role.ADMIN, ["*"]),
        }
        self.checks: list[Check] = []

    def is_current(self, grant: Grant) -> bool:
        return self.grants.get(grant.name) is grant

    def grant_of(self, name: str) -> Grant | None:
        return self.grants.get(name)

    def begin(self, name: str, secret: bytes, talk: Any) -> Check:
        assert talk.holder.name == "127.0.0.1:5"
        self.checks.append(Check(name, secret))
        return self.checks[-1]


def command(data: bytes) -> Command:
    parser = Parser(lambda name: 100, {})
    parser.feed(data)
    found = parser.next()
    assert found is not None
    return found


GET = command(b"get a\r\n")
SHUTDOWN = command(b"shutdown\r\n")
LOGIN = command(b"set x 0 0 7\r\na na pw\r\n")


@pytest.fixture
def users() -> Users:
    return Users()


@pytest.fixture
def said() -> list[bytes]:
    return []


@pytest.fixture
def login(users: Users, said: list[bytes]) -> RoutedLogin:
    made: Any = users
    return RoutedLogin(made, "127.0.0.1:5", said.append, lambda: None)


def log_in(login: RoutedLogin, users: Users, name: str) -> None:
    assert not login.admits(command(b"set x 0 0 %d\r\n%b pw\r\n" % (len(name) + 3, name.encode())))
    assert not login.go_on()
    check = users.checks[-1]
    check.is_over, check.grant = True, users.grants.get(name.split(" ", maxsplit=1)[0])
    assert login.go_on()
    assert login.stream is None


def test_before_the_login_a_slice_is_told_of_nobody(login: RoutedLogin) -> None:
    assert login.is_strange
    assert not login.passes(GET)
    assert login.introduction == b"client memcache 127.0.0.1:5\r\n"
    with pytest.raises(ClientError, match="unauthenticated"):
        login.admits(GET)
    assert login.admits(command(b"version\r\n"))
    assert login.admits(command(b"client memcache x root\r\n"))  # the router answers it with ERROR


def test_a_login_is_told_to_each_slice(login: RoutedLogin, users: Users, said: list[bytes]) -> None:
    users.grants["root"] = Grant("r%o t", Role.ADMIN, ["*"])
    assert login.introduction == b"client memcache 127.0.0.1:5\r\n"
    log_in(login, users, "root")
    assert said == [b"STORED\r\n"]
    assert login.is_another
    assert login.introduction == b"client memcache 127.0.0.1:5 r%25o%20t\r\n"
    assert not login.is_another


def test_another_grant_of_the_same_name_is_told_again(login: RoutedLogin, users: Users) -> None:
    log_in(login, users, "root")
    assert login.introduction.endswith(b" root\r\n")
    assert login.passes(GET)
    users.grants["root"] = Grant("root", Role.ADMIN, ["*"])
    assert not login.passes(GET)
    with pytest.raises(ClientError, match="unauthenticated"):
        login.admits(GET)
    log_in(login, users, "root")
    assert login.is_another
    assert login.passes(GET)


def test_a_login_that_fails_or_is_refused_leaves_nothing(
    login: RoutedLogin, users: Users, said: list[bytes]
) -> None:
    for refusal, kind in (("", ClientError), ("too many", ServerError)):
        assert not login.admits(LOGIN)
        assert not login.go_on()
        users.checks[-1].is_over, users.checks[-1].refusal = True, refusal
        with pytest.raises(kind):
            login.go_on()
        assert login.stream is None
        assert login.go_on()
    assert said == []
    assert (users.checks[0].name, users.checks[0].secret) == ("a", b"na pw")


def test_what_the_router_does_itself_needs_its_right_here(login: RoutedLogin, users: Users) -> None:
    users.grants["anna"] = Grant("anna", Role.WRITE, ["*"])
    log_in(login, users, "anna")
    assert login.passes(GET)
    assert login.passes(command(b"reload\r\n"))  # the slices refuse it
    assert not login.passes(SHUTDOWN)
    with pytest.raises(ClientError, match="this needs the role admin in all queues"):
        login.admits(SHUTDOWN)
    log_in_again = RoutedLogin(login._port, "127.0.0.1:5", lambda _: None, lambda: None)
    log_in(log_in_again, users, "root")
    assert log_in_again.admits(SHUTDOWN)


def test_a_hang_up_ends_the_check(login: RoutedLogin, users: Users) -> None:
    assert not login.admits(LOGIN)
    assert not login.go_on()
    login.note_eof()
    login.hang_up()
    assert users.checks[-1].is_given_up
    assert login.go_on()


def test_without_users_everything_passes(login: RoutedLogin, users: Users) -> None:
    users.are_needed = False
    assert login.passes(GET)
    assert login.passes(SHUTDOWN)
    assert not login.is_strange


def test_a_client_that_needs_no_login_may_do_everything() -> None:
    login = RoutedLogin(None, "unix", lambda _: None, lambda: None)
    assert login.introduction == b"client memcache unix /\r\n"
    assert login.passes(SHUTDOWN)
    assert login.admits(SHUTDOWN)
    assert (login.is_strange, login.is_another) == (False, False)
