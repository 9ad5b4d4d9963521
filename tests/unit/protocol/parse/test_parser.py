"""The parser: the same commands however bytes are cut, in bounded memory, never an exception."""

from __future__ import annotations

import sys
import tracemalloc
from random import Random
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kestrelpy.protocol.parse.commands import (
    Bad,
    Command,
    Delete,
    Fetch,
    Formed,
    Plain,
    Store,
    Target,
    Touch,
)
from kestrelpy.protocol.parse.parser import (
    LINE_BYTES_MAX,
    LINES_KEPT,
    Lines,
    Parser,
)
from tests.support.compiled import attributes_of

LIMIT = 100_000


def make_parser(lines: Lines | None = None, limit: int = LIMIT) -> Parser:
    return Parser(lambda name: limit, {} if lines is None else lines)


def said(command: Command) -> tuple[object, ...]:
    """Return a command in a form to compare."""
    kind = type(command).__name__
    if isinstance(command, Store):
        line = command.line
        return (
            kind, _target(line.target), line.flags, line.expiry, line.size, line.only_if_empty,
            command.noreply, command.body,
        )  # fmt: skip
    if isinstance(command, Fetch):
        numbered = command.targets[0].numbered
        return (kind, numbered, command.token, *map(_target, command.targets))
    if isinstance(command, Delete):
        return (kind, command.name, command.token, command.noreply)
    if isinstance(command, Touch):
        return (kind, command.name, command.token, command.seconds, command.noreply)
    if isinstance(command, Formed):
        return (kind, said(command.command), command.form.reply(b"STORED\r\n"))
    if isinstance(command, Plain):
        return (kind, command.verb, *command.words, command.noreply)
    if isinstance(command, Bad):
        return (kind, command.line, command.closes, command.noreply, command.log)
    values = (getattr(command, name) for name in attributes_of(type(command)))
    return (kind, *(_target(each) if isinstance(each, Target) else each for each in values))


def _target(target: Target) -> tuple[object, ...]:
    echo = target.raw if target.opens or target.ending is None else b""  # else it has none
    return (echo, target.name, target.options, target.wait_ms, target.lease_ms)


def commands(chunks: list[bytes], parser: Parser | None = None) -> list[tuple[object, ...]]:
    """Return the commands in the pieces, up to the end of the connection."""
    parser = make_parser() if parser is None else parser
    found = []
    for chunk in chunks:
        parser.feed(chunk)
        while parser.buffered:
            command = parser.next()
            if command is None:
                break
            found.append(said(command))
            if isinstance(command, Bad) and command.closes:
                return found
    return found


def in_bytes(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def at_random(data: bytes, random: Random) -> list[bytes]:
    pieces, at = [], 0
    while at < len(data):
        size = random.choice((1, 2, 3, 5, 17, 100, 8192, 70_000))
        pieces.append(data[at : at + size])
        at += size
    return pieces


# -- any stream ------------------------------------------------------------------------------

KEYS = st.one_of(
    st.sampled_from(
        [
            b"jobs", b"jobs/open", b"jobs/close/open", b"jobs/close", b"jobs/peek", b"jobs/t=5s",
            b"jobs/t=5x", b"jobs/opn", b"jobs/open/open", b"/open", b"jobs/dead", b"j+c", b"",
            b"n" * 128, b"n" * 129, b"k/" + b"/" * 249, b"jobs/key=a", b"\xff", b"a\x00b",
            b"jobs/t=%zz", b"jobs/t=%ff", b"HTTP/1.1", b"jobs/close/token=5",
            b"jobs/token=6", b"jobs/token=07/abort", b"jobs/open/token=8/close/lease=1s",
        ]
    ),
    st.binary(max_size=12),
)  # fmt: skip
NUMBERS = st.sampled_from(
    [b"0", b"1", b"5", b"-1", b"4294967295", b"4294967296", b"x", b"", b"1.5", b"0x10", b"9" * 40]
)
ENDS = st.sampled_from([b"\r\n", b"\n", b" \r\n", b"\r\r\n", b"", b"x"])
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\r\n", b"get jobs\r\n", b"x" * 65_536, b"x" * 65_537, b"y" * (LIMIT + 1)]),
)
NOREPLY = st.sampled_from([b"", b" noreply", b" 7", b" 7 noreply", b" NOREPLY"])
VERBS = st.sampled_from([b"set", b"SET", b"add", b"cas", b"replace", b"append", b"prepend"])


