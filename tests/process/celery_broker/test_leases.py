"""The leases of messages: renewed and ended over breaks, without a wait of the channel.

Promise: celery.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("celery", reason="celery is not installed: pip install 'kestrelpy[celery]'")

from kombu import Connection, Queue

from kestrelpy.kombu.leases import LeaseKeeper
from kestrelpy.kombu.sockets import Server
from tests.process.celery_broker.workers import Shop
from tests.process.cli.command import counts, eventually
from tests.process.client.proxy import Proxy


@pytest.fixture
def wire(shop: Shop) -> Iterator[Proxy]:
    with Proxy(shop.daemon.port) as proxy:
        yield proxy


Lease = Callable[[], int]


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


@pytest.fixture
def lease(shop: Shop, queue: str) -> Lease:
    """Store an item and lease it for a second; return the token."""

    def lease_one() -> int:
        client: Any = shop.daemon.client()
        assert client.set(queue, b"x")
        _, token = client.gets(f"{queue}/open/lease=1s")
        client.close()
        return int(token)

    return lease_one


def test_leases_are_renewed_until_they_end(
    shop: Shop, wire: Proxy, queue: str, lease: Lease
) -> None:
    keeper = LeaseKeeper(Server(wire.address), 1)
    tokens = [lease(), lease()]
    for token in tokens:
        keeper.hold(queue, token)
    for token in tokens:
        touch = f"touch {queue}/token={token} 1"
        eventually(lambda touch=touch: wire.said.count(touch) >= 3)

    keeper.end(queue, tokens[0], "close")
    keeper.end(queue, tokens[1], "defer")
    keeper.end(queue, tokens[1], "close")  # the first end counts
    keeper.close(10)

    left = counts(shop.daemon, queue)
    assert (left["items"], left["open_transactions"], left["lease_expired"]) == (1, 0, 0)


def test_a_lease_that_is_held_late_is_renewed_in_time(
    shop: Shop, wire: Proxy, queue: str, lease: Lease
) -> None:
    keeper = LeaseKeeper(Server(wire.address), 1)
    first = lease()
    keeper.hold(queue, first)
    keeper.end(queue, first, "close")
    eventually(lambda: counts(shop.daemon, queue)["open_transactions"] == 0)

    token = lease()  # now the thread sleeps, and no lease is due
    keeper.hold(queue, token)

    eventually(lambda: wire.said.count(f"touch {queue}/token={token} 1") >= 2)
    keeper.end(queue, token, "close")
    keeper.close(10)
    assert counts(shop.daemon, queue)["lease_expired"] == 0


def test_an_end_is_sent_again_after_a_break(
    shop: Shop, wire: Proxy, queue: str, lease: Lease
) -> None:
    keeper = LeaseKeeper(Server(wire.address), 1)
    for _ in range(5):
        token = lease()
        keeper.hold(queue, token)
        wire.cut()
        keeper.end(queue, token, "close")
        eventually(lambda: counts(shop.daemon, queue)["open_transactions"] == 0)
    keeper.close(10)

    assert counts(shop.daemon, queue)["items"] == 0


def test_a_lease_that_is_over_is_said(
    shop: Shop, wire: Proxy, queue: str, lease: Lease, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = LeaseKeeper(Server(wire.address), 1)
    token = lease()
    with caplog.at_level(logging.WARNING):
        keeper.hold(queue, token)
        shop.daemon.client().get(f"{queue}/abort/token={token}")
        eventually(lambda: f"{queue}: a message may be handled again" in caplog.text)

    keeper.end(queue, token, "close")  # it comes too late, and does no harm
    keeper.close(10)
    assert counts(shop.daemon, queue)["items"] == 1


def test_a_copy_of_the_process_ends_no_lease(
    shop: Shop, wire: Proxy, queue: str, lease: Lease
) -> None:
    keeper = LeaseKeeper(Server(wire.address), 1)
    token = lease()
    keeper.hold(queue, token)
    child = os.fork()
    if child == 0:
        keeper.end(queue, token, "close")
        time.sleep(1)  # a thread of its own would have sent it by now
        os._exit(0)
    os.waitpid(child, 0)

    assert counts(shop.daemon, queue)["open_transactions"] == 1
    keeper.end(queue, token, "close")
    keeper.close(10)


def test_no_more_than_the_prefetched_messages_wait_for_the_answer_to_their_ends(
    shop: Shop, wire: Proxy, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [True]
    send = LeaseKeeper._send

    def try_send(self: LeaseKeeper, batch: list[Any]) -> None:
        if away[0]:
            raise OSError("away")
        send(self, batch)

    monkeypatch.setattr(LeaseKeeper, "_send", try_send)
    delivered: list[str] = []

    def take(body: str, message: Any) -> None:
        delivered.append(body)
        message.ack()

    with Connection(f"kestrelpy://127.0.0.1:{wire.address[1]}/") as connection:
        where = Queue(queue, connection.channel())
        producer = connection.Producer()
        for number in range(9):
            producer.publish(str(number), routing_key=queue)
        consumer = connection.Consumer(where, callbacks=[take], prefetch_count=3)
        with consumer:
            with pytest.raises(TimeoutError):
                while True:
                    connection.drain_events(timeout=0.5)
            assert delivered == ["0", "1", "2"]  # the daemon has heard of no end
            away[0] = False
            while len(delivered) < 9:
                connection.drain_events(timeout=20)
    assert counts(shop.daemon, queue)["items"] == 0
