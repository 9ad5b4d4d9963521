"""One connection to a slice: an answer part by part, and the ends that it may have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from journal.engine import Member
from kestrelpy.http.slices.links import HELD_BYTES_MAX, Links, SliceEnded, SliceLink
from kestrelpy.http.slices.ports import SlicesPort

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what is sent."""

    def __init__(self, link: SliceLink) -> None:
        super().__init__()
        self.sent, self.is_reading, self._link = b"", True, link

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None:
        self._link.connection_lost(None)


class Slices:
    """Slices of which each connection is a Wire."""

    def __init__(self) -> None:
        self.wires: list[Wire] = []
        self.owner: Member | None = None
        self.are_patient = list[bool]()

    def call_at_move(self, moved: Callable[[int, Member], None]) -> None:
        self.moved = moved

    async def connect_http(
        self, number: int, make: Callable[[], asyncio.BaseProtocol], is_patient: bool
    ) -> Member | None:
        self.are_patient.append(is_patient)
        link = make()
        assert isinstance(link, SliceLink)
        self.wires.append(Wire(link))
        link.connection_made(self.wires[-1])
        return self.owner


@pytest.fixture
def slices() -> Slices:
    return Slices()


@pytest.fixture
def links(slices: Slices) -> Links:
    return Links(cast(SlicesPort, slices))


async def body_of(link: SliceLink) -> bytes:
    return b"".join([part async for part in link.parts()])


async def test_a_whole_answer_leaves_the_connection_for_the_next_request(
    links: Links, slices: Slices
) -> None:
    for _ in range(2):
        link = await links.take(1)
        link.begin(b"GET / HTTP/1.1\r\n\r\n")
        link.data_received(HEAD % 5 + b"he")
        await link.answer_begins()
        link.data_received(b"llo")
        assert (link.status, link.headers) == (200, [(b"content-length", b"5")])
        assert await body_of(link) == b"hello"
        links.give(1, link)
    assert len(slices.wires) == 1
    links.close()
    assert not link.is_open


async def test_an_answer_that_is_not_whole_ends_the_connection(links: Links) -> None:
    link = await links.take(1)
    link.begin(b"GET / HTTP/1.1\r\n\r\n")
    link.data_received(HEAD % 5 + b"he")
    links.give(1, link)
    assert not link.is_open
    assert await links.take(1) is not link


async def test_a_slice_that_ends_is_noticed_in_the_head_and_in_the_body(links: Links) -> None:
    link = await links.take(1)
    link.begin(b"GET / HTTP/1.1\r\n\r\n")
    link.connection_lost(None)
    with pytest.raises(SliceEnded):
        await link.answer_begins()
    link = await links.take(1)
    link.begin(b"GET / HTTP/1.1\r\n\r\n")
    link.data_received(HEAD % 5 + b"he")
    link.connection_lost(None)
    with pytest.raises(SliceEnded):
        await body_of(link)


async def test_a_free_connection_that_the_slice_closed_is_not_used(links: Links) -> None:
    link = await links.take(1)
    link.begin(b"GET / HTTP/1.1\r\n\r\n")
    link.data_received(HEAD % 0)
    links.give(1, link)
    link.connection_lost(None)
    assert await links.take(1) is not link


async def test_an_answer_to_head_has_no_body(links: Links) -> None:
    link = await links.take(1)
    link.begin(b"HEAD / HTTP/1.1\r\n\r\n", is_head=True)
    link.data_received(HEAD % 5)
    assert await body_of(link) == b""
    links.give(1, link)
    assert await links.take(1) is link


async def test_a_reader_that_takes_nothing_stops_the_slice(links: Links, slices: Slices) -> None:
    link = await links.take(1)
    link.begin(b"GET / HTTP/1.1\r\n\r\n")
    size = HELD_BYTES_MAX + 2
    link.data_received(HEAD % size + bytes(size - 1))
    assert not slices.wires[0].is_reading
    reading = asyncio.create_task(body_of(link))
    while not slices.wires[0].is_reading:
        await asyncio.sleep(0)
    link.data_received(b"x")
    assert len(await reading) == size


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_long_answer_that_is_whole_leaves_a_connection_that_is_read(
    links: Links, slices: Slices, *, is_taken: bool
) -> None:
    link = await links.take(1)
    link.begin(b"GET / HTTP/1.1\r\n\r\n")
    size = HELD_BYTES_MAX + 2
    link.data_received(HEAD % size + bytes(HELD_BYTES_MAX))
    link.data_received(bytes(2))  # too much is held, and it is all
    if is_taken:
        assert len(await body_of(link)) == size
    links.give(1, link)
    assert await links.take(1) is link
    assert slices.wires[0].is_reading


async def test_a_slice_that_does_not_read_stops_the_writer(links: Links, slices: Slices) -> None:
    link = await links.take(1)
    link.begin(b"POST / HTTP/1.1\r\n\r\n")
    link.pause_writing()
    sending = asyncio.create_task(link.send(b"body"))
    await asyncio.sleep(0)
    assert not slices.wires[0].sent.endswith(b"body")
    link.resume_writing()
    await sending
    assert slices.wires[0].sent.endswith(b"body")


async def test_what_is_no_answer_ends_the_connection(links: Links) -> None:
    link = await links.take(1)
    link.begin(b"GET / HTTP/1.1\r\n\r\n")
    link.data_received(b"STORED\r\n")
    with pytest.raises(SliceEnded):
        await link.answer_begins()
    link = await links.take(1)
    link.data_received(HEAD % 0)  # nobody has asked
    assert not link.is_open


async def test_a_slice_that_moves_ends_the_requests_to_its_former_owner(
    links: Links, slices: Slices
) -> None:
    slices.owner = Member("a", "host-a:1")
    free, asking = await links.take(1), await links.take(1)
    other = await links.take(2)
    for link in (free, asking, other):
        link.begin(b"GET / HTTP/1.1\r\n\r\n")
    free.data_received(HEAD % 0)
    links.give(1, free)

    slices.moved(1, Member("a", "host-a:1"))
    assert free.is_open
    slices.moved(1, Member("b", "host-b:1"))
    with pytest.raises(SliceEnded):
        await asking.answer_begins()
    links.give(1, asking)

    assert not free.is_open
    assert other.is_open
    assert await links.take(1) not in (free, asking)


async def test_a_connection_of_a_slice_here_is_not_broken_by_an_owner(
    links: Links, slices: Slices
) -> None:
    link = await links.take(1, is_patient=False)
    slices.moved(1, Member("b", "host-b:1"))
    assert link.is_open
    assert slices.are_patient == [False]
