"""A kombu channel: queues of the daemon as queues of AMQP.

    direct    a queue of the daemon; its publisher must have declared the queue, as Celery does
    topic     a queue with fan-out children: each bound queue reads all, and drops what does not
    fanout    match its binding; a queue sees messages that are published after it was bound

One rule: a delivery tag is `<name>:<token>`, so that an acknowledgement needs nothing but the tag.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from queue import Empty
from typing import Any, Final, NamedTuple, Protocol

from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.utils.json import dumps, loads

from kestrelpy.client import Answer, ReceivedItem, ServerRefusal
from kestrelpy.kombu.fetcher import Fetcher
from kestrelpy.kombu.leases import LeaseKeeper
from kestrelpy.kombu.names import (
    child_name,
    due_seconds,
    exchange_name,
    expiry_seconds,
    queue_name,
)
from kestrelpy.kombu.options import Unsupported, refuse_priority, settings_of

log = logging.getLogger("kestrelpy.kombu")

_FANOUT_TYPES: Final = ("topic", "fanout")
# Messages of an exchange that is not durable (remote control, events) are of no use for longer.
_TRANSIENT_SECONDS: Final = 300
_PIDBOX: Final = ".pidbox"
_EVENT_SECONDS: Final = 1.0
_TRANSIENT: Final = 1  # the delivery mode of AMQP


class TransportPort(Protocol):
    """What a channel needs of its transport."""

    keeper: LeaseKeeper

    def fetcher(self, queue: str, name: str, no_ack: bool) -> Fetcher: ...
    def give_back(self, name: str, token: int) -> None: ...
    def open_now(self, name: str) -> ReceivedItem | None: ...
    def store(
        self, name: str, body: bytes, options: str, expiry: int, patience: float | None = None
    ) -> None: ...
    def count(self, name: str) -> int: ...
    def stats(self, name: str) -> dict[bytes, bytes]: ...
    def declare_exchange(self, name: str, durable: bool) -> None: ...
    def declare_queue(self, queue: str, name: str, settings: Mapping[str, str]) -> None: ...
    def forget_child(self, child: str) -> None: ...
    def undeliverable(self, exchange: str, routing_key: str) -> Exception: ...
    def command(self, request: bytes, patience: float | None = None) -> Answer: ...
    def wake(self) -> None: ...
    def _deliver(self, message: object, queue: str) -> None: ...


class QoS(virtual.QoS):
    """Messages that were delivered and have no end yet.

    An end that the daemon has not answered counts as well: if the daemon cannot be reached for
    longer than the lease, no more than `prefetch_count` messages are handled again.
    """

    channel: Channel

    def can_consume(self) -> bool:
        """Return whether one more message may be delivered."""
        most = self.prefetch_count
        in_hand = len(self._delivered) - len(self._dirty)
        return not most or in_hand + self.channel.connection.keeper.unanswered < most

    def ack(self, delivery_tag: str) -> None:
        """End the lease as done."""
        self.channel.end(delivery_tag, "close")
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give the message back, one attempt counted, or make it a dead letter."""
        self.channel.end(delivery_tag, "abort" if requeue else "abort/dead=rejected")
        super().ack(delivery_tag)

    def restore_unacked(self) -> list[object]:
        """Give back all messages that have no end, in their places, no attempt counted."""
        self._flush()
        for delivery_tag in list(self._delivered):
            self.channel.end(delivery_tag, "defer")
        self._delivered.clear()
        return []


class Going(NamedTuple):
    """A queue that is removed when it was not used for a while. It is declared again after half of
    that time: otherwise another process that puts into it would make it without its settings."""

    settings: dict[str, str]
    half_seconds: float
    again_at: float


