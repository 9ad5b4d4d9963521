"""A sync that hangs: only the answers that need it wait for it.

Spec 1.2, 1.5 and design 4. strace holds every sync of one queue's segment for ten seconds. No test
here measures time: the other answers come *before* the one that the hung sync holds back.

Promise hung-sync: a sync held for ten seconds in the real process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.faults import Tracer
from tests.support.raw import Raw

pytestmark = pytest.mark.slow

HANGS = "fdatasync:delay_enter=10000000"  # microseconds


def connect(daemon: DaemonProcess) -> Raw:
    return Raw(("127.0.0.1", daemon.port))


def has_heard_nothing(raw: Raw) -> bool:
    """True if no byte has come in."""
    raw.sock.setblocking(False)
    try:
        return not raw.sock.recv(1)
    except BlockingIOError:
        return True
    finally:
        raw.sock.settimeout(30)


def hold(daemon: DaemonProcess, out: Path, queue: str) -> Tracer:
    """Let the syncs of a queue's only segment hang inside this block."""
    [segment] = daemon.data_dir.glob(f"{queue}.*/*.segment")
    return Tracer(daemon.pid, out, segment, HANGS)


def test_while_a_sync_hangs_everything_else_is_answered(tmp_path: Path) -> None:
    config = "[queues.memory]\ndurable = false\n"
    with (
        DaemonProcess(tmp_path / "data", config=config) as daemon,
        connect(daemon) as setter,
        connect(daemon) as raw,
    ):
        for queue in (b"slow", b"other", b"memory"):
            for text in (b"1", b"2"):
                raw.ask(b"set %b 0 0 1\r\n%b\r\n" % (queue, text), b"STORED\r\n")
        with hold(daemon, tmp_path / "trace", "slow"):
            setter.send(b"set slow 0 0 1\r\n3\r\n")

            # The queue itself: stored items are shown, leased and confirmed; a confirm is written.
            raw.ask(b"get slow/peek\r\n", b"VALUE slow/peek 0 1\r\n1\r\nEND\r\n")
            raw.ask(b"get slow/open\r\n", b"VALUE slow/open 0 1\r\n1\r\nEND\r\n")
            raw.ask(b"get slow/close\r\n", b"END\r\n")
            raw.ask(b"get slow\r\n", b"VALUE slow 0 1\r\n2\r\nEND\r\n")
            assert raw.stats()["queue_slow_items"] == "1"
            # Other queues: reading, confirming, storing, and a new one.
            raw.ask(b"get memory\r\n", b"VALUE memory 0 1\r\n1\r\nEND\r\n")
            raw.ask(b"get other/open\r\n", b"VALUE other/open 0 1\r\n1\r\nEND\r\n")
            raw.ask(b"get other/close\r\n", b"END\r\n")
            for queue in (b"other", b"new", b"memory"):
                raw.ask(b"set %b 0 0 1\r\n3\r\n" % queue, b"STORED\r\n")

            assert has_heard_nothing(setter), "STORED was said before the sync was over"
            with connect(daemon) as waiting:
                waiting.send(b"get slow/open\r\n")
                assert raw.stats()["health"] == "ok"
                assert has_heard_nothing(waiting), "an item was shown before it was durable"
                setter.expect(b"STORED\r\n")
                waiting.expect(b"VALUE slow/open 0 1\r\n3\r\nEND\r\n")


def test_with_syncs_of_three_queues_hanging_the_others_still_store(tmp_path: Path) -> None:
    hung = ("slow1", "slow2", "slow3")
    with DaemonProcess(tmp_path / "data") as daemon, connect(daemon) as raw:
        for queue in (*hung, "other"):
            raw.ask(b"set %b 0 0 1\r\n1\r\n" % queue.encode(), b"STORED\r\n")
        # One tracer at a time may attach to a process: the folder's files are told by their path.
        segments = [next(daemon.data_dir.glob(f"{queue}.*/*.segment")) for queue in hung]
        tracer = Tracer(daemon.pid, tmp_path / "trace", segments[0], HANGS)
        tracer.also_on(*segments[1:])
        setters = [connect(daemon) for _ in hung]
        with tracer:
            for queue, setter in zip(hung, setters, strict=True):
                setter.send(b"set %b 0 0 1\r\n2\r\n" % queue.encode())
            for number in range(20):
                raw.ask(b"set other 0 0 2\r\n%02d\r\n" % number, b"STORED\r\n")
            for queue in hung:
                raw.send(b"get %b/peek\r\n" % queue.encode())
                assert raw.line().startswith(b"VALUE ")
                raw.expect(b"1\r\nEND\r\n")
            assert all(has_heard_nothing(setter) for setter in setters)
            for setter in setters:
                setter.expect(b"STORED\r\n")
                setter.hang_up()
