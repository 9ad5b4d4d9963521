"""Keys: a queue's name and its options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.errors import ClientError
from kestrelpy.operations import check_name
from kestrelpy.protocol.parse.commands import Ending
from kestrelpy.protocol.parse.options import parse_naming, parse_target


def refusal(raw: bytes) -> str:
    with pytest.raises(ClientError) as caught:
        parse_target(raw)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "opens", "ending", "peeks", "takes", "dead", "wait_ms"),
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
def test_options_and_the_views_they_ask_for(
    raw: bytes, opens: bool, ending: Ending | None, peeks: bool, takes: bool, dead: bool,
    wait_ms: int,
) -> None:  # fmt: skip
    target = parse_target(raw)

    assert (target.raw, target.name) == (raw, b"q")
    assert (target.opens, target.ending, target.peeks) == (opens, ending, peeks)
    assert (target.takes, target.dead, target.wait_ms) == (takes, dead, wait_ms)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"q/opne", "unknown option opne"),
        (b"q/open/open", "given twice"),
        (b"q/defer/close", "close and defer contradict"),
        (b"q/peek/abort", "peek and abort contradict"),
        (b"q/lease=60s", "lease goes with open"),
        (b"q/open/lease", "lease needs a duration"),
        (b"q/open/lease=60", "say 60s or 60ms"),
        (b"q/open/lease=0s", "above 0"),
        (b"q/abort/lease=60s", "lease goes with open"),
        (b"q/token=5", "token goes with close, abort, defer, delete and touch"),
        (b"q/open/token=5", "token goes with close, abort, defer, delete and touch"),
        (b"q/close/token", "token needs a value"),
        (b"q/close/token=0", "from 1 to 9007199254740991"),
        (b"q/close/token=-1", "from 1 to 9007199254740991"),
        (b"q/close/token=9007199254740992", "from 1 to 9007199254740991"),
        (b"q/close/token=5/token=5", "given twice"),
        (b"q/dead=why", "takes a reason with abort only"),
        (b"q/dead=why/close", "takes a reason with abort only"),
        (b"q/abort/dead=" + b"x" * 201, "201 bytes (limit 200)"),
        (b"q/dead/defer", "dead does not go with defer"),
        (b"q/open=", "takes no value"),
        (b"q/t=", "is not a duration"),
        (b"q/t=5%0d%0aSTORED", "is not a duration"),
        (b"", "queue name missing"),
        (b"q+child+grandchild", "a child has no children"),
        (b"+child", "+ names a fan-out child, <queue>+<child>"),
        (b"q\x7f", "printable ASCII"),
        (b"n" * 129, "129 bytes, limit 128"),
        (b"q/" + b"/" * 249, "251 bytes, limit 250"),
    ],
)
def test_a_mistake_is_refused_with_the_allowed_values(raw: bytes, words: str) -> None:
    assert words in refusal(raw)


@pytest.mark.parametrize(
    ("raw", "lease_ms", "token", "why"),
    [
        (b"q/open/lease=60s", 60_000, 0, None),
        (b"q/lease=5m/close/open/token=77", 300_000, 77, None),
        (b"q/abort/token=9007199254740991", 0, 9007199254740991, None),
        (b"q/defer/token=1", 0, 1, None),
        (b"q/abort/dead", 0, 0, b"abort"),
        (b"q/abort/dead=", 0, 0, b"abort"),
        (b"q/dead=no%20address/abort/token=5", 0, 5, b"no address"),
        (b"q/abort/dead=%c3%a9", 0, 0, "é".encode()),
        (b"q/dead/close", 0, 0, None),
    ],
)
def test_a_lease_by_token_its_number_and_why_an_item_is_buried(
    raw: bytes, lease_ms: int, token: int, why: bytes | None
) -> None:
    target, named = parse_naming(raw)

    assert (target.lease_ms, named, target.why) == (lease_ms, token, why)
    assert target.dead == (raw == b"q/dead/close")


def test_every_printable_name_of_1_to_128_bytes_but_a_step_of_a_path_is_a_name() -> None:
    for byte in range(0x21, 0x7F):
        for length in (1, 2, 3, 128):
            name = bytes((byte,)) * length
            if byte not in b"/+" and name not in (b".", b".."):
                check_name(name)

    for name in (b".", b"..", b".+a", b"..+a"):
        with pytest.raises(ClientError, match=r"\. and \.\. are no names"):
            check_name(name)


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
