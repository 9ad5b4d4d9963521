"""Replies leave in order, each when it is true, and never after its log has failed."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.operations.rests import Gate
from kestrelpy.protocol.parse import SILENT
from kestrelpy.protocol.replies import JointReply, Replies


def make_replies() -> Replies:
    return Replies(cast(Any, "the conversation"))


def taken(replies: Replies) -> bytes:
    replies.release()
    return replies.take() if replies.out else b""


def test_a_true_reply_leaves_at_once() -> None:
    replies, log = make_replies(), Gate()
    log.lsn_stored = log.lsn_written = 5

    replies.say(b"END ")
    replies.hold(b"STORED ", log, 5)

    assert replies.take() == b"END STORED "
    assert not replies.held


def test_no_reply_overtakes_a_held_one() -> None:
    replies, slow, quick = make_replies(), Gate(), Gate()
    quick.lsn_stored = 9
    replies.hold(b"1 ", slow, 1)
    replies.hold(b"2 ", quick, 9)
    replies.say(b"3 ")
    assert taken(replies) == b""

    slow.lsn_stored = 1

    assert taken(replies) == b"1 2 3 "


def test_a_true_reply_behind_a_held_one_waits_on_no_log_of_its_own() -> None:
    replies, slow, quick = make_replies(), Gate(), Gate()
    quick.lsn_stored = quick.lsn_written = 9
    replies.hold(b"STORED ", slow, 1)
    replies.hold(b"VALUE ", quick, 9)

    assert slow.waiting_stored
    assert not quick.waiting_stored and not quick.waiting_written


def test_a_reply_waits_for_both_stored_and_written() -> None:
    replies, log = make_replies(), Gate()
    replies.hold(b"VALUE ", log, 1, 2)
    assert log.waiting_stored and not log.waiting_written

    log.lsn_stored = 1
    assert taken(replies) == b""
    assert log.waiting_written
    log.lsn_written = 2

    assert taken(replies) == b"VALUE "


def test_a_waiter_is_registered_again_after_a_wake_up_in_vain() -> None:
    replies, log = make_replies(), Gate()
    replies.hold(b"STORED ", log, 2)
    log.waiting_stored.clear()
    log.lsn_stored = 1

    assert taken(replies) == b""

    assert log.waiting_stored == {"the conversation"}


def test_a_failed_log_turns_its_held_replies_into_the_error() -> None:
    replies, bad, good = make_replies(), Gate(), Gate()
    bad.lsn_stored = 1
    replies.hold(b"1 ", good, 1)
    replies.hold(b"2 ", bad, 1)
    replies.hold(b"3 ", bad, 2)
    replies.hold(b"4 ", good, 1)
    replies.hold(b"5 ", bad, 3)
    bad.failure = OSError("the disk\nis gone")
    assert taken(replies) == b""

    good.lsn_stored = 1

    error = b"SERVER_ERROR the disk is gone\r\n"
    assert taken(replies) == b"1 2 " + error + b"4 " + error


def test_a_reply_that_waits_for_a_log_that_failed_before_says_so() -> None:
    """Such a log sends no further notification: the connection is flushed for it."""

    def rest(replies: Replies, log: Gate) -> None:
        replies.rest_on(log, 2)
        replies.say(b"STORED ")

    for wait in (
        lambda replies, log: replies.hold(b"STORED ", log, 2),
        lambda replies, log: replies.hold(b"VALUE ", log, 0, 2),
        lambda replies, log: replies.hold_run(b"STORED ", log, 2, 2),
        rest,
    ):
        replies, log = make_replies(), Gate()
        log.failure = OSError("gone")
        wait(replies, log)
        assert replies.has_failed

        assert taken(replies).startswith(b"SERVER_ERROR gone")
        assert not replies.has_failed


def test_after_the_failure_only_items_stored_before_are_shown() -> None:
    replies, log = make_replies(), Gate()
    log.lsn_stored = log.lsn_written = 1
    log.failure = OSError("gone")

    replies.hold(b"VALUE ", log, 1)
    assert replies.take() == b"VALUE "
    replies.hold(b"STORED ", log, 2)

    assert not replies.out
    assert taken(replies) == b"SERVER_ERROR gone\r\n"


def test_an_empty_reply_holds_back_the_next_ones_and_stays_empty() -> None:
    replies, log = make_replies(), Gate()
    replies.hold(b"", log, 1)
    replies.say(b"END ")
    assert taken(replies) == b""

    log.failure = OSError("gone")

    assert taken(replies) == b"END "


def test_a_gate_opens_once() -> None:
    replies, gate = make_replies(), Gate()
    replies.hold(b"DELETED ", gate, 1)
    assert taken(replies) == b""

    gate.open()

    assert taken(replies) == b"DELETED "


def test_parts_held_together_leave_when_all_are_true() -> None:
    replies, one, two = make_replies(), Gate(), Gate()
    part = JointReply()
    part.hold(b"1 ", one, 1)
    part.hold(b"2 ", two, 3, 4)
    part.say(b"END ")
    replies.hold(part.data, part, 1)
    two.lsn_stored = 3
    assert taken(replies) == b""
    assert one.waiting_stored

    one.lsn_stored = 1
    assert taken(replies) == b""
    assert two.waiting_written and not two.waiting_stored
    two.lsn_written = 4

    assert taken(replies) == b"1 2 END "


def test_parts_held_together_fail_as_one() -> None:
    replies, one, two = make_replies(), Gate(), Gate()
    part = JointReply()
    part.hold(b"1 ", one, 1)
    part.hold(b"2 ", two, 1)
    replies.hold(part.data, part, 1)
    one.lsn_stored = 1
    two.failure = OSError("gone")

    assert taken(replies) == b"SERVER_ERROR gone\r\n"
    assert not replies.held


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 5))), st.integers())
def test_replies_leave_in_sequence_and_not_early(
    waits: list[tuple[int, int, int]], seed: int
) -> None:
    random = Random(seed)
    logs = [Gate(), Gate(), Gate()]
    replies = make_replies()
    left: list[int] = []

    def look() -> None:
        for number in taken(replies).split():
            log, stored, written = waits[int(number)]
            assert logs[log].lsn_stored >= stored and logs[log].lsn_written >= written
            left.append(int(number))

    for number, (log, stored, written) in enumerate(waits):
        replies.hold(b"%d " % number, logs[log], stored, written)
        if random.random() < 0.3:
            moved = random.choice(logs)
            moved.lsn_written = min(moved.lsn_written + 1, 5)
            moved.lsn_stored = random.randint(moved.lsn_stored, moved.lsn_written)
            look()
    for moved in logs:
        moved.lsn_written = moved.lsn_stored = 5
    look()

    assert left == list(range(len(waits)))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("data", "wants_reply"), [(b"STORED\r\n", True), (SILENT, True), (b"", False)],
    ids=["an answer", "one that only a failure has", "none at all"],
)
def test_of_a_log_that_fails_every_client_hears_but_one_that_wants_no_reply(
    data: bytes, wants_reply: bool, count: int
) -> None:
    replies, log = make_replies(), Gate()
    replies.hold_run(data, log, 3, count)
    log.failure = OSError(28, "full")

    said = taken(replies)

    assert said.count(b"SERVER_ERROR") == (count if wants_reply else 0)
    assert replies.counters.server_errors == (count if wants_reply else 0)


def test_who_is_gone_has_no_replies_in_flight() -> None:
    replies, log = make_replies(), Gate()
    replies.hold_run(b"STORED ", log, 5, 5)
    replies.hold(b"VALUE ", log, 6)
    replies.value_bytes = 6
    assert replies.in_flight == 6

    replies.clear()

    assert (replies.in_flight, replies.value_bytes) == (0, 0)
    log.lsn_stored = 6
    assert taken(replies) == b""
