"""Channels over one socket, with sockets of the test: each is to its protocol what a socket is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import cast

import pytest

from kestrelpy.server.connections.channels import (
    _CLOSE,
    _DATA,
    _END,
    _HEAD,
    _OPEN,
    _TAKEN,
    ANSWER_BYTES,
    LENT_BYTES_MAX,
    WINDOW_BYTES,
    ClientChannel,
    Trunk,
)

HIGH = 1000
SEEDS = range(40)


class Socket:
    """One end of the socket between two trunks: it has what was written until that is carried."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False
        self.after_write: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self.after_write()

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, name: str, default: object) -> object:
        return f"the {name}"


class Talker(asyncio.Protocol):
    """A protocol that notes what it hears."""

    def __init__(self, stays: bool = True) -> None:
        self.heard, self.stays = b"", stays
        self.may_write = True
        self.has_end = self.is_lost = False
        self.ends = 0
        self.channel: ClientChannel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.channel = cast(ClientChannel, transport)
        self.channel.set_write_buffer_limits(high=HIGH)

    def data_received(self, data: bytes) -> None:
        assert not (self.has_end or self.is_lost)
        if data == b"a bug at its end":
            self.channel.abort()
        if data.startswith(b"a bug"):
            raise RuntimeError("a bug")
        self.heard += data

    def eof_received(self) -> bool:
        self.ends += 1
        self.has_end = True
        return self.stays

    def pause_writing(self) -> None:
        assert self.may_write
        self.may_write = False

    def resume_writing(self) -> None:
        assert not self.may_write
        self.may_write = True

    def connection_lost(self, exc: Exception | None) -> None:
        assert not self.is_lost
        self.is_lost = True


class Two:
    """A router and a slice, and what is between them."""

    def __init__(self) -> None:
        self.clients: list[Talker] = []
        self.servers: list[Talker] = []
        self.lost: list[Trunk] = []
        self.kind: type[Talker] = Talker  # of those in the slice
        self.router = Trunk(lambda trunk: None, self.lost.append)
        self.slice = Trunk(lambda trunk: None, self.lost.append, self._serve)
        self.near, self.far = Socket(), Socket()
        self.router.connection_made(cast(asyncio.Transport, self.near))
        self.slice.connection_made(cast(asyncio.Transport, self.far))

    def _serve(self) -> Talker:
        self.servers.append(self.kind())
        return self.servers[-1]

    def open(self) -> Talker:
        made = Talker()
        self.clients.append(made)
        self.router.open(lambda: made)
        return made

    async def carry(self, cut: Callable[[bytes], list[bytes]] = lambda data: [data]) -> None:
        """Carry what was written to the other side, until nothing is on its way."""
        for _ in range(1000):
            for _ in range(3):
                await asyncio.sleep(0)
            if not (self.near.writes or self.far.writes):
                return
            for socket, trunk in ((self.near, self.slice), (self.far, self.router)):
                writes, socket.writes = socket.writes, []
                for piece in cut(b"".join(writes)) if writes else []:
                    trunk.data_received(piece)
        raise AssertionError("it does not come to rest")

    @property
    def is_empty(self) -> bool:
        return not (self.router._channels or self.slice._channels)


@pytest.fixture
async def two() -> Two:
    return Two()


async def test_what_is_written_on_all_channels_in_one_turn_leaves_in_one_write(two: Two) -> None:
    for number in range(3):
        two.open().channel.write(b"request %d" % number)
    await asyncio.sleep(0)
    assert len(two.near.writes) == 1
    await two.carry()
    assert [each.heard for each in two.servers] == [b"request 0", b"request 1", b"request 2"]
    for each in two.servers:
        each.channel.write(b"answer to " + each.heard)
    await asyncio.sleep(0)
    assert len(two.far.writes) == 1
    await two.carry()
    assert [each.heard for each in two.clients] == [
        b"answer to request 0", b"answer to request 1", b"answer to request 2"
    ]  # fmt: skip


async def test_frames_may_come_in_pieces_of_any_size(two: Two) -> None:
    for number in range(3):
        two.open().channel.write(b"%d" % number * (number + 1))
    await two.carry(lambda data: [data[at : at + 1] for at in range(len(data))])
    assert [each.heard for each in two.servers] == [b"0", b"11", b"222"]


