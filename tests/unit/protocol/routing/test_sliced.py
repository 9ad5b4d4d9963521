"""A sliced queue is one queue for its clients: what is stored is found in any slice, once."""

from __future__ import annotations

import pytest

from kestrelpy.core import KeySettings
from tests.support.routed_harness import SlicedHarness

SLICES = 3
QUEUE = b"jobs"


@pytest.fixture
def many() -> SlicedHarness:
    made = SlicedHarness(SLICES)
    made.sliced[QUEUE] = KeySettings()
    return made


def put(many: SlicedHarness, slice_: int, *bodies: bytes) -> None:
    """Store items in this slice, beside the router."""
    for body in bodies:
        many.slices[slice_].say("beside", b"set jobs 0 0 %d" % len(body), body)


def items(many: SlicedHarness) -> dict[int, int]:
    return {
        number: len(each.broker.queues[QUEUE].reader.live) if QUEUE in each.broker.queues else 0
        for number, each in many.slices.items()
    }


def value(body: bytes, key: bytes = b"jobs") -> bytes:
    return b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (key, len(body), body)


# -- places ------------------------------------------------------------------------------------


def test_items_of_one_key_are_in_one_slice_and_keys_in_all(many: SlicedHarness) -> None:
    for number in range(30):
        many.say("p", b"set jobs/key=k%d 0 0 1\r\nx\r\n" % (number % 10))
    found = items(many)
    assert sum(found.values()) == 30
    assert all(count % 3 == 0 and count for count in found.values())


def test_a_repeated_id_is_stored_once(many: SlicedHarness) -> None:
    for name in ("a", "b", "c", "d"):
        assert many.say(name, b"set jobs/id=7 0 0 1\r\nx\r\n") == b"STORED\r\n"
    assert sum(items(many).values()) == 1


def test_each_producer_has_a_slice_of_its_own(many: SlicedHarness) -> None:
    for name in ("a", "b", "c"):
        assert many.say(name, b"set jobs 0 0 1\r\nx\r\n" * 5) == b"STORED\r\n" * 5
    assert items(many) == {1: 5, 2: 5, 3: 5}


def test_a_producer_leaves_a_slice_that_is_not_of_this_member_any_more(
    many: SlicedHarness,
) -> None:
    many.own = [2]
    many.say("a", b"set jobs 0 0 1\r\nx\r\n")
    many.own = [3]
    many.say("a", b"set jobs 0 0 1\r\nx\r\n")
    assert items(many) == {1: 0, 2: 1, 3: 1}


def test_a_key_has_one_slice_whatever_form_it_has(many: SlicedHarness) -> None:
    many.sliced[QUEUE] = KeySettings(unordered=True)
    for name, key in (("a", b"x,y"), ("b", b"y,x"), ("c", b"x,y")):
        many.say(name, b"set jobs/key=%b 0 0 1\r\nx\r\n" % key)
    assert sorted(items(many).values()) == [0, 0, 3]


# -- a fetch without a wait --------------------------------------------------------------------


def test_an_item_of_any_slice_is_found(many: SlicedHarness) -> None:
    for number in many.slices:
        put(many, number, b"of %d" % number)
    got = {many.say("c", b"get jobs\r\n") for _ in many.slices}
    assert got == {value(b"of %d" % number) for number in many.slices}
    assert many.say("c", b"get jobs\r\n") == b"END\r\n"


def test_no_slice_is_asked_last_for_ever(many: SlicedHarness) -> None:
    for number in many.slices:
        put(many, number, *[b"%d" % number] * 20)
    got = [many.say("c", b"get jobs\r\n")[-8:-7] for _ in range(SLICES * 3)]
    assert all({b"1", b"2", b"3"} == {*got[at : at + 3]} for at in range(0, 9, 3))


def test_slices_of_other_members_wait_for_a_bounded_number_of_fetches(many: SlicedHarness) -> None:
    many.own = [2]
    for number in many.slices:
        put(many, number, *[b"%d" % number] * 20)
    got = [many.say("c", b"get jobs\r\n")[-8:-7] for _ in range(16)]
    assert [got.count(each) for each in (b"1", b"2", b"3")] == [1, 14, 1]


