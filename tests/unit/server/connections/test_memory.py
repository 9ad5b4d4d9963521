"""All connections share one memory budget: large ones wait, small ones go on, stalled ones lose
theirs.

Without sockets first, then the daemon with clients that send and read nothing.

Promise connection-memory: bodies that stop before their end or drip, answers that no client reads,
    both at once; many large sets at once.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kestrelpy.server.connections.memory import (
    RESUMED_MAX,
    SMALL_BYTES,
    STALL_MS,
    ConnectionMemory,
)
from tests.support.running import Peer, Running, running

KIB, MIB = 1 << 10, 1 << 20
LIMIT = 10 * MIB


class Holder:
    """A connection without a socket."""

    def __init__(self, moved_ms: int = 0) -> None:
        self.held_bytes = 0
        self.moved_ms = moved_ms
        self.resumed = 0
        self.was_shed = False

    def reserve(self, size: int) -> bool:
        raise AssertionError("not asked here")

    def release(self) -> None:
        raise AssertionError("not asked here")

    def go_on_with_room(self) -> None:
        self.resumed += 1

    def shed(self) -> None:
        self.was_shed = True


def make_memory(*held: int) -> tuple[ConnectionMemory, list[Holder]]:
    memory = ConnectionMemory(LIMIT)
    holders = [Holder() for _ in held]
    for holder, size in zip(holders, held, strict=True):
        memory.hold(holder, size)
    return memory, holders


def test_below_the_limit_everybody_goes_on() -> None:
    memory, (holder,) = make_memory(LIMIT - 1)

    assert memory.may_go_on(holder, 100 * MIB)
    assert not memory.is_short


def test_beyond_the_limit_one_goes_on_and_the_others_wait() -> None:
    memory, (first, second, third) = make_memory(5 * MIB, 4 * MIB, MIB)

    assert memory.may_go_on(first, MIB)
    assert not memory.may_go_on(second, MIB)
    assert not memory.may_go_on(third, MIB)
    assert memory.may_go_on(first, MIB), "it stays the one that goes on"


def test_the_small_go_on_beyond_the_limit_but_not_beyond_twice_of_it() -> None:
    memory, (first, _) = make_memory(LIMIT, 8 * KIB)
    assert memory.may_go_on(first, MIB)

    assert memory.may_go_on(Holder(), SMALL_BYTES)
    assert not memory.may_go_on(Holder(), SMALL_BYTES + 1)
    memory.hold(first, 2 * LIMIT)
    assert not memory.may_go_on(Holder(), SMALL_BYTES)


def test_those_that_need_least_go_on_first_as_far_as_there_is_room() -> None:
    memory, (first, much, little, more) = make_memory(8 * MIB, MIB, MIB, MIB)
    assert memory.may_go_on(first, MIB)
    for holder, needed in ((much, 4 * MIB), (little, MIB), (more, 3 * MIB)):
        assert not memory.may_go_on(holder, needed)

    memory.hold(first, 3 * MIB)  # there is room for five

    assert [holder.resumed for holder in (much, little, more)] == [0, 1, 1]


def test_when_the_one_that_goes_on_is_done_or_gone_the_next_one_goes_on() -> None:
    memory, (first, second, third) = make_memory(6 * MIB, 5 * MIB, 5 * MIB)
    assert memory.may_go_on(first, MIB)
    assert not memory.may_go_on(second, MIB)
    assert not memory.may_go_on(third, 2 * MIB)

    memory.hold(first, 0)
    assert (second.resumed, third.resumed) == (1, 0)
    memory.leave(second)
    assert third.resumed == 1


def test_a_waiting_holder_that_leaves_is_forgotten() -> None:
    memory, (first, second) = make_memory(LIMIT, 0)
    assert memory.may_go_on(first, MIB)
    assert not memory.may_go_on(second, MIB)

    memory.leave(second)
    memory.leave(first)

    assert second.resumed == 0
    assert memory.used == 0
    assert memory.holders == []


def test_another_limit_lets_those_go_on_there_is_room_for() -> None:
    memory, (first, second) = make_memory(LIMIT, MIB)
    assert memory.may_go_on(first, MIB)
    assert not memory.may_go_on(second, MIB)

    memory.change_limit(2 * LIMIT)

    assert second.resumed == 1
    assert not memory.is_short


def test_stalled_holders_lose_their_memory_while_it_is_short() -> None:
    memory, (stalled, moving, waiting) = make_memory(5 * MIB, 4 * MIB, 2 * MIB)
    assert memory.may_go_on(moving, MIB)
    assert not memory.may_go_on(waiting, MIB)
    moving.moved_ms = 1

    assert memory.shed(STALL_MS - 1) == 0
    assert memory.shed(STALL_MS) == 1

    assert [holder.was_shed for holder in (stalled, moving, waiting)] == [True, False, False]


def test_while_there_is_memory_no_holder_loses_any() -> None:
    memory, (holder,) = make_memory(LIMIT - 1)

    assert memory.shed(100 * STALL_MS) == 0
    assert not holder.was_shed


def test_no_more_is_taken_from_the_stalled_than_is_needed() -> None:
    memory, holders = make_memory(*[2 * MIB] * 6)
    for holder in holders:
        holder.shed = lambda holder=holder: memory.hold(holder, 0)

    memory.shed(STALL_MS)

    assert [holder.held_bytes for holder in holders] == [0] * 4 + [2 * MIB] * 2


def test_a_favoured_holder_without_a_need_lets_the_others_go_on() -> None:
    memory, (first, emptied, third) = make_memory(6 * MIB, 5 * MIB, 6 * MIB)
    assert memory.may_go_on(first, MIB)
    assert not memory.may_go_on(emptied, 0)
    assert not memory.may_go_on(third, MIB)
    memory.hold(emptied, 0)  # while it waits

    memory.leave(first)
    memory.shed(0)

    assert third.resumed == 1


def test_one_that_resumes_beyond_the_limit_and_needs_nothing_gives_its_turn_away() -> None:
    memory, (first, large) = make_memory(6 * MIB, 5 * MIB)
    empty, other = Holder(), Holder()
    assert memory.may_go_on(first, MIB)
    assert not memory.may_go_on(empty, 20 * MIB)
    memory.leave(first)
    memory.hold(large, 11 * MIB)
    assert empty.resumed == 1

    assert memory.may_go_on(other, 20 * MIB)


def test_of_thousands_that_wait_some_go_on_at_once_and_the_others_later() -> None:
    memory, (first,) = make_memory(LIMIT)
    assert memory.may_go_on(first, MIB)
    waiting = [Holder() for _ in range(3 * RESUMED_MAX)]
    for holder in waiting:
        assert not memory.may_go_on(holder, SMALL_BYTES + 1)

    memory.change_limit(1 << 40)
    assert sum(holder.resumed for holder in waiting) == RESUMED_MAX
    memory.wake()
    memory.wake()
    assert all(holder.resumed == 1 for holder in waiting)


# -- the daemon ------------------------------------------------------------------------------

def test_a_stalled_client_beyond_the_limit_is_let_go_while_others_wait() -> None:
    memory, (stalled, gone) = make_memory(8 * MIB, 3 * MIB)
    assert memory.may_go_on(stalled, MIB), "it goes on beyond the limit"
    waiting = Holder()
    assert not memory.may_go_on(waiting, 3 * MIB)
    memory.leave(gone)
    assert not memory.is_short
    assert waiting.resumed == 0, "there is no room for all it needs"

    assert memory.shed(STALL_MS - 1) == 0
    assert memory.shed(STALL_MS) == 1
    assert stalled.was_shed
    memory.leave(stalled)
    assert waiting.resumed == 1


def test_a_stalled_client_stays_if_no_other_waits() -> None:
    memory, (stalled, gone) = make_memory(8 * MIB, 3 * MIB)
    assert memory.may_go_on(stalled, MIB)
    memory.leave(gone)

    assert memory.shed(STALL_MS) == 0


CONFIG = '[server]\nmax_connection_memory = "4MiB"\n'
READ_BYTES = 256 * KIB  # at once, from each socket


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sweep look often, and give clients without progress little time."""
    monkeypatch.setattr("kestrelpy.server.connections.sweep.MEMORY_SECONDS", 0.02)
    monkeypatch.setattr("kestrelpy.server.connections.memory.STALL_MS", 200)


