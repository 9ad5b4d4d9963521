"""The text port as a client sees it: every request has its answer, whatever came before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.server_harness import ServerHarness

QUEUES = st.sampled_from((b"jobs", b"mail", b"jobs+audit", b"j/open", b"+", b""))
NUMBERS = st.sampled_from((b"", b" 0", b" 1", b" 2", b" x", b" -1", b" 99999999999"))
ITEMS = st.lists(st.sampled_from((b"a", b"bb", b"get jobs", b"+1", b"\x00\xff")), max_size=4)
LINES = st.builds(
    lambda verb, queue, number: b"%b %b%b\n" % (verb, queue, number),
    st.sampled_from((b"get", b"peek", b"confirm", b"flush", b"delete", b"monitor", b"no", b"")),
    QUEUES, NUMBERS.filter(lambda number: number not in (b" 1", b" 2")),
)  # fmt: skip
CONFIRMS = st.builds(lambda queue, number: b"confirm %b%b\n" % (queue, number), QUEUES, NUMBERS)
PUTS = st.builds(
    lambda queue, expiry, colon, items: b"put %b%b%b\n%b\n" % (
        queue, expiry, colon, b"".join(item + b"\n" for item in items)
    ),
    QUEUES, NUMBERS, st.sampled_from((b":", b":", b":", b"")), ITEMS,
)  # fmt: skip
REQUESTS = st.lists(st.one_of(LINES, CONFIRMS, PUTS), max_size=20)


def server(open_reads: int) -> ServerHarness:
    made = ServerHarness()
    made.set_server(max_open_reads=open_reads)
    made.set_queue(max_items=6)
    made.on_text.add("a")
    return made


@given(REQUESTS, st.sampled_from((1, 3)))
def test_each_request_has_one_answer_and_pipelined_ones_have_the_same(
    requests: list[bytes], open_reads: int
) -> None:
    one_by_one, answers = server(open_reads), []
    for request in requests:
        one_by_one.send("a", request)
        answer = one_by_one.client("a").take()
        *items, last = answer.removesuffix(b"\n").split(b"\n")
        assert answer.endswith(b"\n") and last[:1] in b"+-:*", (request, answer)
        # Only a batch has items before its last line.
        assert request.startswith(b"monitor") or not items, (request, answer)
        assert all(item.startswith(b":") for item in items), (request, answer)
        answers.append(answer)
    pipelined = server(open_reads)
    pipelined.send("a", b"".join(requests))
    assert pipelined.client("a").take() == b"".join(answers)


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_break_the_server(chunks: list[bytes]) -> None:
    made = server(1)
    for chunk in (*chunks, b""):
        made.send("a", chunk)
    made.hang_up("a")
    assert made.say("b", b"version") == b"VERSION 0.0.0\r\n"
