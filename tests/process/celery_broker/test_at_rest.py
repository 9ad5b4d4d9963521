"""After each end of a channel's use nothing is left of it: no lease, no connection, no thread."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("kombu", reason="kombu is not installed: pip install 'kestrelpy[celery]'")

from kombu import Connection, Exchange, Queue
from kombu.exceptions import MessageStateError
from kombu.transport.virtual import Message

from kestrelpy.client import ServerRefusal
from kestrelpy.kombu.channel import Channel
from kestrelpy.kombu.transport import Transport, Undeliverable
from tests.process.client.items import put
from tests.support.at_rest import left_over
from tests.support.daemon import DaemonProcess

_KNOWN = "how its queues were declared: a closed channel is not used any more"
# Attributes of kombu's own classes that may hold something when the instance is closed.
KOMBUS_OWN = {
    "kombu.channel.Channel": {
        "channel_id": "a name", "closed": "it is", "_passing _auto_delete _settings _going": _KNOWN,
    },
    "kombu.channel.QoS": {"prefetch_count": "a setting"},
}  # fmt: skip
BUT = {
    name: {each: why for names, why in rows.items() for each in names.split()}
    for name, rows in KOMBUS_OWN.items()
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("kombu") / "data") as running:
        yield running


class Use:
    """A channel of a connection of its own, with a queue that has three messages."""

    def __init__(self, daemon: DaemonProcess, name: str) -> None:
        self.daemon, self.name = daemon, name
        self.connection = Connection(
            f"kestrelpy://127.0.0.1:{daemon.port}", transport_options={"lease": "1s"}
        )
        self.transport: Transport = self.connection.transport
        self.channel: Channel = self.connection.channel()
        self.direct = Exchange("direct", "direct")
        self.queue = Queue(name, self.direct, name)
        self.publish(3)

    def publish(self, count: int) -> None:
        producer = self.connection.Producer(self.channel)
        for number in range(count):
            producer.publish(number, exchange=self.direct, routing_key=self.name,
                             declare=[self.queue])  # fmt: skip

    def got(self, no_ack: bool = False) -> Message:
        found = self.queue(self.channel).get(no_ack=no_ack)
        assert found is not None
        return found

    def consumed(
        self, count: int = 1, queue: Queue | None = None, **settings: Any
    ) -> list[Message]:
        """Return the first messages of a consumer that goes on."""
        found: list[Message] = []
        self.connection.Consumer(
            queue or self.queue, self.channel, on_message=found.append, tag_prefix="t", **settings
        ).consume()
        while len(found) < count:
            self.connection.drain_events(timeout=30)
        return found

    def cancel(self) -> None:
        for tag in [*self.channel._consumers]:
            self.channel.basic_cancel(tag)


def cancel_while_one_comes(use: Use) -> None:
    """The consumer may have one message, and its wait brings another one as it is called off."""
    use.channel.basic_qos(0, 1, False)
    (message,) = use.consumed()
    use.cancel()
    message.ack()


def be_cut_off(use: Use) -> None:
    """Both connections break while it has a message."""
    message = use.got()
    for wire in (use.transport._wire, use.transport.keeper._wire):
        if wire is not None:
            wire._socket.shutdown(2)
    message.ack()


def cut_a_wait_off(use: Use) -> None:
    for message in use.consumed(3):
        message.ack()
    for fetcher in use.channel.fetchers:
        if fetcher._wire is not None:
            fetcher._wire._socket.shutdown(2)
    use.publish(1)
    use.connection.drain_events(timeout=30)


def lose(use: Use) -> None:
    """End the lease of a message that the channel still has, and acknowledge the message then."""
    message = use.got()
    token = message.delivery_tag.rpartition(":")[2]
    use.transport.command(f"get {use.name}/defer/token={token}".encode())
    message.ack()


def end_twice(use: Use) -> None:
    message = use.got()
    message.ack()
    with pytest.raises(MessageStateError):
        message.reject()


def read_an_exchange(use: Use, **settings: Any) -> None:
    news = Exchange(f"news{use.name}", "topic", durable=False)
    read = Queue(f"{use.name}r", news, "sport.*", **settings)
    use.consumed(0, read)
    for key in ("art", "sport.golf"):
        use.connection.Producer(use.channel).publish(1, exchange=news, routing_key=key)
    use.connection.drain_events(timeout=30)


def get_what_is_no_message(use: Use) -> None:
    use.queue(use.channel).purge()
    put(use.daemon, use.name, b"no message")
    assert use.queue(use.channel).get() is None


def publish_to_nobody(use: Use) -> None:
    with pytest.raises(Undeliverable):
        use.connection.Producer(use.channel).publish(1, exchange=use.direct, routing_key="no")


def publish_what_is_too_large(use: Use) -> None:
    with pytest.raises(ServerRefusal):
        use.connection.Producer(use.channel).publish(
            b"x" * 9_000_000, exchange=use.direct, routing_key=use.name, serializer="raw",
            content_type="application/data", content_encoding="binary",
        )  # fmt: skip


USES: dict[str, Callable[[Use], object]] = {
    "published": lambda use: None,
    "got and acknowledged": lambda use: use.got().ack(),
    "got and requeued": lambda use: use.got().requeue(),
    "got and rejected": lambda use: use.got().reject(),
    "got without an end": Use.got,
    "got without acknowledgement": lambda use: use.got(no_ack=True),
    "consumed and acknowledged": lambda use: [each.ack() for each in use.consumed(3)],
    "consumed without an end": lambda use: use.consumed(2),
    "consumed without acknowledgement": lambda use: use.consumed(2, no_ack=True),
    "cancelled": lambda use: (use.consumed(), use.cancel()),
    "cancelled while one comes": cancel_while_one_comes,
    "consumed, recovered": lambda use: (use.consumed(2), use.channel.basic_recover(requeue=True)),
    "purged": lambda use: use.queue(use.channel).purge(),
    "deleted": lambda use: use.queue(use.channel).delete(),
    "deleted with a consumer": lambda use: (use.consumed(), use.queue(use.channel).delete()),
    "of an exchange": read_an_exchange,
    "of an exchange, for itself": lambda use: read_an_exchange(use, auto_delete=True),
    "of an exchange, for a while": lambda use: read_an_exchange(use, auto_delete=True, expires=60),
    "no message of kombu": get_what_is_no_message,
    "published to nobody": publish_to_nobody,
    "published too much": publish_what_is_too_large,
    "connections break": be_cut_off,
    "a wait breaks": cut_a_wait_off,
    "lost": lose,
    "ended twice": end_twice,
}


@pytest.mark.parametrize("how", ["the channel is closed", "the connection is closed"])
@pytest.mark.parametrize("name", USES)
def test_nothing_is_left_of_a_channel(
    daemon: DaemonProcess, name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest would keep the logged errors, and with them the objects that raised them.
    monkeypatch.setattr(logging.getLogger("kestrelpy.kombu"), "disabled", True)
    use = Use(daemon, f"q{[*USES].index(name)}-{how.split()[1]}")
    USES[name](use)
    channel, transport, keeper = use.channel, use.transport, use.transport.keeper
    if how == "the channel is closed":
        channel.close()
        assert left_over(channel, but=BUT) == []
        gone = weakref.ref(channel)
        del channel, use.channel
        gc.collect()
        assert gone() is None, "somebody holds a channel that was closed"
        # Another channel uses the connection on, and gets the message of the first one.
        use.channel = use.connection.channel()
        use.publish(1)
        use.got().ack()
        channel = use.channel
    use.connection.close()
    assert left_over(transport, keeper, channel, but=BUT) == []
    assert (transport.channels, transport._avail_channels, [*transport._used_channel_ids]) == (
        [], [], []
    )  # fmt: skip


def test_a_get_goes_past_items_that_are_no_messages_for_it(daemon: DaemonProcess) -> None:
    use = Use(daemon, "past")
    use.queue(use.channel).purge()
    put(daemon, use.name, b"no message", b"{}", b"[]")
    use.publish(1)
    use.got().ack()

    news = Exchange("pastnews", "topic", durable=False)
    read = Queue("pastread", news, "sport.*")(use.channel)
    read.declare()
    for key in ("art", "music", "sport.golf"):
        use.connection.Producer(use.channel).publish(key, exchange=news, routing_key=key)
    found = read.get()
    assert found is not None
    assert found.payload == "sport.golf"
    found.ack()
    use.connection.close()