def a_set(body: bytes, name: bytes = b"jobs") -> bytes:
    return b"set %b 0 0 %d\r\n%b\r\n" % (name, len(body), body)


async def stalled_bodies(server: Running, count: int, size: int) -> list[Peer]:
    """Clients that stop one byte before the end of their bodies."""
    peers = [await server.client() for _ in range(count)]
    for peer in peers:
        peer.writer.write(a_set(bytes(size))[:-3])
    return peers


@pytest.mark.slow
async def test_stalled_bodies_hold_bounded_memory_and_delay_no_client(
    tmp_path: Path, impatient: None
) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        assert server.daemon is not None
        memory = server.daemon.memory
        stalled = await stalled_bodies(server, 20, MIB)
        small, large = await server.client(), await server.client()
        while not memory.is_short:
            await asyncio.sleep(0.005)

        assert await small.ask(a_set(b"x" * 100)) == b"STORED\r\n"
        assert await large.ask(a_set(b"x" * MIB, b"large")) == b"STORED\r\n"

        assert memory.peak <= 4 * MIB + 22 * READ_BYTES
        for peer in stalled:
            peer.writer.close()
        while server.daemon.broker.counters.connections > 2:
            await asyncio.sleep(0.005)
        assert memory.used == 0


async def test_a_body_that_is_refused_is_named_and_the_connection_goes_on(
    tmp_path: Path, impatient: None
) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        (stalled,) = await stalled_bodies(server, 1, 5 * MIB)
        assert server.daemon is not None
        memory = server.daemon.memory
        while not memory.peak >= 5 * MIB - 1:
            await asyncio.sleep(0.005)
        while memory.used:
            await asyncio.sleep(0.005)

        stalled.writer.write(b"\0\r\nversion\r\n")

        assert (await stalled.line()).startswith(b"SERVER_ERROR no memory for this item")
        assert (await stalled.line()).startswith(b"VERSION")
        assert b"jobs" not in server.daemon.broker.queues


