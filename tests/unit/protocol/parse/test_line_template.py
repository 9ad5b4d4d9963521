"""Lines that differ in an id, a key, a version or a token have the same meaning except for
these."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.format import ItemHeader
from journal.format.key import text_of
from kestrelpy.errors import Refused
from kestrelpy.protocol.parse.commands import Bad, Command, Store, StoreLine
from kestrelpy.protocol.parse.line_template import cut
from kestrelpy.protocol.parse.parser import Lines, Parser
from kestrelpy.protocol.parse.set_conditions import Handoff


def parse(parser: Parser, line: bytes, body: bytes = b"x") -> Command:
    parser.feed(line + b"\r\n" + body + b"\r\n")
    command = parser.next()
    assert command is not None
    if isinstance(command, Bad) and parser.buffered:
        parser.feed(b"")
    return command


def meaning(line: StoreLine) -> tuple[object, ...]:
    header = line.header or ItemHeader()
    return (
        line.target.name, line.target.delay, line.verb, line.flags, line.expiry, line.size,
        line.noreply, line.id, line.key, header.scope, header.epoch, line.expected, line.handoff,
        line.declares, line.is_plain,
    )  # fmt: skip


def said(line: bytes, lines: Lines) -> tuple[object, ...]:
    """Return the meaning of the line to a parser that has cached these."""
    command = parse(Parser(lambda name: 100, lines), line)
    if isinstance(command, Store):
        return meaning(command.line)
    assert isinstance(command, Bad)
    return (command.line,)


def test_lines_with_new_ids_share_one_template() -> None:
    lines: Lines = {}

    for number in range(1000):
        told = said(b"set jobs/id=%d/key=k%d 0 0 1" % (number, number), lines)
        assert told[7:9] == (b"%d" % number, (text_of(b"k%d" % number),))

    assert len(lines) == 1


def test_lines_of_one_batch_share_one_template() -> None:
    lines: Lines = {}

    for number in range(1000):
        told = said(b"set jobs/id=%d|a#0/scope=s-1/epoch=%d 0 0 1" % (number, number % 2), lines)
        assert told[7:11] == (b"%d|a#0" % number, (), b"s-1", number % 2)

    assert len(lines) == 2
    line = b"set jobs/id=5/scope=s/epoch=7 0 0 "
    assert cut(line + b"1") != cut(line + b"2")


def test_lines_of_cas_share_one_template_for_all_versions() -> None:
    lines: Lines = {}

    for number in range(1000):
        assert said(b"cas acc/key=A 0 0 1 %d" % number, lines)[11] == number

    assert len(lines) == 1
    assert said(b"cas acc/key=A 0 0 1", lines)[11] == 0, "some clients drop a version of 0"
    assert len(lines) == 1


def test_a_five_field_cas_of_an_empty_body_is_not_taken_for_another_size() -> None:
    lines: Lines = {}

    parse(Parser(lambda name: 100, lines), b"cas acc/key=A 0 0 0", b"")

    assert said(b"cas acc/key=A 0 0 1", lines)[5] == 1


def test_a_hand_off_by_token_names_its_own() -> None:
    lines: Lines = {}

    for token in (7, 8):
        told = said(b"set done/confirm=a:b:%d 0 0 1" % token, lines)
        assert told[12] == Handoff(b"a:b", token)
    assert said(b"set done/confirm 0 0 1", lines)[12] == Handoff(b"", 0)
    assert said(b"set done/id=5/confirm 0 0 1", lines)[12] == Handoff(b"", 0)
    assert said(b"set done/id=6/confirm 0 0 1", lines)[7:13:5] == (b"6", Handoff(b"", 0))
    assert len(lines) == 3


def test_a_key_too_long_is_refused_though_its_like_is_known() -> None:
    lines: Lines = {}
    said(b"set jobs/id=5 0 0 1", lines)

    assert said(b"set jobs/id=" + b"x" * 243 + b" 0 0 1", lines)[0] != b"jobs"
    assert said(b"set jobs/id=" + b"x" * 242 + b" 0 0 1", lines)[0] == b"jobs"


@pytest.mark.parametrize(
    "line",
    [
        b"set jobs 0 0 1", b"get jobs", b"set jobs/id= 0 0 1", b"set jobs/id 0 0 1",
        b"set jobs/id=\xff 0 0 1", b"set jobs/key=A/expect=x 0 0 1", b"set done/confirm=:5 0 0 1",
        b"set done/confirm=jobs:0 0 0 1", b"cas acc/key=A 0 0 1 x",
    ],
)  # fmt: skip
def test_unusual_lines_are_not_cut(line: bytes) -> None:
    assert cut(line) is None


@pytest.mark.parametrize("verb", [b"set", b"add", b"cas", b"replace"])
@pytest.mark.parametrize(
    "options",
    [
        b"/id=1", b"/key=A", b"/key=A,B", b"/key=A/expect=3", b"/key=A,B/expect=0", b"/id=1/key=A",
        b"/key=A/id=1", b"/confirm=jobs:5", b"/key=A/confirm=jobs:5", b"/id=1/scope=s/epoch=1",
        b"/key=" + b"A" * 240, b"/key=A/delay=5s",
    ],
)  # fmt: skip
def test_a_line_that_is_said_again_means_the_same(verb: bytes, options: bytes) -> None:
    line = verb + b" q" + options + b" 0 0 1" + b" 7" * (verb == b"cas")
    lines: Lines = {}

    first = said(line, lines)

    assert said(line, lines) == first == said(line, {})


WORDS = st.sampled_from([
    b"/id=1", b"/id=2", b"/id=%31", b"/id=", b"/id=/", b"/key=A", b"/key=A,B", b"/key=",
    b"/expect=3", b"/expect=x", b"/confirm", b"/confirm=jobs:5", b"/confirm=jobs",
    b"/scope=s/epoch=1", b"/scope=s/epoch=2", b"/scope=/epoch=1", b"/delay=5s", b"/",
    b"/open", b"\t", b" ", b"/id=1 ", b"\x0b", b"/declare",
])  # fmt: skip
LINES = st.builds(
    lambda verb, words, size, rest: verb + b" q" + b"".join(words) + b" 0 0 " + size + rest,
    st.sampled_from([b"set", b"add", b"cas", b"replace", b"SET"]),
    st.lists(WORDS, max_size=4),
    st.sampled_from([b"1", b"0", b"1"]),
    st.sampled_from([b"", b" 7", b" 1", b" noreply", b" 7 noreply", b" /id=5", b" "]),
)


@given(st.lists(LINES, min_size=1, max_size=6))
def test_a_line_means_the_same_after_any_other_lines(said_before: list[bytes]) -> None:
    lines: Lines = {}
    for line in said_before:
        size = line.split()[4:5]
        if size != [b"1"]:
            continue
        try:
            assert said(line, lines) == said(line, {})
        except Refused:
            raise AssertionError("a parser refuses by what it returns") from None
