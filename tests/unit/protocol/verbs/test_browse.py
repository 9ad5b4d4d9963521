"""A browser's read, and changes to the queue while it is under way.

Promise: observer.
"""

from __future__ import annotations

import re

import pytest

from journal.write.segment_file import Segment, Sizes
from kestrelpy.core.log.log import JournalLog
from tests.support.memory_disk import Fault
from tests.support.server_harness import ServerHarness

COUNT = 30


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> ServerHarness:
    """Thirty items over many segments, next to none of them in memory."""
    monkeypatch.setattr("tests.support.server_harness._SIZES", Sizes(2048, 2048, 1 << 20))
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    stage = ServerHarness()
    stage.set_queue(max_memory=1)
    for n in range(1, COUNT + 1):
        assert stage.say("producer", b"set jobs 0 0 300", b"%3d" % n * 100) == b"STORED\r\n"
    return stage


def markers(answer: bytes) -> list[int]:
    assert answer.endswith(b"END\r\n")
    found = [int(number) for number in re.findall(rb"VALUE \S+ 0 300 (\d+)\r\n", answer)]
    for number in found:
        assert b" %d\r\n%b\r\n" % (number, b"%3d" % number * 100) in answer
    return found


def log_of(stage: ServerHarness) -> JournalLog:
    log = stage.broker.queues[b"jobs"].log
    assert isinstance(log, JournalLog)
    return log


def rewrite(stage: ServerHarness, chosen: list[Segment]) -> None:
    """Compact as the server does it, from beginning to end."""
    maintenance, live = log_of(stage).store.maintenance, stage.broker.queues[b"jobs"].reader.live
    job = maintenance.begin_compaction(chosen, live.copy(), lambda: None, stage.unix_ms)
    survivors = job.run(stage.disk)
    assert survivors is not None
    for path in maintenance.finish_compaction(chosen, job, survivors):
        stage.disk.remove(path)


def confirm(stage: ServerHarness, *numbers: int) -> None:
    """Confirm these of the first six items; the others go back."""
    for number in range(1, 7):
        stage.say(f"worker {number}", b"get jobs/open")
    for number in range(1, 7):
        word = b"close" if number in numbers else b"defer"
        assert stage.say(f"worker {number}", b"get jobs/" + word) == b"END\r\n"


def test_an_answer_goes_on_over_the_ends_of_segments(stage: ServerHarness) -> None:
    assert len(log_of(stage).journal.segments) > 5
    assert markers(stage.say("a", b"gets jobs/peek/after=0/n=100")) == list(range(1, COUNT + 1))
    assert markers(stage.say("a", b"gets jobs/peek/after=7/n=3")) == [8, 9, 10]


def test_an_item_rewritten_during_its_read_is_looked_up_again(stage: ServerHarness) -> None:
    confirm(stage, 1, 2, 4, 5)
    stage.reads = False
    stage.send("a", b"gets jobs/peek/after=0/n=100\r\n")
    rewrite(stage, log_of(stage).journal.segments[:2])

    stage.reads = True
    stage.work()

    assert markers(stage.client("a").take()) == [3, 6, *range(7, COUNT + 1)]


def test_a_place_in_a_segment_that_was_rewritten_is_forgotten(stage: ServerHarness) -> None:
    assert markers(stage.say("a", b"gets jobs/peek/after=0/n=2")) == [1, 2]
    confirm(stage, 1, 2, 4, 5)
    rewrite(stage, log_of(stage).journal.segments[:2])
    answer = stage.say("a", b"gets jobs/peek/after=2/n=100")
    assert markers(answer) == [3, 6, *range(7, COUNT + 1)]


def test_an_item_confirmed_during_its_read_is_not_shown(stage: ServerHarness) -> None:
    stage.reads = False
    stage.send("a", b"gets jobs/peek/after=0/n=3\r\n")
    for _ in range(5):
        stage.say("b", b"get jobs")

    stage.reads = True
    stage.work()

    assert markers(stage.client("a").take()) == [6, 7, 8]