async def test_many_large_sets_at_once_are_all_stored_each_in_its_turn(tmp_path: Path) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        peers = [await server.client() for _ in range(16)]

        answers = await asyncio.gather(*(peer.ask(a_set(bytes(2 * MIB))) for peer in peers))

        assert answers == [b"STORED\r\n"] * 16
        assert server.daemon is not None
        assert server.daemon.memory.used == 0


async def test_one_item_may_be_larger_than_all_that_connections_may_hold(tmp_path: Path) -> None:
    config = '[server]\nmax_connection_memory = "1MiB"\n'
    async with running(tmp_path, config=config) as server:
        peer = await server.client()

        assert await peer.ask(a_set(bytes(6 * MIB))) == b"STORED\r\n"

        assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 0 %d\r\n" % (6 * MIB)
        assert await peer.reader.readexactly(6 * MIB) == bytes(6 * MIB)


async def test_long_replies_without_a_reader_hold_bounded_memory(
    tmp_path: Path, impatient: None
) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        producer = await server.client()
        for _ in range(40):
            assert await producer.ask(a_set(bytes(100 * KIB))) == b"STORED\r\n"
        assert server.daemon is not None
        memory = server.daemon.memory
        deaf = [await server.client() for _ in range(8)]
        for peer in deaf:
            peer.writer.transport.pause_reading()
            peer.writer.write(b"get jobs/peek/after=0/n=10000\r\n" * 3)
        while not memory.is_short:
            await asyncio.sleep(0.005)

        reader = await server.client()
        reader.writer.write(b"get jobs/peek/after=0/n=10000\r\nversion\r\n")
        found = 0
        while not (line := await reader.line()).startswith(b"VERSION"):
            if line.startswith(b"VALUE"):
                found += 1
                await reader.reader.readexactly(100 * KIB + 2)

        assert found == 40, "a client that reads has its answer, in its turn"
        assert memory.peak <= 4 * (4 * MIB), "of the 96 MiB that were asked for"
        for peer in deaf:
            peer.writer.transport.abort()