@st.composite
def storing(draw: st.DrawFn) -> bytes:
    body = draw(BODIES)
    size = draw(st.one_of(st.just(b"%d" % len(body)), NUMBERS))
    words = [draw(VERBS), draw(KEYS), draw(NUMBERS), draw(NUMBERS), size]
    return b" ".join(words) + draw(NOREPLY) + draw(ENDS) + body + draw(ENDS)


@st.composite
def other(draw: st.DrawFn) -> bytes:
    verb = draw(
        st.sampled_from(
            [
                b"get", b"gets", b"GET", b"delete", b"touch", b"flush", b"flush_all", b"stats",
                b"version", b"incr", b"monitor", b"quit", b"blah", b"Host:", b"\x80", b"",
                b"status", b"x" * 9000,
            ]
        )
    )  # fmt: skip
    words = draw(st.lists(st.one_of(KEYS, NUMBERS, st.just(b"noreply")), max_size=4))
    return b" ".join([verb, *words]) + draw(ENDS)


FLAGS = st.lists(
    st.one_of(
        st.sampled_from([
            b"v", b"f", b"s", b"k", b"q", b"t", b"c", b"h", b"l", b"O123", b"O", b"T60", b"F7",
            b"ME", b"MA", b"C3", b"C", b"b", b"L/x", b"P", b"I", b"O" + b"o" * 40,
        ]),
        st.binary(min_size=1, max_size=3),
    ),
    max_size=4,
)  # fmt: skip


@st.composite
def meta(draw: st.DrawFn) -> bytes:
    verb = draw(st.sampled_from([b"mg", b"ms", b"md", b"mn", b"ma", b"me", b"MG", b"MS"]))
    if verb.lower() != b"ms":
        return b" ".join([verb, draw(KEYS), *draw(FLAGS)]) + draw(ENDS)
    body = draw(BODIES)
    size = draw(st.one_of(st.just(b"%d" % len(body)), NUMBERS))
    return b" ".join([verb, draw(KEYS), size, *draw(FLAGS)]) + draw(ENDS) + body + draw(ENDS)


STREAMS = st.lists(st.one_of(storing(), other(), meta(), st.binary(max_size=20)), max_size=8)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(STREAMS, max_size=2), st.integers(0, 1 << 32))
@example([[b"\x80" + b"x" * 9000]], 0)
@example([[b"get " + b"x" * 8187 + b"\r\n"]], 0)
@example([[b"set q 0 0 3\r\nabc\r", b"\nget q\r\n"]], 0)
def test_any_stream_means_the_same_however_it_is_cut(streams: list[list[bytes]], seed: int) -> None:
    data = b"".join(part for stream in streams for part in stream)

    whole = commands([data])

    assert commands(in_bytes(data)) == whole
    assert commands(at_random(data, Random(seed))) == whole


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(STREAMS)
def test_a_line_means_the_same_the_second_time(stream: list[bytes]) -> None:
    """The meaning of a line is cached; the cached one must not differ from the parsed one."""
    lines: Lines = {}
    data = b"".join(stream)

    first = commands([data], make_parser(lines))

    assert commands([data], make_parser(lines)) == first


