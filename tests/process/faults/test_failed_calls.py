"""Writes and syncs that fail under a running daemon: one queue stops for good, the others go on.

Spec 1.8. strace lets single system calls on one queue's active segment fail; after that the disk
is well again, so whoever tries once more would succeed, and would be found out.

Promise: failed-sync.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.faults import Tracer
from tests.support.raw import Raw, wait_until

pytestmark = pytest.mark.slow

STORED_BEFORE = 5
REASONS = {"EIO": "Input/output_error", "ENOSPC": "No_space_left_on_device"}
REFUSED = (
    b"set bad 0 0 1\r\nx\r\n", b"add bad 0 0 1\r\nx\r\n", b"get bad\r\n", b"get bad/open\r\n",
    b"gets bad/open\r\n", b"get bad/close\r\n", b"flush bad\r\n", b"delete bad\r\n",
)  # fmt: skip


def connect(daemon: DaemonProcess) -> Raw:
    return Raw(("127.0.0.1", daemon.port))


def active_segment(data: Path, queue: str) -> Path:
    """The only segment of a young queue."""
    [segment] = data.glob(f"{queue}.*/*.segment")
    return segment


def store(raw: Raw, queue: bytes, text: bytes) -> None:
    raw.ask(b"set %b 0 0 %d\r\n%b\r\n" % (queue, len(text), text), b"STORED\r\n")


def drain(raw: Raw, queue: bytes) -> list[bytes]:
    """Fetch and confirm to the last item."""
    found: list[bytes] = []
    while True:
        raw.send(b"get %b/close/open\r\n" % queue)
        if raw.line() == b"END":
            return found
        found.append(raw.line())
        raw.expect(b"END\r\n")


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_after_a_failed_call_a_queue_acknowledges_nothing_and_the_others_go_on(
    tmp_path: Path, call: str, error: str, nth: int, end: str
) -> None:
    data = tmp_path / "data"
    with DaemonProcess(data) as daemon, connect(daemon) as raw:
        for number in range(STORED_BEFORE):
            store(raw, b"bad", b"bad %d" % number)
        store(raw, b"good", b"good 0")
        raw.ask(b"get bad/open\r\n", b"VALUE bad/open 0 5\r\nbad 0\r\nEND\r\n")
        tracer = Tracer(
            daemon.pid, tmp_path / "trace", active_segment(data, "bad"),
            f"{call}:error={error}:when={nth}", "pwrite64", "fdatasync", "fsync", "ftruncate",
        )  # fmt: skip
        with tracer, connect(daemon) as other:
            stored = STORED_BEFORE
            answer = b"STORED"
            while answer == b"STORED":
                body = b"bad %d" % stored
                other.send(b"set bad 0 0 %d\r\n%b\r\nset good 0 0 1\r\nx\r\n" % (len(body), body))
                stored += (answer := other.line()) == b"STORED"
                other.expect(b"STORED\r\n")
                # `when` counts in each thread: a sync thread of its own fails at its own time.
                assert stored < STORED_BEFORE + 100
            assert answer.startswith(b"SERVER_ERROR "), answer

            for request in REFUSED:
                other.send(request)
                answer = other.line()
                assert answer.startswith(b"SERVER_ERROR journal failed"), (request, answer)
            raw.send(b"get bad/close\r\n")
            assert raw.line().startswith(b"SERVER_ERROR journal failed")
            other.ask(b"get bad/peek\r\n", b"VALUE bad/peek 0 5\r\nbad 1\r\nEND\r\n")
            told = other.stats()
            assert told["health"] == told["queue_bad_state"] == "failed"
            assert REASONS[error] in told["queue_bad_reason"]
            assert told["queue_good_state"] == "ok"
            store(other, b"good", b"last")
            store(other, b"new", b"first")
            assert drain(other, b"good")[-1] == b"last"
            raw.hang_up()
            if end == "stop":
                assert daemon.stop() == 0
                wait_until(lambda: any(
                    "WARNING kestrelpy: stopped: SIGTERM, after the journals of these failed: bad; "
                    in line for line in daemon.lines
                ), "the line of the stop")  # fmt: skip
            else:
                daemon.kill()
        assert any("acknowledges nothing until a restart" in line for line in daemon.lines)
        calls = tracer.calls()
        assert calls.index(f"{call}!") == len(calls) - 1, f"the file was touched again: {calls}"

        daemon.start()

        with connect(daemon) as again:
            assert again.stats()["health"] == "ok"
            found = drain(again, b"bad")
            assert found[:stored] == [b"bad %d" % number for number in range(stored)]
            assert found[stored:] in ([], [b"bad %d" % stored]), "in doubt: there or not"
            assert drain(again, b"new") == [b"first"]
            store(again, b"bad", b"well again")
            assert drain(again, b"bad") == [b"well again"]


@pytest.mark.parametrize(
    "inject", ["pwrite64:error=ENOSPC", "fdatasync:error=ENOSPC", "renameat:error=ENOSPC"]
)
def test_a_segment_that_cannot_be_prepared_stops_nothing_for_good(
    tmp_path: Path, inject: str
) -> None:
    config = '[journal]\nsegment_min = "16KiB"\nsegment_max = "16KiB"\n'
    data = tmp_path / "data"
    with DaemonProcess(data, config=config) as daemon, connect(daemon) as raw:
        store(raw, b"jobs", b"%01000d" % 0)
        store(raw, b"other", b"0")
        first = min(data.glob("jobs.*/*1.segment"))
        # The second may be prepared before strace is there.
        following = [first.with_name(first.name[:-9] + f"{n}.segment.new") for n in range(2, 7)]
        tracer = Tracer(daemon.pid, tmp_path / "trace", following[0], inject, "fsync", "openat")
        # A name is changed in the data directory's descriptor: strace sees the rest of the path.
        tracer.also_on(*following[1:], *(each.relative_to(data) for each in following))
        with tracer:
            stored, answer = 1, b"STORED"
            while answer == b"STORED":
                raw.send(b"set jobs 0 0 1000\r\n%01000d\r\n" % stored)
                stored += (answer := raw.line()) == b"STORED"
                assert stored < 100
                # A set that comes before the failure is known waits for the segment, rightly.
                time.sleep(0.05)
            assert answer.startswith(b"SERVER_ERROR disk full"), answer
            store(raw, b"other", b"1")
            raw.send(b"get jobs\r\n")
            assert raw.line().startswith(b"VALUE ")
            assert int(raw.line()) == 0
            raw.expect(b"END\r\n")

        def stores() -> bool:
            raw.send(b"set jobs 0 0 1000\r\n%01000d\r\n" % stored)
            return raw.line() == b"STORED"

        wait_until(stores, "storing resumes")
        assert [int(each) for each in drain(raw, b"jobs")] == list(range(1, stored + 1))
        assert any(each.endswith("!") for each in tracer.calls()), "no fault was injected"
