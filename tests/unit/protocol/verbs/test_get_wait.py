"""A temporary read error is waited out or reported; the reply is never "nothing".

Promise: shortage.
"""

from __future__ import annotations

import errno

import pytest

from journal.write.segment_file import Sizes
from kestrelpy.core.subscription.subscription import Subscription
from tests.support.memory_disk import Fault
from tests.support.server_harness import ServerHarness

COUNT = 30
UNREAD = "the next item cannot be read now (Too many open files); it is tried again"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> ServerHarness:
    """Thirty items over many segments, next to none of them in memory."""
    monkeypatch.setattr("tests.support.server_harness._SIZES", Sizes(2048, 2048, 1 << 20))
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    stage = ServerHarness()
    stage.set_queue(max_memory=1)
    for n in range(1, COUNT + 1):
        line = b"set jobs/key=%d/id=i%d 0 0 300" % (n, n)
        assert stage.say("producer", line, b"%3d" % n * 100) == b"STORED\r\n"
    return stage


def be_short(stage: ServerHarness) -> None:
    """Let one read be short of descriptors."""
    stage.disk.faults = [Fault("read", "*.segment", error=errno.EMFILE)]


@pytest.mark.parametrize(
    ("request_", "begin"),
    [
        (b"gets jobs/peek/after=9", b"VALUE jobs/peek/after=9 0 300 10\r\n"),
        (b"gets jobs/peek/after=20/n=5", b"VALUE jobs/peek/after=20/n=5 0 300 21\r\n"),
        (b"gets jobs/key=20/peek", b"VALUE jobs/key=20/peek 0 300 1\r\n"),
        (b"stats jobs/item=20", b"STAT id 20\r\n"),
        (b"delete jobs/id=i20", b"DELETED\r\n"),
    ],
)
def test_a_browse_gets_the_shortage_first_and_the_item_later(
    stage: ServerHarness, request_: bytes, begin: bytes
) -> None:
    be_short(stage)
    answer = stage.say("observer", request_)
    assert answer.startswith(b"SERVER_ERROR the queue's files cannot be read now"), answer
    assert b"Too many open files" in answer
    assert stage.say("observer", request_).startswith(begin)


def test_several_keys_are_answered_together_when_all_can_be_read(stage: ServerHarness) -> None:
    be_short(stage)
    answer = stage.say("observer", b"gets other jobs/peek/after=9")
    assert answer.startswith(b"VALUE jobs/peek/after=9 0 300 10\r\n")
    assert answer.endswith(b"END\r\n")


def cannot_be_read(stage: ServerHarness) -> None:
    """Mark the queue as the server does: all ready items are in the log, which it cannot read
    now."""
    reader = stage.broker.queues[b"jobs"].reader
    reader.ready_items.clear()
    reader.ready.push_range(2, COUNT - 1, 300 * (COUNT - 1))
    reader.unread = UNREAD
    stage.disk.faults = [Fault("read", "*.segment", times=1 << 20, error=errno.EMFILE)]


def ask_in_vain(stage: ServerHarness, request: bytes) -> bytes:
    """Return the reply once the time for an item is over."""
    with pytest.raises(OSError, match="Too many"):
        stage.say("worker", request)  # the harness reads at once; the server tries again later
    stage.pass_time(10)
    return stage.client("worker").take()


@pytest.mark.parametrize("request_", [b"get jobs", b"get jobs/open", b"get jobs/peek"])
def test_a_get_hears_why_instead_of_end(stage: ServerHarness, request_: bytes) -> None:
    cannot_be_read(stage)
    assert ask_in_vain(stage, request_) == b"SERVER_ERROR %b\r\n" % UNREAD.encode()


def test_a_get_waits_as_long_as_it_may_before_it_hears_why(stage: ServerHarness) -> None:
    cannot_be_read(stage)
    assert ask_in_vain(stage, b"get jobs/t=500") == b""
    stage.pass_time(500)
    assert stage.client("worker").take() == b"SERVER_ERROR %b\r\n" % UNREAD.encode()


def test_a_close_and_open_says_that_the_close_is_done(stage: ServerHarness) -> None:
    assert stage.say("worker", b"get jobs/open").startswith(b"VALUE jobs/open")
    cannot_be_read(stage)
    answer = ask_in_vain(stage, b"get jobs/close/open")
    assert answer == b"SERVER_ERROR the item that was open is ended; %b\r\n" % UNREAD.encode()
    assert 1 not in stage.broker.queues[b"jobs"].reader.live


def test_a_get_of_several_keys_is_refused_before_anything_is_taken(stage: ServerHarness) -> None:
    stage.say("producer", b"set mail 0 0 1", b"m")
    cannot_be_read(stage)
    answer = stage.say("worker", b"get mail jobs")
    assert answer == b"SERVER_ERROR %b\r\n" % UNREAD.encode()
    assert stage.say("worker", b"get mail").startswith(b"VALUE mail 0 1\r\nm")


def test_one_key_is_answered_when_the_next_one_can_be_read(
    stage: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.say("producer", b"set mail 0 0 1", b"m")
    cannot_be_read(stage)
    reader, turns = stage.broker.queues[b"jobs"].reader, [0]
    reader.unread = ""  # the next attempt clears it

    def first(self: Subscription, now_ms: int, dead: bool = False) -> None:
        turns[0] += 1
        self.unread = UNREAD

    with monkeypatch.context() as patch:
        patch.setattr(Subscription, "first", first)
        assert stage.say("worker", b"get mail jobs") == b""
        stage.pass_time(1000)
        assert stage.client("worker").take() == b""
        assert turns[0] < 30, "it looks again after a pause, not in every turn"
    reader.unread = ""
    reader.ready_items.clear()  # consumers took the rest
    stage.pass_time(200)
    assert stage.client("worker").take() == b"VALUE mail 0 1\r\nm\r\nEND\r\n"
