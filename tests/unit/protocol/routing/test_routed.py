"""Requests to several slices: answered in order, as by one server, or refused with one sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kestrelpy.core import KeySettings
from kestrelpy.message_keys import MessageKey
from kestrelpy.operations.rests import Gate
from kestrelpy.placement import Placement
from kestrelpy.protocol.routing import routed
from kestrelpy.protocol.routing.routed import (
    HELD_BODY_BYTES_MAX,
    SKIPPED_BYTES_MAX,
    UNDER_WAY_MAX,
)
from tests.support.routed_harness import SlicedHarness
from tests.support.server_harness import ServerHarness

SLICES = 3
LARGE = HELD_BODY_BYTES_MAX + 9
HINT = b", did you mean open?"
QUEUES = (b"a", b"b", b"c", b"g")
WORDS = (
    b"set %b 0 0 1\r\nx\r\n", b"set %b 0 0 2 noreply\r\nyy\r\n", b"get %b\r\n",
    b"get %b/peek\r\n", b"add %b 0 0 1\r\nz\r\n", b"set %b 0 0 x\r\n", b"get %b/opn\r\n",
    b"delete %b\r\n", b"flush %b\r\n", b"mg %b v q\r\n", b"ms %b 1 q\r\nm\r\n",
    b"ms %b 1\r\nm\r\n", b"set %b+x 0 0 1\r\nx\r\n", b"confirm %b 2\r\n",
    b"stats %b/dead\r\n", b"dump_config %b\r\n", b"nonsense %b\r\n",
    b"stats %b/dead noreply\r\n", b"stats %b/nothing noreply\r\n", b"pause %b noreply\r\n",
    b"dump_config %b noreply\r\n", b"flush %b noreply\r\n",
)  # fmt: skip
# A connection may hold an item in each slice, so these are for one queue.
LEASES = (
    b"get a/open\r\n", b"get a/close\r\n", b"get a/close/open\r\n", b"get a/abort\r\n",
    b"touch a 5\r\n", b"monitor a 0 2\r\n",
)  # fmt: skip
ALONE = (
    b"mn\r\n", b"version\r\n", b"verbosity 1\r\n", b"flush_all\r\n", b"flush_all noreply\r\n",
    b"get a b c g\r\n", b"get a/peek c/peek\r\n", b"status\r\n", b"mn noreply\r\n",
    b"version noreply\r\n", b"dump_config b / noreply\r\n", b"dump_config / noreply\r\n",
)  # fmt: skip
REQUEST = st.one_of(
    st.builds(lambda word, queue: word % queue, st.sampled_from(WORDS), st.sampled_from(QUEUES)),
    st.sampled_from(LEASES + ALONE),
)


def test_the_queues_of_these_tests_are_in_three_slices() -> None:
    assert {Placement(SLICES).slice_of(each) for each in QUEUES} == {1, 2, 3}


@given(
    st.lists(REQUEST, max_size=30), st.lists(st.integers(1, 200), max_size=8),
    st.sampled_from([HELD_BODY_BYTES_MAX, 0]),
)  # fmt: skip
@example([b"set a 0 0 1 noreply\r\nx\r\n", b"get c\r\n", b"get a\r\n"], [], 0)
@example([b"get c\r\n", b"set a 0 0 1\r\nx\r\n", b"ms c 1 q\r\nm\r\n"], [20, 1, 1, 1, 12], 0)
def test_several_slices_answer_as_one_server_does(
    requests: list[bytes], cuts: list[int], held: int
) -> None:
    """`held`: the largest body that does not go on as it comes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(routed, "HELD_BODY_BYTES_MAX", held)
        _compare(requests, cuts)


def _compare(requests: list[bytes], cuts: list[int]) -> None:
    data, one, many = b"".join(requests), ServerHarness(), SlicedHarness(SLICES)
    said, at = b"", 0
    for size in [*cuts, len(data)]:
        said += many.say("a", data[at : at + size])
        at += size
    one.send("a", data)
    # Each connection makes one suggestion a second, and there is one for each slice.
    assert said.replace(HINT, b"") == one.client("a").take().replace(HINT, b"")
    for name in QUEUES:
        there = many.slices[many.placement.slice_of(name)].broker.queues
        assert (name in there) == (name in one.broker.queues)
        others = [n for n, each in many.slices.items() if name in each.broker.queues]
        assert others in ([], [many.placement.slice_of(name)])