async def test_a_protocol_that_does_not_read_stops_its_own_channel_alone(two: Two) -> None:
    slow, other = two.open(), two.open()
    await two.carry()
    two.servers[0].channel.pause_reading()
    sent = b"".join(b"%07d\n" % number for number in range(WINDOW_BYTES // 4))
    slow.channel.write(sent)
    assert not slow.may_write
    assert slow.channel.get_write_buffer_size() == len(sent) - WINDOW_BYTES
    other.channel.write(b"hello")
    await two.carry()
    assert two.servers[1].heard == b"hello"
    assert two.servers[0].heard == b""
    two.servers[0].channel.resume_reading()
    await two.carry()
    assert two.servers[0].heard == sent
    assert slow.may_write


async def test_of_a_long_answer_little_comes_unless_it_is_lent(two: Two) -> None:
    lent, client = list[int](), two.open()
    await two.carry()
    client.channel.pause_reading()
    client.channel.lender = lambda size: lent.append(size) or True
    answer = b"x" * (3 * WINDOW_BYTES)
    two.servers[0].channel.write(answer)
    await two.carry()
    assert client.channel.held_bytes == ANSWER_BYTES
    assert lent == []

    client.channel.resume_reading()
    await two.carry()

    assert client.heard == answer
    assert client.channel.held_bytes == 0, "all that was lent has come"
    assert max(lent) <= LENT_BYTES_MAX
    assert sum(lent) > len(answer) // 2


async def test_a_long_answer_comes_in_small_parts_while_nothing_is_lent(two: Two) -> None:
    client, may_lend = two.open(), [False]
    await two.carry()
    client.channel.lender = lambda size: may_lend[0]
    answer = b"x" * (3 * WINDOW_BYTES)
    two.servers[0].channel.write(answer)
    await two.carry()
    assert client.heard == answer
    assert client.channel.held_bytes == 0

    may_lend[0] = True
    two.servers[0].channel.write(answer)
    await two.carry()

    assert client.heard == 2 * answer
    assert client.channel.held_bytes == 0


async def test_what_is_lent_is_held_until_it_comes(two: Two) -> None:
    client = two.open()
    await two.carry()
    client.channel.lender = lambda size: True
    two.servers[0].channel.write(b"x" * (2 * WINDOW_BYTES))
    while not client.channel.held_bytes:
        await asyncio.sleep(0)
        for socket, trunk in ((two.far, two.router), (two.near, two.slice)):
            writes, socket.writes = socket.writes, []
            trunk.data_received(b"".join(writes))
    assert client.channel.held_bytes >= LENT_BYTES_MAX - ANSWER_BYTES
    client.channel.abort()
    await two.carry()
    assert client.channel.held_bytes == 0
    assert two.is_empty


async def test_a_channel_that_closes_sends_what_waits_and_then_is_over(two: Two) -> None:
    client = two.open()
    await two.carry()
    two.servers[0].channel.pause_reading()
    sent = b"x" * (2 * WINDOW_BYTES + 1)
    client.channel.write(sent)
    client.channel.close()
    client.channel.write(b"too late")
    await two.carry()
    assert not client.is_lost
    two.servers[0].channel.resume_reading()
    await two.carry()
    assert two.servers[0].heard == sent
    assert client.is_lost and two.servers[0].is_lost
    assert two.is_empty


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_channel_that_closes_takes_in_all_so_that_its_own_bytes_are_taken(
    two: Two, *, is_read: bool
) -> None:
    """The other side reads on only when its answers have left, as a connection does."""
    client = two.open()
    await two.carry()
    server = two.servers[0]
    if not is_read:
        client.channel.pause_reading()
    server.channel.pause_reading()
    client.channel.write(b"q" * 3 * WINDOW_BYTES)
    client.channel.close()
    client.channel.pause_reading()
    server.channel.write(b"a" * 3 * WINDOW_BYTES)
    await two.carry()
    assert server.may_write
    server.channel.resume_reading()
    await two.carry()
    assert server.heard == b"q" * 3 * WINDOW_BYTES
    assert client.is_lost and server.is_lost and two.is_empty


@pytest.mark.parametrize("waits", [True, False])
async def test_nothing_waits_for_a_side_that_has_closed(two: Two, *, waits: bool) -> None:
    client = two.open()
    await two.carry()
    server = two.servers[0]
    server.channel.pause_reading()
    if waits:
        server.channel.write(b"a" * 3 * WINDOW_BYTES)
        client.channel.pause_reading()
        await two.carry()
        assert not server.may_write
    client.channel.close()
    await two.carry()
    server.channel.write(b"a" * 3 * WINDOW_BYTES)
    assert server.may_write and server.channel.get_write_buffer_size() == 0
    two.slice.connection_lost(None)
    assert not server.is_lost and two.is_empty
    server.channel.resume_reading()
    await two.carry()
    assert server.is_lost and server.channel.is_closing()


async def test_the_end_of_one_direction_is_said_once(two: Two) -> None:
    client = two.open()
    two.router.pause_writing()
    client.channel.write(b"last")
    client.channel.write_eof()
    for _ in range(2):
        two.router.resume_writing()
        two.router.pause_writing()
    await two.carry()
    server = two.servers[0]
    assert (server.heard, server.ends, server.is_lost) == (b"last", 1, False)


async def test_a_channel_that_is_aborted_drops_what_waits(two: Two) -> None:
    client = two.open()
    client.channel.write(b"x" * (2 * WINDOW_BYTES))
    client.channel.close()
    client.channel.abort()
    await two.carry()
    assert two.servers[0].heard == b"x" * WINDOW_BYTES
    assert client.is_lost and two.servers[0].is_lost
    assert two.is_empty


async def test_the_end_of_the_input_comes_after_it_and_answers_still_leave(two: Two) -> None:
    client = two.open()
    client.channel.write(b"x" * (WINDOW_BYTES + 1))
    client.channel.write_eof()
    assert client.channel.can_write_eof()
    await two.carry()
    server = two.servers[0]
    assert len(server.heard) == WINDOW_BYTES + 1
    assert server.has_end and not server.is_lost
    server.channel.write(b"answer")
    server.channel.close()
    await two.carry()
    assert client.heard == b"answer"
    assert client.is_lost and server.is_lost
    assert two.is_empty


async def test_a_protocol_that_does_not_stay_after_the_end_of_the_input_closes(two: Two) -> None:
    client = two.open()
    await two.carry()
    client.stays = False
    two.servers[0].channel.write_eof()
    await two.carry()
    assert client.has_end and client.is_lost and two.servers[0].is_lost
    assert two.is_empty


async def test_a_socket_that_takes_nothing_stops_all_channels_and_then_they_go_on(
    two: Two,
) -> None:
    first, second = two.open(), two.open()
    await two.carry()
    two.router.pause_writing()
    first.channel.write(b"x" * (HIGH + 1))
    second.channel.write(b"y")
    await asyncio.sleep(0)
    assert two.near.writes == []
    assert not first.may_write and second.may_write
    two.router.resume_writing()
    await two.carry()
    assert first.may_write
    assert [each.heard for each in two.servers] == [b"x" * (HIGH + 1), b"y"]


async def test_channels_that_wait_for_the_socket_take_turns(two: Two) -> None:
    """Those that always have more to send do not keep one out that has little."""
    greedy = [two.open() for _ in range(9)]
    modest = greedy.pop(4)  # neither the first nor the last in line
    await two.carry()
    two.router.pause_writing()
    for each in greedy[:4]:
        each.channel.write(b"x" * WINDOW_BYTES)
    modest.channel.write(b"hello")
    for each in greedy[4:]:
        each.channel.write(b"x" * WINDOW_BYTES)
    two.near.after_write = two.router.pause_writing
    for _ in range(4):
        two.router.resume_writing()
        await two.carry()
        for each in greedy:
            each.channel.write(b"x" * WINDOW_BYTES)
    assert two.servers[4].heard == b"hello"


async def test_a_channel_that_ends_while_it_waits_for_the_socket_leaves_the_line(two: Two) -> None:
    first, second = two.open(), two.open()
    await two.carry()
    two.router.pause_writing()
    first.channel.write(b"x")
    second.channel.write(b"y")
    first.channel.abort()
    assert len(two.router._line) == 1
    two.router.resume_writing()
    await two.carry()
    assert first.is_lost and two.servers[0].is_lost
    assert [each.heard for each in two.servers] == [b"", b"y"]


async def test_all_protocols_hear_that_the_socket_is_lost(two: Two) -> None:
    clients = [two.open(), two.open()]
    await two.carry()
    assert two.router.is_open
    two.router.connection_lost(None)
    two.slice.connection_lost(None)
    assert all(each.is_lost for each in (*clients, *two.servers))
    assert two.is_empty
    assert two.lost == [two.router, two.slice]
    assert not two.router.is_open
    clients[0].channel.write(b"nobody hears this")
    await two.carry()


async def test_an_answer_that_came_before_the_loss_is_read_when_its_protocol_reads_on(
    two: Two,
) -> None:
    client = two.open()
    await two.carry()
    client.channel.pause_reading()
    two.servers[0].channel.write(b"answer")
    await two.carry()
    two.router.connection_lost(None)
    assert not client.is_lost
    assert not two.router._channels
    client.channel.resume_reading()
    await two.carry()
    assert client.heard == b"answer"
    assert client.is_lost


@pytest.mark.parametrize("bug", [b"a bug", b"a bug at its end"])
async def test_a_bug_in_one_protocol_ends_its_channel_alone(
    two: Two, caplog: pytest.LogCaptureFixture, bug: bytes
) -> None:
    first, second = two.open(), two.open()
    first.channel.write(bug)
    second.channel.write(b"hello")
    await two.carry()
    assert two.servers[1].heard == b"hello"
    assert first.is_lost and two.servers[0].is_lost
    assert not second.is_lost
    assert "a channel of the router" in caplog.text


async def test_a_channel_that_is_over_hears_nothing_more(two: Two) -> None:
    client = two.open()
    await two.carry()
    two.servers[0].channel.write(b"on its way")
    client.channel.close()
    await two.carry()
    assert client.heard == b""
    assert client.is_lost and two.servers[0].is_lost


async def test_what_is_written_behind_the_end_is_dropped(two: Two) -> None:
    client = two.open()
    client.channel.write(b"all")
    client.channel.write_eof()
    client.channel.write_eof()
    client.channel.write(b"more")
    await two.carry()
    server = two.servers[0]
    assert (server.heard, server.ends, server.is_lost) == (b"all", 1, False)
    server.channel.close()
    server.channel.write(b"more")
    server.channel.write_eof()
    server.channel.abort()
    await two.carry()
    assert (client.heard, client.ends, client.is_lost) == (b"", 0, True)


async def test_an_end_that_came_while_nobody_read_comes_once_and_behind_each_piece(
    two: Two,
) -> None:
    class OneByOne(Talker):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.channel.pause_reading()

    two.kind = OneByOne
    client = two.open()
    await two.carry()
    server = two.servers[0]
    for piece in (b"a", b"b", b"c"):
        client.channel.write(piece)
    client.channel.write_eof()
    for heard in (b"a", b"ab", b"abc"):
        await two.carry()
        assert (server.heard, server.ends) == (heard, 0)
        server.channel.resume_reading()
    for _ in range(2):
        await two.carry()
        assert server.ends == 1
        server.channel.pause_reading()
        server.channel.resume_reading()


async def test_a_channel_that_closes_hears_no_end_of_the_other_side(two: Two) -> None:
    client = two.open()
    await two.carry()
    server = two.servers[0]
    server.channel.pause_reading()
    client.channel.write(b"q" * 2 * WINDOW_BYTES)
    client.channel.close()
    server.channel.write_eof()
    await two.carry()
    assert (client.ends, client.is_lost) == (0, False)
    client.channel.abort()
    assert client.channel.get_write_buffer_size() == 0
    await two.carry()
    assert client.is_lost


async def test_a_channel_that_is_over_holds_nothing(two: Two) -> None:
    clients = [two.open(), two.open()]
    await two.carry()
    aborted, closed = (each.channel for each in two.servers)
    aborted.pause_reading()
    clients[0].channel.write(b"x")
    closed.write(b"a" * 3 * WINDOW_BYTES)
    clients[1].channel.pause_reading()
    await two.carry()
    aborted.abort()
    assert aborted.is_closing() and not aborted._inbox
    clients[1].channel.close()
    await two.carry()
    assert closed.is_closing() and closed.get_write_buffer_size() == 0
    assert two.is_empty


@pytest.mark.parametrize("last", [_DATA, _END, _CLOSE])
async def test_what_comes_as_the_protocol_reads_on_comes_behind_what_waited(
    two: Two, last: int
) -> None:
    two.open()
    await two.carry()
    server = two.servers[0]
    server.channel.pause_reading()
    two.slice.data_received(_HEAD.pack(1, 1 << 3 | _DATA) + b"a")
    server.channel.resume_reading()
    two.slice.data_received(_HEAD.pack(1, (last == _DATA) << 3 | last) + b"b" * (last == _DATA))
    assert (server.heard, server.ends, server.is_lost) == (b"", 0, False)
    await asyncio.sleep(0)
    assert server.heard == (b"ab" if last == _DATA else b"a")
    assert (server.ends, server.is_lost) == (last == _END, last == _CLOSE)


async def test_a_protocol_is_told_once_to_stop_and_to_go_on_when_little_is_left(
    two: Two,
) -> None:
    client = two.open()
    await two.carry()
    two.servers[0].channel.pause_reading()
    for size in (WINDOW_BYTES, HIGH + 1, 99):
        client.channel.write(b"x" * size)
    assert not client.may_write
    client.channel.note(_TAKEN, HIGH + 100 - HIGH // 4 - 1)
    assert not client.may_write
    client.channel.note(_TAKEN, 1)
    assert client.may_write


async def test_no_more_is_on_its_way_than_the_window_however_much_was_taken(two: Two) -> None:
    client = two.open()
    await two.carry()
    for _ in range(9):
        client.channel.write(b"x" * WINDOW_BYTES)
        await two.carry()
    assert client.channel._room <= WINDOW_BYTES
    assert len(two.servers[0].heard) == 9 * WINDOW_BYTES


async def test_after_much_in_one_turn_the_next_turn_is_one_write_again(two: Two) -> None:
    clients = [two.open(), two.open()]
    await two.carry()
    clients[0].channel.write(b"x" * WINDOW_BYTES)
    await two.carry()
    for each in clients:
        each.channel.write(b"y")
        each.channel.write(b"z")
    assert two.near.writes == []
    await asyncio.sleep(0)
    assert len(two.near.writes) == 1


async def test_a_frame_of_a_channel_that_is_none_opens_none(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in (_DATA, _END, _CLOSE, _TAKEN):
        two.slice.data_received(_HEAD.pack(9, kind))
    two.router.data_received(_HEAD.pack(9, _OPEN))
    assert two.is_empty
    assert (two.servers, caplog.messages) == ([], [])


async def test_a_number_that_is_still_used_is_not_given_again(two: Two) -> None:
    two.open()
    two.router._last = 0
    two.open()
    assert len(two.router._channels) == 2


async def test_a_channel_says_of_itself_what_its_socket_says(two: Two) -> None:
    channel = two.open().channel
    assert channel.get_extra_info("socket") == "the socket"
    two.router.connection_lost(None)
    assert channel.get_extra_info("socket", "none") == "none"


async def test_a_trunk_that_closes_sends_what_was_written(two: Two) -> None:
    two.open().channel.write(b"last")
    two.router.close()
    assert two.near.is_closed and not two.router.is_open
    await two.carry()
    assert two.servers[0].heard == b"last"


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_byte_comes_once_and_in_order_whatever_stops_on_the_way(seed: int) -> None:
    random, two = Random(seed), Two()
    pairs = []
    for _ in range(3):
        client = two.open()
        await two.carry()
        pairs += [(client, two.servers[-1]), (two.servers[-1], client)]
    sent = [b""] * len(pairs)

    def cut(data: bytes) -> list[bytes]:
        pieces = []
        while data:
            size = random.choice([1, 7, 100, 5000, len(data)])
            pieces.append(data[:size])
            data = data[size:]
        return pieces

    for _ in range(60):
        at = random.randrange(len(pairs))
        source, target = pairs[at]
        step = random.randrange(6)
        target.channel.lender = lambda size: random.random() < 0.5
        if step < 3 and source.may_write:
            more = random.randbytes(random.choice([1, 30, 3000, WINDOW_BYTES // 2, WINDOW_BYTES]))
            source.channel.write(more)
            sent[at] += more
        elif step == 3:
            target.channel.pause_reading()
        elif step == 4:
            target.channel.resume_reading()
        else:
            trunk = random.choice([two.router, two.slice])
            (trunk.resume_writing if trunk.is_full else trunk.pause_writing)()
        if random.random() < 0.5:
            await two.carry(cut)
        assert sent[at].startswith(target.heard)
    for trunk in (two.router, two.slice):
        trunk.resume_writing()
    for _, target in pairs:
        target.channel.resume_reading()
    await two.carry(cut)
    for had, (source, target) in zip(sent, pairs, strict=True):
        assert target.heard == had
        assert source.may_write and not source.channel.get_write_buffer_size()
        assert target.channel.held_bytes <= ANSWER_BYTES
    for client in two.clients:
        client.channel.close()
    await two.carry(cut)
    assert two.is_empty
