"""Keys: a queue's name and its options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.errors import ClientError
from kestrelpy.protocol.commands import Ending, check_name, parse_target


def refusal(raw: bytes) -> str:
    with pytest.raises(ClientError) as caught:
        parse_target(raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "lends", "ending", "peeks", "takes", "dead", "wait_ms"),
    [
        (b"q", False, None, False, True, False, 0),
        (b"q/", False, None, False, True, False, 0),
        (b"q/open", True, None, False, False, False, 0),
        (b"q/close", False, Ending.CONFIRM, False, False, False, 0),
        (b"q/close/open", True, Ending.CONFIRM, False, False, False, 0),
        (b"q/open/close/t=5s", True, Ending.CONFIRM, False, False, False, 5000),
        (b"q/abort", False, Ending.GIVE_BACK, False, False, False, 0),
        (b"q/defer", False, Ending.DEFER, False, False, False, 0),
        (b"q/peek/t=20", False, None, True, False, False, 20),
        (b"q/t=1h", False, None, False, True, False, 3_600_000),
        (b"q/dead", False, None, False, True, True, 0),
        (b"q/dead/open", True, None, False, False, True, 0),
        (b"q/dead/peek", False, None, True, False, True, 0),
        (b"q/t=%35%73", False, None, False, True, False, 5000),
    ],
)
def test_options_and_what_they_ask_for(
    raw: bytes, lends: bool, ending: Ending | None, peeks: bool, takes: bool, dead: bool,
    wait_ms: int,
) -> None:  # fmt: skip
    target = parse_target(raw)

    assert (target.raw, target.name) == (raw, b"q")
    assert (target.lends, target.ending, target.peeks) == (lends, ending, peeks)
    assert (target.takes, target.dead, target.wait_ms) == (takes, dead, wait_ms)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"q/opne", "did you mean open?"),
        (b"q/ABORT", "did you mean abort?"),
        (b"q/clsoe", "did you mean close?"),
        (b"q/xyz", "known are abort after close dead declare defer full n open peek since t"),
        (b"q/open/open", "given twice"),
        (b"q/defer/close", "close and defer contradict"),
        (b"q/peek/abort", "peek and abort contradict"),
        (b"q/lease=60s/open", "lease is not available in this version yet"),
        (b"q/open=", "takes no value"),
        (b"q/t=", "is not a duration"),
        (b"q/t=5%0d%0aSTORED", "is not a duration"),
        (b"q/dead/abort", "dead does not go with abort"),
        (b"", "queue name missing"),
        (b"q+child", "fan-out"),
        (b"q\x7f", "printable ASCII"),
        (b"n" * 129, "129 bytes, limit 128"),
        (b"q/" + b"/" * 249, "251 bytes, limit 250"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_allowed(raw: bytes, words: str) -> None:
    assert words in refusal(raw)


def test_every_printable_name_of_1_to_128_bytes_is_a_name() -> None:
    for byte in range(0x21, 0x7F):
        if byte not in b"/+":
            check_name(bytes((byte,)))
            check_name(bytes((byte,)) * 128)


@given(st.binary(max_size=300))
def test_a_key_is_read_or_refused_in_one_line(raw: bytes) -> None:
    try:
        target = parse_target(raw)
    except ClientError as refused:
        line = refused.line()
        assert line.startswith(b"CLIENT_ERROR ")
        assert all(0x20 <= byte < 0x7F for byte in line), line
    else:
        assert target.raw == raw and raw.startswith(target.name)