def test_an_open_item_is_closed_in_its_slice(many: SlicedHarness) -> None:
    for number in many.slices:
        put(many, number, b"of %d" % number)
    for _ in many.slices:
        assert many.say("c", b"get jobs/open\r\n").startswith(b"VALUE jobs/open 0 4\r\n")
        assert many.say("c", b"get jobs/open\r\n").startswith(b"CLIENT_ERROR close or abort")
        assert many.say("c", b"get jobs\r\n").startswith(b"CLIENT_ERROR close or abort")
        assert many.say("c", b"get jobs/close\r\n") == b"END\r\n"
    assert items(many) == {1: 0, 2: 0, 3: 0}


def test_an_aborted_item_is_there_again(many: SlicedHarness) -> None:
    put(many, 2, b"x")
    assert many.say("c", b"get jobs/open\r\n") == value(b"x", b"jobs/open")
    assert many.say("c", b"get jobs/abort\r\n") == b"END\r\n"
    assert many.say("d", b"get jobs\r\n") == value(b"x")


def test_close_and_open_in_one_request(many: SlicedHarness) -> None:
    for number in many.slices:
        put(many, number, b"%d" % number, b"%d" % number)
    request = b"get jobs/open\r\n" + b"get jobs/close/open\r\n" * 6
    said = many.say("c", request)
    assert said.count(b"VALUE jobs") == 6
    assert said.endswith(b"\r\nEND\r\nEND\r\n")
    assert items(many) == {1: 0, 2: 0, 3: 0}


def test_a_token_names_its_slice(many: SlicedHarness) -> None:
    for number in many.slices:
        put(many, number, b"x")
    tokens = [
        many.say(name, b"gets jobs/open/lease=1m\r\n").split()[4] for name in ("c", "d", "e")
    ]
    assert len({*tokens}) == 3
    for token in tokens:
        assert many.say("f", b"touch jobs/token=%b 60\r\n" % token) == b"TOUCHED\r\n"
        assert many.say("f", b"delete jobs/token=%b\r\n" % token) == b"DELETED\r\n"
        assert many.say("f", b"delete jobs/token=%b\r\n" % token) == b"NOT_FOUND\r\n"
    assert items(many) == {1: 0, 2: 0, 3: 0}


def test_a_get_of_several_keys_has_sliced_ones_among_them(many: SlicedHarness) -> None:
    put(many, 3, b"x")
    many.say("p", b"set a 0 0 1\r\ny\r\n")
    assert many.say("c", b"get a jobs b\r\n") == value(b"y", b"a")[:-5] + value(b"x")


# -- a wait ------------------------------------------------------------------------------------


@pytest.mark.parametrize("slice_", [1, 2, 3])
@pytest.mark.parametrize("options", [b"", b"/open", b"/peek", b"/open/lease=1m"])
def test_a_waiter_is_served_whichever_slice_gets_an_item(
    many: SlicedHarness, slice_: int, options: bytes
) -> None:
    verb = b"gets" if b"lease" in options else b"get"
    key = b"jobs%b/t=5s" % options
    assert many.say("c", b"%b %b\r\n" % (verb, key)) == b""
    put(many, slice_, b"x")
    said = many.say("c", b"")
    assert said.startswith(b"VALUE %b 0 1" % key)
    assert said.endswith(b"\r\nx\r\nEND\r\n")
    assert not many.talk("c").is_waiting
    assert all(each.broker.queues.get(QUEUE) is None or not each.broker.queues[QUEUE].reader.waiters
               for each in many.slices.values())  # fmt: skip
    if options == b"/open":
        assert many.say("c", b"get jobs/close\r\n") == b"END\r\n"
    assert sum(items(many).values()) == (b"peek" in options or b"lease" in options)


def test_what_two_slices_give_at_once_is_one_item_and_the_other_goes_back(
    many: SlicedHarness,
) -> None:
    assert many.say("c", b"get jobs/open/t=5s\r\n") == b""
    for number in many.slices:
        put(many, number, b"%d" % number)
    said = many.say("c", b"")
    assert said.count(b"VALUE") == 1
    bodies = {said[-8:-7]}
    assert many.say("c", b"get jobs/close\r\n") == b"END\r\n"
    for name in ("d", "e"):
        said = many.say(name, b"gets jobs/open/full\r\n")
        assert said.split()[7] == b"0"  # no attempt was counted
        bodies.add(said[-8:-7])
        assert many.say(name, b"get jobs/close\r\n") == b"END\r\n"
    assert bodies == {b"1", b"2", b"3"}
    assert items(many) == {1: 0, 2: 0, 3: 0}


