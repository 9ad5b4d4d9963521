"""Each kind of bad input against the real process, and clients that behave badly."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
from tests.support.raw import Raw, resident_bytes, wait_until

MIB = 1 << 20


def connect(daemon: DaemonProcess, *, receive_buffer: int = 0) -> Raw:
    return Raw(("127.0.0.1", daemon.port), receive_buffer=receive_buffer)


# -- bad input ---------------------------------------------------------------------------------


def test_an_unknown_verb_is_error_and_the_connection_stays(raw: Raw) -> None:
    raw.ask(b"frobnicate\r\n", b"ERROR\r\n")
    raw.ask(b"verbosity 1\r\n", b"OK\r\n")


@pytest.mark.parametrize(
    ("request_line", "says"),
    [
        ("set {q}/opn 0 0 5", "did you mean open?"),
        ("set {q}/open 0 0 5", "does not go with set"),
        ("add {q} x 0 5", "bad flags"),
        ("set {q} 0 x 5", "bad expiry"),
        ("set {q}+child+child 0 0 5", "a child has no children"),
        ("set {q}" + "/" * 250 + " 0 0 5", "key too long"),
        ("set " + "n" * 129 + " 0 0 5", "queue name too long"),
    ],
)
def test_what_is_wrong_is_named_and_the_body_swallowed(
    raw: Raw, queue: str, request_line: str, says: str
) -> None:
    raw.send(request_line.format(q=queue).encode() + b"\r\nget x\r\nversion\r\n")

    line = raw.line().decode()
    assert line.startswith("CLIENT_ERROR ") and says in line
    assert raw.line().startswith(b"VERSION ")


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (b"set q 0 0 x\r\n", b"CLIENT_ERROR bad byte count: set <key> <flags> <expiry> <bytes>"),
        (b"set q 0 0 -5\r\n", b"CLIENT_ERROR bad byte count: set <key> <flags> <expiry> <bytes>"),
        (b"set q 0 0 9999999999\r\n", b"CLIENT_ERROR bad byte count: above 1 GiB"),
        (b"set q 0 0 2\r\nhello\r\n", b"CLIENT_ERROR bad data chunk: 2 bytes were announced, "
         b"and no line end follows them"),
        (b"x" * 8193, b"CLIENT_ERROR line too long (limit 8192 bytes)"),
    ],
)
def test_what_leaves_the_stream_unclear_closes_it(
    raw: Raw, request_bytes: bytes, answer: bytes
) -> None:
    raw.send(request_bytes)

    assert raw.rest() == answer + b"\r\n"


def test_an_oversized_item_is_skipped_without_being_stored(
    daemon: DaemonProcess, raw: Raw, queue: str
) -> None:
    size = 100 * MIB
    with connect(daemon) as other:
        before = resident_bytes(daemon.pid)
        read = int(other.stats()["bytes_read"])
        raw.send(f"set {queue} 0 0 {size}\r\n".encode())
        for _ in range(size // MIB):
            raw.send(bytes(MIB))
        wait_until(lambda: int(other.stats()["bytes_read"]) - read > size, "all of it read")
        kept = resident_bytes(daemon.pid) - before

    raw.send(b"\r\nversion\r\n")

    assert raw.line() == b"SERVER_ERROR item too large (104857600 bytes, limit 8388608)"
    assert raw.line().startswith(b"VERSION ")
    assert kept < 32 * MIB


@pytest.mark.parametrize(
    "first", [b"\x80\x00\x00\x01", b"POST /queues HTTP/1.1\r\nHost: x\r\n\r\n", b"Host: x\r\n"]
)
def test_the_wrong_protocol_is_closed_without_a_word(raw: Raw, first: bytes) -> None:
    raw.send(first)

    assert raw.rest() == b""


def test_a_client_that_speaks_tls_is_closed_and_named_in_the_log(daemon: DaemonProcess) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def is_named() -> bool:  # one line a second for one address: others may have had the first
        with (
            socket.create_connection(("127.0.0.1", daemon.port), 30) as sock,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            context.wrap_socket(sock)
        return any("TLS refused" in line for line in daemon.lines)

    wait_until(is_named, "a log line")


# -- clients that behave badly -----------------------------------------------------------------


@pytest.mark.slow
def test_a_pipeline_of_ten_thousand_requests(raw: Raw, queue: str) -> None:
    one = f"set {queue} 0 0 5\r\nhello\r\nget {queue}/open\r\nget {queue}/close\r\n".encode()
    answer = f"STORED\r\nVALUE {queue}/open 0 5\r\nhello\r\nEND\r\nEND\r\n".encode()

    raw.ask(one * 3334, answer * 3334)


@pytest.mark.slow
def test_a_client_that_never_reads_is_not_noticed(daemon: DaemonProcess, queue: str) -> None:
    with connect(daemon) as other, connect(daemon, receive_buffer=4096) as deaf:
        body = b"x" * MIB
        other.ask(f"set {queue} 0 0 {MIB}\r\n".encode() + body + b"\r\n", b"STORED\r\n")
        before = resident_bytes(daemon.pid)
        deaf.sock.setblocking(False)
        written = int(other.stats()["bytes_written"])

        with pytest.raises(BlockingIOError):
            while True:
                deaf.sock.send(f"get {queue}/peek\r\n".encode() * 1000)

        for _ in range(20):
            other.ask(b"verbosity\r\n", b"OK\r\n")
        assert int(other.stats()["bytes_written"]) - written < 32 * MIB
        assert resident_bytes(daemon.pid) - before < 48 * MIB


@pytest.mark.slow
def test_a_client_that_sends_a_byte_at_a_time(daemon: DaemonProcess, queue: str) -> None:
    with connect(daemon) as slow, connect(daemon) as other:
        slow.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conversation = f"set {queue} 0 0 5\r\nhello\r\nget {queue}/open\r\nget {queue}/close\r\n"
        for byte in conversation.encode():
            slow.send(bytes((byte,)))
            other.ask(b"verbosity\r\n", b"OK\r\n")

        slow.expect(f"STORED\r\nVALUE {queue}/open 0 5\r\nhello\r\nEND\r\nEND\r\n".encode())


def test_half_a_request_keeps_nobody_busy(daemon: DaemonProcess) -> None:
    """A loop that turned for half a line would burn a processor until the rest came."""
    with connect(daemon) as half, connect(daemon) as other:
        half.send(b"get jo")
        other.ask(b"verbosity\r\n", b"OK\r\n")
        calm = [0]

        def is_asleep() -> bool:
            state = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()[0]
            calm[0] = calm[0] + 1 if state == "S" else 0
            return calm[0] >= 20

        wait_until(is_asleep, "a process that sleeps")


@pytest.mark.slow
def test_a_flood_of_noreply_is_stored_and_not_answered(raw: Raw, queue: str) -> None:
    one = f"set {queue} 0 0 100 noreply\r\n{'x' * 100}\r\n".encode()

    for _ in range(40):
        raw.send(one * 1000)
    raw.ask(b"verbosity\r\n", b"OK\r\n")

    assert raw.stats(f"stats {queue}".encode())[f"queue_{queue}_items"] == "40000"


@pytest.mark.slow
def test_a_half_closed_client_that_reads_late_gets_all_its_answers(
    daemon: DaemonProcess, queue: str
) -> None:
    with connect(daemon, receive_buffer=4096) as late:
        late.ask(f"set {queue} 0 0 10000\r\n{'x' * 10_000}\r\n".encode(), b"STORED\r\n")
        late.send(f"get {queue}/peek\r\n".encode() * 2000)
        late.end()
        with connect(daemon) as other:
            for _ in range(20):
                other.ask(b"verbosity\r\n", b"OK\r\n")

        answer = late.rest()

    one = f"VALUE {queue}/peek 0 10000\r\n{'x' * 10_000}\r\nEND\r\n".encode()
    assert len(answer) == 2000 * len(one)
    assert answer == one * 2000


@pytest.mark.slow
def test_a_thousand_connections(daemon: DaemonProcess, queue: str) -> None:
    crowd = [connect(daemon) for _ in range(1000)]
    try:
        for raw in crowd:
            raw.send(f"set {queue} 0 0 1\r\nx\r\n".encode())
        for raw in crowd:
            raw.expect(b"STORED\r\n")
        for raw in crowd:
            raw.send(f"get {queue}/open\r\n".encode())
        for raw in crowd:
            raw.expect(f"VALUE {queue}/open 0 1\r\nx\r\nEND\r\n".encode())
        stats = crowd[0].stats()
        assert int(stats["curr_connections"]) >= 1000
        assert int(stats[f"queue_{queue}_open_transactions"]) == 1000
    finally:
        for raw in crowd:
            raw.hang_up()
    with connect(daemon) as other:
        wait_until(
            lambda: other.stats(f"stats {queue}".encode())[f"queue_{queue}_items"] == "1000",
            "everything given back",
        )


def test_too_many_connections_are_refused_in_words(tmp_path: Path) -> None:
    config = "[server]\nmax_connections = 2\n"
    with (
        DaemonProcess(tmp_path / "data", config=config) as daemon,
        connect(daemon) as one,
        connect(daemon) as two,
    ):
        one.ask(b"verbosity\r\n", b"OK\r\n")
        two.ask(b"verbosity\r\n", b"OK\r\n")
        with connect(daemon) as three:
            assert three.rest() == b"SERVER_ERROR too many connections\r\n"
        one.hang_up()

        def is_let_in() -> bool:
            with connect(daemon) as four:
                four.send(b"quit\r\n")
                return four.rest() == b""

        wait_until(is_let_in, "room for another")
        two.hang_up()
        wait_until(is_let_in, "and for one more")
        leave_nothing(daemon)


def test_an_idle_connection_is_closed_but_not_one_that_waits_or_holds(tmp_path: Path) -> None:
    config = '[server]\nidle_timeout = "300ms"\n'
    with (
        DaemonProcess(tmp_path / "data", config=config) as daemon,
        connect(daemon) as idle,
        connect(daemon) as slow,
        connect(daemon) as holder,
        connect(daemon) as waiter,
    ):
        holder.ask(b"set jobs 0 0 1\r\nx\r\n", b"STORED\r\n")
        holder.ask(b"get jobs/open\r\n", b"VALUE jobs/open 0 1\r\nx\r\nEND\r\n")
        waiter.send(b"get other/t=1m\r\n")
        slow.send(b"get j")
        idle.send(b"verbosity\r\n")
        assert idle.rest() in (b"OK\r\n", b"OK\r\n(reset)", b"(reset)")
        assert slow.rest() in (b"", b"(reset)")

        holder.ask(b"set other 0 0 1\r\ny\r\n", b"STORED\r\n")
        waiter.expect(b"VALUE other/t=1m 0 1\r\ny\r\nEND\r\n")
        holder.ask(b"get jobs/close\r\n", b"END\r\n")
        for each in (holder, waiter):
            each.hang_up()
        leave_nothing(daemon)


# -- hanging up --------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["", "set {q} 0 0 1000\r\nhalf a body", "get {q}/pee"])
def test_hanging_up_gives_back_and_half_a_request_does_nothing(
    daemon: DaemonProcess, queue: str, last: str
) -> None:
    with connect(daemon) as other:
        gone = connect(daemon)
        gone.ask(f"set {queue} 0 0 5\r\nhello\r\n".encode(), b"STORED\r\n")
        value = f"VALUE {queue}/open 0 5\r\nhello\r\nEND\r\n".encode()
        gone.ask(f"get {queue}/open\r\n".encode(), value)
        other.ask(f"get {queue}/open\r\n".encode(), b"END\r\n")
        gone.send(last.format(q=queue).encode())

        gone.hang_up()

        key = f"{queue}/open/t=20s"
        other.ask(f"get {key}\r\n".encode(), value.replace(b"/open", b"/open/t=20s"))
        other.ask(f"get {queue}/close\r\n".encode(), b"END\r\n")
        other.ask(f"get {queue}\r\n".encode(), b"END\r\n")


def test_a_waiting_client_that_hung_up_takes_nothing(daemon: DaemonProcess, queue: str) -> None:
    with connect(daemon) as other:
        gone = connect(daemon)
        other.ask(
            f"set {queue} 0 0 1\r\n1\r\nget {queue}\r\n".encode(),
            f"STORED\r\nVALUE {queue} 0 1\r\n1\r\nEND\r\n".encode(),
        )
        gone.send(f"get {queue}/t=1m\r\n".encode())
        key = f"queue_{queue}_waiters"
        wait_until(lambda: other.stats(f"stats {queue}".encode())[key] == "1", "a waiter")

        gone.hang_up()

        wait_until(lambda: other.stats(f"stats {queue}".encode())[key] == "0", "no waiter")
        other.ask(
            f"set {queue} 0 0 1\r\n2\r\nget {queue}\r\n".encode(),
            f"STORED\r\nVALUE {queue} 0 1\r\n2\r\nEND\r\n".encode(),
        )


def test_a_reset_gives_back(daemon: DaemonProcess, queue: str) -> None:
    gone = connect(daemon)
    gone.ask(
        f"set {queue} 0 0 1\r\nx\r\nget {queue}/open\r\n".encode(),
        f"STORED\r\nVALUE {queue}/open 0 1\r\nx\r\nEND\r\n".encode(),
    )
    gone.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    gone.hang_up()
    with connect(daemon) as other:
        other.ask(
            f"get {queue}/t=20s\r\n".encode(), f"VALUE {queue}/t=20s 0 1\r\nx\r\nEND\r\n".encode()
        )
