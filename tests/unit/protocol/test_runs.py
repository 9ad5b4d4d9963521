"""A run of sets is one step: replies, items, counters and limits are those of single sets."""

from __future__ import annotations

from random import Random
from typing import Any, Final, cast

import pytest

from journal.errors import JournalFailed
from kestrelpy.core.log.log import JournalLog
from kestrelpy.operations.rests import Gate
from kestrelpy.protocol.parse.commands import Store
from kestrelpy.protocol.parse.parser import Parser
from kestrelpy.protocol.replies import HELD_REPLIES_MAX, Replies
from kestrelpy.protocol.verbs.set import RUN_SETS_MAX
from tests.support.server_harness import ServerHarness

LIMIT: Final = 40
STORED: Final = b"STORED\r\n"


def a_set(body: bytes, name: bytes = b"jobs", flags: int = 0, tail: bytes = b"") -> bytes:
    return b"set %b %d 0 %d%b\r\n%b\r\n" % (name, flags, len(body), tail, body)


def make_stage(**settings: Any) -> ServerHarness:
    """A queue `jobs` with these settings, that there is already."""
    stage = ServerHarness()
    stage.set_queue(**settings)
    stage.say("a", b"set jobs 0 0 1", b"x")
    return stage


# -- as if one by one ------------------------------------------------------------------------


OTHERS: Final = [
    b"get jobs\r\n", b"get jobs/close/open\r\n", b"ms jobs 1\r\nx\r\n", b"nonsense\r\n"
]  # fmt: skip


def requests(random: Random) -> list[bytes]:
    """Sets of all kinds, mostly alike, and now and then another request."""
    made = []
    while len(made) < 120:
        kind = random.randrange(14)
        body = b"b%d" % random.randrange(1000) * random.randrange(4)
        if kind == 0:
            made.append(random.choice(OTHERS))
        elif kind == 1:
            made.append(a_set(body, tail=b" noreply"))
        elif kind == 2:
            made.append(a_set(body, flags=random.randrange(3)))
        elif kind == 3:
            made.append(a_set(body, random.choice([b"jobs/key=A", b"jobs/id=7", b"jobs/delay=1s"])))
        elif kind == 4:
            made.append(a_set(b"x" * random.randrange(LIMIT - 2, LIMIT + 3)))
        elif kind == 5:
            made.append(a_set(body, random.choice([b"other", b"both", b"jobs+audit"])))
        elif kind == 6:
            made.append(b"set jobs 0 %d 1\r\nx\r\n" % random.choice([5, -1]))
            made.append(b"ms jobs 1 T0\r\nx\r\n")
        elif kind == 7:
            made.append(a_set(body)[:-2] + b"\n")  # the end of a line that a person types
        else:
            made += [a_set(body)] * random.randrange(1, 9)
    return made


def facts_of(stage: ServerHarness, sent: bytes) -> dict[str, Any]:
    """Return all facts that a client can learn of a server, now and after a restart."""
    counters = stage.broker.counters
    shown: dict[str, Any] = {
        "sent": sent,
        "counters": (counters.cmd_set, counters.refused_quietly, vars_of(counters.wires)),
        "commands": stage.client("a").conversation.commands,
        "stats": stage.say("b", b"dump_stats"),
    }
    stage.restart()
    for name in (b"jobs", b"other"):
        shown[name.decode()] = [
            stage.say("b", b"gets %b/close/open/full" % name) for _ in range(300)
        ]
    return shown


def vars_of(wires: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(each.commands, each.client_errors, each.server_errors) for each in wires.values()]


SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "items": {"max_items": 20},
    "the oldest go": {"max_bytes": 60, "discard_old_when_full": True},
    "age": {"max_age": "1h"},
    "keys": {"key_format": "json", "key": ["a"], "key_missing": "free"},
    "in memory": {"durable": False},
    "little memory": {"max_memory": 200},
    "retained": {"retain": "forever"},
    "synced by and by": {"sync": "100ms"},
    "a place for children": {"fanout_only": True},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_requests_that_come_together_do_what_they_do_one_by_one(settings: dict[str, Any]) -> None:
    for seed in range(4):
        print("seed", seed)
        lines = requests(Random(seed))
        both = []
        for chunks in ([b"".join(lines)], lines):
            stage = make_stage(max_item_size=LIMIT, **settings)
            stage.set_alias("both", ["jobs", "other"])
            if seed == 1:
                stage.say("c", b"get jobs+audit")
            if seed == 2:
                stage.say("c", b"get other/t=1h")
            for chunk in chunks:
                stage.client("a").conversation.feed(chunk, stage.now_ms)
            stage.work()
            if seed == 2:
                stage.client("c").take()
            both.append(facts_of(stage, stage.client("a").take()))
        assert both[0] == both[1]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 16, 23, 24, 25, 26, 47, 48, 49, 50])
def test_a_run_that_comes_in_parts_is_whole(cut: int) -> None:
    stage = make_stage()
    bodies = [b"%04d" % number for number in range(30)]
    data = b"".join(a_set(body) for body in bodies)

    for at in range(0, len(data), cut):
        stage.send("a", data[at : at + cut])

    assert stage.client("a").take() == STORED * 30
    stage.say("b", b"get jobs")
    assert [stage.say("b", b"get jobs").split(b"\r\n")[1] for _ in bodies] == bodies


def test_a_run_wherever_its_bytes_are_cut_in_two() -> None:
    data = a_set(b"one") + a_set(b"two") + a_set(b"three") + b"version\r\n"
    for at in range(len(data) + 1):
        stage = make_stage()
        stage.send("a", data[:at])
        stage.send("a", data[at:])
        assert stage.client("a").take() == STORED * 3 + b"VERSION 0.0.0\r\n"
        assert stage.queue("jobs").reader.ready.count == 4