class Channel(virtual.Channel):
    """One channel of a `Transport`."""

    QoS = QoS
    supports_fanout = True
    connection: TransportPort

    def __init__(self, connection: TransportPort, **options: object) -> None:
        super().__init__(connection, **options)
        self.fetchers: list[Fetcher] = []
        self._passing: list[tuple[str, str]] = []  # children of queues that go with this channel
        self._auto_delete: set[str] = set()
        self._settings: dict[str, dict[str, str]] = {}  # of queues, not declared yet
        self._going: dict[str, Going] = {}

    # -- declaring ----------------------------------------------------------------------------

    def exchange_declare(
        self, exchange: str | None = None, type: str = "direct", durable: bool = False,  # noqa: A002
        *more: object, **options: Any,
    ) -> None:  # fmt: skip
        """Declare an exchange; one with children is a queue of the daemon."""
        super().exchange_declare(exchange, type, durable, *more, **options)
        if exchange and type in _FANOUT_TYPES and not options.get("passive"):
            self.connection.declare_exchange(exchange_name(exchange), durable)

    def prepare_queue_arguments(self, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Return the arguments of a queue with kombu's own words for some of them."""
        prepared: dict[str, Any] = to_rabbitmq_queue_arguments(arguments, **options)
        return prepared

    def _new_queue(self, queue: str, auto_delete: bool = False, **options: Any) -> None:
        queue_name(queue)  # a wrong name is refused here
        arguments = options.get("arguments") or {}
        settings = settings_of(queue, arguments, auto_delete)
        if settings:
            self._settings[queue] = settings
        if auto_delete:
            self._auto_delete.add(queue)
            if arguments.get("x-expires"):
                self._going[queue] = Going(settings, int(arguments["x-expires"]) / 2000, 0.0)

    def _declare_settings(self, queue: str) -> None:
        """Give a queue the settings that its arguments mean, before its first use. If the daemon
        refuses them, each use is refused: the queue would have other settings."""
        settings, going = self._settings.get(queue), self._going.get(queue)
        if going is not None and time.monotonic() >= going.again_at:
            settings = going.settings
        if settings is None:
            return
        try:
            self.connection.declare_queue(queue, queue_name(queue), settings)
        except Unsupported:
            if going is None:  # no other process has it, so an older version declared it
                raise
        self._settings.pop(queue, None)
        if going is not None:
            again_at = time.monotonic() + going.half_seconds
            self._going[queue] = going._replace(again_at=again_at)

    def _has_queue(self, queue: str, **options: object) -> bool:
        return bool(self.connection.stats(queue_name(queue)))

    def queue_bind(
        self, queue: str, exchange: str | None = None, *more: object, **options: object
    ) -> None:
        """Bind a queue to an exchange; it gets its settings."""
        super().queue_bind(queue, exchange, *more, **options)
        if exchange is not None and not self._is_fanout(exchange):
            self._declare_settings(queue)  # also if it was bound before

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        if self._is_fanout(exchange):
            settings = self._settings.pop(queue, {})
            self._going.pop(queue, None)
            if settings and queue not in self._auto_delete:
                log.warning(
                    "queue %s is bound to the exchange %s, whose queues have no %s of their own",
                    queue, exchange, ", ".join(settings),
                )  # fmt: skip
            child = child_name(exchange, queue)
            self.connection.command(b"get %b/peek" % child.encode("ascii"))  # it begins now
            if queue in self._auto_delete:
                self._passing.append((queue, child))

    # -- publishing ---------------------------------------------------------------------------

    def basic_publish(
        self, message: dict[str, Any], exchange: str, routing_key: str, **options: object
    ) -> None:
        """Publish a message; return when it is stored."""
        refuse_priority(message)
        if reply_to := (message.get("properties") or {}).get("reply_to"):
            self._declare_settings(reply_to)  # its worker would make it without its settings
        self._inplace_augment_message(message, exchange, routing_key)
        if exchange and self._is_fanout(exchange):
            self._put_fanout(exchange, message, routing_key)
            return
        for queue in self._lookup(exchange, routing_key):
            self._put(queue, message)

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        if not exchange:
            return [routing_key]
        found = {
            queue for key, _, queue in self.state.exchanges.get(exchange, {}).get("table", ())
            if key == routing_key
        }  # fmt: skip
        if found:
            return list(found)
        if exchange.endswith(_PIDBOX):  # a reply to remote control: kombu names the queue so
            return [f"{routing_key}.{exchange}"]
        default = default or self.deadletter_queue
        if default:
            return [default]
        raise self.connection.undeliverable(exchange, routing_key)

    def _put(self, queue: str, message: Mapping[str, Any], **options: object) -> None:
        self._declare_settings(queue)
        now = time.time()
        due = due_seconds(message, now)
        self.connection.store(
            queue_name(queue), _encoded(message), f"/at={due:.3f}" if due is not None else "",
            expiry_seconds(message, now),
        )  # fmt: skip

    def _put_fanout(
        self, exchange: str, message: Mapping[str, Any], routing_key: str, **options: object
    ) -> None:
        declared = self.state.exchanges.get(exchange, {})
        durable = declared.get("durable", False)
        seconds = expiry_seconds(message, time.time()) or (0 if durable else _TRANSIENT_SECONDS)
        is_event = (
            declared.get("type") == "topic"
            and message["properties"].get("delivery_mode") == _TRANSIENT
        )
        patience = _EVENT_SECONDS if is_event or not durable else None
        name = exchange_name(exchange)
        try:
            self.connection.store(name, _encoded(message), "", seconds, patience)
        except OSError:
            # Celery repeats a heartbeat until the daemon is back, and holds a lock that its stop
            # needs. So an event that cannot be sent is dropped.
            if not is_event:
                raise

    # -- consuming ----------------------------------------------------------------------------

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **options: Any
    ) -> None:
        """Deliver the messages of a queue, from `drain_events`."""
        super().basic_consume(queue, no_ack, callback, consumer_tag, **options)
        self._declare_settings(queue)
        for name in self._names(queue):
            self.fetchers.append(self.connection.fetcher(queue, name, no_ack))
        self.connection.wake()

    def basic_cancel(self, consumer_tag: str) -> None:
        """Deliver no more messages; those that were delivered can still be acknowledged."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None and queue not in self._active_queues:
            for fetcher in [each for each in self.fetchers if each.queue == queue]:
                self.fetchers.remove(fetcher)
                found = fetcher.end()
                if found is not None and found.token:
                    self.connection.give_back(fetcher.name, found.token)

    def basic_get(self, queue: str, no_ack: bool = False, **options: object) -> Any:
        """Return the next message of a queue, or None."""
        self._declare_settings(queue)
        for name in self._names(queue):
            while (found := self.connection.open_now(name)) is not None:
                raw = self._raw(queue, name, found)
                if raw is None:
                    continue  # its lease was ended: the next item of this name may be a message
                message = self.Message(raw, channel=self)
                if no_ack:
                    self.end(message.delivery_tag, "close")
                else:
                    self.qos.append(message, message.delivery_tag)
                return message
        return None

    def basic_qos(self, *sizes: int, **options: Any) -> None:
        """Change how many messages may be delivered and have no end."""
        super().basic_qos(*sizes, **options)
        self.connection.wake()

    def deliver(self, fetcher: Fetcher, found: ReceivedItem) -> bool:
        """Deliver an item that came, or give it back; return whether it was delivered."""
        may_come = fetcher in self.fetchers and (fetcher.no_ack or self.qos.can_consume())
        if not may_come:
            self.connection.give_back(fetcher.name, found.token)
            return False
        raw = self._raw(fetcher.queue, fetcher.name, found)
        if raw is None:
            return False
        self.connection._deliver(raw, fetcher.queue)
        return True

    def end(self, delivery_tag: str, words: str) -> None:
        """End the lease that a delivery tag names."""
        name, _, token = delivery_tag.rpartition(":")
        if name:
            self.connection.keeper.end(name, int(token), words)
            self.connection.wake()

    def close(self) -> None:
        """Cancel all consumers, and give back what has no end."""
        was_open = not self.closed
        connection = self.connection
        super().close()
        if was_open and connection is not None:
            for _, child in self._passing:
                connection.forget_child(child)

    # -- the rest of a virtual channel --------------------------------------------------------

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        raise Empty  # `drain_events` of the transport delivers

    def _size(self, queue: str) -> int:
        return sum(self.connection.count(name) for name in self._names(queue))

    def _purge(self, queue: str) -> int:
        purged = 0
        for name in self._names(queue):
            count = self.connection.count(name)
            if count:
                self.connection.command(b"flush %b" % name.encode("ascii"))
            purged += count
        return purged

    def _delete(self, queue: str, exchange: str = "", *more: object, **options: object) -> None:
        """Delete a queue, its children of the exchanges that it is bound to, and its declaration: a
        queue of that name that is declared later is another one."""
        self._settings.pop(queue, None)
        self._going.pop(queue, None)
        self._auto_delete.discard(queue)
        self._passing = [each for each in self._passing if each[0] != queue]
        names = [queue_name(queue)]
        if self._is_fanout(exchange):
            names.append(child_name(exchange, queue))
        for name in names:
            with contextlib.suppress(ServerRefusal):  # `allow_delete` may be off
                self.connection.command(b"delete %b" % name.encode("ascii"))

    def _is_fanout(self, exchange: str) -> bool:
        return self.state.exchanges.get(exchange, {}).get("type") in _FANOUT_TYPES

    def _names(self, queue: str) -> list[str]:
        """Return the names on the wire from which a queue's messages come."""
        children = {
            child_name(each.exchange, queue): None
            for each in self.state.queue_bindings(queue)
            if self._is_fanout(each.exchange)
        }
        return [queue_name(queue), *children]

    def _raw(self, queue: str, name: str, found: ReceivedItem) -> dict[str, Any] | None:
        """Return the message of an item; None if the queue is not bound to its routing key."""
        tag = f"{name}:{found.token}" if found.token else ""
        if found.token:
            self.connection.keeper.hold(name, found.token)
        try:
            raw: dict[str, Any] = loads(found.body)
            properties = raw["properties"]
            info = properties["delivery_info"]
        except (ValueError, KeyError, TypeError):
            # Celery did not make this item: its workers cannot handle it, and a person should know.
            if tag:
                self.end(tag, "abort/dead=not%20a%20message%20of%20kombu")
            return None
        if "+" in name and not self._is_bound(queue, info):
            if tag:
                self.end(tag, "close")
            return None
        properties["delivery_tag"] = tag or properties["delivery_tag"]
        info["redelivered"] = found.attempts > 0
        return raw

    def _is_bound(self, queue: str, info: Mapping[str, Any]) -> bool:
        exchange = str(info.get("exchange"))
        kind = self.exchange_types["topic"]
        state = self.state.exchanges.get(exchange, {})
        return state.get("type") == "fanout" or any(
            bound == queue and (pattern is None or kind._match(pattern, info.get("routing_key")))
            for _, pattern, bound in state.get("table", ())
        )


def _encoded(message: Mapping[str, Any]) -> bytes:
    text: str = dumps(message)
    return text.encode()
