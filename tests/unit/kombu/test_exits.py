"""Every state of the transport is left: leases, waits, connections, how a queue was declared."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

pytest.importorskip("kombu", reason="kombu is not installed: pip install 'kestrelpy[celery]'")

from kombu.transport.virtual import BrokerState

from kestrelpy.client import Answer, ReceivedItem, ServerRefusal
from kestrelpy.kombu import leases, transport
from kestrelpy.kombu.channel import Channel
from kestrelpy.kombu.fetcher import Fetcher
from kestrelpy.kombu.leases import LeaseKeeper
from kestrelpy.kombu.outage import Outage
from kestrelpy.kombu.sockets import Server
from kestrelpy.kombu.transport import Transport
from kestrelpy.kombu.wake_pipe import WakePipe

SERVER = Server(("127.0.0.1", 1))


def answer(line: bytes) -> Answer:
    made = Answer()
    made.line = line
    return made


class Line:
    """In the place of a connection: it answers what the test says."""

    open: list[Line]
    answers: ClassVar[Any]  # from a line to its answer

    def __init__(self, *_: object) -> None:
        self.closed = False
        Line.open.append(self)

    def ask(self, *lines: bytes) -> list[Answer]:
        return [answer(Line.answers(each)) for each in lines]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The requests to a daemon that answers each with a success."""
    asked: list[bytes] = []

    def succeed(line: bytes) -> bytes:
        asked.append(line)
        return b"TOUCHED" if line.startswith(b"touch") else b"END"

    Line.open, Line.answers = [], staticmethod(succeed)
    monkeypatch.setattr(leases, "KombuConnection", Line)
    monkeypatch.setattr(transport, "KombuConnection", Line)
    return asked


# -- leases -----------------------------------------------------------------------------------