def test_a_wait_that_nobody_serves_ends_once(many: SlicedHarness) -> None:
    assert many.say("c", b"get jobs/open/t=5s\r\nversion\r\n") == b""
    for each in many.slices.values():
        each.pass_time(5001)
    assert many.say("c", b"") == b"END\r\nVERSION 0.0.0\r\n"


def test_a_client_that_is_at_its_end_waits_no_more(many: SlicedHarness) -> None:
    assert many.say("c", b"get jobs/open/t=5s\r\n") == b""
    talk = many.talk("c")
    talk.at_end = True
    talk.settle()
    assert many.say("c", b"") == b"END\r\n"
    put(many, 1, b"x")
    assert many.say("d", b"get jobs\r\n") == value(b"x")


def test_a_slice_that_is_away_ends_no_fetch_of_the_others(many: SlicedHarness) -> None:
    many.away = {2: "gone"}
    put(many, 3, b"x")
    assert many.say("c", b"get jobs/t=5s\r\n") == value(b"x", b"jobs/t=5s")
    error = b"SERVER_ERROR slice 2 does not answer: gone\r\n"
    assert many.say("c", b"get jobs\r\n") == error


def test_a_connection_without_an_item_there_outlives_a_slice(many: SlicedHarness) -> None:
    put(many, 1, b"x")
    many.own = [1, 2, 3]
    assert many.say("c", b"get jobs/open\r\n") == value(b"x", b"jobs/open")
    assert many.say("d", b"get jobs/open/t=5s\r\n") == b""
    assert (many.talk("c").can_lose(1), many.talk("c").can_lose(2)) == (False, True)
    talk = many.talk("d")
    talk.lose(2)
    assert b"the connection to slice 2 broke" in many.say("d", b"")
    assert not talk.closing


def test_requests_after_a_wait_whose_slice_dies_are_answered(many: SlicedHarness) -> None:
    assert many.say("c", b"get jobs/open/t=5s\r\nversion\r\n") == b""
    for number in (1, 3):
        many.slices[number].pass_time(5001)
    assert many.say("c", b"") == b""
    many.talk("c").lose(2)  # the last one that owes its answer
    many.work("c")
    said = b"".join(many.talk("c").out)
    assert said == b"SERVER_ERROR the connection to slice 2 broke\r\nVERSION 0.0.0\r\n"


@pytest.mark.parametrize(
    ("options", "can_lose"), [(b"/open", False), (b"", False), (b"/open/lease=1m", True)]
)
def test_an_item_that_came_in_a_wait_keeps_the_connection_to_its_slice(
    many: SlicedHarness, options: bytes, can_lose: bool
) -> None:
    verb = b"gets" if b"lease" in options else b"get"
    assert many.say("c", b"%b jobs%b/t=5s\r\n" % (verb, options)) == b""
    talk = many.talk("c")
    put(many, 1, b"x")
    talk.heard(1, many.slices[1].client("c").take())  # the others have not answered
    assert (talk.can_lose(1), talk.can_lose(2)) == (can_lose, True)


def test_the_part_of_an_item_that_a_dead_slice_has_sent_is_dropped(many: SlicedHarness) -> None:
    assert many.say("c", b"get jobs/peek/t=5s\r\n") == b""
    talk = many.talk("c")
    talk.heard(1, b"VALUE jobs/peek 0 4 1\r\nab")
    talk.lose(1)
    assert many.say("c", b"") == b"SERVER_ERROR the connection to slice 1 broke\r\n"


