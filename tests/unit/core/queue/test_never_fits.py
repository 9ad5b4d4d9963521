"""A body over `max_bytes` has no room in an empty queue either: it is refused for good."""

from __future__ import annotations

import pytest

from kestrelpy.core.queue.queue import NOT_STORED
from kestrelpy.errors import ItemRefused
from tests.support.core_harness import make_queue
from tests.support.transfer_harness import TransferHarness

LARGE = b"SERVER_ERROR object too large for cache (11 bytes, max_bytes of %b is 10)\r\n"


@pytest.mark.parametrize("discards", [False, True])
@pytest.mark.parametrize("holds", [0, 4])
def test_a_body_that_never_fits_is_an_error_and_a_full_queue_is_not(
    discards: bool, holds: int
) -> None:
    q = make_queue(max_bytes=10, discard_old_when_full=discards)
    if holds:
        q.queue.put(b"x" * holds, 0, 0, q.now_ms)

    with pytest.raises(ItemRefused, match="object too large for cache"):
        q.queue.put(b"x" * 11, 0, 0, q.now_ms)

    assert q.queue.total_items == bool(holds), "nothing was dropped for it"
    said = q.queue.put(b"x" * 10, 0, 0, q.now_ms)
    assert (said == NOT_STORED) is (bool(holds) and not discards)


@pytest.mark.parametrize(
    "line",
    [
        b"set q 0 0 11", b"add q 0 0 11", b"set q/id=a 0 0 11", b"set q/key=K 0 0 11",
        b"cas q/key=K 0 0 11 0", b"set q/delay=5s 0 0 11", b"set o+small 0 0 11",
    ],
)
def test_every_way_of_storing_says_so(line: bytes) -> None:
    town = TransferHarness()
    town.set_queue("q", max_bytes=10)
    town.set_queue("o+small", max_bytes=10)
    town.say("c", b"get o+small")

    said = town.say("p", line, b"x" * 11)

    assert said == LARGE % (b"o+small" if b"+" in line else b"q")


@pytest.mark.parametrize("line", [b"set q 0 0 11", b"add q 0 0 11", b"set q/key=K 0 0 11"])
def test_it_leaves_no_queue_behind(line: bytes) -> None:
    town = TransferHarness()
    town.set_queue("q", max_bytes=10)

    assert town.say("p", line, b"x" * 11) == LARGE % b"q"
    assert b"q" not in town.broker.queues


def test_a_full_child_drops_it_and_the_parent_stores_it() -> None:
    town = TransferHarness()
    town.set_queue("o+small", max_bytes=10)
    town.say("c", b"get o+small")

    assert town.say("p", b"set o 0 0 11", b"x" * 11) == b"STORED\r\n"
    assert town.say("c", b"get o+small") == b"END\r\n"


def test_a_dead_letter_that_its_target_never_takes_stays() -> None:
    town = TransferHarness()
    town.set_queue("q", dead_letter_to="small", max_attempts=1)
    town.set_queue("small", max_bytes=10)
    town.say("p", b"set q 0 0 11", b"x" * 11)
    town.say("c", b"get q/open")
    town.say("c", b"get q/abort")

    assert town.queue("q").reader.dead.deaths


@pytest.mark.parametrize("verb", [b"incr q 1", b"decr q 1"])
def test_a_counter_is_the_clients_mistake(verb: bytes) -> None:
    town = TransferHarness()
    assert town.say("p", verb) == b"CLIENT_ERROR not supported by a queue\r\n"


@pytest.mark.parametrize("verb", [b"append", b"prepend"])
def test_appending_is_the_clients_mistake_and_stays_in_step(verb: bytes) -> None:
    town = TransferHarness()
    assert town.say("p", verb + b" q 0 0 1", b"x") == b"CLIENT_ERROR not supported by a queue\r\n"
    assert town.say("p", b"set q 0 0 1", b"x") == b"STORED\r\n"


@pytest.mark.parametrize("seconds", [b"99999999999", b"3153600001", b"0", b"-1", b"1.5", b"x" * 30])
def test_touch_names_what_is_allowed(seconds: bytes) -> None:
    town = TransferHarness()
    assert town.say("p", b"touch q " + seconds) == (
        b"CLIENT_ERROR bad seconds: a whole number from 1 to 3153600000 is allowed\r\n"
    )


@pytest.mark.parametrize("line", [b"get .", b"get ..", b"get .+a", b"delete ..", b"flush .",
                                  b"stats .", b"touch .. 5", b"monitor . 1"])
def test_names_of_other_paths_are_refused(line: bytes) -> None:
    town = TransferHarness()
    said = town.say("p", line)
    assert said is not None and said.startswith(b"CLIENT_ERROR bad queue name: . and .. are"), said


def test_a_place_is_no_item() -> None:
    town = TransferHarness()
    town.say("p", b"set q/delay=1ms 0 0 1", b"x")
    town.pass_time(5)

    said = town.say("p", b"stats q/item=2")
    assert said is not None and b"marker_of_item_1" in said
