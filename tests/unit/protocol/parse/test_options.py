"""Keys as clients send them: contradictions are refused before any state is looked at."""

from __future__ import annotations

import pytest

from journal.format import ItemHeader
from kestrelpy.errors import ClientError
from kestrelpy.protocol.parse.commands import Delete, Remove
from kestrelpy.protocol.parse.option_values import parse_number
from kestrelpy.protocol.parse.options import (
    KEY_BYTES_MAX,
    OPTIONS,
    STORING,
    Option,
    UnknownOption,
    nearest,
    parse_deletion,
    parse_lease,
    parse_naming,
    parse_target,
    refuse_later,
    why_no_option,
)


def refusal(raw: bytes, verb: str = "get") -> str:
    with pytest.raises(ClientError) as caught:
        parse_target(raw, verb)
    return str(caught.value)


@pytest.mark.parametrize("options", [b"", b"/", b"//"])
def test_a_name_alone_has_no_options(options: bytes) -> None:
    target = parse_target(b"q" + options)
    assert (target.name, target.options, target.wait_ms) == (b"q", frozenset(), 0)


def test_the_token_of_a_lease_is_given_beside_the_target() -> None:
    target, token = parse_naming(b"q/close/token=17")
    assert (target.name, token) == (b"q", 17)
    assert parse_naming(b"q/close")[1] == 0


def test_a_key_has_an_upper_limit_and_a_long_id_a_remedy() -> None:
    fits = b"q/id=" + b"x" * (KEY_BYTES_MAX - 5)
    assert parse_target(fits, STORING).once.header == ItemHeader(b"x" * (KEY_BYTES_MAX - 5))

    assert refusal(fits + b"x", STORING).startswith(
        "key too long (251 bytes, limit 250): hash a longer id yourself"
    )
    assert refusal(b"q" * 251) == "key too long (251 bytes, limit 250)"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"q/close/abort", "abort and close contradict each other"),
        (b"q/defer/abort", "abort and defer contradict each other"),
        (b"q/peek/open", "peek and open contradict each other"),
        (b"q/peek/close", "peek and close contradict each other"),
        (b"q/open/abort", "abort and open contradict each other"),
        (b"q/full", "option full goes with peek and open"),
        (b"q/after=5", "option after goes with peek, for instance q/peek/after=0"),
        (b"q/peek/dead/after=5", "dead and after contradict each other"),
        (b"q/dead/defer", "option dead does not go with defer in this version yet"),
        (b"q/peek/at_version=3", "option at_version goes with peek and key"),
        (b"q/peek/key=A/t=5s", "key and t contradict each other"),
        (b"q/from=5", "option from goes with a fan-out child"),
        (b"q+c/from=5/after=1", "from and after contradict each other"),
        (b"q/open=1", "option open takes no value"),
        (b"q/t", "option t needs a duration, for instance t=5s or t=5000"),
        (b"q/key=A", "option key does not go with get, but with set and peek"),
        (b"q/confirm", "option confirm does not go with get, but with set, add"),
        (b"q/item=7", "option item goes with delete and stats"),
    ],
)
def test_a_contradiction_is_refused_with_both_options(raw: bytes, words: str) -> None:
    assert refusal(raw).startswith(words)


def test_declare_goes_alone() -> None:
    assert parse_target(b"q/declare", STORING).options == {"declare"}
    assert refusal(b"q/declare/delay=5s", STORING).startswith("declare and delay contradict")


def test_an_unknown_option_is_answered_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownOption, match=r"^unknown option opne$") as caught:
        parse_target(b"q/opne")

    assert nearest(caught.value.option) == ", did you mean open?"
    assert nearest("OPEN") == ", did you mean open?"
    assert nearest("dely") == ", did you mean delay?"
    for far in ("foo", "x" * 10_000):
        assert nearest(far) == ", docs/protocol.md lists all of them"


def test_an_option_of_another_command_names_the_command() -> None:
    assert why_no_option("upto", "get").endswith("but with delete, for instance delete "
                                                 "orders+cursor/upto=17")  # fmt: skip
    assert why_no_option("open", "set") == "option open does not go with set, but with get"
    refuse_later("open")


def test_a_lease_is_named_by_a_queue_and_a_token_alone() -> None:
    assert parse_lease(b"q/token=5", "touch") == (b"q", 5)
    assert parse_lease(b"q", "delete") == (b"q", 0)
    with pytest.raises(ClientError, match=r"^option peek does not go with touch$"):
        parse_lease(b"q/peek", "touch")


def test_a_delete_of_a_queue_and_of_an_item() -> None:
    queue = parse_deletion(b"q", False)
    assert isinstance(queue, Delete)
    assert (queue.name, queue.token, queue.noreply) == (b"q", 0, False)
    for raw, dead in (b"q/item=7", False), (b"q/dead/item=7", True):
        item = parse_deletion(raw, True)
        assert isinstance(item, Remove)
        assert (item.name, item.item, item.dead, item.noreply) == (b"q", 7, dead, True)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"q/item=7/item=8", "option item is given twice"),
        (b"q/item=7/id=8", "item and id contradict each other"),
        (b"q/peek/item=7", "option peek does not go with delete and item"),
        (b"q/dead/id=7", "option dead does not go with delete and id"),
        (b"q/id=", "option id needs a value, for instance id=4711"),
        (b"q/id=" + b"x" * 250, "key too long (255 bytes, limit 250): hash a longer id"),
    ],
)
def test_a_delete_names_one_thing(raw: bytes, words: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_deletion(raw, False)

    assert str(caught.value).startswith(words)


def test_a_row_is_all_that_a_new_option_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, "x", Option("open", needs=("open",), number=parse_number))

    assert parse_target(b"jobs/open/x=7").number("x") == 7
    assert parse_target(b"jobs/open").number("x") == 0
    with pytest.raises(ClientError, match="option x goes with open"):
        parse_target(b"jobs/peek/x=7")
    assert why_no_option("x", "touch") == "option x does not go with touch, but with open"
