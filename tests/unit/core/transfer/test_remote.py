"""Items that move to another slice, over a wire that breaks, and over ends of either slice.

Promise: move.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.errors import JournalFailed
from journal.format.item_header import ItemHeader
from journal.format.kinds import ITEM_TEXTS
from tests.support.slices_harness import SlicesHarness, available


def connected(**a1: object) -> SlicesHarness:
    town = SlicesHarness()
    town.set_queue("a1", **a1)
    town.connect(1)
    town.connect(2)
    town.deliver()
    return town


DEAD = {"max_attempts": 1, "dead_letter_to": "b1"}


def bodies(town: SlicesHarness, number: int) -> list[bytes]:
    return available(town.slices[number])


def test_a_dead_letter_goes_to_a_queue_of_another_slice() -> None:
    town = connected(max_attempts=1, dead_letter_to="b1")
    town.put("a1", b"1")
    town.slices[1].fail("a1")
    town.deliver()

    assert (bodies(town, 1), bodies(town, 2)) == ([], [b"1"])
    town.check_at_rest()


def test_a_copy_belongs_where_the_key_is_that_its_target_gives_it() -> None:
    town, asked = connected(max_attempts=1, dead_letter_to="b1"), set[bytes]()
    town.set_queue("b1", key=["/to"], key_format="json")
    source = town.slices[1]

    def elsewhere(name: bytes, word: bytes) -> int:
        asked.add(word)
        return 2

    source.broker.elsewhere = elsewhere
    town.put("a1", b'{"to": "A"}')
    asked.clear()
    source.fail("a1")
    town.deliver()

    key = source.broker.policy_of(b"b1", b"").keys.key_of(b"b1", (), b'{"to": "A"}')
    assert key
    assert key in asked
    town.check_at_rest()


@pytest.mark.parametrize("option", [b"key=seven", b"id=seven"])
def test_a_hand_off_belongs_where_its_key_or_its_id_is(option: bytes) -> None:
    town, asked = connected(), set[bytes]()
    source = town.slices[1]

    def elsewhere(name: bytes, word: bytes) -> int:
        asked.add(word)
        return 2 if name == b"b1" else 0

    source.broker.elsewhere = elsewhere
    town.put("a1", b"1")
    source.take("a1", "worker", "/lease=1h")
    line = b"set b1/%b/confirm=a1:%d 0 0 1" % (option, int(source.token))
    source.say("worker", line, b"x")
    town.deliver()

    assert any(b"seven" in word for word in asked)
    assert bodies(town, 2) == [b"x"]


def test_a_move_to_another_slice_says_how_many_items_arrived() -> None:
    town = connected()
    for number in range(3):
        town.put("a1", b"%d" % number)
    assert town.say(1, b"move a1 b1 10") == b""
    town.deliver()

    assert town.slices[1].client("client").take() == b"3\r\n"
    assert bodies(town, 2) == [b"0", b"1", b"2"]
    town.check_at_rest()


def test_a_hand_off_to_another_slice_stores_one_item_and_confirms_the_other() -> None:
    town = connected()
    town.put("a1", b"1")
    assert town.slices[1].hand("a1", "b1") == b""
    town.deliver()

    assert town.slices[1].client("client").take() == b"STORED\r\n"
    assert (bodies(town, 1), bodies(town, 2)) == ([], [b"1|"])
    town.check_at_rest()


def test_a_hand_off_that_the_other_slice_refuses_leaves_the_lease_with_its_client() -> None:
    town = connected()
    town.set_queue("b1", max_items=1)
    town.put("b1", b"full")
    town.put("a1", b"1")
    assert town.slices[1].hand("a1", "b1") == b""
    town.deliver()
    assert town.slices[1].client("client").take() == b"NOT_STORED\r\n"

    assert town.say(1, b"get a1/close") == b"END\r\n"
    assert bodies(town, 1) == []


def test_a_refused_hand_off_by_token_leaves_the_token_valid_over_a_restart() -> None:
    town = connected()
    town.set_queue("b1", max_items=1)
    town.put("b1", b"full")
    town.put("a1", b"1")
    first = town.slices[1]
    assert first.take("a1", options="/lease=1m") == b"1"
    options = f"/confirm=a1:{first.token}"
    assert first.say("client", f"set b1{options} 0 0 1".encode(), b"x") == b""
    town.deliver()
    assert first.client("client").take() == b"NOT_STORED\r\n"

    first.restart()
    assert first.say("client", b"delete a1/token=%d" % first.token) == b"DELETED\r\n"
    assert bodies(town, 1) == []


def test_a_client_that_is_gone_gives_its_item_back_when_the_hand_off_is_refused() -> None:
    town = connected()
    town.set_queue("b1", max_items=1)
    town.put("b1", b"full")
    town.put("a1", b"1")
    assert town.slices[1].hand("a1", "b1") == b""
    town.slices[1].hang_up("client")
    town.deliver()

    assert town.slices[1].take("a1") == b"1"


def test_dead_letters_wait_for_a_slice_that_is_away() -> None:
    town = SlicesHarness()
    town.set_queue("a1", max_attempts=1, dead_letter_to="b1")
    town.slices[1].broker.moves.remote.closed(town.slices[1].peer, "it ended", 0)
    town.put("a1", b"1")
    town.slices[1].fail("a1")
    assert town.slices[1].say("client", b"get a1/dead/peek").startswith(b"VALUE")
    town.come_to_rest()

    assert bodies(town, 2) == [b"1"]
    town.check_at_rest()


def test_a_move_and_a_hand_off_are_refused_while_the_other_slice_is_away() -> None:
    town = connected()
    town.break_wire(1)
    town.put("a1", b"1")
    why = b"SERVER_ERROR slice 2 does not answer: it broke\r\n"
    assert town.say(1, b"move a1 b1 1") == why
    assert town.slices[1].hand("a1", "b1") == why
    assert town.say(1, b"get a1/close") == b"END\r\n"


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("kind", ["dead", "move", "hand"])
@pytest.mark.parametrize("which", [1, 2, 0])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_end_after_each_step_leaves_each_item_once(
    steps: int, kind: str, which: int, is_late: bool
) -> None:
    town = connected(**DEAD if kind == "dead" else {})
    town.put("a1", b"1")
    town.put("a1", b"2")
    begin(town, kind)
    for number in range(steps):
        town.step(1, is_answer=number % 2 == 1)
    if which:
        town.crash(which, Random(steps))
    else:
        town.break_wire(1, is_late)
    town.check()
    town.come_to_rest()
    town.check_at_rest()
    while town.late:
        town.hear_late(0)
        town.check()
    town.come_to_rest()
    town.check_at_rest()


def begin(town: SlicesHarness, kind: str) -> None:
    first = town.slices[1]
    if kind == "dead":
        first.fail("a1")
    elif kind == "move":
        first.say("client", b"move a1 b1 2")
    else:
        first.hand("a1", "b1")


def test_a_late_message_of_a_broken_connection_stores_nothing() -> None:
    town = connected()
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.wires[1].link.send()
    town.break_wire(1, is_late=True)
    assert town.late
    town.connect(1)
    town.deliver()
    assert town.slices[1].take("a1", "other") == b"1"
    while town.late:
        town.hear_late(0)

    assert bodies(town, 2) == []


def test_the_copy_of_an_item_in_doubt_counts_after_a_purge_of_the_target() -> None:
    town = connected()
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.step(1, is_answer=False)
    town.break_wire(1)
    assert town.say(2, b"flush b1") == b"END\r\n"
    town.come_to_rest()

    assert (bodies(town, 1), bodies(town, 2)) == ([], [])


def test_a_deleted_target_stays_on_disk_until_the_source_has_recorded_the_move() -> None:
    town = connected()
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.step(1, is_answer=False)
    town.break_wire(1)
    assert town.say(2, b"delete b1") == b""
    town.come_to_rest()

    assert town.slices[2].client("client").take() == b"DELETED\r\n"
    assert (bodies(town, 1), bodies(town, 2)) == ([], [])


def test_a_deleted_source_leaves_no_open_origin_behind() -> None:
    town = connected()
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.step(1, is_answer=False)
    assert town.say(1, b"delete a1", who="other") == b"DELETED\r\n"
    town.come_to_rest()

    assert bodies(town, 2) == [b"1"]
    town.check_at_rest()


def test_another_target_in_the_settings_does_not_get_an_item_that_is_in_doubt() -> None:
    town = connected(max_attempts=1, dead_letter_to="b1")
    town.put("a1", b"1")
    town.slices[1].fail("a1")
    town.step(1, is_answer=False)
    town.break_wire(1)
    town.set_queue("a1", dead_letter_to="b2")
    town.come_to_rest()

    assert bodies(town, 2) == [b"1"]
    assert b"b2" not in town.slices[2].broker.queues
    town.check_at_rest()


def test_an_item_in_doubt_stays_so_over_snapshots_and_restarts() -> None:
    town = connected()
    town.put("a1", b"1")
    town.put("a1", b"2")
    town.say(1, b"move a1 b1 1")
    town.step(1, is_answer=False)
    first = town.slices[1]
    town.break_wire(1)
    first.snapshot("a1")
    first.clients.clear()
    first.restart()

    assert first.take("a1") == b"2"
    town.connect(1)
    town.deliver()
    assert bodies(town, 2) == [b"1"]


def test_a_letter_leaves_when_the_record_that_the_item_leaves_is_on_disk() -> None:
    town = connected()
    town.put("a1", b"1")
    town.slices[1].hold_syncs()
    town.say(1, b"move a1 b1 1")
    town.wires[1].link.send()
    assert not town.wires[1].out
    town.slices[1].go()
    town.wires[1].link.send()
    assert town.wires[1].out


def test_a_copy_is_confirmed_when_it_is_on_disk_whatever_sync_says() -> None:
    town = connected()
    town.set_queue("b1", sync="1s")
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.slices[2].hold_syncs()
    town.step(1, is_answer=False)
    assert not town.wires[1].back
    town.slices[2].go()
    town.deliver()

    town.check_at_rest()
    assert bodies(town, 2) == [b"1"]


def test_a_list_of_open_origins_waits_for_the_copies_to_be_on_disk() -> None:
    town = connected()
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.slices[2].hold_syncs()
    town.step(1, is_answer=False)
    town.break_wire(1)
    town.connect(1)
    town.step(1, is_answer=False)
    assert not town.wires[1].back
    town.break_wire(1)
    town.slices[2].cut_power()
    town.come_to_rest()

    assert (bodies(town, 1), bodies(town, 2)) == ([b"1"], [])
    town.check_at_rest()


def test_an_original_is_called_gone_when_its_end_is_on_disk() -> None:
    town = connected()
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.step(1, is_answer=False)
    town.slices[1].hold_syncs()
    town.step(1, is_answer=True)
    assert not town.wires[1].out
    town.break_wire(1)
    town.slices[1].clients.clear()
    town.slices[1].cut_power()
    town.come_to_rest()

    assert (bodies(town, 1), bodies(town, 2)) == ([], [b"1"])
    town.check_at_rest()


@pytest.mark.parametrize("opens", [False, True])
def test_a_hand_off_waits_while_the_other_slice_is_being_connected_to(opens: bool) -> None:
    town = SlicesHarness()
    town.put("a1", b"1")
    assert town.slices[1].hand("a1", "b1") == b""
    if opens:
        town.connect(1)
        town.deliver()
        assert town.slices[1].client("client").take() == b"STORED\r\n"
        return
    first = town.slices[1]
    first.broker.moves.remote.closed(first.peer, "it ended", first.now_ms)
    first.work()
    assert first.client("client").take() == b"SERVER_ERROR slice 2 does not answer: it ended\r\n"


def test_a_moved_item_keeps_its_key_its_flags_its_life_and_its_texts() -> None:
    town = connected()
    assert town.say(1, b"set a1/key=A,B 7 1000 1", b"x") == b"STORED\r\n"
    first = town.slices[1]
    client = ITEM_TEXTS[0]
    header = ItemHeader(texts=((client.tag, b"anna"),))
    queue = first.queue("a1")
    queue.put(b"y", 0, 0, first.now_ms, header=header)
    first.work()
    before = queue.reader.item(1)
    assert before is not None
    town.say(1, b"move a1 b1 2")
    town.deliver()

    second = town.slices[2].queue("b1")
    moved = second.reader.item(1)
    assert moved is not None
    assert before.key
    assert (moved.flags, moved.key, moved.expires_ms) == (7, before.key, before.expires_ms)
    other = second.reader.item(2)
    assert other is not None
    assert other.texts == ((client.tag, b"anna"),)


def test_a_hand_off_has_the_conditions_of_its_set_in_the_other_slice() -> None:
    town = connected()
    first, second = town.slices[1], town.slices[2]
    for body in (b"1", b"2", b"3"):
        town.put("a1", body)
    assert first.hand("a1", "b1", "one", "/id=x/delay=1h/key=K") == b""
    assert first.hand("a1", "b1", "two", "/id=x") == b""
    town.deliver()
    assert first.client("one").take() == b"STORED\r\n"
    assert first.client("two").take() == b"STORED\r\n"  # repeated, so its item is confirmed

    queue = second.queue("b1")
    assert (queue.total_items, queue.reader.delays.count) == (1, 1)
    assert bodies(town, 1) == [b"3"]
    assert first.hand("a1", "b1", "three", "/key=K", "add") == b""
    town.deliver()
    assert first.client("three").take() == b"NOT_STORED\r\n"
    assert first.say("three", b"get a1/abort") == b"END\r\n"


def test_a_deleted_target_whose_journal_failed_stays_while_it_alone_knows_of_the_copy() -> None:
    town = connected()
    town.put("a1", b"1")
    town.say(1, b"move a1 b1 1")
    town.step(1, is_answer=False)
    town.break_wire(1)
    second = town.slices[2]
    log = second.queue("b1").log
    assert second.say("client", b"delete b1") == b""
    log.fail(JournalFailed("Input/output error"))
    second.work()
    town.connect(1)
    town.deliver()
    assert town.slices[1].moving()
    second.clients.clear()
    second.kill()
    town.come_to_rest()

    assert (bodies(town, 1), bodies(town, 2)) == ([], [b"1"])
    town.check_at_rest()


def test_what_the_router_says_of_a_slice_is_why_it_does_not_answer() -> None:
    town = SlicesHarness()
    wire = town.connect(1)
    wire.back.append(b"SERVER_ERROR slice 2 does not answer: ended with code -9\r\n")
    wire.answer()

    assert (wire.link.why, wire.is_broken) == ("ended with code -9", True)


def test_a_body_for_a_queue_of_another_slice_is_measured_there() -> None:
    town = connected()
    town.set_queue("b1", max_item_size="16MiB")
    town.put("a1", b"1")
    assert town.slices[1].take("a1") == b"1"
    body = bytes(9 << 20)
    assert town.say(1, b"set b1/confirm 0 0 %d" % len(body), body) == b""
    town.deliver()

    assert town.slices[1].client("client").take() == b"STORED\r\n"
    assert bodies(town, 2) == [body]
