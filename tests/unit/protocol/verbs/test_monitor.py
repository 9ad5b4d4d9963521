"""Batches where a transcript cannot show them: many items, and what a batch costs."""

from __future__ import annotations

from tests.support.server_harness import ServerHarness

COUNT = 2000


def test_a_large_batch_comes_in_sequence_and_is_confirmed_at_once() -> None:
    stage = ServerHarness()
    stage.set_server(max_open_reads=COUNT)
    for number in range(COUNT + 1):
        stage.say("producer", b"set jobs 0 0 4", b"%04d" % number)

    answer = stage.say("a", b"monitor jobs 0")

    blocks = [b"VALUE jobs 0 4\r\n%04d\r\nEND\r\n" % number for number in range(COUNT)]
    assert answer == b"".join(blocks) + b"END\r\n"
    assert stage.say("a", b"confirm jobs %d" % COUNT) == b"END\r\n"
    assert stage.say("b", b"get jobs") == b"VALUE jobs 0 4\r\n%04d\r\nEND\r\n" % COUNT


def test_a_hang_up_in_a_waiting_batch_gives_its_items_back() -> None:
    stage = ServerHarness()
    stage.set_server(max_open_reads=10)
    stage.say("producer", b"set jobs 0 0 1", b"1")
    assert stage.say("a", b"monitor jobs 60") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"

    stage.hang_up("a")

    assert stage.say("b", b"get jobs") == b"VALUE jobs 0 1\r\n1\r\nEND\r\n"