FORMS = (
    b"get q/close/token=%b", b"gets q/token=%b/open/close/lease=1s", b"touch q/token=%b 5",
    b"gets q/close/open/token=%b/t=1s", b"get q/abort/dead=a/token=%b", b"delete q/token=%b",
    b"delete q/token=%b 0 noreply", b"touch q/token=%b 5 noreply", b"get q/token=%b/defer/delay=1s",
    b"get q/token=%b", b"get q/close/token=%b/token=5", b"get q/token=5/close/token=%b",
    b"get q/dead=x%%2Ftoken=5/abort/token=%b", b"get q/close/token=%b r", b"touch q /token=%b",
    b"set q/token=%b 0 0 0", b"stats q/token=%b", b"get a/token=%b/" + b"/" * 232 + b"close",
    b"touch " + b"n" * 128 + b"/token=%b" + b"/" * 100 + b" 5",
)  # fmt: skip
TOKENS = (
    b"5", b"77", b"0", b"007", b"1048577", b"%35", b"9007199254740991", b"9007199254740992",
    b"12345678901234567", b"", b"x", b"5x", b"-5", b"5%20", b"\xd9\xa5",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_line_means_the_same_with_another_token(form: bytes) -> None:
    """A line with a token is cached without it, and with nothing of the first one."""
    for end in (b"\r\n", b"\n", b" \r\n", b"\t\n"):
        lines: Lines = {}
        for token in TOKENS * 2:
            line = form % token + end
            assert commands([line], make_parser(lines)) == commands([line]), line
            assert commands([end], make_parser(lines)) == commands([end]), line
        assert len(lines) <= 3


@pytest.mark.parametrize("form", FORMS[:9])
def test_lines_with_a_token_share_one_cached_line(form: bytes) -> None:
    lines: Lines = {}
    for token in range(1, 100):
        commands([form % str(token).encode() + b"\r\n"], make_parser(lines))
    assert len(lines) == 1
    assert b"token" not in b"".join(lines)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(STREAMS)
def test_every_refusal_is_one_short_line_of_printable_ascii(stream: list[bytes]) -> None:
    for kind, *facts in commands([b"".join(stream)]):
        if kind == "Bad":
            line = facts[0]
            assert isinstance(line, bytes)
            assert all(0x20 <= byte < 0x7F for byte in line), line
            assert len(line) < 1200
            assert line.split(b" ")[0] in (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")


# -- memory ----------------------------------------------------------------------------------


def test_an_oversized_body_is_skipped_and_not_held() -> None:
    parser = make_parser(limit=1 << 20)
    size = 64 << 20
    parser.feed(b"set jobs 0 0 %d\r\n" % size)
    assert parser.next() is None
    piece = bytes(1 << 16)
    tracemalloc.start()

    for _ in range(size // len(piece)):
        parser.feed(piece)
        assert parser.next() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    parser.feed(b"\r\nversion\r\n")

    assert peak < 1 << 20, f"{peak} bytes were kept"
    refused = parser.next()
    assert isinstance(refused, Bad) and not refused.closes
    assert refused.line == b"SERVER_ERROR item too large (67108864 bytes, limit 1048576)"
    assert said(parser.next() or Bad(b"")) == ("Plain", b"version", False)


@pytest.mark.slow
@pytest.mark.parametrize("piece_bytes", [1, 2, 7])
def test_a_body_that_comes_in_small_parts_costs_no_more_than_its_bytes(piece_bytes: int) -> None:
    size = 256 << 10
    parser = make_parser(limit=1 << 20)
    parser.feed(b"set jobs 0 0 %d\r\n" % size)
    assert parser.next() is None
    tracemalloc.start()

    for _ in range(size // piece_bytes):
        parser.feed(bytes(piece_bytes))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 1.5 * size, f"{held} bytes for a body of {size}"


def test_an_idle_connection_keeps_no_buffer() -> None:
    parser = make_parser(limit=1 << 20)
    parser.feed(b"set jobs 0 0 200000\r\n" + bytes(200_000) + b"\r\nget jo")
    assert isinstance(parser.next(), Store)
    assert parser.next() is None

    parser.forget()

    assert parser.buffered == len(b"get jo")
    assert sys.getsizeof(parser._data) < 100
    parser.feed(b"bs\r\n")
    assert isinstance(parser.next(), Fetch)


@pytest.mark.slow
def test_the_cached_lines_are_bounded() -> None:
    lines: Lines = {}
    parser = make_parser(lines)
    many = b" ".join(b"q%d" % n for n in range(60))

    for n in range(LINES_KEPT + 10):
        parser.feed(b"get q%d\r\nget %s\r\n" % (n, many))
        assert parser.next() is not None
        assert parser.next() is not None
    parser.feed(b"get q" + b"/" * 240 + b"     " * 100 + b"\r\n")
    assert isinstance(parser.next(), Fetch)

    assert len(lines) <= LINES_KEPT
    assert max(map(len, lines)) <= 300
    for meaning in lines.values():
        assert isinstance(meaning, Fetch) and len(meaning.targets) == 1


def test_a_line_without_an_end_is_bounded_and_searched_once() -> None:
    parser = make_parser()
    for _ in range(LINE_BYTES_MAX):
        parser.feed(b"x")
        assert parser.next() is None
    assert parser._searched == LINE_BYTES_MAX

    parser.feed(b"x")

    refused = parser.next()
    assert isinstance(refused, Bad) and refused.closes


# -- single lines ----------------------------------------------------------------------------

NO_QUEUE_TO_DELETE = b"CLIENT_ERROR delete needs a queue: delete <queue>"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"get jobs\r\n", ("Fetch", False, 0, (b"jobs", b"jobs", frozenset(), 0, 0))),
        (b"GETS jobs/\n", ("Fetch", True, 0, (b"jobs/", b"jobs", frozenset(), 0, 0))),
        (b"delete jobs 0 noreply\r\n", ("Delete", b"jobs", 0, True)),
        (b"delete jobs/token=7\r\n", ("Delete", b"jobs", 7, False)),
        (
            b"gets jobs/peek/full\r\n",
            ("Fetch", True, 0, (b"jobs/peek/full", b"jobs", frozenset({"peek", "full"}), 0, 0)),
        ),
        (
            b"set jobs+kid 0 0 1\r\nx\r\n",
            ("Store", (b"jobs+kid", b"jobs+kid", frozenset(), 0, 0), 0, 0, 1, False, False, b"x"),
        ),
        (b"noreply\r\n", ("Bad", b"ERROR", False, False, "")),
        (b"delete\r\n", ("Bad", NO_QUEUE_TO_DELETE, False, False, "")),
        (b"delete noreply\r\n", ("Bad", NO_QUEUE_TO_DELETE, False, True, "")),
        (b"delete jobs 5\r\n", ("Bad", NO_QUEUE_TO_DELETE, False, False, "")),
        (b"touch jobs 5\r\n", ("Touch", b"jobs", 0, 5, False)),
        (b"touch jobs/token=7 5 noreply\r\n", ("Touch", b"jobs", 7, 5, True)),
        (b"stats \r\n", ("Plain", b"stats", False)),
        (b"flush_all 0 noreply\r\n", ("Plain", b"flush_all", b"0", True)),
    ],
)
def test_a_line_and_its_meaning(line: bytes, expected: tuple[object, ...]) -> None:
    assert commands([line]) == [expected]


def test_words_that_clients_send_after_the_count() -> None:
    """python-memcached ends its lines with a blank; Kestrel ignored all words after the count."""
    for line in (b"set q 0 0 2 \r\nhi\r\n", b"set q 0 0 2\r\nhi\n", b"set q 0 0 2 junk\r\nhi\r\n"):
        [command] = commands([line])
        assert command[0] == "Store" and command[-1] == b"hi" and command[-2] is False


@pytest.mark.parametrize(
    "flags", [b"4294967296", b"9999999999", b"10000000000", b"00000000001", b"-1", b"x"]
)
def test_flags_that_no_record_has_room_for_are_refused(flags: bytes) -> None:
    answer = b"CLIENT_ERROR bad flags: a number below 4294967296 is allowed"
    for verb in (b"set", b"add"):
        line = b"%b jobs %b 0 2\r\nhi\r\n" % (verb, flags)
        [refused] = commands([line])
        assert refused[:2] == ("Bad", answer), line
        assert commands([line.replace(flags, b"4294967295", 1)])[0][0] == "Store"


@pytest.mark.parametrize(
    "line",
    [
        b"add %b 0 0 1",
        b"replace %b 0 0 1",
        b"cas %b 0 0 1 5",
        b"ms %b 1 ME",
        b"ms %b 1 MR",
        b"ms %b 1 C5",
    ],
)
@pytest.mark.parametrize(
    ("option", "key"), [(b"declare", b"jobs/declare"), (b"expect", b"acc/key=A/expect=3")]
)
def test_an_option_of_set_alone_goes_with_no_other_verb_that_stores(
    option: bytes, key: bytes, line: bytes
) -> None:
    refusal, version = commands([line % key + b"\r\nx\r\nversion\r\n"])

    assert refusal[0] == "Bad"
    assert cast(bytes, refusal[1]).startswith(
        (
            b"CLIENT_ERROR option %b does not go with " % option,
            b"CLIENT_ERROR option %b goes with set, " % option,
        )
    )
    assert version[:2] == ("Plain", b"version"), "the body is skipped"
    (stored,) = commands([b"set %b 0 0 1\r\nx\r\n" % key])
    assert stored[0] == "Store"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"set q 0 x 1\r\nx", b"bad expiry"),
        (b"set q 0 -x 1\r\nx", b"bad expiry"),
        (b"set q 0 00000000000000001 1\r\nx", b"bad expiry"),
        (b"set q 0 9007199254740992 1\r\nx", b"bad expiry"),
        (b"set q 0 0", b"bad byte count"),
        (b"set q 0 0 x", b"bad byte count"),
        (b"set q 0 0 00000000001", b"bad byte count"),
        (b"cas a/key=K 0 0 1 x\r\nx", b"bad version"),
        (b"cas a/key=K 0 0 1 00000000000000001\r\nx", b"bad version"),
        (b"cas a/key=K 0 0 1 9007199254740992\r\nx", b"bad version"),
        (b"set a/key=K/expect 0 0 1\r\nx", b"option expect needs a value"),
        (b"set a/key=K/expect=%C2%B2 0 0 1\r\nx", b"option expect is "),
        (b"set a/key=K/expect=00000000000000001 0 0 1\r\nx", b"option expect is "),
        (b"set a/key=K/expect=9007199254740992 0 0 1\r\nx", b"option expect is "),
        (b"set q/confirm=jobs:00000000000000001 0 0 1\r\nx", b"option confirm: its token"),
        (b"set q/confirm=jobs:x 0 0 1\r\nx", b"option confirm: its token"),
        (b"touch q x", b"bad seconds"),
        (b"touch q 000000000000000000001", b"bad seconds"),
        (b"touch q 0", b"bad seconds"),
        (b"monitor q x", b"bad seconds"),
        (b"monitor q 0000000001", b"bad seconds"),
        (b"monitor q 1 0", b"bad max"),
        (b"confirm q x", b"bad count"),
        (b"confirm q 0000000001", b"bad count"),
        (b"get q/peek/after", b"option after needs a value"),
        (b"get q/peek/after=x", b'option after is "x"'),
        (b"get q/peek/after=9007199254740992", b'option after is "9007199254740992"'),
        (b"get q/peek/since", b"option since needs a value"),
        (b"get q/peek/after=0/n", b"option n needs a value"),
        (b"get q/peek/after=0/n=0", b'option n is "0"'),
        (b"gets q/open/lease", b"option lease needs a duration"),
        (b"get q/close/token=9007199254740992", b'option token is "9007199254740992"'),
        (b"set q/delay 0 0 1\r\nx", b"option delay needs a duration"),
        (b"mg q T0", b"bad seconds"),
        (b"ms q 1 F\r\nx", b"flag F needs a value"),
        (b"mg q/peek h5", b"flag h takes no value"),
        (b"ms q 1 MA\r\nx", b"not supported by a queue"),
        (b"ms q 1 MP\r\nx", b"not supported by a queue"),
        (b"mg q s", b"mg without flag v would take an item unseen"),
        (b"mg q/open s", b"mg without flag v would take an item unseen"),
    ],
)
def test_a_word_that_cannot_be_used_is_refused_in_a_sentence(line: bytes, why: bytes) -> None:
    refused = commands([line + b"\r\n"])[0]
    assert refused[0] == "Bad"
    assert why in cast(bytes, refused[1])


def test_a_flag_without_a_value_may_be_the_opaque_alone() -> None:
    assert commands([b"mg q/peek O v\r\n"])[0][0] == "Formed"
