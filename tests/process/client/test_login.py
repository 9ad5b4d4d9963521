"""Workers log in and speak TLS, and log in again after each break."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pymemcache.exceptions import MemcacheClientError

from kestrelpy.client import (
    Access,
    AsyncItem,
    AsyncWorker,
    LoginFailed,
    ServerRefusal,
    Worker,
    WorkerItem,
    access_of,
)
from kestrelpy.wire.dial import TlsRefused, connect, end_sending
from tests.process.cli.command import eventually
from tests.process.client.proxy import Proxy
from tests.support.guarded import KINDS, PASSWORD, Guarded


@pytest.fixture(scope="module", params=KINDS)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp(request.param), request.param)
    with made.daemon:
        yield made


@pytest.fixture
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("users"), "users")
    with made.daemon:
        yield made


def worker_of(guarded: Guarded, queue: str, **settings: Any) -> Worker:
    address = "127.0.0.1", guarded.daemon.port
    return Worker(queue, address, **{"wait": "10s", "access": guarded.access(), **settings})


def async_worker_of(guarded: Guarded, queue: str, **settings: Any) -> AsyncWorker:
    address = "127.0.0.1", guarded.daemon.port
    return AsyncWorker(queue, address, **{"wait": "10s", "access": guarded.access(), **settings})


def test_a_worker_handles_items_and_renews_their_leases(guarded: Guarded) -> None:
    guarded.put("jobs", b"one", b"two", b"x" * 300_000)
    seen = []
    worker = worker_of(guarded, "jobs", lease="1s")

    def handle(item: WorkerItem) -> None:
        if item.body == b"one":
            time.sleep(2.5)  # longer than the lease
        seen.append((item.body, item.is_lost, item.number))
        if len(seen) == 3:
            worker.stop()

    worker.run(handle)

    assert seen == [(b"one", False, 1), (b"two", False, 2), (b"x" * 300_000, False, 3)]
    assert guarded.counts("jobs")["items"] + guarded.counts("jobs")["leased"] == 0


async def test_an_async_worker_handles_items_and_renews_their_leases(guarded: Guarded) -> None:
    guarded.put("many", *(b"%d" % number for number in range(20)), b"x" * 300_000)
    seen = set()
    worker = async_worker_of(guarded, "many", lease="1s", items=5)

    async def handle(item: AsyncItem) -> None:
        if item.body == b"7":
            await asyncio.sleep(2.5)
        assert not item.is_lost
        seen.add(item.body)
        if len(seen) == 21:
            worker.stop()

    async with asyncio.timeout(60):
        await worker.run(handle)

    counts = await asyncio.to_thread(guarded.counts, "many")
    assert counts["items"] + counts["leased"] == 0


def test_stop_ends_a_wait_at_once(guarded: Guarded) -> None:
    worker = worker_of(guarded, "none", wait="2m")
    timer = threading.Timer(0.5, worker.stop)
    timer.start()

    assert list(worker) == []
    timer.join()


async def test_stop_ends_the_wait_of_an_async_worker_at_once(guarded: Guarded) -> None:
    worker = async_worker_of(guarded, "none", wait="2m")
    asyncio.get_running_loop().call_later(0.5, worker.stop)

    async with asyncio.timeout(60):
        assert [item async for item in worker] == []


def test_what_came_before_a_wait_was_ended_can_still_be_read(guarded: Guarded) -> None:
    guarded.put("late", b"x" * 50_000)
    with connect(("127.0.0.1", guarded.daemon.port), guarded.access(), 20, 20) as sock:
        sock.sendall(b"get late/open\r\n")
        eventually(lambda: guarded.counts("late")["leased"] == 1)
        end_sending(sock)
        answer = b""
        while not answer.endswith(b"END\r\n"):
            more = sock.recv(1 << 16)
            assert more, answer[-100:]
            answer += more
    assert answer == b"VALUE late/open 0 50000\r\n%b\r\nEND\r\n" % (b"x" * 50_000)


def test_the_environment_says_who_a_worker_is(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in guarded.environment().items():
        monkeypatch.setenv(name, value)
    guarded.put("env", b"one")

    with worker_of(guarded, "env", access=None) as worker:
        item = worker.fetch()
        assert item is not None
        item.confirm()
    assert access_of() == guarded.access()


def test_a_worker_logs_in_again_after_each_break(with_users: Guarded) -> None:
    wire = Proxy(with_users.daemon.port)
    with_users.put("cut", *(b"%d" % number for number in range(5)))
    worker = Worker("cut", wire.address, wait="10s", access=with_users.access())
    seen = []
    for item in worker:
        seen.append(item.body)
        wire.cut()
        if len(seen) == 5:
            worker.stop()
    wire.close()

    assert seen == [b"%d" % number for number in range(5)]
    assert sum(line.startswith("set login ") for line in wire.said) >= 5
    assert with_users.counts("cut")["items"] + with_users.counts("cut")["leased"] == 0


async def test_an_async_worker_logs_in_again_after_each_break(with_users: Guarded) -> None:
    wire = Proxy(with_users.daemon.port)
    await asyncio.to_thread(with_users.put, "cut", *(b"%d" % number for number in range(5)))
    worker = AsyncWorker("cut", wire.address, wait="10s", access=with_users.access())
    seen = []
    async with asyncio.timeout(60):
        async for item in worker:
            seen.append(item.body)
            wire.cut()
            if len(seen) == 5:
                worker.stop()
    wire.close()

    assert seen == [b"%d" % number for number in range(5)]
    counts = await asyncio.to_thread(with_users.counts, "cut")
    assert counts["items"] + counts["leased"] == 0


def test_a_worker_logs_in_again_when_a_reload_has_changed_its_user(with_users: Guarded) -> None:
    with_users.put("jobs", b"one", b"two")
    with worker_of(with_users, "jobs") as worker:
        first = worker.fetch()
        assert first is not None
        with_users.change_anna()
        first.confirm()
        second = worker.fetch()
        assert second is not None and second.body == b"two"
        second.confirm()
    assert with_users.counts("jobs")["items"] == 0


async def test_an_async_worker_logs_in_again_when_a_reload_has_changed_its_user(
    with_users: Guarded,
) -> None:
    await asyncio.to_thread(with_users.put, "jobs", b"one", b"two")
    async with async_worker_of(with_users, "jobs") as worker:
        first = await worker.fetch()
        assert first is not None
        await asyncio.to_thread(with_users.change_anna)
        await first.confirm()
        second = await worker.fetch()
        assert second is not None and second.body == b"two"
        await second.confirm()


def test_a_wrong_password_ends_a_worker_with_one_sentence(with_users: Guarded) -> None:
    with pytest.raises(LoginFailed, match=r"^no such user, or another password$"):
        list(worker_of(with_users, "jobs", access=Access(user="anna", password="letmeout")))
    with pytest.raises(MemcacheClientError, match="unauthenticated"):
        list(worker_of(with_users, "jobs", access=Access()))
    reader = Access(user="reader", password=PASSWORD)
    with pytest.raises(MemcacheClientError, match="needs the role write in queue jobs"):
        list(worker_of(with_users, "jobs", access=reader))


async def test_a_wrong_password_ends_an_async_worker_with_one_sentence(
    with_users: Guarded,
) -> None:
    for access, said in (
        (Access(user="anna", password="letmeout"), "^no such user, or another password$"),
        (Access(), "^this server has users, and needs a user and a password$"),
        (Access(user="reader", password=PASSWORD), "needs the role write in queue jobs"),
    ):
        worker = async_worker_of(with_users, "jobs", access=access)
        with pytest.raises(ServerRefusal, match=said):
            await worker.run(lambda item: item.confirm())


def test_a_worker_says_that_the_port_speaks_tls_or_does_not(guarded: Guarded) -> None:
    if guarded.kind == "users":
        return
    said = {"user": None, "password_file": None, "tls_ca": None}
    with pytest.raises(TlsRefused, match="this port speaks TLS"):
        worker_of(guarded, "jobs", access=guarded.access(**said)).fetch()


def test_a_worker_with_tls_says_that_the_port_speaks_none(
    with_users: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(with_users, "jobs", access=with_users.access(tls=True))
    with pytest.raises(TlsRefused, match="this port speaks no TLS"):
        worker.fetch()

    threading.Timer(2, worker.stop).start()
    with caplog.at_level(logging.WARNING):
        assert list(worker) == []  # it waits: the daemon may be started with TLS
    assert "jobs: this port speaks no TLS: leave TLS out; trying again" in caplog.text


async def test_an_async_worker_says_that_the_port_speaks_tls_or_does_not(
    guarded: Guarded,
) -> None:
    if guarded.kind == "users":
        access, said = guarded.access(tls=True), "this port speaks no TLS"
    else:
        access, said = Access(), "this port speaks TLS"
    with pytest.raises(TlsRefused, match=said):
        await async_worker_of(guarded, "jobs", access=access).fetch()
