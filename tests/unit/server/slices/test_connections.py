"""A client's socket and those of its slices, with transports of the test in place of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

import pytest

from journal.engine import Member
from kestrelpy.errors import SliceAway
from kestrelpy.placement import Placement
from kestrelpy.protocol.routing.merging import RouterCounts
from kestrelpy.protocol.wire import wire_named
from kestrelpy.server import clock
from kestrelpy.server.connections import BODY_MS, ConnectionMemory
from kestrelpy.server.slices.connections import (
    AHEAD_BYTES_MAX,
    READ_BYTES,
    ClientConnection,
    SliceConnection,
)
from tests.support.routed_harness import NoneSliced, NoUsers

SLICES = 3
BODY_S = BODY_MS / 1000
FIRST, SECOND = (Placement(SLICES).slice_of(each) for each in (b"a", b"c"))


class Wire:
    """Stands in for a transport; nothing can be written to it after its end, as to a socket."""

    def __init__(self, socket: socket.socket | None = None) -> None:
        self.sent, self.socket = b"", socket
        self.unread = 0  # bytes that the other side has not read
        self.is_ended = self.is_closed = self.is_aborted = False
        self.is_read = True
        self.is_tls = False

    def write(self, data: bytes) -> None:
        assert not self.is_ended
        self.sent += data

    def write_eof(self) -> None:
        assert not self.is_ended
        assert not self.is_tls
        self.is_ended = True

    def can_write_eof(self) -> bool:
        return not self.is_tls

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread

    def get_extra_info(self, name: str) -> Any:
        if name == "peername":
            return ("127.0.0.1", 5) if self.socket is None else self.socket.getpeername()
        return self.socket


class Slice:
    """One connection to a slice, as the slice sees it."""

    def __init__(self, link: SliceConnection) -> None:
        self.link, self.wire = link, Wire()
        link.connection_made(cast(asyncio.Transport, self.wire))

    @property
    def heard(self) -> bytes:
        """The requests on this connection, without the line that names the client."""
        introduction, _, rest = self.wire.sent.partition(b"\r\n")
        assert introduction.startswith(b"client ")
        return rest


class Router(NoneSliced):
    """The router of one client; a slice is connected to when the test lets it."""

    version = "0.0.0"
    logins: Any = NoUsers()

    def __init__(self) -> None:
        self.owner: Member | None = None  # of every slice
        self.placement, self.lines = Placement(SLICES), {}
        super().__init__()
        self.counts = RouterCounts()
        self.memory, self.read_buffer = ConnectionMemory(1 << 20), bytearray(READ_BYTES)
        self.slices: dict[int, list[Slice]] = {}
        self.away: dict[int, str] = {}
        self.is_full = False
        self.dismissed = 0
        self.open = asyncio.Event()  # connections come to be
        self.open.set()

    def limit_of(self, name: bytes) -> int:
        return 1 << 20

    def check_reload(self, done: Callable[[bytes], None]) -> None:
        done(b"")

    def reload_beside(self) -> None:
        pass

    def shutdown(self, why: str) -> None:
        pass

    def admit(self, connection: ClientConnection) -> bool:
        return not self.is_full

    def dismiss(self, connection: ClientConnection) -> None:
        self.dismissed += 1

    async def connect(
        self, number: int, make: Callable[[], asyncio.BaseProtocol]
    ) -> Member | None:
        await self.open.wait()
        if number in self.away:
            raise SliceAway(self.away[number])
        self.slices.setdefault(number, []).append(Slice(cast(SliceConnection, make())))
        return self.owner

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


class Case:
    """A client of a router."""

    def __init__(self, is_full: bool = False, socket: socket.socket | None = None) -> None:
        self.router, self.wire = Router(), Wire(socket)
        self.router.is_full = is_full
        self.client = ClientConnection(self.router)
        self.client.connection_made(cast(asyncio.Transport, self.wire))

    async def send(self, data: bytes) -> None:
        """Send requests, and let the connections come to be that they need."""
        self.client.data_received(data)
        await self.rest()

    async def end(self) -> None:
        """Send no more."""
        self.client.eof_received()
        await self.rest()

    async def rest(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def slice(self, number: int) -> Slice:
        """Return the newest connection to this slice."""
        return self.router.slices[number][-1]

    async def answer(self, number: int, data: bytes) -> None:
        self.slice(number).link.data_received(data)
        await self.rest()


@pytest.fixture
async def case() -> AsyncIterator[Case]:
    yield Case()


async def test_a_client_at_its_end_gets_the_answer_of_a_wait_before_a_quiet_request(
    case: Case,
) -> None:
    await case.send(b"get a/t=60000\r\nset a 0 0 1 noreply\r\nx\r\n")
    await case.end()
    assert case.slice(FIRST).wire.is_ended
    await case.answer(FIRST, b"END\r\n")
    assert case.wire.sent == b"END\r\n"


@pytest.mark.parametrize("ends", [ClientConnection.eof_received, ClientConnection.leave])
@pytest.mark.parametrize("more", [b"", b"set a 0 0 1\r\nx\r\n"])
async def test_a_wait_over_tls_which_has_no_half_of_an_end_is_still_answered(
    case: Case, more: bytes, ends: Callable[[ClientConnection], object]
) -> None:
    await case.send(b"get a/t=60000\r\n")
    case.slice(FIRST).wire.is_tls = True
    await case.send(more)
    ends(case.client)
    assert not case.wire.is_closed
    await case.answer(FIRST, b"END\r\n" + (b"STORED\r\n" if more else b""))
    assert case.wire.sent.startswith(b"END\r\n")
    assert case.wire.is_closed


async def test_a_client_lets_go_of_a_member_that_has_its_slice_no_more(case: Case) -> None:
    case.router.owner = Member("b")
    await case.send(b"get a\r\n")
    for number, owner in ((FIRST, "b"), (SECOND, "c")):
        case.client.note_owner(number, Member(owner))
    assert not case.slice(FIRST).wire.is_aborted

    case.client.note_owner(FIRST, Member("c"))

    assert case.slice(FIRST).wire.is_aborted
    case.slice(FIRST).link.connection_lost(None)
    assert case.wire.is_closed


async def test_a_client_of_slices_without_members_keeps_its_connections(case: Case) -> None:
    await case.send(b"get a\r\n")
    case.client.note_owner(FIRST, Member("c"))
    assert not case.slice(FIRST).wire.is_aborted


async def test_a_client_beyond_the_limit_is_told_so_and_asks_nothing() -> None:
    case = Case(is_full=True)
    await case.send(b"version\r\n")
    assert case.wire.sent == b"SERVER_ERROR too many connections\r\n"
    assert case.wire.is_closed
    assert case.client.is_idle
    case.client.connection_lost(None)
    assert case.router.dismissed == 0


async def test_a_connection_is_idle_while_no_request_of_it_is_under_way(case: Case) -> None:
    assert case.client.is_idle
    await case.send(b"get a\r\n")
    assert not case.client.is_idle
    await case.answer(FIRST, b"END\r\n")
    assert case.client.is_idle


async def test_requests_before_the_connection_to_a_slice_are_sent_with_it(case: Case) -> None:
    case.router.open.clear()
    await case.send(b"get a\r\n")
    await case.send(b"get a/peek\r\n")
    assert not case.wire.is_read  # until it is there
    case.router.open.set()
    await case.rest()
    assert case.slice(FIRST).heard == b"get a\r\nget a/peek\r\n"
    assert case.wire.is_read


async def test_a_slice_that_is_away_refuses_and_is_asked_again_by_the_next_request(
    case: Case,
) -> None:
    case.router.away[FIRST] = "ended with code 1"
    await case.send(b"get a\r\n")
    assert case.wire.sent == (
        b"SERVER_ERROR slice %d does not answer: ended with code 1\r\n" % FIRST
    )
    assert case.wire.is_read
    case.router.away.clear()
    await case.send(b"get a\r\n")
    assert case.slice(FIRST).heard == b"get a\r\n"


async def test_a_client_that_leaves_before_a_slice_is_there_hears_of_none(case: Case) -> None:
    case.router.open.clear()
    await case.send(b"get a\r\n")
    case.client.connection_lost(None)
    case.router.away[FIRST] = "gone"
    case.router.open.set()
    await case.rest()
    assert case.wire.sent == b""
    assert case.router.dismissed == 1


async def test_a_hang_up_closes_the_connections_to_all_slices(case: Case) -> None:
    await case.send(b"get a\r\n")
    await case.answer(FIRST, b"END\r\n")
    await case.send(b"get c\r\n")
    case.client.connection_lost(None)
    assert case.slice(FIRST).wire.is_closed
    assert case.slice(SECOND).wire.is_closed
    assert case.client.is_idle


async def test_the_end_of_the_input_is_told_to_the_slice_that_owes_the_last_answer(
    case: Case,
) -> None:
    await case.send(b"get a\r\n")
    await case.answer(FIRST, b"END\r\n")
    await case.send(b"get c/t=60000\r\n")
    await case.end()
    assert not case.slice(FIRST).wire.is_ended
    assert case.slice(SECOND).wire.is_ended
    case.slice(SECOND).link.data_received(b"END\r\n")
    case.slice(SECOND).link.connection_lost(None)
    assert case.wire.sent == b"END\r\nEND\r\n"
    assert case.wire.is_closed


async def test_a_wait_before_other_requests_ends_with_the_input_and_they_go_on(case: Case) -> None:
    await case.send(b"get a/t=60000\r\nget c\r\nget a/peek\r\n")
    await case.end()
    first = case.slice(FIRST)
    assert first.wire.is_ended
    await case.answer(FIRST, b"END\r\n")
    first.link.connection_lost(None)
    assert not case.wire.is_closed
    await case.answer(SECOND, b"END\r\n")
    assert case.slice(FIRST) is not first
    assert case.slice(FIRST).heard == b"get a/peek\r\n"
    await case.answer(FIRST, b"END\r\n")
    assert case.wire.sent == b"END\r\n" * 3
    assert case.wire.is_closed


async def test_leases_that_a_slice_took_back_end_the_connection(case: Case) -> None:
    """A close on another connection would be answered as if there had been no lease."""
    await case.send(b"get a/open/t=60000\r\nget c\r\nget a/close\r\n")
    await case.end()
    await case.answer(FIRST, b"END\r\n")
    await case.answer(SECOND, b"END\r\n")
    assert case.wire.is_closed
    assert len(case.router.slices[FIRST]) == 1


async def test_a_slice_that_breaks_off_ends_the_client(case: Case) -> None:
    await case.send(b"get a\r\n")
    case.slice(FIRST).link.connection_lost(None)
    assert case.wire.is_closed


async def test_a_slice_that_closes_an_idle_connection_is_connected_to_again(case: Case) -> None:
    await case.send(b"get a\r\n")
    await case.answer(FIRST, b"END\r\n")
    first = case.slice(FIRST)
    await case.answer(FIRST, b"IDLE\r\n")
    first.link.connection_lost(None)
    assert first.wire.is_closed
    assert not case.wire.is_closed
    await case.send(b"get a\r\n")
    assert case.slice(FIRST) is not first


async def test_a_client_that_does_not_read_stops_its_slices(case: Case) -> None:
    await case.send(b"get a\r\n")
    case.client.pause_writing()
    assert not case.slice(FIRST).wire.is_read
    assert case.client.is_paused
    await case.send(b"get a\r\n")
    assert case.slice(FIRST).heard == b"get a\r\n"
    case.client.resume_writing()
    assert case.slice(FIRST).wire.is_read
    assert case.slice(FIRST).heard == b"get a\r\n" * 2


async def test_a_slice_that_is_connected_to_while_the_client_does_not_read_is_not_read(
    case: Case,
) -> None:
    case.router.open.clear()
    await case.send(b"get a\r\n")
    case.client.pause_writing()
    case.router.open.set()
    await case.rest()
    assert not case.slice(FIRST).wire.is_read


async def test_a_slice_that_takes_no_bytes_stops_the_client(case: Case) -> None:
    await case.send(b"get a\r\n")
    case.slice(FIRST).link.pause_writing()
    assert not case.wire.is_read
    case.slice(FIRST).link.resume_writing()
    assert case.wire.is_read


@pytest.mark.parametrize(("size", "is_read"), [(10, True), (AHEAD_BYTES_MAX + 10, False)])
async def test_a_client_far_ahead_of_the_answers_is_not_read(
    case: Case, size: int, is_read: bool
) -> None:
    await case.send(b"get a\r\nget c\r\nset a 0 0 %d\r\n" % size + b"x" * size + b"\r\n")
    assert case.wire.is_read == is_read
    await case.answer(FIRST, b"END\r\n")
    await case.answer(SECOND, b"END\r\n")
    assert case.wire.is_read


async def test_a_router_that_ends_answers_what_has_come_and_takes_no_more(case: Case) -> None:
    await case.send(b"get a\r\n")
    case.client.leave()
    await case.send(b"get a/peek\r\n")
    assert case.slice(FIRST).heard == b"get a\r\n"
    assert not case.wire.is_closed
    await case.answer(FIRST, b"END\r\n")
    assert case.wire.is_closed


@pytest.mark.parametrize(
    ("data", "answer", "silent_s", "idle_s", "is_over"),
    [
        (b"", b"", 5, 10, False),
        (b"", b"", 11, 10, True),
        (b"", b"", BODY_S + 1, None, False),
        (b"set a 0 0 5\r\nx", b"", 11, None, False),
        (b"set a 0 0 5\r\nx", b"", BODY_S + 1, None, True),
        (b"get a\r\nset a 0 0 5\r\nx", b"", BODY_S + 1, None, False),
        (b"get a\r\nset a 0 0 5\r\nx", b"END\r\n", BODY_S + 1, None, True),
        (b"get a\r\n", b"END\r\n", 11, 10, False),  # it may hold an item
    ],
)
async def test_a_silent_client_is_closed_that_holds_nothing_or_stops_in_a_body(
    case: Case, data: bytes, answer: bytes, silent_s: float, idle_s: float | None, is_over: bool
) -> None:
    await case.send(data)
    if answer:
        await case.answer(FIRST, answer)
    case.client.close_if_idle(clock.elapsed() + silent_s, idle_s)
    assert case.wire.is_aborted == is_over


@pytest.mark.parametrize(
    ("family", "introduction"),
    [
        (socket.AF_INET, b"client memcache 127.0.0.1:%d\r\n"),
        (socket.AF_UNIX, b"client memcache unix /\r\n"),
    ],
)
async def test_a_slice_is_told_whose_requests_come(
    family: socket.AddressFamily, introduction: bytes
) -> None:
    with socket.socket(family) as door, socket.socket(family) as client:
        door.bind(("127.0.0.1", 0) if family == socket.AF_INET else "")
        door.listen()
        client.connect(door.getsockname())
        with door.accept()[0] as accepted:
            case = Case(socket=accepted)
            await case.send(b"get a\r\n")
            port = (client.getsockname()[1],) if family == socket.AF_INET else ()
            assert case.slice(FIRST).wire.sent == introduction % port + b"get a\r\n"


async def test_the_end_of_the_input_is_told_to_a_slice_once_it_is_there(case: Case) -> None:
    case.router.open.clear()
    await case.send(b"get a\r\n")
    await case.end()
    case.router.open.set()
    await case.rest()
    assert case.slice(FIRST).wire.is_ended


async def test_a_slice_that_breaks_off_ends_a_client_that_asks_nothing(case: Case) -> None:
    """It may hold items there, and they go back."""
    await case.send(b"get a/open\r\n")
    await case.answer(FIRST, b"END\r\n")
    case.slice(FIRST).link.connection_lost(None)
    assert case.wire.is_closed


async def test_a_slice_that_breaks_off_before_its_last_answer_ends_the_client(case: Case) -> None:
    await case.send(b"get a\r\n")
    await case.end()
    case.slice(FIRST).link.connection_lost(None)
    assert case.wire.is_closed


async def test_an_idle_connection_closes_beside_one_under_way_and_not_the_other(
    case: Case,
) -> None:
    await case.send(b"get a\r\n")
    await case.answer(FIRST, b"END\r\n")
    await case.send(b"get c\r\n")
    await case.answer(FIRST, b"IDLE\r\n")
    assert case.slice(FIRST).wire.is_closed
    assert not case.wire.is_closed
    await case.answer(SECOND, b"IDLE\r\n")  # it closed as the request was on its way
    assert case.wire.is_closed


async def test_what_is_held_for_a_client_is_counted_until_it_is_gone(case: Case) -> None:
    memory = case.router.memory
    case.wire.unread = 5000
    case.client.pause_writing()
    await case.send(b"get a\r\n" * 1000)
    assert memory.used == 5000 + 2 * 7000, "the parser has the requests as well"

    case.wire.unread = 0
    case.client.resume_writing()
    await case.rest()
    assert memory.used == 0
    case.client.pause_writing()
    case.wire.unread = 5000
    await case.send(b"get a\r\n")
    assert memory.used > 0
    case.client.connection_lost(None)
    assert memory.used == 0


async def test_a_put_waits_for_room_and_goes_on_when_there_is_some(case: Case) -> None:
    memory, hog = case.router.memory, Case()
    hog.client._router = case.router
    memory.hold(hog.client, memory.limit)
    assert memory.may_go_on(hog.client, 0), "it goes on beyond the limit"
    client = ClientConnection(case.router, wire_named("text"))
    wire = Wire()
    client.connection_made(cast(asyncio.Transport, wire))
    client.data_received(b"put a:\n" + b"x" * 70_000)
    assert not wire.is_read
    assert memory.is_waiting(client)

    memory.leave(hog.client)
    await case.rest()

    assert wire.is_read
    client.connection_lost(None)


async def test_a_stalled_put_is_refused_and_the_connection_goes_on(case: Case) -> None:
    client, wire = ClientConnection(case.router, wire_named("text")), Wire()
    client.connection_made(cast(asyncio.Transport, wire))
    client.data_received(b"put a:\n" + b"x" * 70_000)
    assert case.router.memory.used > 70_000

    client.shed()

    assert case.router.memory.used == 0
    assert not wire.is_aborted
    client.data_received(b"x\n\nversion\n")
    assert wire.sent.startswith(b"-no memory for this request")
    assert wire.sent.endswith(b"+0.0.0\n") or b"0.0.0" in wire.sent


async def test_a_client_that_does_not_read_is_closed_when_memory_is_short(case: Case) -> None:
    case.wire.unread = 5000
    case.client.pause_writing()
    await case.send(b"get a\r\n")
    case.client.look_at_memory(1)
    case.client.moved_ms = 0
    case.client.look_at_memory(2)
    assert case.client.moved_ms == 0, "it has read nothing"
    case.wire.unread = 4999
    case.client.look_at_memory(3)
    assert case.client.moved_ms == 3

    case.client.shed()

    assert case.wire.is_aborted


async def test_less_is_read_and_nothing_is_lent_while_memory_is_short(case: Case) -> None:
    memory, client = case.router.memory, case.client
    assert len(client.get_buffer(-1)) == READ_BYTES
    assert client.may_lend(1)
    client.get_buffer(-1)[:9] = b"version\r\n"
    client.buffer_updated(9)
    assert case.wire.sent == b"VERSION 0.0.0\r\n"

    memory.hold(client, memory.limit)

    assert len(client.get_buffer(-1)) < READ_BYTES // 4
    assert not client.may_lend(1)