def test_a_request_for_another_slice_waits_for_the_answers_of_the_first() -> None:
    many = SlicedHarness(SLICES)
    first, second = (many.placement.slice_of(each) for each in (b"a", b"c"))
    assert first != second
    many.slices[first].hold_syncs()
    assert many.say("a", b"set a 0 0 1\r\nx\r\nset c 0 0 1\r\ny\r\nversion\r\n") == b""
    assert [number for number, _ in many.asked] == [first]
    many.slices[first].go()
    assert many.say("a", b"") == b"STORED\r\nSTORED\r\nVERSION 0.0.0\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"move a c", b"move a c 0", b"move a c 99999999", b"move a c x", b"move a c 1 2",
        b"move a c/open 1", b"move a/open c 1", b"move a c+x+y 1",
        b"redrive a", b"redrive a x c", b"redrive a 1,,2 c",
        b"redrive a all c d", b"redrive a all c/open", b"redrive a+x+y all c",
        b"get a c+x+y", b"dump_stats a c+x+y", b"set a/confirm=c:x 0 0 1\r\nx",
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_said_before_its_slices(request_: bytes) -> None:
    one, many = ServerHarness(), SlicedHarness(SLICES)
    stored = b"set a 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\n"
    one.send("a", stored)
    many.say("a", stored)
    one.client("a").take()
    expected = one.say("a", request_)
    assert expected.startswith(b"CLIENT_ERROR ")
    assert many.say("a", request_ + b"\r\n") == expected


def test_a_set_without_a_reply_comes_before_the_next_slice_is_asked() -> None:
    many = SlicedHarness(SLICES)
    assert many.say("a", b"set a 0 0 1 noreply\r\nx\r\nget c\r\n") == b"END\r\n"
    assert [raw for _, raw in many.asked] == [
        b"set a 0 0 1 noreply\r\nx\r\n", b"mn\r\n", b"get c\r\n",
    ]  # fmt: skip


def test_a_slice_that_cannot_be_reached_refuses_what_was_sent_to_it_alone() -> None:
    many = SlicedHarness(SLICES)
    many.away[many.placement.slice_of(b"a")] = "ended with code 1"
    error = (
        b"SERVER_ERROR slice %d does not answer: ended with code 1\r\n"
        % many.placement.slice_of(b"a")
    )
    said = many.say(
        "a", b"set a 0 0 1\r\nx\r\nset c 0 0 1\r\ny\r\nget a c\r\nget c\r\nflush_all\r\n"
    )
    assert said == error + b"STORED\r\n" + error + b"VALUE c 0 1\r\ny\r\nEND\r\n" + error
    assert not many.talk("a").is_waiting


@pytest.mark.parametrize("cut", range(14))
@pytest.mark.parametrize("body", [b"MN", b"IDLE"])
def test_a_body_that_looks_like_a_line_to_the_router_is_a_body(cut: int, body: bytes) -> None:
    many = SlicedHarness(SLICES)
    talk, number = many.talk("a"), many.placement.slice_of(b"a")
    answers = b"VA %d\r\n%b\r\nMN\r\nEND\r\n" % (len(body), body)
    talk.feed(b"mg a/peek v\r\nget a\r\n")
    talk.heard(number, answers[:cut])
    talk.heard(number, answers[cut:])
    assert b"".join(talk.out) == b"VA %d\r\n%b\r\nEND\r\n" % (len(body), body)
    assert not talk.is_waiting


def test_an_item_that_came_leaves_when_the_next_slice_dies() -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    talk.feed(b"get a c\r\n")
    talk.heard(many.placement.slice_of(b"a"), b"VALUE a 0 1\r\nx\r\nEND\r\n")
    assert b"".join(talk.out) == b"VALUE a 0 1\r\nx\r\n"  # it is confirmed there
    number = many.placement.slice_of(b"c")
    talk.gone(number)
    error = b"SERVER_ERROR the connection to slice %d broke\r\n" % number
    assert b"".join(talk.out).endswith(b"x\r\n" + error)
    assert talk.is_finished