@pytest.mark.parametrize("were_delayed", [False, True])
def test_a_full_page_whose_items_all_go_shows_the_next_item_in_their_place(
    stage: ServerHarness, were_delayed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second read of a page of one item finds no room; meanwhile that item is confirmed."""
    monkeypatch.setattr("kestrelpy.operations.reading.PAGE_BYTES_MAX", 350)
    after = 0
    if were_delayed:  # their markers are not their ids
        after = COUNT
        for _ in range(COUNT):
            assert stage.say("b", b"get jobs").startswith(b"VALUE")
        for n in range(COUNT + 1, COUNT + 4):
            stage.say("producer", b"set jobs/delay=1s 0 0 300", b"%3d" % n * 100)
        stage.pass_time(1000)
    assert stage.say("b", b"get jobs/open").startswith(b"VALUE jobs/open 0 300\r\n")
    stage.reads = False
    stage.send("a", b"gets jobs/peek/after=%d/n=3\r\n" % after)
    stage.reads = True
    assert stage._observe(), "the first read"
    stage.reads = False
    stage.work()
    assert len(stage._observing) == 1, "the second read"
    assert stage.say("b", b"get jobs/close") == b"END\r\n"

    stage.reads = True
    stage.work()

    shown = stage.client("a").take()
    assert shown.count(b"VALUE") == 1
    assert shown.endswith(b"\r\n%b\r\nEND\r\n" % (b"%3d" % (after + 2) * 100))


def test_a_queue_that_is_deleted_while_it_is_read_has_nothing(stage: ServerHarness) -> None:
    stage.reads = False
    stage.send("a", b"gets jobs/peek/after=0/n=3/t=5s\r\n")
    stage.send("b", b"delete jobs\r\n")

    stage.reads = True
    stage.work()

    assert stage.client("b").take() == b"DELETED\r\n"
    assert stage.client("a").take() == b"END\r\n"


def test_a_hang_up_during_a_read_leaves_nothing(stage: ServerHarness) -> None:
    stage.reads = False
    stage.send("a", b"gets jobs/peek/after=0/n=3\r\nset jobs 0 0 1\r\nx\r\n")
    stage.hang_up("a")

    stage.reads = True
    stage.work()

    assert stage.say("b", b"gets jobs/peek/after=30") == b"END\r\n", "no item after it was done"


def test_others_are_answered_while_it_is_read(stage: ServerHarness) -> None:
    stage.reads = False
    stage.send("a", b"gets jobs/peek/after=0/n=5\r\nversion\r\n")
    assert stage.say("b", b"version") == b"VERSION 0.0.0\r\n"
    assert stage.client("a").take() == b""

    stage.reads = True
    stage.work()

    assert stage.client("a").take().endswith(b"END\r\nVERSION 0.0.0\r\n")


def test_a_client_at_end_of_input_still_gets_its_read(stage: ServerHarness) -> None:
    stage.reads = False
    stage.send("a", b"gets jobs/peek/after=29/n=5/t=5s\r\n")
    stage.end("a")

    stage.reads = True
    stage.work()

    assert markers(stage.client("a").take()) == [30]


@pytest.mark.parametrize("when", ["before its read", "during its read", "while it waits"])
def test_a_client_that_sends_no_more_does_not_wait_for_the_next_item(
    stage: ServerHarness, when: str
) -> None:
    """Another one takes all the items that it would have read."""
    line = b"gets jobs/peek/after=0/n=3/t=5s\r\n"
    if when == "while it waits":
        for _ in range(COUNT):
            stage.say("b", b"get jobs")
    stage.reads = when == "while it waits"
    if when == "before its read":
        stage.client("a").conversation.note_eof()
    stage.send("a", line)
    if when != "before its read":
        stage.end("a")
    for _ in range(COUNT):
        stage.send("b", b"get jobs\r\n")

    stage.reads = True
    stage.work()

    assert stage.client("a").take() == b"END\r\n"


@pytest.mark.parametrize("option", [b"", b"/n=100"])
def test_items_that_the_disk_cannot_read_are_skipped(stage: ServerHarness, option: bytes) -> None:
    lost = log_of(stage).journal.segments[1]
    stage.disk.faults.append(Fault("read", lost.path, times=1_000_000))
    seen: list[int] = []
    while found := markers(
        stage.say("a", b"gets jobs/peek/after=%d%b" % (seen[-1] if seen else 0, option))
    ):
        seen += found
    assert seen == [n for n in range(1, COUNT + 1) if not lost.item_first <= n <= lost.item_last]


@pytest.mark.parametrize("option", [b"", b"/n=100"])
def test_since_is_found_although_the_disk_does_not_say_when(
    stage: ServerHarness, option: bytes
) -> None:
    stage.disk.faults.append(Fault("read", "*.segment", times=1))
    answer = stage.say("a", b"gets jobs/peek/since=1700000000" + option)
    assert markers(answer)[0] == 1


def test_a_journal_that_failed_still_shows_what_it_stored(stage: ServerHarness) -> None:
    stage.disk.faults.append(Fault("sync", "*.segment", times=1_000_000))
    stage.say("producer", b"set jobs 0 0 1", b"x")
    assert markers(stage.say("a", b"gets jobs/peek/after=0/n=100")) == list(range(1, COUNT + 1))
    assert stage.say("a", b"gets jobs/peek/after=30/n=100").startswith(b"SERVER_ERROR ")


def test_an_observer_remembers_its_markers_in_a_few_queues_only(
    stage: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.operations.reading._POSITIONS_MAX", 3)
    for n in range(9):
        stage.say("producer", b"set q%d 0 0 1" % n, b"x")
        assert b"VALUE" in stage.say("a", b"gets q%d/peek/after=0/n=2" % n)
    observing = stage.client("a").conversation.get_handler._browser
    assert observing is not None
    assert len(observing._positions) <= 3


def test_a_line_with_a_marker_is_not_cached(stage: ServerHarness) -> None:
    stage.say("a", b"gets jobs/peek/after=7")
    stage.say("a", b"gets jobs/peek")
    assert b"gets jobs/peek\r" in stage.lines
    assert not [line for line in stage.lines if b"after" in line]


def test_a_long_answer_of_a_queue_in_memory_takes_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kestrelpy.operations.reading.SLICE_ITEMS", 4)
    stage = ServerHarness()
    stage.set_queue(durable=False)
    for n in range(1, COUNT + 1):
        stage.say("producer", b"set jobs 0 0 300", b"%3d" % n * 100)
    talk = stage.client("a").conversation
    talk.feed(b"gets jobs/peek/after=0/n=100\r\n", stage.now_ms)
    assert talk.stream is not None
    assert stage.say("b", b"get jobs").startswith(b"VALUE jobs 0 300\r\n")
    stage.work()
    assert markers(stage.client("a").take()) == list(range(2, COUNT + 1)), "but what is done"


def test_who_waits_for_the_next_item_holds_no_room_for_its_reply(
    stage: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: set[object] = set()

    def reserve(talk: object, size: int) -> bool:
        held.add(talk)
        return True

    monkeypatch.setattr(stage.room, "reserve", reserve)
    monkeypatch.setattr(stage.room, "release", held.discard)
    stage.send("a", b"gets jobs/peek/after=%d/n=5/t=5s\r\n" % COUNT)
    assert stage.client("a").take() == b""
    assert not held


@pytest.mark.parametrize("options", [b"/key=A", b"/id=7", b"/key=A/id=7", b""])
def test_an_observer_sees_the_same_words_of_an_item_as_a_peek(
    stage: ServerHarness, options: bytes
) -> None:
    stage.say("a", b"set more%b 0 0 1" % options, b"x")
    peeked = stage.say("a", b"gets more/peek/full").split(b"\r\n")[0].split()
    observed = stage.say("a", b"gets more/peek/after=0/n=5/full").split(b"\r\n")[0].split()
    assert observed[2:] == peeked[2:]