def test_what_a_failed_get_holds_goes_back_with_the_rest(many: SlicedHarness) -> None:
    assert many.say("c", b"get jobs/t=5s\r\n") == b""
    for number in many.slices:
        put(many, number, b"%d" % number)
    talk = many.talk("c")
    for number in many.slices:
        talk.heard(number, many.slices[number].client("c").take())
    (asked,) = [each for each in talk.sent if b"close" in each[1]]
    talk.sent.clear()
    talk.heard(asked[0], b"SERVER_ERROR disk\r\n")
    assert many.say("c", b"") == b"SERVER_ERROR disk\r\n"
    found = {many.say("d", b"get jobs\r\n") for _ in many.slices}
    assert found == {value(b"%d" % number) for number in many.slices}


# -- leases that end elsewhere ------------------------------------------------------------------


ENDS = {
    "delete": b"delete jobs/token=%d\r\n", "close": b"get jobs/close/token=%d\r\n",
    "hand-off": b"set jobs/id=7/confirm=jobs:%d 0 0 1\r\ny\r\n", "queue": b"delete jobs\r\n",
}  # fmt: skip


@pytest.mark.parametrize("who", ["c", "another"])
@pytest.mark.parametrize("how", ENDS)
def test_a_connection_opens_again_when_its_lease_has_ended_by_another_way(
    many: SlicedHarness, who: str, how: str
) -> None:
    put(many, 2, b"x")
    token = int(many.say("c", b"gets jobs/open\r\n").split()[4])
    request = ENDS[how]
    many.say(who, request % token if b"%d" in request else request)
    put(many, 1, b"y")
    assert many.say("c", b"get jobs/open\r\n").startswith(b"VALUE jobs/open 0 1\r\n")
    assert many.say("c", b"get jobs/open\r\n").startswith(b"CLIENT_ERROR close or abort")


def test_more_than_one_item_may_be_open(many: SlicedHarness) -> None:
    many.open_reads_max = 2
    for number, server in many.slices.items():
        server.set_server(max_open_reads=2)
        put(many, number, b"%d" % number, b"%d" % number)
    first, second = (many.say("c", b"get jobs/open\r\n") for _ in range(2))
    assert first != second
    assert many.say("c", b"get jobs/open\r\n").startswith(b"CLIENT_ERROR close or abort")
    assert many.say("c", b"get jobs/close\r\n") == b"END\r\n"
    assert many.say("c", b"get jobs/abort\r\n") == b"END\r\n"
    closed = int(first[-8:-7])
    assert items(many) == {number: 1 if number == closed else 2 for number in many.slices}


def test_an_item_opened_before_the_queue_was_sliced_is_closed_at_home(
    many: SlicedHarness,
) -> None:
    keys = many.sliced.pop(QUEUE)
    many.say("c", b"set jobs 0 0 1\r\nx\r\n")
    many.say("c", b"get jobs/open\r\n")
    many.sliced[QUEUE] = keys
    while many.sliced_queues.order(QUEUE)[-1] != many.placement.slice_of(QUEUE):
        pass  # the next fetch does not begin at home
    assert many.say("c", b"get jobs/close\r\n") == b"END\r\n"
    assert sum(items(many).values()) == 0


@pytest.mark.parametrize("name", [b"t", b"close", b"token", b"open"])
def test_a_queue_may_have_the_name_of_an_option(many: SlicedHarness, name: bytes) -> None:
    many.sliced[name] = KeySettings()
    many.say("p", b"set %b 0 0 1\r\nx\r\n" % name)
    assert many.say("c", b"get %b/open\r\n" % name) == value(b"x", name + b"/open")
    assert many.say("c", b"get %b/close\r\n" % name) == b"END\r\n"


def test_open_and_close_by_turns_ask_each_slice_first() -> None:
    many = SlicedHarness(2)  # an even number, which a second turn for each close would halve
    many.sliced[QUEUE] = KeySettings()
    for number in many.slices:
        put(many, number, *[b"%d" % number] * 20)
    got = []
    for _ in range(4):
        got.append(many.say("c", b"get jobs/open\r\n")[-8:-7])
        assert many.say("c", b"get jobs/close\r\n") == b"END\r\n"
    assert got.count(b"1") == got.count(b"2") == 2


# -- the queue as a whole ----------------------------------------------------------------------


