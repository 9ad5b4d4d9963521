"""The rows of one task for one server: windows, repeats, and the end of patience.

Promise: spark-sink.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import Address
from kestrelpy.spark.write import lane as lanes
from kestrelpy.spark.write.lane import Lane
from kestrelpy.spark.write.write_options import parse_write_options
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

# Hangs up, or refuses, by the number of the set, over all connections.
Judge = Callable[[int], bytes | None]


class Storing:
    """A server that stores what `judge` lets it, once per id; None: it stores and hangs up."""

    def __init__(self, judge: Judge = lambda number: b"STORED") -> None:
        self.judge = judge
        self.sets = 0
        self.server_id = "5e12"
        self.bodies: dict[bytes, bytes] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._listener.getsockname()[1])

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as lines:
            while line := lines.readline():
                if line == b"stats\r\n":
                    connection.sendall(b"STAT server_id %b\r\nEND\r\n" % self.server_id.encode())
                    continue
                verb, key, _, _, size, *_ = line.split()
                body = lines.read(int(size) + 2)[:-2]
                if verb == b"cas":
                    is_there = key.removesuffix(b"/key=0") in self.bodies
                    connection.sendall(b"STORED\r\n" if is_there else b"NOT_FOUND\r\n")
                    continue
                if key in self.bodies:
                    connection.sendall(b"NOT_STORED\r\n" if verb == b"add" else b"STORED\r\n")
                    continue
                self.sets += 1
                answer = self.judge(self.sets)
                if answer in (b"STORED", None):
                    self.bodies[key] = body
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer + b"\r\n")


@contextmanager
def storing(judge: Judge = lambda number: b"STORED") -> Iterator[Storing]:
    server = Storing(judge)
    try:
        yield server
    finally:
        server.close()


def lane_to(address: Address, **options: str) -> Lane:
    return Lane(address, parse_write_options({"servers": str(address), **options}, streams=True))


def request(number: int, size: int = 5) -> bytes:
    return b"set q/id=%d/scope=s/epoch=1 0 0 %d\r\n%0*d\r\n" % (number, size, size, number)


def write(lane: Lane, count: int, size: int = 5) -> None:
    try:
        for number in range(count):
            lane.put(request(number, size))
        lane.finish()
    finally:
        lane.close()


def refused(lane: Lane, count: int) -> str:
    with pytest.raises(KestrelError) as caught:
        write(lane, count)
    return str(caught.value)


@pytest.mark.parametrize("count", [0, 1, lanes.WINDOW_ROWS, 3 * lanes.WINDOW_ROWS + 7])
def test_every_row_is_stored_when_the_lane_is_finished(count: int) -> None:
    with storing() as server:
        lane = lane_to(server.address)
        write(lane, count)

        assert (lane.stored, len(server.bodies), server.sets) == (count, count, count)


def test_at_most_two_windows_are_ahead_of_their_answers() -> None:
    gate = threading.Event()

    def judge(number: int) -> bytes:
        gate.wait(30)
        return b"STORED"

    with storing(judge) as server:
        lane = lane_to(server.address)
        done = threading.Thread(target=write, args=(lane, 5 * lanes.WINDOW_ROWS))
        done.start()
        waiting = [len(window) for window in list(lane._sent)]
        gate.set()
        done.join(30)

        assert len(waiting) <= 2
        assert len(server.bodies) == lane.stored == 5 * lanes.WINDOW_ROWS


def test_a_server_that_hangs_up_gets_what_it_did_not_answer_once_more() -> None:
    broken = {3, lanes.WINDOW_ROWS, lanes.WINDOW_ROWS + 1, 2 * lanes.WINDOW_ROWS + 9}
    with storing(lambda n: None if n in broken else b"STORED") as server:
        lane = lane_to(server.address)
        write(lane, 2000)

        assert len(server.bodies) == 2000
        # The server has a row already if only its answer was lost.
        assert lane.stored + lane.repeated == 2000
        assert lane.repeated >= len(broken)


@pytest.mark.slow
@pytest.mark.parametrize("key", [b"", b"/key=k"])
@pytest.mark.parametrize("config", ["", "[queues.q]\nmax_items = 100\n"])
def test_a_repetition_is_distinguished_from_a_new_row_and_from_a_full_queue(
    tmp_path: Path, key: bytes, config: str
) -> None:
    def rows(lane: Lane, first: int, last: int) -> tuple[int, int]:
        for n in range(first, last):
            lane.put(b"set q/id=%d/scope=s/epoch=1%b 0 0 1\r\nx\r\n" % (n, key))
        lane.finish()
        lane.close()
        return lane.stored, lane.repeated

    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        address = Address("127.0.0.1", daemon.port)
        assert rows(lane_to(address), 0, 60) == (60, 0)
        made: list[tuple[int, int]] = []
        writer = threading.Thread(target=lambda: made.append(rows(lane_to(address), 30, 400)))
        writer.start()
        with Raw(("127.0.0.1", daemon.port)) as raw:
            for _ in range(400):
                raw.send(b"get q/t=20s\r\n")
                assert raw.line().startswith(b"VALUE")
                raw.line()
                raw.expect(b"END\r\n")
        writer.join(30)

        assert made == [(340, 30)]


def test_a_refusal_that_passes_is_waited_for() -> None:
    for answer in (b"NOT_STORED", b"SERVER_ERROR readonly: this server takes no items now"):
        with storing(lambda n, no=answer: no if 600 < n < 1100 else b"STORED") as server:
            lane = lane_to(server.address)
            write(lane, 2000)

            assert len(server.bodies) == lane.stored == 2000


def test_a_refusal_that_stays_is_one_sentence_with_what_was_stored() -> None:
    with storing(lambda n: b"STORED" if n <= 600 else b"SERVER_ERROR disk full") as server:
        text = refused(lane_to(server.address, writeTimeout="300ms"), 2000)

        assert text.startswith(
            f"The server {server.address} stored nothing for 0.3 s: disk full. Before that, this "
            f"task stored 600 rows on {server.address}. Make it take items, and run"
        )


def test_a_row_that_is_refused_for_good_is_named_at_once() -> None:
    for answer in (b"CLIENT_ERROR bad expiry", b"SERVER_ERROR item too large (9 bytes, limit 8)"):
        with storing(lambda n, no=answer: b"STORED" if n <= 600 else no) as server:
            text = refused(lane_to(server.address), 2000)

            why = answer.decode().partition(" ")[2]
            assert text == (
                f"The server {server.address} refused the row q/id=600: {why}. Before that, this "
                f"task stored 600 rows on {server.address}."
            )


def test_an_answer_that_is_no_answer_is_named() -> None:
    with storing(lambda n: b"HTTP/1.1 400 Bad Request") as server:
        text = refused(lane_to(server.address), 1)
        assert "answers 'HTTP/1.1 400 Bad Request' to a set" in text


def test_a_server_that_is_not_kestrelpy_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"END\r\n")

        threading.Thread(target=answer, daemon=True).start()
        address = Address("127.0.0.1", listener.getsockname()[1])
        text = refused(lane_to(address), 1)
    assert text == f"{address} does not say its id: is it kestrelpy?"


def test_another_server_at_the_same_address_gets_nothing() -> None:
    with storing() as server:

        def judge(number: int) -> bytes | None:
            if number == 3:
                server.server_id = "other"
                return None
            return b"STORED"

        server.judge = judge
        text = refused(lane_to(server.address), 100)

        assert "is another one now: its id is other, and was 5e12" in text
        assert server.sets == 3


def test_a_server_that_is_not_there_is_waited_for_until_the_timeout() -> None:
    with storing() as server:
        gone = server.address
    text = refused(lane_to(gone, writeTimeout="200ms"), 1)
    assert text.startswith(f"The server {gone} stored nothing for 0.2 s: Connection refused.")


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_while_the_daemon_is_killed_and_hangs(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        lane = lane_to(Address("127.0.0.1", daemon.port), readTimeout="1s")
        lane.know()
        for number in range(20_000):
            lane.put(request(number, 200))
            if number in (2_000, 9_000):
                daemon.kill()
                threading.Thread(target=daemon.start).start()
            if number == 15_000:
                os.kill(daemon.pid, signal.SIGSTOP)
                threading.Timer(1.5, os.kill, [daemon.pid, signal.SIGCONT]).start()
        lane.finish()
        lane.close()

        with Raw(("127.0.0.1", daemon.port)) as raw:
            found: Counter[int] = Counter()
            after = 0
            while values := raw.values(b"q/peek/after=%d/n=10000" % after):
                found.update(int(body) for _, body in values)
                after = values[-1][0]
        assert found == Counter(range(20_000))


@pytest.mark.slow
def test_a_full_queue_holds_the_lane_back_until_a_worker_makes_room(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config="[queues.q]\nmax_items = 100\n") as daemon:
        lane = lane_to(Address("127.0.0.1", daemon.port))
        writer = threading.Thread(target=write, args=(lane, 1000))
        writer.start()
        found: Counter[int] = Counter()
        with Raw(("127.0.0.1", daemon.port)) as raw:
            while sum(found.values()) < 1000:
                raw.send(b"get q/t=10s\r\n")
                assert raw.line().startswith(b"VALUE")
                found[int(raw.line())] += 1
                raw.expect(b"END\r\n")
        writer.join(30)

        assert found == Counter(range(1000))
