"""The kombu transport: one connection of kombu, with its channels.

    commands      one connection: store, declare, count; again after a break, with the same id
    fetchers      one connection a consumed queue: each waits for the next message
    leases        one connection in a thread: renewals, acknowledgements, rejections

One rule: the transport waits for a daemon that is away and reports nothing: leases are by token and
outlive breaks and restarts, so kombu need not know. Only the first connection fails at once.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from multiprocessing.connection import wait
from typing import Any, Final, cast

from kombu.exceptions import KombuError
from kombu.transport import virtual

from kestrelpy.client import (
    Access,
    Answer,
    Backoff,
    ReceivedItem,
    ServerRefusal,
    access_of,
    duration_ms,
)
from kestrelpy.kombu.channel import Channel
from kestrelpy.kombu.fetcher import Fetcher
from kestrelpy.kombu.leases import LeaseKeeper
from kestrelpy.kombu.options import PATIENCE, Unsupported, lease_ms, warn_of_unknown
from kestrelpy.kombu.outage import Outage
from kestrelpy.kombu.sockets import KombuConnection, Server
from kestrelpy.kombu.wake_pipe import WakePipe

DEFAULT_PORT: Final = 22133
DEFAULT_LEASE: Final = "30s"
DEFAULT_PATIENCE: Final = "10s"
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0
# The keys of `broker_use_ssl`, as Celery has them for other brokers.
_TLS_FILES: Final = {"ca_certs": "tls_ca", "certfile": "tls_cert", "keyfile": "tls_key"}


class UrlRefused(ValueError):
    """A broker URL, or an option of the transport, that cannot be."""


class Undeliverable(KombuError):
    """This process knows of no queue that is bound to the exchange with this routing key."""


class QueueFull(KombuError):
    """The queue holds as many messages as it may (`max_items`, `max_bytes`)."""


class Transport(virtual.Transport):
    """`kestrelpy://user:password@host:port`; the environment may say what the URL does not."""

    Channel = Channel
    default_port = DEFAULT_PORT
    driver_type = "kestrelpy"
    driver_name = "kestrelpy"
    # `drain_events` returns when something comes: no poll is needed.
    polling_interval = None
    connection_errors = (*virtual.Transport.connection_errors, OSError)
    channel_errors = (
        *virtual.Transport.channel_errors, ServerRefusal, QueueFull, Undeliverable, Unsupported,
    )  # fmt: skip
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    implements = virtual.Transport.implements.extend(
        asynchronous=False, exchange_type=frozenset(["direct", "topic", "fanout"])
    )

    def __init__(self, client: Any, **options: object) -> None:
        """Connect to nothing yet. Raises UrlRefused with one sentence."""
        super().__init__(client, **options)
        _check(client)
        address = (client.hostname or "127.0.0.1", client.port or DEFAULT_PORT)
        self._server = Server(address, _access(client))
        warn_of_unknown(client.transport_options)
        try:
            lease = lease_ms(client.transport_options, DEFAULT_LEASE)
            patience = client.transport_options.get(PATIENCE, DEFAULT_PATIENCE)
            self._patience = duration_ms(patience, f"transport option {PATIENCE}") / 1000
        except ValueError as error:
            raise UrlRefused(str(error)) from None
        self._lease_seconds = -(-lease // 1000)
        if self._lease_seconds < 1:
            raise UrlRefused("the transport option lease must be at least 1s")
        self._wakes = WakePipe()
        self.outage = Outage.of(f"the daemon at {address[0]}:{address[1]}")
        self._begin()

    def _begin(self) -> None:
        """Begin without a connection, also in a forked copy of this process."""
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._wire: KombuConnection | None = None
        self._was_connected = False
        # A copy of this process has no leases, and no thread that renews them.
        self.keeper = LeaseKeeper(
            self._server, self._lease_seconds, self._wakes.wake, self.outage
        )  # fmt: skip
        # The ids of the messages of this transport: the server remembers the newest one only. If a
        # copy of this process went on with these ids, it would store nothing.
        self._scope = uuid.uuid4().hex[:20]
        self._epoch = 0

    def driver_version(self) -> str:
        """Return the version of kestrelpy."""
        from kestrelpy import __version__  # noqa: PLC0415

        return __version__

    # -- kombu's connection -------------------------------------------------------------------

    def establish_connection(self) -> Transport:
        """Connect. Raises OSError, or Refused if the login is wrong."""
        self.command(b"version")
        connection: Transport = super().establish_connection()
        return connection

    def close_connection(self, connection: object) -> None:
        """Give back what has no end, and close all connections."""
        if os.getpid() != self._pid:
            return
        super().close_connection(connection)
        self.keeper.close(_CLOSE_SECONDS)
        with self._lock:
            self._drop_wire()
            self._was_connected = False

    def drain_events(self, connection: object, timeout: float | None = None) -> None:
        """Deliver messages; return after the first ones. Raises TimeoutError if none came."""
        until = time.monotonic() + timeout if timeout is not None else None
        while True:
            channels = {
                fetcher: channel for channel in list(self.channels) for fetcher in channel.fetchers
            }
            now = time.monotonic()
            for fetcher, channel in channels.items():
                if fetcher.no_ack or channel.qos.can_consume():
                    fetcher.ask()
            left = 1.0 if until is None else max(min(until - now, 1.0), 0.0)
            tries = [each.next_try - now for each in channels if not each.is_asked]
            left = min([left, *(each for each in tries if each > 0)])
            asked = [each for each in channels if each.is_asked]
            # `select` takes no descriptor above 1,023, which a worker may have.
            ready = wait(cast(list[int], [*asked, self._wakes]), left)
            was_delivered = False
            for each in ready:
                if isinstance(each, Fetcher):
                    found = each.read() if each.is_asked else None
                    if found is not None:
                        was_delivered |= channels[each].deliver(each, found)
                else:
                    self._wakes.clear()
            if was_delivered:
                return
            if until is not None and time.monotonic() >= until:
                raise TimeoutError

    def wake(self) -> None:
        """Let `drain_events` look again; from any thread."""
        self._wakes.wake()

    # -- for channels -------------------------------------------------------------------------

    def fetcher(self, queue: str, name: str, no_ack: bool) -> Fetcher:
        """Return a wait for the items of a name."""
        return Fetcher(self._server, queue, name, self._lease_seconds, no_ack, self.outage)

    def give_back(self, name: str, token: int) -> None:
        """Give back an item that is not delivered; no attempt is counted."""
        if token:
            self.keeper.hold(name, token)
            self.keeper.end(name, token, "defer")

    def open_now(self, name: str) -> ReceivedItem | None:
        """Lease the next item of a name, if there is one."""
        line = f"gets {name}/open/lease={self._lease_seconds}s/full"
        return self.command(line.encode("ascii")).found()

    def store(
        self, name: str, body: bytes, options: str, expiry: int, patience: float | None = None
    ) -> None:
        """Store an item once, however often it is sent. Raises OSError, Refused, QueueFull."""
        if os.getpid() != self._pid:
            self._begin()
        with self._lock:
            self._epoch += 1
            key = f"{name}/id=1/scope={self._scope}/epoch={self._epoch}{options}"
            line = f"set {key} 0 {expiry} {len(body)}".encode("ascii")
            answer = self.command(line + b"\r\n" + body, patience)
        if answer.line != b"STORED":
            raise QueueFull(f"queue {name} is full: nothing was stored")

    def count(self, name: str) -> int:
        """Return how many items wait in a queue, ready or delayed."""
        facts = self.stats(name)
        prefix = f"queue_{name}_".encode("ascii")
        return int(facts.get(prefix + b"items", 0)) + int(facts.get(prefix + b"delayed", 0))

    def stats(self, name: str) -> dict[bytes, bytes]:
        """Return the facts of a queue; none if there is no such queue."""
        return self.command(b"stats %b" % name.encode("ascii")).facts

    def declare_exchange(self, name: str, durable: bool) -> None:
        """Create the queue whose children are the queues bound to an exchange."""
        # A sync for each heartbeat of a worker would be a waste: no worker needs one after a crash.
        body = b"fanout_only = true\n" + (b"" if durable else b'sync = "1s"\n')
        line = b"set %b/declare 0 0 %d" % (name.encode("ascii"), len(body))
        self.command(line + b"\r\n" + body)

    def declare_queue(self, queue: str, name: str, settings: Mapping[str, str]) -> None:
        """Give a queue its settings. Raises OSError, Refused, Unsupported if it has others."""
        body = "".join(f"{key} = {value}\n" for key, value in settings.items()).encode()
        line = b"set %b/declare 0 0 %d" % (name.encode("ascii"), len(body))
        if self.command(line + b"\r\n" + body).line != b"STORED":
            raise Unsupported(
                f"queue {queue!r} was declared with other settings than "
                f"{', '.join(f'{key} = {value}' for key, value in settings.items())}: declare it "
                "alike everywhere, or delete it first"
            )

    def forget_child(self, child: str) -> None:
        """Delete the child of a queue that goes with its channel, if that can be done now."""
        with contextlib.suppress(OSError, ServerRefusal):
            self.command(b"delete %b" % child.encode("ascii"), 0.0)

    def undeliverable(self, exchange: str, routing_key: str) -> Undeliverable:
        """Return the error of a message that no queue would get."""
        return Undeliverable(
            f"no queue is bound to exchange {exchange!r} with routing key {routing_key!r} in this "
            "process: declare the queue before you publish (for Celery: name it in task_queues)"
        )

    def command(self, request: bytes, patience: float | None = None) -> Answer:
        """Send a request until it is answered, for `patience` seconds at most, and return the
        answer. Raises OSError, Refused."""
        if os.getpid() != self._pid:
            self._begin()
        pause = Backoff(0.05, 1.0)
        with self._lock:
            patience = self._patience if patience is None else patience
            until = time.monotonic() + (patience if self._was_connected else 0.0)
            while True:
                is_fresh = self._wire is None  # an old connection may have broken long ago
                try:
                    answer = self._connected().ask(request)[0]
                    self._was_connected = True
                    self.outage.works()
                    return answer.check()
                except OSError as error:
                    self._drop_wire()
                    if is_fresh and self._was_connected:
                        self.outage.broke(error)
                    if time.monotonic() >= until:
                        raise
                time.sleep(pause.next_seconds())

    # -- inside -------------------------------------------------------------------------------

    def _connected(self) -> KombuConnection:
        if self._wire is None:
            self._wire = KombuConnection(self._server, _CONNECT_SECONDS, _ANSWER_SECONDS)
        return self._wire

    def _drop_wire(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


def _check(client: Any) -> None:
    url = f"{client.transport_cls}://{client.hostname or ''}"
    if client.virtual_host not in (None, "", "/"):
        raise UrlRefused(
            f"{url}/{client.virtual_host}: the daemon has no virtual hosts: leave out the path "
            "(queues are named by task_queues and task_default_queue)"
        )


def _access(client: Any) -> Access:
    said = {} if isinstance(client.ssl, bool | None) else dict(client.ssl)
    if said.pop("cert_reqs", ssl.CERT_REQUIRED) not in (ssl.CERT_REQUIRED, "CERT_REQUIRED"):
        raise UrlRefused("broker_use_ssl: the daemon's certificate is always checked: cert_reqs")
    files = {name: said.pop(key, None) for key, name in _TLS_FILES.items()}
    if said:
        known = ", ".join([*_TLS_FILES, "cert_reqs"])
        raise UrlRefused(f"broker_use_ssl: there is no {', '.join(said)} here, but {known}")
    try:
        return access_of(
            user=client.userid or None, password=client.password or None, tls=bool(client.ssl),
            **files,
        )  # fmt: skip
    except ValueError as error:
        raise UrlRefused(str(error)) from None