class Threads:
    """In the place of threads: their work is done when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Callable[[], None]] = []

    def __call__(self, target: Callable[[], None], **_: object) -> Any:
        self.begun.append(target)
        return SimpleNamespace(start=lambda: None, is_alive=lambda: True, join=lambda _: None)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    made = Threads()
    monkeypatch.setattr(leases.threading, "Thread", made)
    monkeypatch.setattr(leases.time, "sleep", lambda _: None)
    return made


def test_a_keeper_that_is_closed_ends_its_thread_and_begins_again_when_it_is_used(
    said: list[bytes], threads: Threads
) -> None:
    keeper = LeaseKeeper(SERVER, 30)
    for turn in (1, 2, 3):
        keeper.hold("q", turn)
        keeper.end("q", turn, "close")
        keeper.close(1)
        assert len(threads.begun) == turn
        threads.begun[-1]()
        assert said.pop() == b"get q/close/token=%d" % turn
        assert (keeper._held, keeper._ending, keeper._thread, keeper._wire) == ({}, {}, None, None)
        assert keeper.unanswered == 0
        assert all(each.closed for each in Line.open)


def test_a_keeper_that_is_used_again_before_its_thread_has_ended_renews(
    said: list[bytes], threads: Threads
) -> None:
    """The daemon was away while the connection was closed, and kombu has connected again."""
    keeper = LeaseKeeper(SERVER, 30)
    keeper.hold("q", 1)
    keeper.end("q", 1, "close")
    keeper.close(0)
    keeper.hold("q", 2)
    assert len(threads.begun) == 1, "the one that has not ended yet goes on"
    batch = keeper._next_batch()
    assert batch is not None
    keeper._send(batch)

    def wait(_: float) -> None:
        keeper._held["q", 2].renew_at = 0.0

    cast(Any, keeper._changed).wait = wait
    batch = keeper._next_batch()
    assert batch is not None, "it waits for the lease that it has"
    keeper._send(batch)
    assert said == [b"get q/close/token=1", b"touch q/token=2 30"]


def test_a_keeper_whose_last_lease_ends_after_its_close_has_no_thread(
    said: list[bytes], threads: Threads
) -> None:
    keeper = LeaseKeeper(SERVER, 30)
    keeper.hold("q", 1)
    keeper.close(1)
    threads.begun[0]()
    keeper.end("q", 1, "close")
    threads.begun[1]()
    assert said == [b"get q/close/token=1"]
    assert keeper._thread is None


ENDS = {
    "answered": b"END",
    "the lease is over": b"CLIENT_ERROR token 1 of q is not valid: confirmed or expired",
    "refused for good": b"CLIENT_ERROR forbidden: this needs the role read in queue q",
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_that_has_its_answer_is_sent_no_more(
    said: list[bytes], threads: Threads, how: str
) -> None:
    answered: list[int] = []
    keeper = LeaseKeeper(SERVER, 30, lambda: answered.append(keeper.unanswered))
    keeper.hold("q", 1)
    keeper.end("q", 1, "close")
    assert keeper.unanswered == 1
    refused = b"SERVER_ERROR readonly: this server removes nothing now"
    Line.answers = staticmethod(lambda _: refused)
    keeper._send(list(keeper._ending.values()))
    assert answered == [1], "it is sent again"
    Line.answers = staticmethod(lambda _: ENDS[how])
    keeper._send(list(keeper._ending.values()))
    assert answered == [1, 0]


def test_a_lease_that_is_over_is_held_no_more(said: list[bytes], threads: Threads) -> None:
    keeper = LeaseKeeper(SERVER, 30)
    keeper.hold("q", 1)
    keeper.hold("q", 2)
    Line.answers = staticmethod(
        lambda line: b"NOT_FOUND" if b"token=1" in line else b"TOUCHED"
    )
    keeper._send(list(keeper._held.values()))
    assert [*keeper._held] == [("q", 2)]

    keeper.hold("q", 3)
    keeper.end("q", 3, "close")
    for each in (*keeper._held.values(), *keeper._ending.values()):
        each.ends_at = 0.0
    keeper.hold("q", 4)
    keeper._forget_ended()  # after a break
    assert ([*keeper._held], keeper.unanswered) == ([("q", 4)], 0)


def test_a_lease_that_is_not_renewed_for_now_is_held_and_renewed_soon(
    said: list[bytes], threads: Threads, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: 100.0))
    keeper = LeaseKeeper(SERVER, 80)
    keeper.hold("q", 1)
    (held,) = keeper._held.values()
    assert (held.renew_at, held.ends_at) == (140.0, 180.0)
    Line.answers = staticmethod(lambda _: b"SERVER_ERROR the disk is full")
    keeper._send([held])
    assert ([*keeper._held], caplog.messages) == ([("q", 1)], [])
    assert (held.renew_at, held.ends_at) == (110.0, 180.0)
    Line.answers = staticmethod(lambda _: b"CLIENT_ERROR forbidden: this needs the role read")
    keeper._send([held])
    assert keeper._held == {}


def test_a_daemon_is_back_when_it_has_answered_and_not_when_it_is_asked(
    said: list[bytes], threads: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    """Each try to reach one that is away connects, or finds the line cut."""
    breaks = [ConnectionRefusedError("refused"), ConnectionResetError("cut"), None]
    succeed = Line.answers

    def answer_at_last(line: bytes) -> bytes:
        if (error := breaks.pop(0)) is not None:
            raise error
        return cast(bytes, succeed(line))

    Line.answers = staticmethod(answer_at_last)
    keeper = LeaseKeeper(SERVER, 30)
    keeper.hold("q", 1)
    keeper.end("q", 1, "close")
    keeper.close(1)
    threads.begun[0]()
    assert [each.partition(" after ")[0] for each in caplog.messages] == [
        "the daemon: refused; trying again until it is back", "the daemon is back",
    ]


# -- a wait -----------------------------------------------------------------------------------


def test_a_wait_is_asked_once_and_again_after_each_answer(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address: tuple[str, int] = server.getsockname()
        waiting = Fetcher(Server(address), "q", "q", 30, True, Outage("the daemon"))
        waiting.ask()
        peer, _ = server.accept()
        with peer:
            for line in (b"END\r\n", b"VALUE q 0 1\r\nx\r\nEND\r\n", b"END\r\n"):
                waiting.ask()
                asked = peer.recv(1000)
                assert asked.count(b"get q/t=20s\r\n") == 1
                assert waiting.is_asked
                peer.sendall(line)
                found = waiting.read()
                assert (found is not None, waiting.is_asked) == (line[0:1] == b"V", False)
                waiting.ask()
            waiting.next_try = 0.0
            peer.recv(1000)
            peer.sendall(b"SERVER_ERROR busy: not now\r\n")
            assert waiting.read() is None
            assert (waiting.is_asked, waiting._wire) == (False, None)
            assert waiting.next_try > 0.0
            waiting.ask()
            assert not waiting.is_asked, "not before its pause is over"
            waiting.next_try = 0.0
            waiting.ask()
            assert waiting.is_asked
        other, _ = server.accept()
        with other:
            assert other.recv(1000)
            other.sendall(b"END\r\n")
        waiting.end()
    assert (waiting.is_asked, waiting._wire) == (False, None)


# -- the transport ----------------------------------------------------------------------------


@pytest.fixture
def connection(said: list[bytes], threads: Threads) -> Transport:
    return Transport(
        SimpleNamespace(
            hostname="127.0.0.1", port=1, virtual_host="/", ssl=None, userid=None, password=None,
            transport_cls="kestrelpy", transport_options={},
        )
    )  # fmt: skip


def test_a_connection_that_was_closed_connects_again_or_says_so_at_once(
    connection: Transport, said: list[bytes]
) -> None:
    """Only while it is connected a daemon that is away is waited for."""
    for _ in range(2):
        connection.command(b"version")
        assert connection._was_connected
        connection.close_connection(connection)
        assert not connection._was_connected
        assert connection._wire is None
        assert all(each.closed for each in Line.open)

    tries: list[bytes] = []

    def break_off(line: bytes) -> bytes:
        tries.append(line)
        raise ConnectionRefusedError

    Line.answers = staticmethod(break_off)
    with pytest.raises(ConnectionRefusedError):
        connection.command(b"version")
    assert tries == [b"version"]


def test_a_worker_with_many_descriptors_is_woken(connection: Transport) -> None:
    with contextlib.ExitStack() as files:
        while files.enter_context(open(os.devnull, "rb")).fileno() < 1100:
            pass
        made = WakePipe()
        connection._wakes, before = made, connection._wakes
        assert made.fileno() > 1023
        made.wake()
        with pytest.raises(TimeoutError):
            connection.drain_events(connection, 0.0)
        connection._wakes = before


def test_what_woke_it_does_not_wake_it_again(
    connection: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[list[object]] = []
    real = transport.wait

    def look(waits: Any, seconds: float) -> Any:
        looks.append(real(waits, 0))
        return looks[-1]

    monkeypatch.setattr(transport, "wait", look)
    connection.wake()
    connection.wake()
    with pytest.raises(TimeoutError):
        connection.drain_events(connection, 0.0)
    with pytest.raises(TimeoutError):
        connection.drain_events(connection, 0.0)
    assert [len(each) for each in looks] == [1, 0]


def test_a_copy_of_the_process_has_its_own_leases_and_ids(
    connection: Transport, said: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.keeper.hold("q", 1)
    before, scope = connection.keeper, connection._scope
    connection._epoch = 7
    pid = transport.os.getpid() + 1
    monkeypatch.setattr(transport.os, "getpid", lambda: pid)

    assert connection.open_now("q") is None
    assert connection.keeper is not before
    assert (connection._scope != scope, connection._epoch) == (True, 0)
    connection.keeper.hold("q", 2)
    assert [*connection.keeper._held] == [("q", 2)], "what the other process has is not renewed"
    connection.keeper.end("q", 2, "close")
    assert connection.keeper.unanswered == 1


# -- queues -----------------------------------------------------------------------------------


class Broker:
    """In the place of a transport."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(transport_options={})
        self.state = BrokerState()
        self.channel_max = 9
        self._used_channel_ids: list[int] = []
        self.said: list[str] = []
        self.counts: dict[str, int] = {}
        self._callbacks: dict[str, object] = {}
        self.refuses = False

    def declare_exchange(self, name: str, durable: bool) -> None:
        self.said.append(f"exchange {name}")

    def declare_queue(self, queue: str, name: str, settings: Any) -> None:
        self.said.append(f"declare {name} {' '.join(f'{k}={v}' for k, v in settings.items())}")

    def count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def command(self, request: bytes, patience: float | None = None) -> Answer:
        self.said.append(request.decode())
        if self.refuses:
            raise ServerRefusal(b"CLIENT_ERROR forbidden: allow_delete is off")
        return answer(b"END")

    def store(self, name: str, *more: object) -> None:
        self.said.append(f"store {name}")

    def forget_child(self, child: str) -> None:
        self.said.append(f"forget {child}")

    def wake(self) -> None:
        pass

    def close_channel(self, channel: Any) -> None:
        channel.connection = None

    def stats(self, name: str) -> dict[bytes, bytes]:
        return {b"queue_q_items": b"1"}

    def take(self) -> list[str]:
        said, self.said = self.said, []
        return said


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def channel(broker: Broker) -> Channel:
    made = Channel(cast(Any, broker))
    made.exchange_declare("news", "fanout")
    made.exchange_declare("direct", "direct")
    broker.take()
    return made


