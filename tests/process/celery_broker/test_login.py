"""Celery's workers and producers log in and speak TLS."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

import kestrelpy.kombu
from kestrelpy.client import ServerRefusal
from kestrelpy.kombu import UrlRefused
from kestrelpy.wire.dial import connect
from tests.process.celery_broker.workers import Shop
from tests.process.cli.command import eventually
from tests.process.client.proxy import Proxy
from tests.support.guarded import KINDS, PASSWORD, Guarded

assert kestrelpy.kombu.Transport


@pytest.fixture(scope="module", params=KINDS)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp(request.param), request.param)
    with made.daemon:
        yield made


def url(guarded: Guarded, port: int | None = None) -> str:
    who = "" if guarded.kind == "tls" else f"anna:{PASSWORD}@"
    return f"kestrelpy://{who}127.0.0.1:{port or guarded.daemon.port}"


def use_ssl(guarded: Guarded) -> dict[str, Any] | None:
    if guarded.kind == "users":
        return None
    return {"ca_certs": f"{guarded.folder}/server.pem", "cert_reqs": ssl.CERT_REQUIRED}


@pytest.mark.parametrize("by", ["url", "environment"])
@pytest.mark.slow
def test_a_worker_runs_tasks_and_answers_remote_control(guarded: Guarded, by: str) -> None:
    folder = guarded.folder / by
    folder.mkdir()
    shop = Shop(guarded.daemon, folder)
    if by == "url":
        shop.environment["SHOP_BROKER"] = url(guarded)
        if guarded.kind != "users":
            shop.environment["SHOP_CA"] = f"{guarded.folder}/server.pem"
    else:
        shop.environment |= guarded.environment()
    try:
        worker = shop.start()
        shop.send("group(count.si(n) for n in range(20))()")
        shop.until(lambda: len(shop.ran()) == 20)
        ping = "app.control.broadcast('ping', reply=True, limit=1, timeout=20)"
        assert "pong" in shop.send(f"print({ping})")
        shop.stop(worker)
    finally:
        shop.close()
    assert sorted(map(int, shop.ran())) == list(range(20))
    assert "Traceback" not in shop.logs()
    left = guarded.counts("celery")
    assert (left["items"], left["leased"]) == (0, 0)


def test_messages_of_several_queues_come_as_they_are_put(guarded: Guarded) -> None:
    """A wait of one queue, over TLS as well, holds no message of another one up."""
    with Connection(url(guarded), ssl=use_ssl(guarded)) as connection:
        got: list[str] = []
        queues = [connection.SimpleQueue(f"s{number}").queue for number in range(4)]
        consumer = connection.Consumer(queues, callbacks=[
            lambda body, message: (got.append(body), message.ack())
        ])  # fmt: skip
        with consumer:
            for number in (3, 0, 2, 1, 3):
                connection.SimpleQueue(f"s{number}").put(f"for {number}" * 10_000)
                while not got:
                    connection.drain_events(timeout=10)
                assert got.pop() == f"for {number}" * 10_000


def test_a_publisher_logs_in_again_after_each_break(guarded: Guarded) -> None:
    if guarded.kind != "users":
        return
    wire = Proxy(guarded.daemon.port)
    with Connection(url(guarded, wire.address[1])) as connection:
        queue = connection.SimpleQueue("cut")
        for number in range(5):
            queue.put(number)
            wire.cut()
        assert [queue.get(timeout=20).payload for _ in range(5)] == list(range(5))
    wire.close()
    assert sum(line.startswith("set login ") for line in wire.said) >= 5


def test_a_reload_that_changes_the_user_stops_neither_publisher_nor_consumer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Guarded(tmp_path, "users")
    with made.daemon, Connection(url(made), transport_options={"lease": "2s"}) as connection:
        taken: list[Any] = []
        queue = connection.SimpleQueue("jobs")
        with connection.Consumer(queue.queue, callbacks=[lambda _, message: taken.append(message)]):
            queue.put("before")
            while len(taken) < 1:
                connection.drain_events(timeout=20)
            made.change_anna()
            queue.put("after" * 10_000)
            while len(taken) < 2:
                connection.drain_events(timeout=30)
            time.sleep(3)  # longer than the lease, which goes on
            for message in taken:
                message.ack()
            assert [message.payload for message in taken] == ["before", "after" * 10_000]
        eventually(lambda: made.counts("jobs")["leased"] == 0)
        assert made.counts("jobs")["items"] == 0
    assert "may be handled again" not in caplog.text


def test_a_lease_outlives_a_while_in_which_the_user_is_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Guarded(tmp_path, "users")
    file = made.daemon.config_file
    with made.daemon, Connection(url(made), transport_options={"lease": "8s"}) as connection:
        queue = connection.SimpleQueue("jobs")
        queue.put("one")
        message = queue.get(timeout=20)
        file.write_text(file.read_text().replace("[auth.anna]", "[auth.other]"))
        assert made.ask(b"reload\r\n").startswith(b"Reloaded")
        eventually(lambda: "no such user" in caplog.text)
        file.write_text(file.read_text().replace("[auth.other]", "[auth.anna]"))
        with connect(("127.0.0.1", made.daemon.port), made.access(user="other"), 20, 20) as other:
            other.sendall(b"reload\r\n")
            assert other.recv(1000).startswith(b"Reloaded")
        time.sleep(6)  # with the time before it longer than the lease
        assert made.counts("jobs")["leased"] == 1
        message.ack()
        eventually(lambda: made.counts("jobs")["leased"] == 0)
        assert made.counts("jobs")["items"] == 0
    assert "may be handled again" not in caplog.text


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ("anna:letmeout@", "no such user, or another password"),
        ("", "this server has users, and needs a user and a password"),
    ],
)
def test_a_wrong_login_is_said_at_once(guarded: Guarded, who: str, said: str) -> None:
    if guarded.kind == "tls":
        return
    where = f"kestrelpy://{who}127.0.0.1:{guarded.daemon.port}"
    with pytest.raises(ServerRefusal, match=said):
        Connection(where, ssl=use_ssl(guarded)).SimpleQueue("q").put(1)


def test_tls_and_a_plain_port_are_one_sentence_either_way(guarded: Guarded) -> None:
    if guarded.kind == "users":
        with pytest.raises(ConnectionError, match="this port speaks no TLS"):
            Connection(url(guarded), ssl=True).connect()
    else:
        with pytest.raises(ConnectionError, match="this port speaks TLS"):
            Connection(url(guarded)).connect()
        with pytest.raises(ConnectionError, match="its certificate is not trusted"):
            Connection(url(guarded), ssl=True).connect()


@pytest.mark.parametrize(
    ("where", "use", "said"),
    [
        ("kestrelpy://anna@127.0.0.1", None, "user anna has no password"),
        ("kestrelpy://127.0.0.1", {"ca_certs": "/none"}, "tls_ca /none: No such file"),
        ("kestrelpy://127.0.0.1", {"cert_reqs": ssl.CERT_NONE}, "is always checked"),
        ("kestrelpy://127.0.0.1", {"ca_cert": "x"}, "there is no ca_cert here, but ca_certs"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(where: str, use: Any, said: str) -> None:
    with pytest.raises(UrlRefused, match=said):
        Connection(where, ssl=use).connect()