def test_a_slice_that_is_away_keeps_no_other_from_its_part() -> None:
    many = SlicedHarness(SLICES)
    many.say("a", b"set a 0 0 1\r\nx\r\nset c 0 0 1\r\ny\r\nset g 0 0 1\r\nz\r\n")
    many.away = {1: "gone"}
    assert many.say("a", b"flush_all\r\n") == b"SERVER_ERROR slice 1 does not answer: gone\r\n"
    many.away = {}
    here = [name for name in (b"a", b"c", b"g") if many.placement.slice_of(name) == 1]
    assert many.say("a", b"get a c g\r\n").count(b"VALUE") == len(here) == 1


def test_a_notice_of_idleness_is_no_answer_and_no_part_of_a_body() -> None:
    many = SlicedHarness(SLICES)
    talk, number = many.talk("a"), many.placement.slice_of(b"a")
    talk.feed(b"get a\r\n")
    talk.heard(number, b"VALUE a 0 8\r\nx")
    talk.heard(number, b"\nIDLE\r\n")
    talk.heard(number, b"\r\nEND\r\n")
    assert b"".join(talk.out) == b"VALUE a 0 8\r\nx\nIDLE\r\n\r\nEND\r\n"
    assert not talk.closing
    talk.feed(b"get a\r\n")
    talk.heard(number, b"IDLE\r\n")
    assert talk.closing
    assert b"IDLE" not in b"".join(talk.out[1:])[40:]


def test_what_another_slice_says_is_not_taken_for_the_answer() -> None:
    many = SlicedHarness(SLICES)
    talk, number = many.talk("a"), many.placement.slice_of(b"a")
    talk.feed(b"get a\r\n")
    talk.heard(number % SLICES + 1, b"SERVER_ERROR too many connections\r\n")
    assert talk.out == []
    assert talk.is_finished


def test_a_slice_that_cannot_be_reached_refuses_nothing_aloud_that_says_noreply() -> None:
    many = SlicedHarness(SLICES)
    many.away[many.placement.slice_of(b"a")] = "ended with code 1"
    said = many.say("a", b"pause a noreply\r\nstats a noreply\r\nstats noreply\r\nmn\r\n")
    assert said == b"MN\r\n"


