"""The first bytes of a connection say whether it is of a client or of another member."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import cast

import pytest

from kestrelpy.server.slices.doors import (
    SILENT_SECONDS,
    UNKNOWN_MAX,
    Entrance,
    Key,
    NotThere,
    Side,
    Waiting,
    WantedSlice,
    join,
    reach,
)
from kestrelpy.wire import keepalive

KEY = Key("3f6a", "a-secret-of-members")
OPEN = Key("3f6a", "")
LINE = KEY.line(WantedSlice(1))


@pytest.mark.parametrize("key", [KEY, OPEN])
@pytest.mark.parametrize("wanted", [WantedSlice(5), WantedSlice(16, is_http=True)])
def test_members_with_the_same_settings_understand_each_other(
    key: Key, wanted: WantedSlice
) -> None:
    assert key.read(key.line(wanted)) == wanted


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"slice", "no line of a member"),
        (b"slice 1", "no line of a member"),
        (b"slice x 3f6a a-secret-of-members", "no line of a member"),
        (b"slice -1 3f6a a-secret-of-members", "no line of a member"),
        (b"slice 1/ftp 3f6a a-secret-of-members", "no line of a member"),
        (b"slice /http 3f6a a-secret-of-members", "no line of a member"),
        (b"slice 1/http 3f6a", "its secret_file"),
        (b"slice 1 3f6a a-secret-of-members x", "no line of a member"),
        (b"slice 1 3f6a", "its secret_file"),
        (b"slice 1 3f6a a-secret-of-member", "its secret_file"),
        (b"slice 1 0000 a-secret-of-members", "its slices or groups"),
        (b"slice 1 0000 another", "its secret_file"),
    ],
)
def test_a_line_of_another_fleet_is_refused_with_what_differs(line: bytes, says: str) -> None:
    found = KEY.read(line)

    assert isinstance(found, bytes)
    assert found.startswith(b"SERVER_ERROR ")
    assert says in found.decode()


class Wire(asyncio.Transport):
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.protocol: asyncio.BaseProtocol | None = None
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


class Client:
    """The connection of a client."""

    def __init__(self) -> None:
        self.heard = b""
        self.is_given = self.has_ended = self.is_client = False
        self.takes_members = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_client = True

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def eof_received(self) -> bool | None:
        self.has_ended = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = True

    def give_away(self, transport: asyncio.Transport) -> bool:
        self.is_given = self.takes_members
        return self.is_given


class Port:
    """The router: slice 1 serves here."""

    key = KEY

    def __init__(self, has_http: bool = True) -> None:
        self.has_http = has_http
        self.tasks: list[Coroutine[object, object, None]] = []

    def socket_of(self, wanted: WantedSlice) -> Path | None:
        return Path("1") if wanted.number == 1 else None

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        self.tasks.append(work)
        work.close()
        return cast(asyncio.Task[None], None)


def entered(*pieces: bytes, has_http: bool = True) -> tuple[Client, Wire, Port]:
    client, wire, port = Client(), Wire(), Port(has_http)
    entrance = Entrance(port, client, Waiting(lambda: 0.0))
    entrance.connection_made(wire)
    for each in pieces:
        assert not client.is_client, "it has not said yet that it is one"
        entrance.data_received(each)
    return client, wire, port


@pytest.mark.parametrize(
    "pieces",
    [(b"set a 0 0 1\r\nx\r\n",), (b"s", b"et a 0 0 1\r\n"), (b"slice", b"d\r\n"), (b"\r\n",)],
)
def test_what_a_client_says_comes_to_its_connection_whole(pieces: tuple[bytes, ...]) -> None:
    client, wire, _ = entered(*pieces)

    assert client.heard == b"".join(pieces)
    assert wire.protocol is client
    assert not client.is_given


@pytest.mark.parametrize("cut", range(1, len(LINE)))
@pytest.mark.parametrize("line", [LINE, KEY.line(WantedSlice(1, is_http=True))])
def test_a_member_is_joined_to_the_slice_however_its_line_is_cut(line: bytes, cut: int) -> None:
    client, wire, port = entered(line[:cut], line[cut:])

    assert client.is_given
    assert isinstance(wire.protocol, Side)
    assert len(port.tasks) == 1
    assert client.heard == wire.sent == b""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (KEY.line(WantedSlice(2)), b"SERVER_ERROR this member does not have the slice now\r\n"),
        (OPEN.line(WantedSlice(1)),
         b"SERVER_ERROR its secret_file in [fleet] is not that of this member\r\n"),
        (LINE + b"x", b"SERVER_ERROR this is no line of a member of this fleet\r\n"),
        (b"slice " * 200, b"SERVER_ERROR this is no line of a member of this fleet\r\n"),
    ],
)  # fmt: skip
def test_who_is_no_member_is_refused_and_reaches_nothing(line: bytes, says: bytes) -> None:
    client, wire, port = entered(line, b"set a 0 0 1\r\nx\r\n")

    assert wire.sent == says
    assert wire.is_closed
    assert not client.is_given
    assert client.heard == b""
    assert port.tasks == []


def test_a_member_without_http_says_so() -> None:
    client, wire, port = entered(KEY.line(WantedSlice(1, is_http=True)), has_http=False)

    assert wire.sent == b'SERVER_ERROR this member has http_port = "off"\r\n'
    assert not client.is_given
    assert port.tasks == []
    client, wire, port = entered(LINE, has_http=False)
    assert client.is_given


def test_an_end_of_the_input_before_the_first_line_is_the_clients() -> None:
    client, wire, port = Client(), Wire(), Port()
    entrance = Entrance(port, client, Waiting(lambda: 0.0))
    entrance.connection_made(wire)

    assert entrance.eof_received()
    assert client.is_client
    assert client.has_ended


def test_who_says_nothing_for_a_while_is_a_client() -> None:
    now_s = [0.0]
    waiting = Waiting(lambda: now_s[0])
    client, wire = Client(), Wire()
    entrance = Entrance(Port(), client, waiting)
    entrance.connection_made(wire)
    now_s[0] = SILENT_SECONDS - 0.1
    waiting.look()
    assert not client.is_client

    now_s[0] = SILENT_SECONDS
    waiting.look()

    assert client.is_client
    entrance.data_received(LINE)
    assert client.is_given, "a member may be slow"


def test_few_may_say_nothing_any_more_are_clients_at_once() -> None:
    waiting = Waiting(lambda: 0.0)
    entrances = [Entrance(Port(), Client(), waiting) for _ in range(UNKNOWN_MAX)]
    for each in entrances:
        each.connection_made(Wire())
    more = [Client(), Client()]
    Entrance(Port(), more[0], waiting).connection_made(Wire())
    entrances[0].connection_lost(None)
    Entrance(Port(), more[1], waiting).connection_made(Wire())

    assert [each.is_client for each in more] == [True, False]


def test_at_the_end_all_are_clients_and_nobody_waits() -> None:
    waiting, clients = Waiting(lambda: 0.0), [Client(), Client()]
    Entrance(Port(), clients[0], waiting).connection_made(Wire())
    waiting.close()
    Entrance(Port(), clients[1], waiting).connection_made(Wire())

    assert [each.is_client for each in clients] == [True, True]


def test_a_member_beyond_the_limit_hears_why() -> None:
    client, wire = Client(), Wire()
    client.takes_members = False
    entrance = Entrance(Port(), client, Waiting(lambda: 0.0))
    entrance.connection_made(wire)
    entrance.data_received(LINE)

    assert wire.sent == (
        b"SERVER_ERROR this member has too many connections of other members\r\n"
    )
    assert wire.is_closed


@pytest.mark.parametrize(
    ("answer", "says"),
    [(b"SERVER_ERROR not here\r\n", "^not here$"), (b"", "^it closed the connection$"),
     (b"OK\r\nmore", "^OK$"), (b"x" * 3000, "^x+$"),
     (b"HTTP/1.1 400 no\r\nServer: x\r\n\r\n", "^HTTP/1.1 400 no$"), (b"a\rEND\n", r"^a\?END$")],
)  # fmt: skip
async def test_an_answer_that_is_not_the_yes_is_the_reason(answer: bytes, says: str) -> None:
    asked = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        place = server.sockets[0].getsockname()
        with pytest.raises(NotThere, match=says):
            await reach(place, LINE, Side)
    assert asked == [LINE]


@pytest.mark.parametrize(
    ("more", "is_closed"), [(b"", True), (b"SERVER_ERROR too many connections\r\n", False)]
)
async def test_what_comes_with_the_yes_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, more: bytes, is_closed: bool
) -> None:
    async def connect(
        make: Callable[[], asyncio.Protocol], *address: object, ssl: object
    ) -> tuple[Wire, asyncio.Protocol]:
        wire, asking = Wire(), make()
        asking.connection_made(wire)
        asking.data_received(b"OK\r\n")
        if more:
            asking.data_received(more)
        wire.is_closed = is_closed
        return wire, asking

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connect)
    made = list[Side]()
    with pytest.raises(NotThere, match="^OK$" if more else "it closed the connection"):
        await reach(("host", 1), LINE, lambda: made.append(Side()) or made[0])
    assert made == []


async def test_a_slice_that_ends_as_a_member_is_joined_to_it_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def connect(make: Callable[[], asyncio.Protocol], path: str) -> None:
        far = make()
        far.connection_made(Wire())
        far.connection_lost(None)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", connect)
    near, wire = Side(Client()), Wire()
    near.connection_made(wire)
    await join(near, Path("1"))
    assert wire.is_closed
    assert wire.sent == b""


async def test_both_ends_of_a_connection_of_members_end_soon_after_their_network() -> None:
    class Entered(Port):
        def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
            wires[0].write(b"OK\r\n")
            return super().start_task(work)

    class Accepted(Client):
        def give_away(self, transport: asyncio.Transport) -> bool:
            wires.append(transport)
            return super().give_away(transport)

    wires = list[asyncio.Transport]()
    server = await asyncio.get_running_loop().create_server(
        lambda: Entrance(Entered(), Accepted(), Waiting(lambda: 0.0)), "127.0.0.1", 0
    )
    sides = list[Side]()
    place = server.sockets[0].getsockname()
    await reach(place, LINE, lambda: sides.append(Side()) or sides[0])
    for each in (wires[0], sides[0].transport):
        assert each is not None
        sock = each.get_extra_info("socket")
        idle_s = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        assert idle_s == keepalive.MEMBER_IDLE_SECONDS
        each.abort()
    server.close()