def test_figures_are_sums_and_removals_reach_all(many: SlicedHarness) -> None:
    for number in many.slices:
        put(many, number, *[b"x"] * number)
    for request in (b"stats jobs\r\n", b"stats\r\n"):
        said = many.say("c", request)
        assert said.count(b"STAT queue_jobs_items ") == 1
        assert b"STAT queue_jobs_items 6\r\n" in said
    for request in (b"dump_stats jobs\r\n", b"dump_stats\r\n"):
        said = many.say("c", request)
        assert said.count(b"queue 'jobs'") == said.count(b"  items=6\r\n") == 1
    assert many.say("c", b"flush jobs\r\n") == b"END\r\n"
    assert items(many) == {1: 0, 2: 0, 3: 0}
    assert many.say("c", b"delete jobs\r\n") == b"DELETED\r\n"
    assert many.say("c", b"delete jobs\r\n") == b"NOT_FOUND\r\n"


def test_an_item_is_withdrawn_by_its_id(many: SlicedHarness) -> None:
    many.say("p", b"set jobs/id=7/key=a 0 0 1\r\nx\r\n")
    assert many.say("c", b"delete jobs/id=7\r\n") == b"DELETED\r\n"
    assert many.say("c", b"delete jobs/id=7\r\n") == b"NOT_FOUND\r\n"


def test_an_id_is_looked_for_in_every_slice_that_answers(many: SlicedHarness) -> None:
    many.say("p", b"set jobs/id=7/key=a 0 0 1\r\nx\r\n")
    home = next(number for number, count in items(many).items() if count)
    away = 1 if home > 1 else 2
    many.away = {away: "gone"}
    assert many.say("c", b"delete jobs/id=7\r\n") == b"DELETED\r\n"
    error = b"SERVER_ERROR slice %d does not answer: gone\r\n" % away
    assert many.say("c", b"delete jobs/id=7\r\n") == error


@pytest.mark.parametrize("verb", [b"flush", b"move", b"redrive", b"retry", b"pause"])
def test_a_request_without_a_queue_is_refused_where_every_queue_is_sliced(
    many: SlicedHarness, verb: bytes
) -> None:
    many.sliced[b""] = KeySettings()
    assert many.say("c", verb + b"\r\n").startswith((b"CLIENT_ERROR", b"ERROR"))


def test_a_version_is_that_of_the_slice_of_its_key(many: SlicedHarness) -> None:
    assert many.say("a", b"add jobs/key=a 0 0 1\r\nx\r\n") == b"STORED\r\n"
    assert many.say("b", b"add jobs/key=a 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
    assert many.say("b", b"cas jobs/key=a 0 0 1 1\r\ny\r\n") == b"STORED\r\n"
    assert many.say("c", b"gets jobs/key=a/peek\r\n").split()[4] == b"2"


@pytest.mark.parametrize(
    "request_",
    [
        b"set jobs+x 0 0 1\r\nx", b"add jobs 0 0 1\r\nx", b"get jobs+x", b"gets jobs/peek/after=0",
        b"delete jobs/item=1", b"stats jobs/item=1", b"monitor jobs 1", b"confirm jobs 1",
        b"mg jobs v", b"md jobs", b"move jobs a 1", b"redrive jobs all", b"retry jobs 1",
        b"gets jobs/t=1s", b"delete jobs+x",
    ],
)
def test_what_a_slice_cannot_say_of_the_whole_is_refused(
    many: SlicedHarness, request_: bytes
) -> None:
    said = many.say("c", request_ + b"\r\n")
    assert said.startswith(b"CLIENT_ERROR queue jobs"), said
    assert b"sliced" in said
    assert said.count(b"\r\n") == 1
    assert many.say("c", b"version\r\n") == b"VERSION 0.0.0\r\n"


def test_a_hand_off_confirms_an_item_of_a_sliced_queue(many: SlicedHarness) -> None:
    put(many, many.placement.slice_of(b"a"), b"x")
    assert many.say("c", b"get jobs/open\r\n") == value(b"x", b"jobs/open")
    assert many.say("c", b"set a/confirm 0 0 1\r\ny\r\n") == b"STORED\r\n"
    assert items(many) == {1: 0, 2: 0, 3: 0}
    assert many.say("c", b"get jobs/open\r\n") == b"END\r\n"  # none is open
