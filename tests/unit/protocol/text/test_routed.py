"""The text port before several slices: a client sees no difference from one server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.protocol.text.routed import LineEnds
from tests.support.routed_harness import SlicedHarness
from tests.support.server_harness import ServerHarness

SLICES = 3
QUEUES = (b"a", b"b", b"c", b"g")
WORDS = (
    b"put %b:\nx\ny\n\n", b"put %b:\n\n", b"put %b 5:\nold\n\n", b"put %b\nz\n\n", b"get %b\n",
    b"peek %b\n", b"confirm %b 1\n", b"flush %b\n", b"delete %b\n", b"get %b 1 2\n",
    b"get %b/open\n", b"put %b:\r\nthree\r\n\r\n",
)  # fmt: skip
BATCH = (b"monitor a 0\n", b"confirm a 9\n", b"monitor a\n")
ALONE = (b"version\n", b"status\n", b"status sleepy\n", b"\n", b"nonsense a\n")
REQUEST = st.one_of(
    st.builds(lambda word, queue: word % queue, st.sampled_from(WORDS), st.sampled_from(QUEUES)),
    st.sampled_from(BATCH + ALONE),
)


@pytest.fixture
def many() -> SlicedHarness:
    made = SlicedHarness(SLICES)
    made.on_text.add("a")
    return made


@given(st.lists(REQUEST, max_size=30), st.lists(st.integers(1, 200), max_size=8))
def test_several_slices_answer_as_one_server_does(requests: list[bytes], cuts: list[int]) -> None:
    one, many = ServerHarness(), SlicedHarness(SLICES)
    for each in (one, *many.slices.values()):
        each.set_server(max_open_reads=100)  # it holds in each slice
    one.on_text.add("a")
    many.on_text.add("a")
    data, said, at = b"".join(requests), b"", 0
    for size in [*cuts, len(data)]:
        said += many.say("a", data[at : at + size])
        at += size
    one.send("a", data)
    assert said == one.client("a").take()
    for name in QUEUES:
        there = many.slices[many.placement.slice_of(name)].broker.queues
        assert (name in there) == (name in one.broker.queues)


def test_a_put_reaches_its_slice_when_it_is_whole(many: SlicedHarness) -> None:
    assert many.say("a", b"put a:\none\n") == b""
    assert many.asked == []
    assert many.say("a", b"two\n\nget a\n") == b"+2\n:one\n"
    number = many.placement.slice_of(b"a")
    assert many.asked == [(number, b"put a:\none\ntwo\n\n"), (number, b"get a\n")]


def test_a_slice_that_cannot_be_reached_is_named_in_the_words_of_the_port(
    many: SlicedHarness,
) -> None:
    number = many.placement.slice_of(b"a")
    many.away[number] = "ended with code 1"
    error = b"-slice %d does not answer: ended with code 1\n" % number
    assert many.say("a", b"put a:\nx\n\nget c\nstatus\n") == error + b"*\n" + error


def test_a_broken_connection_to_a_slice_ends_the_clients(many: SlicedHarness) -> None:
    talk, number = many.talk("a"), many.placement.slice_of(b"a")
    talk.feed(b"get a 1000\n")
    talk.gone(number)
    assert talk.is_finished


def test_a_refused_put_takes_no_memory(many: SlicedHarness) -> None:
    talk = many.talk("a")
    talk.feed(b"put a/b:\n" + b"x" * (1 << 20))
    assert talk.held_bytes <= 64 << 10
    assert many.say("a", b"\n\nget a\n") == (
        b"-the text port has no options, and a/b has one: put <queue> [expiry_ms]:\n*\n"
    )


def test_a_shutdown_has_an_answer_and_ends_the_connection(many: SlicedHarness) -> None:
    assert many.say("a", b"shutdown\n") == b"-no\n"
    assert not many.talk("a").closing
    many.shutdown = lambda why: None  # type: ignore[method-assign]  # it is allowed
    assert many.say("a", b"shutdown\n") == b"+0\n"
    assert many.talk("a").is_finished


def test_a_client_that_may_hold_items_is_known(many: SlicedHarness) -> None:
    many.say("a", b"peek a\nget c\nmonitor g 0\n")
    assert many.talk("a").opened == {many.placement.slice_of(each) for each in (b"c", b"g")}


ANSWERS = (b"+2\n", b":one\n", b"-no\n", b"*\n", b":\n", b"::*-\n")


@given(st.lists(st.sampled_from(ANSWERS), max_size=20), st.lists(st.integers(1, 9), max_size=30))
def test_answers_are_cut_at_their_line_ends(answers: list[bytes], cuts: list[int]) -> None:
    ends, data, found, at = LineEnds(), b"".join(answers), [b""], 0
    for size in [*cuts, len(data)]:
        ends.feed(data[at : at + size])
        at += size
        while not ends.is_empty:
            piece, is_whole = ends.take(until_end=False)
            found[-1] += piece
            found += [b""] if is_whole else []
    assert found == [*answers, b""]


@pytest.mark.parametrize("end", [b"*\n", b"-the next item has a line end\n"])
@pytest.mark.parametrize("cut", range(12))
def test_a_batch_ends_with_the_first_line_that_is_no_item(cut: int, end: bytes) -> None:
    ends, data, found = LineEnds(), b":one\n:*\n:-\n" + end, b""
    for piece in (data[:cut], data[cut:] + b"+1\n"):
        ends.feed(piece)
        taken, is_whole = ends.take(until_end=True)
        found += taken
        assert is_whole == (piece != data[:cut])
    assert found == data
    assert ends.take(until_end=False) == (b"+1\n", True)
