"""Logins: checked off the loop, failures delayed and counted."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrelpy.access import Role, hash_secret
from kestrelpy.config import Config
from kestrelpy.errors import ServerError
from kestrelpy.protocol import LogLimit
from kestrelpy.server.connections import logins as module
from kestrelpy.server.connections.logins import Logins

HASH, OTHER = hash_secret(b"letmein"), hash_secret(b"other")


def config(**user: object) -> Config:
    return Config.model_validate({"auth": {"anna": {"secret": HASH, **user}}})


def logins(monkeypatch: pytest.MonkeyPatch) -> Logins:
    monkeypatch.setattr(module, "FAILURE_SECONDS", 0.0)
    made = Logins(LogLimit(), lambda: 0, cast(Any, asyncio.ensure_future), lambda caller: None)
    made.put_in_force(config(role="write"))
    return made


async def test_a_user_logs_in_and_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    users = logins(monkeypatch)
    grant = await users.check("anna", b"letmein", "peer")
    assert grant is not None
    assert grant.role is Role.WRITE
    for name, secret in (("anna", b"x"), ("bob", b"letmein"), ("", b""), ("anna", b"x" * 2000)):
        assert await users.check(name, secret, "peer") is None
    assert users.failed == 4
    users.close()


async def test_a_secret_that_was_right_is_not_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = logins(monkeypatch)
    grant = await users.check("anna", b"letmein", "peer")
    monkeypatch.setattr(module, "is_secret", lambda *_: pytest.fail("checked again"))
    assert await users.check("anna", b"letmein", "peer") is grant
    assert users.known("anna", b"letmeix") is None


async def test_a_user_that_changed_logs_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    users = logins(monkeypatch)
    grant = await users.check("anna", b"letmein", "peer")
    assert grant is not None
    users.put_in_force(config(role="write"))
    assert users.is_current(grant)
    for changed in (
        config(role="read"), config(role="write", queues=["a"]), config(role="write", secret=OTHER)
    ):
        users.put_in_force(changed)
        assert not users.is_current(grant)
        assert users.known("anna", b"letmein") is None
    users.put_in_force(Config())
    assert not users.are_needed


@pytest.mark.parametrize(
    ("changed", "role"),
    [(config(role="read"), Role.READ), (config(secret=OTHER), None), (Config(), None)],
)
async def test_a_user_that_changes_while_it_logs_in_is_what_it_is_then(
    monkeypatch: pytest.MonkeyPatch, changed: Config, role: Role | None
) -> None:
    users, is_secret = logins(monkeypatch), module.is_secret

    def check(secret: bytes, stored: str) -> bool:
        users.put_in_force(changed)
        return is_secret(secret, stored)

    monkeypatch.setattr(module, "is_secret", check)
    grant = await users.check("anna", b"letmein", "peer")
    assert (grant and grant.role) == role
    assert users.failed == (role is None)
    users.close()


async def test_a_user_that_changes_again_and_again_is_not_checked_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users, roles = logins(monkeypatch), ["write", "read"] * module._CHECKS_MAX

    def check(secret: bytes, stored: str) -> bool:
        users.put_in_force(config(role=roles.pop()))
        return True

    monkeypatch.setattr(module, "is_secret", check)
    assert await users.check("anna", b"letmein", "peer") is None
    assert len(roles) == module._CHECKS_MAX
    users.close()


async def test_logins_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    users = logins(monkeypatch)
    monkeypatch.setattr(module, "PENDING_MAX", 2)
    waits = [asyncio.ensure_future(users.check("anna", b"x", "peer")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ServerError, match="too many logins"):
        await users.check("anna", b"letmein", "peer")
    assert await asyncio.gather(*waits) == [None, None]
    assert await users.check("anna", b"letmein", "peer") is not None


async def test_an_end_does_not_wait_for_a_check_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    began, go, ended = threading.Event(), threading.Event(), list[bool]()

    def is_secret(secret: bytes, stored: str) -> bool:
        began.set()
        go.wait(20)
        ended.append(True)
        return True

    monkeypatch.setattr(module, "is_secret", is_secret)
    users = logins(monkeypatch)
    check = asyncio.ensure_future(users.check("anna", b"letmein", "peer"))
    while not began.is_set():
        await asyncio.sleep(0)

    users.close()

    assert not ended
    go.set()
    assert await check is not None


async def test_the_pause_after_a_failure_takes_nobodys_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = logins(monkeypatch)
    monkeypatch.setattr(module, "FAILURE_SECONDS", 3600.0)
    monkeypatch.setattr(module, "PENDING_MAX", 1)
    wrong = asyncio.ensure_future(users.check("anna", b"x", "1.2.3.4:5"))
    while not users.failed:
        await asyncio.sleep(0)
    assert await users.check("anna", b"letmein", "1.2.3.4:6") is not None
    wrong.cancel()


class Slow:
    """Checks that last until they may end; `order` has the secrets as they began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.checked = threading.Event(), list[bytes]()
        monkeypatch.setattr(module, "is_secret", self._check)

    def _check(self, secret: bytes, stored: str) -> bool:
        self.checked.append(secret)
        self.gate.wait(30)
        return secret == b"letmein"