@pytest.mark.parametrize("option", [b"", b"/open", b"/peek"])
async def test_a_large_item_waits_for_room_and_a_small_one_does_not(
    option: bytes, tmp_path: Path
) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        holders = await stalled_bodies(server, 2, 3 * MIB)
        peer, other = await server.client(), await server.client()
        assert await other.ask(a_set(b"x", b"small")) == b"STORED\r\n"
        assert server.daemon is not None
        memory = server.daemon.memory
        memory.change_limit(100 * MIB)
        assert await other.ask(a_set(bytes(MIB), b"large")) == b"STORED\r\n"
        while memory.used < 6 * MIB - 2:
            await asyncio.sleep(0.005)
        memory.change_limit(4 * MIB)
        (first, *_) = memory.holders
        assert memory.may_go_on(first, 0), "one of them goes on beyond the limit"

        peer.writer.write(b"get large%b\r\n" % option)
        assert await other.ask(b"get small/peek\r\n") == b"VALUE small/peek 0 1\r\n"
        for _ in range(2):
            await other.line()
        for _ in range(20):
            assert (await other.ask(b"version\r\n")).startswith(b"VERSION")
        assert peer.has_heard_nothing()

        for holder in holders:
            holder.writer.close()
        assert await peer.line() == b"VALUE large%b 0 %d\r\n" % (option, MIB)


async def test_a_body_that_comes_no_further_ends_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.connections.sweep.BODY_MS", 50)
    config = '[server]\nidle_timeout = "1s"\n'
    async with running(tmp_path, config=config) as server:
        holder = await server.client()
        assert await holder.ask(a_set(b"x")) == b"STORED\r\n"
        assert await holder.ask(b"get jobs/open\r\n") == b"VALUE jobs/open 0 1\r\n"
        for _ in range(2):
            await holder.line()

        holder.writer.write(a_set(bytes(1000))[:-3])  # it holds an item, so it is not idle

        assert await holder.closed()


async def test_an_unread_answer_behind_a_begun_body_is_let_go_too(
    tmp_path: Path, impatient: None
) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        honest = await server.client()
        assert await honest.ask(a_set(bytes(3 * MIB))) == b"STORED\r\n"
        deaf = [await server.client() for _ in range(4)]
        for peer in deaf:
            peer.writer.transport.pause_reading()
            peer.writer.write(b"get jobs/peek\r\n" * 2 + a_set(bytes(200_000), b"x")[:3000])
        assert server.daemon is not None
        while not server.daemon.memory.is_short:
            await asyncio.sleep(0.005)

        assert await honest.ask(a_set(bytes(MIB), b"y")) == b"STORED\r\n"
        for peer in deaf:
            peer.writer.transport.abort()


async def test_a_body_that_drips_is_refused_while_others_wait(
    tmp_path: Path, impatient: None
) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        dripping = await stalled_bodies(server, 4, 3 * MIB)
        honest = await server.client()
        assert server.daemon is not None
        while not server.daemon.memory.is_short:
            await asyncio.sleep(0.005)
        over = asyncio.Event()

        async def drip() -> None:
            left = MIB
            while not over.is_set() and left:
                for peer in dripping:
                    peer.writer.write(b"\0")
                left -= 1
                await asyncio.sleep(0.02)

        for peer in dripping:
            peer.writer.write(b"")
        dripper = asyncio.create_task(drip())
        assert await honest.ask(a_set(bytes(2 * MIB), b"y")) == b"STORED\r\n"
        over.set()
        await dripper
        for peer in dripping:
            peer.writer.transport.abort()


async def test_browsers_hold_no_memory_while_they_wait(tmp_path: Path) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        producer = await server.client()
        assert await producer.ask(a_set(b"a")) == b"STORED\r\n"
        tails = [await server.client() for _ in range(6)]
        for peer in tails:
            peer.writer.write(b"gets jobs/peek/after=1/n=10/t=10m\r\n")
        assert server.daemon is not None
        while server.daemon.broker.counters.cmd_peek < 6:
            await asyncio.sleep(0.005)
        assert (await producer.ask(b"version\r\n")).startswith(b"VERSION")

        assert server.daemon.memory.used == 0
        assert await producer.ask(a_set(b"b")) == b"STORED\r\n"
        for peer in tails:
            assert (await peer.line()).startswith(b"VALUE jobs/peek/after=1")