def test_a_waiting_client_is_served_by_the_first_set_of_a_run() -> None:
    stage = make_stage()
    stage.say("b", b"get jobs")
    stage.say("b", b"get jobs/open/t=1h")

    stage.client("a").conversation.feed(a_set(b"one") + a_set(b"two"), stage.now_ms)

    assert not stage.queue("jobs").reader.waiters.count
    stage.work()
    assert b"one" in stage.client("b").take()
    assert stage.queue("jobs").reader.ready.count == 1


# -- its reply -------------------------------------------------------------------------------


def test_no_reply_to_a_run_leaves_before_its_last_record_is_stored() -> None:
    stage = make_stage()
    stage.hold_syncs()

    stage.send("a", a_set(b"x") * 5)

    assert stage.client("a").take() == b""
    stage.go()
    assert stage.client("a").take() == STORED * 5


def test_the_reply_to_a_run_is_held_as_one_and_counted_as_many() -> None:
    replies, log = Replies(cast(Any, "the conversation")), Gate()

    replies.hold_run(b"STORED ", log, 3, 3)

    assert len(replies.held) == 1 and replies.in_flight == 3
    log.lsn_stored = 2
    replies.release()
    assert not replies.out and replies.in_flight == 3
    log.lsn_stored = 3
    replies.release()
    assert replies.in_flight == 3 and replies.merged == 0
    assert replies.take() == b"STORED STORED STORED "
    assert replies.in_flight == 0


@pytest.mark.parametrize("stored", range(4))
def test_a_log_that_fails_within_a_run_gives_each_set_its_own_answer(stored: int) -> None:
    replies, log = Replies(cast(Any, "the conversation")), Gate()
    log.lsn_stored = 10
    replies.hold_run(STORED, log, 13, 3)
    replies.hold(b"END ", log, 13)

    log.lsn_stored, log.failure = 10 + stored, JournalFailed("a broken disk")
    replies.release()

    error = b"SERVER_ERROR a broken disk\r\n"
    rest = b"END " if stored == 3 else error * (3 - stored) + error
    assert replies.take() == STORED * stored + rest
    assert replies.counters.server_errors == rest.count(error)
    assert replies.in_flight == replies.merged == 0


def test_a_run_after_its_log_has_failed_is_refused_one_by_one() -> None:
    stage = make_stage()
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    log.journal.commit.fail(JournalFailed("a broken disk"))
    log.advance()

    stage.send("a", a_set(b"x") * 3)

    assert stage.client("a").take().count(b"SERVER_ERROR journal failed, queue jobs") == 3


def test_a_meta_set_before_others_keeps_its_own_answer() -> None:
    stage = make_stage()

    stage.send("a", b"ms jobs 1\r\nx\r\n" + a_set(b"x") * 2)

    assert stage.client("a").take() == b"HD\r\n" + STORED * 2


# -- its bounds ------------------------------------------------------------------------------


def test_every_set_of_a_run_counts_against_the_limit_of_held_replies() -> None:
    stage = make_stage()
    # After a large item the segments are so large that no set waits for room.
    stage.send("a", a_set(b"x" * 900_000))
    stage.client("a").take()
    stage.hold_writes()

    stage.send("a", a_set(b"x") * (3 * HELD_REPLIES_MAX))

    assert stage.client("a").conversation.replies.in_flight == HELD_REPLIES_MAX
    assert stage.broker.counters.cmd_set == HELD_REPLIES_MAX + 2
    stage.go()
    assert stage.client("a").take() == STORED * (3 * HELD_REPLIES_MAX)


def test_a_run_ends_with_its_number_its_bytes_and_the_first_set_that_is_not_like_it() -> None:
    def run(data: bytes, most: int = 9, most_bytes: int = 999, limit: int = 99) -> list[bytes]:
        parser = Parser(lambda name: 1 << 20, {})
        for line in (a_set(b"1"), a_set(b"22"), a_set(b"1", flags=1), a_set(b"1", b"other")):
            parser.feed(line)
            parser.next()  # so that the line is known
        parser.feed(a_set(b"1") + data)
        first = parser.next()
        assert isinstance(first, Store)
        found, size = parser.run(first.line, most, most_bytes, limit)
        assert size == sum(map(len, found))
        assert parser.buffered == len(data) - sum(len(a_set(body)) for body in found)
        return found

    like = a_set(b"a") + a_set(b"bb") + a_set(b"c")
    assert run(like) == [b"a", b"bb", b"c"]
    assert run(like, most=2) == [b"a", b"bb"]
    assert run(like, most_bytes=3) == [b"a", b"bb"]
    assert run(like, most_bytes=0) == []
    assert run(like, limit=1) == [b"a"]
    for other in (
        a_set(b"x", flags=1), a_set(b"x", b"other"), a_set(b"x", tail=b" noreply"), b"get jobs\r\n",
        a_set(b"x", b"jobs/key=A"), a_set(b"x")[:-1], a_set(b"x")[:-3], b"set jobs 0 0 1",
        b"set jobs 0 0 1\r\nxyz", b"\r\n",
    ):  # fmt: skip
        assert run(a_set(b"a") + other + a_set(b"c")) == [b"a"], other


def test_a_run_is_short_because_nobody_looks_at_the_clock_meanwhile() -> None:
    stage = make_stage()
    conversation = stage.client("a").conversation
    conversation.take_in(a_set(b"x") * 99)

    conversation.go_on(stage.now_ms, until=-1.0)

    assert conversation.replies.in_flight == RUN_SETS_MAX
    assert conversation.has_overrun