MESSAGE: dict[str, Any] = {"properties": {"delivery_info": {}}, "headers": {}, "body": ""}


def declared(channel: Channel, exchange: str, auto_delete: bool, **arguments: object) -> None:
    channel.queue_declare("q", auto_delete=auto_delete, arguments=arguments)
    channel.queue_bind("q", exchange, "")


@pytest.mark.parametrize("refuses", [False, True])
def test_a_queue_that_was_deleted_is_another_one_when_it_is_declared_again(
    broker: Broker, channel: Channel, refuses: bool
) -> None:
    declared(channel, "news", auto_delete=True)
    assert channel._passing
    broker.refuses = refuses
    channel.queue_delete("q")
    broker.refuses = False
    assert not (channel._passing or channel._auto_delete or channel._settings or channel._going)
    broker.take()

    declared(channel, "news", auto_delete=False)
    channel.close()
    assert broker.take() == ["get exchange:news+q/peek"], "it does not go with its channel"


def test_a_queue_that_goes_with_its_channel_does(broker: Broker, channel: Channel) -> None:
    declared(channel, "news", auto_delete=True)
    channel.close()
    channel.close()
    assert broker.take() == ["get exchange:news+q/peek", "forget exchange:news+q"]


def test_the_arguments_of_a_queue_go_with_it(broker: Broker, channel: Channel) -> None:
    declared(channel, "direct", True, **{"x-expires": 60_000})
    assert len(broker.take()) == 1
    channel._going["q"] = channel._going["q"]._replace(again_at=0.0)
    channel._put("q", MESSAGE)
    assert [each.partition(" ")[0] for each in broker.take()] == ["declare", "store"]
    channel._put("q", MESSAGE)
    assert broker.take() == ["store q"], "half of its time is not over"

    channel._going["q"] = channel._going["q"]._replace(again_at=0.0)
    channel.queue_declare("q", arguments={"x-message-ttl": 5})
    channel.queue_delete("q")
    broker.take()
    declared(channel, "direct", auto_delete=False)
    channel._put("q", MESSAGE)
    assert broker.take() == ["store q"], "these were those of the deleted one"


