"""One connection: bounded, in order, and no item shown that a power cut takes away.

Promise: fair-share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from journal.errors import JournalFailed
from kestrelpy.core.log.log import JournalLog
from kestrelpy.protocol.conversation import SHARE_COMMANDS
from kestrelpy.protocol.replies import HELD_BYTES_MAX, HELD_REPLIES_MAX
from kestrelpy.protocol.verbs.get import STEP_KEYS
from kestrelpy.protocol.verbs.set import RUN_SETS_MAX
from tests.support.server_harness import Client, ServerHarness

MIB = 1 << 20


def make_stage(**settings: Any) -> ServerHarness:
    stage = ServerHarness()
    stage.set_queue(**settings)
    return stage


def a_set(body: bytes, name: bytes = b"jobs", tail: bytes = b"") -> bytes:
    return b"set %b 0 0 %d%b\r\n%b\r\n" % (name, len(body), tail, body)


def made(client: Client) -> int:
    """Bytes of replies that are made and wait to be sent."""
    replies = client.conversation.replies
    return sum(map(len, replies.out)) + sum(len(held[0]) for held in replies.held)


# -- bounds ----------------------------------------------------------------------------------


def test_a_pipeline_of_sets_is_held_back_while_the_disk_is_behind() -> None:
    stage = make_stage()
    stage.hold_writes()
    client = stage.client("a")

    stage.send("a", a_set(b"x") * 5000)

    assert client.conversation.replies.in_flight == HELD_REPLIES_MAX
    assert not client.sent
    stage.go()
    assert client.take() == b"STORED\r\n" * 5000


def test_large_sets_are_held_back_earlier() -> None:
    stage = make_stage()
    stage.hold_writes()
    client = stage.client("a")

    for _ in range(20):
        stage.send("a", a_set(bytes(MIB)))

    assert stage.broker.queues[b"jobs"].reader.ready.bytes <= HELD_BYTES_MAX
    stage.go()
    assert client.take() == b"STORED\r\n" * 20


@pytest.mark.parametrize("size", [0, 1000, 60_000])
def test_a_flood_of_noreply_is_bounded_and_answers_nothing(size: int) -> None:
    stage = make_stage()
    stage.hold_syncs()
    client = stage.client("a")
    one = a_set(bytes(size), tail=b" noreply")
    sets = 0

    while not client.conversation.is_blocked:
        stage.send("a", one * (1 + 60_000 // len(one)))
        sets += 1 + 60_000 // len(one)
        assert sets * size <= 2 * HELD_BYTES_MAX and sets < 100_000, "it is not held back"

    assert not client.sent
    stage.go()
    assert not client.conversation.is_blocked
    assert stage.broker.queues[b"jobs"].reader.ready.count == sets
    assert stage.say("a", b"version") == b"VERSION 0.0.0\r\n"


def test_a_flood_of_noreply_into_a_queue_in_memory_is_not_held_back() -> None:
    stage = make_stage(durable=False)

    for _ in range(100):
        stage.send("a", a_set(bytes(60_000), tail=b" noreply") * 2)

    assert stage.broker.queues[b"jobs"].reader.ready.count == 200
    assert stage.say("a", b"version") == b"VERSION 0.0.0\r\n"


def test_an_idle_connection_keeps_no_buffer() -> None:
    stage = make_stage()

    stage.send("a", a_set(b"x" * 1000, tail=b" noreply") * 200)

    assert sys.getsizeof(stage.client("a").conversation.parser._data) < 100


def test_many_requests_for_a_large_item_are_answered_a_few_at_a_time() -> None:
    stage = make_stage()
    stage.send("p", a_set(bytes(MIB)))
    client = stage.client("a")

    client.conversation.feed(b"get jobs/peek\r\n" * 100, stage.now_ms)

    assert MIB < made(client) < HELD_BYTES_MAX + 2 * MIB
    total = most = 0
    while data := client.conversation.output():
        most = max(most, len(data))
        total += data.count(b"VALUE")
        client.conversation.go_on(stage.now_ms)
    assert total == 100
    assert most < HELD_BYTES_MAX + 2 * MIB


def test_many_keys_with_large_items_are_answered_a_few_at_a_time() -> None:
    stage = make_stage()
    stage.send("p", a_set(bytes(MIB)) * 3)
    client = stage.client("a")
    keys = b" ".join([b"jobs/peek"] * 30 + [b"jobs"] * 4)

    client.conversation.feed(b"gets %b\r\nversion\r\n" % keys, stage.now_ms)

    assert made(client) < HELD_BYTES_MAX + 2 * MIB
    answer, most = b"", 0
    for _ in range(100):
        stage.write()
        stage.sync()
        data = client.conversation.output()
        most = max(most, len(data))
        answer += data
        if client.conversation.has_more:
            client.conversation.go_on(stage.now_ms)
    assert answer.count(b"VALUE jobs/peek") == 30
    assert answer.count(b"VALUE jobs 0") == 3
    assert answer.endswith(b"\r\nEND\r\nVERSION 0.0.0\r\n")
    assert answer.count(b"END\r\n") == 1
    assert most < HELD_BYTES_MAX + 2 * MIB


def test_a_long_answer_to_many_keys_ends_with_the_error_when_its_journal_fails() -> None:
    stage = make_stage()
    stage.send("p", a_set(bytes(MIB)) * 8)
    client = stage.client("a")
    stage.hold_writes()
    client.conversation.feed(b"get" + b" jobs" * 8 + b"\r\nversion\r\n", stage.now_ms)
    log = stage.broker.queues[b"jobs"].log
    assert isinstance(log, JournalLog)

    log.journal.fail("writing", "the segment", OSError("no"))
    log.advance()
    stage.go()

    answer = client.take()
    assert answer.startswith(b"SERVER_ERROR the segment: writing failed: no\r\n")
    assert answer.endswith(b"\r\nVERSION 0.0.0\r\n")
    assert answer.count(b"\r\n") == 2


def test_a_long_reply_on_a_failed_journal_becomes_its_error_at_once() -> None:
    stage = make_stage()
    stage.send("p", a_set(b"x"))
    conversation = stage.client("a").conversation
    log = stage.broker.queues[b"jobs"].log
    assert isinstance(log, JournalLog)
    log.journal.fail("syncing", "the segment", OSError("no"))
    log.advance()

    def held_after_a_read() -> Iterator[bytes]:
        conversation.replies.hold(b"failed", log, log.lsn_appended + 1)
        yield from ()

    conversation.stream = held_after_a_read()
    conversation.go_on(stage.now_ms)
    said = conversation.output()
    assert said == b"SERVER_ERROR the segment: syncing failed: no\r\n"


def test_a_client_that_does_not_read_gets_no_more_work() -> None:
    stage = make_stage()
    client = stage.client("a")
    client.conversation.paused = True

    stage.send("a", b"version\r\n" * 10)

    assert made(client) == 0
    assert not client.conversation.has_more
    client.conversation.paused = False
    stage.work()
    assert client.take() == b"VERSION 0.0.0\r\n" * 10


@pytest.mark.parametrize(
    "half", [b"get jo", b"set jobs 0 0 5\r\n", b"set jobs 0 0 5\r\nhel", b"set jobs 0 0 2\r\nhi\r"]
)
def test_half_a_request_gives_nothing_to_do(half: bytes) -> None:
    """Otherwise the loop would run for it without end."""
    stage = make_stage()

    stage.send("a", b"version\r\n" + half)

    assert stage.client("a").take() == b"VERSION 0.0.0\r\n"
    assert not stage.client("a").conversation.has_more


# -- shares ----------------------------------------------------------------------------------

QUIET = [
    b"touch jobs 1 noreply\r\n",
    b"set jobs/nosuch 0 0 1 noreply\r\nx\r\n",
    b"delete jobs/token=1 noreply\r\n",
    b"set jobs 0 0 1 noreply\r\nx\r\n",
]


@pytest.mark.parametrize("line", [*QUIET, b"version\r\n", b"get jobs/nosuch\r\n"])
def test_a_flood_of_any_lines_ends_after_a_share_of_them(line: bytes) -> None:
    stage = make_stage()
    conversation = stage.client("a").conversation
    count = 3 * SHARE_COMMANDS

    conversation.feed(line * count, stage.now_ms)

    assert conversation.has_overrun
    assert conversation.parser.buffered == len(line) * (count - SHARE_COMMANDS)
    stage.work()
    assert conversation.parser.buffered == 0


@pytest.mark.parametrize("line", QUIET)
def test_a_share_ends_with_its_time_however_few_lines_were_carried_out(line: bytes) -> None:
    is_run = line.startswith(b"set jobs ")  # its first set makes the queue
    done = 1 + 10 * RUN_SETS_MAX if is_run else 11
    stage = make_stage()
    stage.look_s = 0.001
    conversation = stage.client("a").conversation

    conversation.feed(line * 250, stage.now_ms, until=stage.elapsed_s + 0.0105)

    assert conversation.has_overrun
    assert conversation.parser.buffered == len(line) * (250 - done)


def test_one_command_is_carried_out_however_little_time_is_left() -> None:
    stage = make_stage()
    conversation = stage.client("a").conversation
    conversation.take_in(b"version\r\n" * 2)

    conversation.go_on(stage.now_ms, until=-1.0)

    assert conversation.output() == b"VERSION 0.0.0\r\n"
    assert conversation.has_more


def test_many_keys_are_answered_a_few_at_a_time_as_one_answer() -> None:
    stage = make_stage()
    stage.send("p", a_set(b"x"))
    client = stage.client("a")

    client.conversation.feed(b"get" + b" jobs/peek" * 100 + b"\r\n", stage.now_ms)
    steps = 0
    while client.conversation.has_more:
        client.conversation.go_on(stage.now_ms)
        steps += 1

    assert steps >= 100 // STEP_KEYS
    stage.work()
    answer = client.take()
    assert answer.count(b"VALUE jobs/peek") == 100
    assert answer.endswith(b"END\r\n")


def test_a_refusal_among_many_keys_is_the_reply_and_ends_no_lease() -> None:
    stage = make_stage()
    client = stage.client("a")
    keys = b" ".join([b"jobs"] * 60 + [b"late/key=A/peek/at_version=3"])
    client.conversation.feed(b"gets %b\r\nversion\r\n" % keys, stage.now_ms)
    assert client.conversation.stream is not None

    stage.say("b", b"set late 0 0 1", b"x")
    stage.work()

    answer = client.take()
    assert answer.startswith(b"CLIENT_ERROR at_version: queue late retains no")
    assert answer.endswith(b"\r\nVERSION 0.0.0\r\n")
    assert not client.closed


# -- expired items before live ones ----------------------------------------------------------


@pytest.mark.parametrize("request_line", [b"get jobs", b"get jobs/open", b"get jobs/peek"])
def test_a_live_item_behind_thousands_of_expired_ones_is_found(request_line: bytes) -> None:
    stage = make_stage(durable=False)
    stage.send("p", b"set jobs 0 5 1\r\nx\r\n" * 3500 + a_set(b"live"))
    stage.client("p").take()
    stage.now_ms += 6_000

    answer = stage.say("a", request_line)

    assert b"\r\nlive\r\nEND\r\n" in answer
    assert answer.count(b"END") == 1


def test_several_keys_skip_expired_items_in_one_reply() -> None:
    stage = make_stage(durable=False)
    stage.send("p", b"set jobs 0 5 1\r\nx\r\n" * 3500 + a_set(b"live") + a_set(b"m", b"mail"))
    stage.client("p").take()
    stage.now_ms += 6_000

    answer = stage.say("a", b"get jobs absent mail", b"version")

    assert answer == (
        b"VALUE jobs 0 4\r\nlive\r\nVALUE mail 0 1\r\nm\r\nEND\r\nVERSION 0.0.0\r\n"
    )


def test_items_that_expire_between_two_keys_of_a_request_hide_no_live_one() -> None:
    stage = make_stage(durable=False)
    stage.send("p", b"set jobs 0 5 1\r\nx\r\n" * 3500 + a_set(b"live"))
    stage.client("p").take()
    client = stage.client("a")

    client.conversation.feed(b"get" + b" absent" * STEP_KEYS + b" jobs\r\n", stage.now_ms)
    assert client.conversation.stream is not None, "the last key is left for another turn"
    stage.now_ms += 6_000
    while client.conversation.has_more:
        client.conversation.go_on(stage.now_ms)
    stage.work()

    assert client.take() == b"VALUE jobs 0 4\r\nlive\r\nEND\r\n"


def test_no_client_overtakes_one_that_waits_for_an_expiry_sweep() -> None:
    stage = make_stage(durable=False)
    stage.send("p", b"set jobs 0 5 1\r\nx\r\n" * 1500 + a_set(b"live"))
    stage.client("p").take()
    stage.now_ms += 6_000

    for name in "ab":
        stage.client(name).conversation.feed(b"get jobs\r\n", stage.now_ms)
    stage.work()

    assert stage.client("a").take() == b"VALUE jobs 0 4\r\nlive\r\nEND\r\n"
    assert stage.client("b").take() == b"END\r\n"


def test_a_client_that_is_gone_leaves_nothing_of_its_requests_in_memory() -> None:
    """A connection's parts refer to each other, so its memory is not free before those references
    are cut."""
    stage = make_stage()
    stage.hold_syncs()
    stage.send("a", a_set(bytes(MIB)) + b"set jobs 0 0 1000000\r\n" + bytes(900_000))
    conversation = stage.client("a").conversation
    assert conversation.parser.held_bytes >= 900_000
    assert conversation.replies.held

    stage.hang_up("a")

    assert conversation.parser.held_bytes == 0
    assert not conversation.replies.held
    stage.go()
    assert stage.queue("jobs").reader.ready.count == 1


# -- hanging up ------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [b"", b"delete jobs\r\n", b"get jobs/close/token=1\r\n"])
def test_a_hang_up_before_the_token_is_sent_ends_the_lease(between: bytes) -> None:
    stage = make_stage()
    stage.send("a", b"gets jobs/open/lease=60s/t=1m\r\n")
    producer = stage.client("p").conversation
    producer.feed(a_set(b"x"), stage.now_ms)
    assert stage.broker.to_resume
    producer.feed(between, stage.now_ms)  # a guessed token

    stage.hang_up("a")

    stage.work()
    found = stage.say("b", b"get jobs/open")
    assert found == (b"END\r\n" if between else b"VALUE jobs/open 0 1\r\nx\r\nEND\r\n")
    if not between:
        reader = stage.broker.queues[b"jobs"].reader
        assert not reader.attempts, "no client had it"
        assert not reader.leases.entries


def test_a_hang_up_between_serve_and_reply_gives_the_item_back() -> None:
    stage = make_stage()
    stage.send("a", b"get jobs/open/t=1m\r\n")
    producer = stage.client("p").conversation
    producer.feed(a_set(b"x"), stage.now_ms)
    assert stage.broker.to_resume

    stage.hang_up("a")

    assert stage.say("b", b"get jobs/open") == b"VALUE jobs/open 0 1\r\nx\r\nEND\r\n"


def test_a_server_that_stops_still_answers_served_clients() -> None:
    """A plain get has confirmed by then: a reply that does not leave now is lost."""
    stage = make_stage()
    stage.send("a", b"get jobs/t=1m\r\n")
    client = stage.client("a")
    stage.client("p").conversation.feed(a_set(b"x"), stage.now_ms)

    client.conversation.leave()
    stage.is_leaving = True
    stage.work()

    assert client.take() == b"VALUE jobs/t=1m 0 1\r\nx\r\nEND\r\n"
    assert client.closed


def test_waiting_or_holding_an_item_is_not_idle() -> None:
    stage = make_stage()
    stage.send("p", a_set(b"x"))
    conversation = stage.client("a").conversation
    assert conversation.is_idle

    stage.send("a", b"get jobs/open\r\n")
    assert not conversation.is_idle
    stage.send("a", b"get jobs/close/open/t=1s\r\n")
    assert not conversation.is_idle
    stage.pass_time(1000)

    assert conversation.is_idle


def test_bytes_that_complete_no_request_are_no_sign_of_life() -> None:
    stage = make_stage()
    conversation = stage.client("a").conversation
    stage.send("a", b"version\r\n")
    asked_ms = stage.now_ms

    stage.pass_time(60_000)
    stage.send("a", b"get jo")

    assert conversation.last_command_ms == asked_ms


def test_closing_without_open_is_logged_once_a_minute_with_the_peer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = make_stage()
    stage.send("p", a_set(b"x"))

    for _ in range(5):
        stage.say("peer", b"get jobs/close")
    assert len(caplog.records) == 1
    assert "peer" in caplog.text and "pooled" in caplog.text
    stage.pass_time(60_000)
    stage.say("peer", b"get jobs/close")

    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("first", "remedy"), [
        (b"\x80", "text (ASCII) protocol"), (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "turn TLS off in the client"),
    ],
)
def test_a_wrong_protocol_is_named_in_one_log_line(
    first: bytes, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage()

    stage.send("peer", first + b"\x00" * 100)

    assert stage.client("peer").closed
    assert len(caplog.records) == 1
    assert remedy in caplog.text and "peer" in caplog.text


# -- nothing is shown that a power cut takes away ----------------------------------------------


def markers_after_a_power_cut(stage: ServerHarness, name: bytes) -> int:
    """Return the highest marker of that queue after a power cut."""
    other = ServerHarness()
    other.disk = stage.disk.crash_clone(Random(0), "lost")
    other._come_back()
    queue = other.broker.queues.get(name)
    return queue.last_number if queue is not None else 0


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(12))
def test_nothing_is_shown_or_acknowledged_that_a_power_cut_takes_away(round_: int) -> None:
    seed = int(os.environ.get("CONVERSATION_SEED") or Random().randrange(1 << 32)) + round_
    print(f"CONVERSATION_SEED={seed}")
    random = Random(seed)
    stage = make_stage()
    stage.set_server(max_open_reads=3)
    stage.hold_writes()
    stored = 0
    requests = [
        a_set(b"x"), a_set(b"y"), b"gets jobs/peek\r\n", b"gets jobs\r\n",
        b"gets jobs/t=1m\r\n", b"gets jobs/peek/t=1m\r\n", b"get jobs/abort\r\n",
        b"gets jobs/peek jobs absent\r\n", b"get jobs/close\r\n",
    ]  # fmt: skip
    for _ in range(120):
        name = random.choice("abcd")
        stage.send(name, random.choice(requests))
        if random.random() < 0.3:
            random.choice((stage.write_once, stage.sync_once))()
        if random.random() < 0.05:
            stage.pass_time(30_000)
        heard = b"".join(client.take() for client in stage.clients.values())
        markers = [int(line.split()[4]) for line in heard.split(b"\r\n") if line[:5] == b"VALUE"]
        stored += heard.count(b"STORED\r\n")
        if heard:
            there = markers_after_a_power_cut(stage, b"jobs")
            assert max([stored, *markers]) <= there, heard


def test_requests_and_refusals_are_counted_by_wire_and_class() -> None:
    server = ServerHarness()
    server.say("a", b"set jobs 0 0 1", b"x")
    server.say("a", b"get jobs/nonsense")  # a bad command
    server.say("a", b"get jobs/close/token=9")  # a refusal
    server.queue("jobs").log.failure = JournalFailed("the disk said no")
    server.say("a", b"get jobs")
    counted = server.broker.counters.wire("memcache")
    assert (counted.commands, counted.client_errors, counted.server_errors) == (4, 2, 1)


def test_a_reply_that_fails_with_its_journal_is_counted() -> None:
    server = ServerHarness()
    server.say("a", b"set jobs 0 0 1", b"x")
    server.hold_syncs()
    server.send("a", b"set jobs 0 0 1\r\nx\r\n")
    log = server.queue("jobs").log
    log.failure = JournalFailed("the disk said no")
    server.client("a").conversation.output()
    assert server.broker.counters.wire("memcache").server_errors == 1