async def test_a_login_whose_client_hangs_up_leaves_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users, slow = logins(monkeypatch), Slow(monkeypatch)
    wrong = [
        asyncio.ensure_future(users.check("anna", b"%d" % n, f"1.2.3.4:{n}")) for n in range(100)
    ]
    await asyncio.sleep(0)
    assert users._line.count == 100
    for each in wrong:
        each.cancel()
    await asyncio.gather(*wrong, return_exceptions=True)
    assert users._line.count == 2  # their threads go on
    right = asyncio.ensure_future(users.check("anna", b"letmein", "5.6.7.8:1"))
    await asyncio.sleep(0)
    slow.gate.set()
    assert await right is not None
    while users._line.count:
        await asyncio.sleep(0)
    assert slow.checked[2:] == [b"letmein"]
    users.close()


async def test_others_have_a_reserve_and_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    users, slow = logins(monkeypatch), Slow(monkeypatch)
    monkeypatch.setattr(module, "PENDING_MAX", 8)
    monkeypatch.setattr(module, "PENDING_EACH_MAX", 6)
    flood = [
        asyncio.ensure_future(users.check("nobody", b"%d" % n, f"1.2.3.4:{n}")) for n in range(6)
    ]
    await asyncio.sleep(0)
    with pytest.raises(ServerError, match="too many logins"):
        await users.check("other", b"x", "1.2.3.4:99")  # no user either: the same share
    right = asyncio.ensure_future(users.check("anna", b"letmein", "1.2.3.4:100"))
    await asyncio.sleep(0)
    slow.gate.set()
    assert await right is not None
    assert slow.checked.index(b"letmein") <= 3, slow.checked
    await asyncio.gather(*flood)
    assert users._line.count == 0
    users.close()


async def test_a_client_that_sends_no_more_leaves_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users, slow = logins(monkeypatch), Slow(monkeypatch)
    talk = cast(Any, SimpleNamespace(holder=SimpleNamespace(name="1.2.3.4:5")))
    attempts = [users.begin("anna", b"%d" % n, talk) for n in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for each in attempts:
        each.note_eof()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [each.is_over for each in attempts] == [False, False, True]
    assert attempts[2].refusal.startswith("too many logins")
    for each in attempts:
        each.give_up()
    slow.gate.set()
    while users._line.count:
        await asyncio.sleep(0)
    users.close()


async def test_a_client_that_sent_no_more_before_its_login_began_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users, slow = logins(monkeypatch), Slow(monkeypatch)
    talk = cast(Any, SimpleNamespace(holder=SimpleNamespace(name="1.2.3.4:5")))
    attempts = [users.begin("anna", b"%d" % n, talk) for n in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = users.begin("anna", b"3", talk)
    late.note_eof()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert late.is_over
    assert late.refusal.startswith("too many logins")
    for each in attempts:
        each.give_up()
    slow.gate.set()
    while users._line.count:
        await asyncio.sleep(0)
    users.close()


async def test_a_secret_that_was_right_while_a_login_waited_is_not_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users = logins(monkeypatch)
    line = type(users._line)
    enter, grant = line.enter, users.users["anna"][0]

    async def enter_later(self: Any, origin: tuple[str, str]) -> None:
        await enter(self, origin)
        users._known[users._digest("anna", b"letmein")] = grant

    monkeypatch.setattr(line, "enter", enter_later)
    monkeypatch.setattr(module, "is_secret", lambda *_: pytest.fail("checked again"))
    assert await users.check("anna", b"letmein", "peer") is grant
    assert users._line.is_free


async def test_logins_that_wait_at_once_share_their_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    users, made = logins(monkeypatch), list[int]()
    line, pool = type(users._line), module.ThreadPoolExecutor
    enter = line.enter

    async def enter_later(self: Any, origin: tuple[str, str]) -> None:
        await enter(self, origin)
        await asyncio.sleep(0)

    def pool_of(count: int, name: str) -> Any:
        made.append(count)
        return pool(count, name)

    monkeypatch.setattr(line, "enter", enter_later)
    monkeypatch.setattr(module, "ThreadPoolExecutor", pool_of)
    found = await asyncio.gather(*(users.check("anna", b"letmein", f"p{n}") for n in range(3)))
    assert None not in found
    assert len(made) == 1
    users.close()