def test_arguments_are_declared_once(broker: Broker, channel: Channel) -> None:
    channel.queue_declare("q", arguments={"x-message-ttl": 5})
    for _ in range(2):
        channel._put("q", MESSAGE)
    assert broker.take() == ['declare q max_age="5ms"', "store q", "store q"]


def test_a_queue_of_an_exchange_has_no_settings_of_its_own(
    broker: Broker, channel: Channel
) -> None:
    declared(channel, "news", True, **{"x-expires": 60_000})
    assert not (channel._settings or channel._going)
    channel._put("q", MESSAGE)
    assert broker.take() == ["get exchange:news+q/peek", "store q"]


def test_a_deleted_queue_takes_what_it_reads_of_an_exchange_with_it(
    broker: Broker, channel: Channel
) -> None:
    declared(channel, "news", auto_delete=False)
    broker.take()
    broker.counts = {"q": 2, "exchange:news+q": 3}
    assert channel.queue_declare("q", passive=True).message_count == 5
    channel.queue_delete("q", if_empty=True)
    assert broker.take() == [], "it is not empty"
    assert channel.queue_purge("q") == 5
    assert broker.take() == ["flush q", "flush exchange:news+q"]
    channel.queue_delete("q")
    assert broker.take() == ["delete q", "delete exchange:news+q"]


def test_a_consumer_that_is_cancelled_waits_no_more(broker: Broker, channel: Channel) -> None:
    ended: list[str] = []

    def fetcher(queue: str, name: str, no_ack: bool) -> Any:
        def end() -> ReceivedItem:
            ended.append(name)
            return ReceivedItem(b"x", 0, 7)

        return SimpleNamespace(queue=queue, name=name, no_ack=no_ack, end=end)

    backs: list[tuple[str, int]] = []
    cast(Any, broker).fetcher = fetcher
    cast(Any, broker).give_back = lambda *item: backs.append(item)
    for turn in (1, 2):
        channel.basic_consume("q", False, lambda _: None, "a")
        channel.basic_consume("other", False, lambda _: None, "b")
        channel.basic_cancel("a")
        assert [each.name for each in channel.fetchers] == ["other"]
        channel.basic_cancel("b")
        assert channel.fetchers == []
        assert ended == ["q", "other"] * turn
    assert backs == [("q", 7), ("other", 7)] * 2


def test_what_has_no_end_is_given_back_once(broker: Broker, channel: Channel) -> None:
    ends: list[tuple[str, int, str]] = []
    cast(Any, broker).keeper = SimpleNamespace(end=lambda *end: ends.append(end), unanswered=0)
    channel.qos.prefetch_count = 1
    assert channel.qos.can_consume()
    channel.qos.append(cast(Any, object()), "q:7")
    assert not channel.qos.can_consume()
    channel.qos.restore_unacked()
    channel.qos.restore_unacked()
    assert ends == [("q", 7, "defer")]
    assert channel.qos.can_consume()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() <= before