def test_the_end_of_the_input_awaits_the_effect_of_what_has_no_answer() -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    talk.feed(b"set a 0 0 1 noreply\r\nx\r\n")
    talk.at_end = True
    talk.settle()
    assert not talk.is_finished
    many.work("a")
    talk.settle()
    assert talk.is_finished
    assert talk.out == []
    assert many.say("b", b"get a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"


def test_a_client_ends_with_the_connection_to_a_slice() -> None:
    many = SlicedHarness(SLICES)
    many.say("a", b"set a 0 0 1\r\nx\r\nget a/open\r\n")
    many.talk("a").gone(many.placement.slice_of(b"a"))
    assert many.talk("a").is_finished
    assert many.say("a", b"get a/close\r\n") == b""


@pytest.mark.parametrize(
    "request_", [b"move a c 1\r\n", b"redrive a all c\r\n", b"set c/confirm=a:7 0 0 1\r\nx\r\n"]
)
def test_a_move_between_two_slices_is_for_that_of_the_source(request_: bytes) -> None:
    many = SlicedHarness(SLICES)
    many.say("a", request_)
    assert many.talk("a").slice == many.placement.slice_of(b"a")


def test_a_hand_off_without_a_name_goes_where_the_client_opened_an_item_last() -> None:
    many = SlicedHarness(SLICES)
    many.say("a", b"set a 0 0 1\r\nx\r\nget a/open\r\n")
    many.say("a", b"set c/confirm 0 0 1\r\ny\r\n")
    assert many.talk("a").slice == many.placement.slice_of(b"a")


@pytest.mark.parametrize("line", [b"mail 1 3\r\nabc\r\n", b"MAIL 1 3\r\n", b"mail\r\n"])
def test_a_message_of_a_client_reaches_no_slice(line: bytes) -> None:
    many = SlicedHarness(SLICES)
    assert many.say("a", line).startswith(b"ERROR\r\n")
    assert not any(b"mail" in raw.lower() for _, raw in many.asked)


@pytest.mark.parametrize("request_", [b"", b"get a\r\n"])
def test_unasked_bytes_of_a_slice_end_the_connection(request_: bytes) -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    many.say("a", request_)
    assert not talk.is_finished
    talk.heard(many.placement.slice_of(b"a"), b"SERVER_ERROR too many connections\r\n")
    assert talk.is_finished


@pytest.mark.parametrize("data", [b"VALUE a 0 x\r\n", b"VALUE a\r\n", b"y" * 70_000])
def test_bytes_that_are_no_answer_end_the_connection(data: bytes) -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    talk.feed(b"get a\r\n")
    talk.heard(many.placement.slice_of(b"a"), data)
    assert talk.is_finished


def test_so_many_requests_are_under_way_at_most() -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    talk.feed(b"get a\r\n" * (UNDER_WAY_MAX + 5))
    assert len(talk.sent) == UNDER_WAY_MAX
    assert talk.is_blocked
    many.work("a")
    assert b"".join(talk.out) == b"END\r\n" * (UNDER_WAY_MAX + 5)


class Waiting:
    """The users of a router at which no login ends."""

    are_needed = True
    is_over = False

    def begin(self, name: str, secret: bytes, talk: object) -> Waiting:
        return self


@pytest.mark.parametrize("request_", [b"", b"get a\r\nget c\r\n", b"get a c\r\n", b"a login"])
def test_what_is_under_way_holds_up_the_next_request_and_the_end(request_: bytes) -> None:
    many = SlicedHarness(SLICES)
    is_login = request_ == b"a login"
    if is_login:
        many.logins, request_ = Waiting(), b"set x 0 0 4\r\na pw\r\n"
    talk = many.talk("a")
    talk.feed(request_)
    assert (talk.is_blocked, talk.is_waiting) == (bool(request_), bool(request_))
    assert not talk.is_finished
    talk.at_end = True
    assert talk.is_finished == (not request_)
    assert talk.is_owed == (bool(request_) and not is_login)


def test_a_client_that_does_not_read_is_asked_nothing_and_is_not_finished() -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    talk.paused = talk.at_end = True
    talk.feed(b"get a\r\n")
    assert (talk.sent, talk.is_finished) == ([], False)
    talk.paused = False
    talk.run()
    assert len(talk.sent) == 1


@pytest.mark.parametrize(
    ("size", "limit", "is_sent"),
    [(20, 10, True), (LARGE, 10, False), (LARGE, 1 << 20, True)],
    ids=["refused", "refused and large", "large"],
)
def test_a_body_that_may_say_its_key_goes_to_a_slice_whole_or_is_refused_here(
    size: int, limit: int, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = SlicedHarness(SLICES)
    many.sliced[b"a"] = KeySettings(rule=MessageKey("json", ("to",), False))
    monkeypatch.setattr(many, "limit_of", lambda name: limit)
    talk = many.talk("a")
    body = b'{"to":"k","of":"' + b"x" * (size - 18) + b'"}\r\n'
    head = b"set a 0 0 %d\r\n" % size
    talk.feed(head + body[:-5])
    assert talk.ahead_bytes < limit + SKIPPED_BYTES_MAX
    talk.feed(body[-5:])
    assert [raw for _, raw in talk.sent] == ([head + body] if is_sent else [])
    assert (b"too large" in b"".join(talk.out)) == (not is_sent)


@pytest.mark.parametrize("form", [b"set a 0 0 %d", b"set a 0 0 %d noreply", b"ms a %d q"])
def test_a_large_body_goes_to_its_slice_as_it_comes(form: bytes) -> None:
    one, many = ServerHarness(), SlicedHarness(SLICES)
    talk, number = many.talk("a"), many.placement.slice_of(b"a")
    data = form % LARGE + b"\r\n" + b"x" * LARGE + b"\r\n"
    said = b""
    for at in range(0, len(data), 30_000):
        said += many.say("a", data[at : at + 30_000])
        assert talk.held_bytes == 0, "nothing of it stays here"
    said += many.say("a", b"get a\r\n")
    one.send("a", data + b"get a\r\n")
    assert said == one.client("a").take()
    assert {slice_ for slice_, _ in many.asked} == {number}


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
def test_its_owner_says_how_large_an_item_may_be(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = SlicedHarness(SLICES)
    monkeypatch.setattr(many, "limit_of", lambda name: 100)  # the file names no larger one
    declared = b'max_item_size = "1MiB"'
    assert many.say("a", b"set a/declare 0 0 %d\r\n%b\r\n" % (len(declared), declared)) == (
        b"STORED\r\n"
    )
    said = many.say("a", b"set a 0 0 %d\r\n%b\r\n" % (size, b"x" * size))
    is_stored = size == 1 << 20
    assert said == (
        b"STORED\r\n" if is_stored else
        b"SERVER_ERROR item too large (1048577 bytes, limit 1048576)\r\n"
    )  # fmt: skip


def test_a_large_body_waits_for_the_answers_of_another_slice() -> None:
    many = SlicedHarness(SLICES)
    first = many.placement.slice_of(b"a")
    many.slices[first].hold_syncs()
    body = b"x" * LARGE
    assert many.say("a", b"set a 0 0 1\r\nx\r\nset c 0 0 %d\r\n" % LARGE + body[:9]) == b""
    assert many.say("a", body[9:] + b"\r\nget c\r\nver") == b""
    assert {number for number, _ in many.asked} == {first}
    many.slices[first].go()
    assert many.say("a", b"sion\r\n") == (
        b"STORED\r\nSTORED\r\nVALUE c 0 %d\r\n%b\r\nEND\r\nVERSION 0.0.0\r\n" % (LARGE, body)
    )


def test_the_rest_of_a_large_body_is_dropped_if_its_slice_is_away() -> None:
    many = SlicedHarness(SLICES)
    number = many.placement.slice_of(b"a")
    many.away[number] = "ended"
    assert many.say("a", b"set a 0 0 %d\r\nxx" % LARGE) == (
        b"SERVER_ERROR slice %d does not answer: ended\r\n" % number
    )
    del many.away[number]
    assert many.say("a", b"x" * (LARGE - 2) + b"\r\nget a\r\n") == b"END\r\n"
    assert b"x" not in b"".join(raw for _, raw in many.asked[1:])


def test_a_client_that_ends_in_the_middle_of_a_large_body_stores_nothing() -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    many.say("a", b"set a 0 0 %d noreply\r\nxx" % LARGE)
    talk.at_end = True
    talk.settle()
    assert (talk.sent, talk.is_finished) == ([], True)
    assert many.say("b", b"get a\r\n") == b"END\r\n"


@pytest.mark.parametrize("is_away", [False, True])
def test_a_large_body_without_a_line_end_ends_the_connection(is_away: bool) -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    if is_away:
        many.away[many.placement.slice_of(b"a")] = "ended"
    said = many.say("a", b"set a 0 0 %d\r\nx" % LARGE)
    said += many.say("a", b"x" * LARGE + b"\r\nget a\r\n")
    assert said.count(b"\r\n") == 1
    assert is_away or said.startswith(b"CLIENT_ERROR bad data chunk")
    assert talk.is_finished


def test_a_mistake_is_worded_by_the_slice_that_was_asked_last() -> None:
    many = SlicedHarness(SLICES)
    for name in (b"a", b"c"):
        many.say("a", b"get %b\r\nnonsense\r\n" % name)
        assert [n for n, _ in many.asked[-2:]] == [many.placement.slice_of(name)] * 2


def test_a_request_that_has_one_answer_is_sent_as_it_came() -> None:
    many = SlicedHarness(SLICES)
    many.say("a", b"flush a\r\n")
    assert [raw for _, raw in many.asked] == [b"flush a\r\n"]


@pytest.mark.parametrize(
    ("request_", "away", "times"),
    [(b"reload\r\n", {}, 1), (b"reload\r\n", {1: "gone"}, 0), (b"flush_all\r\n", {}, 0)],
)
def test_the_router_reads_the_configuration_when_all_slices_could(
    request_: bytes, away: dict[int, str], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, found = SlicedHarness(SLICES), list[int]()
    many.away = away
    monkeypatch.setattr(many, "reload_beside", lambda: found.append(1))
    many.say("a", request_)
    assert len(found) == times


def test_no_slice_reloads_if_one_or_the_router_would_refuse(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    many, found = SlicedHarness(SLICES), list[int]()
    for number, each in many.slices.items():
        monkeypatch.setattr(each, "reload", lambda who, n=number: found.append(n) or opened())
    refusal = b"SERVER_ERROR configuration not reloaded: no\r\n"
    many.slices[3].check_failure = "configuration not reloaded: no"
    assert many.say("a", b"reload\r\n") == refusal
    many.slices[3].check_failure = ""
    monkeypatch.setattr(many, "check_reload", lambda done: done(refusal))
    assert many.say("a", b"reload\r\n") == refusal
    assert found == []
    monkeypatch.undo()
    assert many.say("a", b"reload\r\n") == b"Reloaded config.\r\n"


def opened() -> Gate:
    gate = Gate()
    gate.open()
    return gate


def test_a_slice_that_refuses_after_its_check_is_named_as_such() -> None:
    many = SlicedHarness(SLICES)
    many.slices[2].reload_failure = "configuration not reloaded: queue jobs"
    said = b"SERVER_ERROR not reloaded in every slice: configuration not reloaded: queue jobs\r\n"
    assert many.say("a", b"reload\r\n") == said


def test_a_client_that_is_gone_during_the_check_of_the_router_hears_nothing(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    many, due = SlicedHarness(SLICES), list[Callable[[bytes], None]]()
    monkeypatch.setattr(many, "check_reload", due.append)
    assert many.say("a", b"reload\r\nversion\r\n") == b""
    assert many.talk("a").is_waiting
    many.talk("a").gone(1)
    due[0](b"")
    assert not many.talk("a").sent


def test_what_the_router_refuses_without_a_reply_is_counted() -> None:
    many = SlicedHarness(SLICES)
    assert many.say("a", b"shutdown noreply\r\n") == b""
    assert many.counts.refused_noreply == 1


def test_a_queue_whose_slice_is_away_is_the_answer_alone() -> None:
    many = SlicedHarness(SLICES)
    number = many.placement.slice_of(b"a")
    many.away = {number: "gone"}
    error = b"SERVER_ERROR slice %d does not answer: gone\r\n" % number
    assert many.say("a", b"dump_config c a g\r\n") == error
    assert [n for n, _ in many.asked] == [many.placement.slice_of(b"c"), number]


@pytest.mark.parametrize(
    ("request_", "has_wait", "opens"),
    [
        (b"get a\r\n", False, False),
        (b"get a/t=5\r\n", True, False),
        (b"get a/open\r\n", False, True),
        (b"mg a/open/t=5 v\r\n", True, True),
        (b"monitor a 5\r\n", True, True),
        (b"set a 0 0 1\r\nx\r\n", False, False),
    ],
)
def test_a_request_that_waits_or_leases_is_known(
    request_: bytes, has_wait: bool, opens: bool
) -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    talk.feed(request_)
    assert talk.has_wait == has_wait
    assert talk.opened == ({many.placement.slice_of(b"a")} if opens else set())


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (b"get a\r\n", b""),
        (b"get a\r\nget c\r\n", b""),
        (b"flush_all\r\n", b"SERVER_ERROR the connection to slice 1 broke\r\n"),
        (b"flush_all noreply\r\n", b""),
    ],
)
def test_nothing_is_under_way_when_a_slice_is_gone(request_: bytes, said: bytes) -> None:
    many = SlicedHarness(SLICES)
    talk = many.talk("a")
    talk.feed(request_)
    talk.gone(talk.slice)
    assert not talk.is_waiting
    assert b"".join(talk.out) == said


def test_a_slice_that_is_away_says_nothing_about_a_request_of_the_router() -> None:
    many = SlicedHarness(SLICES)
    many.away[many.placement.slice_of(b"a")] = "gone"
    assert many.say("a", b"set a 0 0 1 noreply\r\nx\r\nget c\r\n") == b"END\r\n"
