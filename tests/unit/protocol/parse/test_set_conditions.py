"""The conditions in the key of a set: ids, scopes, versions, hand-offs."""

from __future__ import annotations

import pytest

from journal.format import ItemHeader
from kestrelpy.errors import ClientError
from kestrelpy.protocol.parse.commands import Remove, Upto, Withdraw
from kestrelpy.protocol.parse.option_values import ChildBegin
from kestrelpy.protocol.parse.options import STORING, parse_deletion, parse_target
from kestrelpy.protocol.parse.set_conditions import Handoff, Once


@pytest.mark.parametrize(
    ("raw", "once"),
    [
        (b"q/id=4711", Once(ItemHeader(b"4711"))),
        (b"q/id=a%2Fb%20%ff", Once(ItemHeader(b"a/b \xff"))),
        (b"q/id=1/scope=s%2B/epoch=0", Once(ItemHeader(b"1", b"s+", 0))),
        (b"q/epoch=7/scope=s/id=1", Once(ItemHeader(b"1", b"s", 7))),
        (b"q/key=A/expect=0", Once(expected=0)),
        (b"q/key=A/expect=9007199254740991", Once(expected=9007199254740991)),
        (b"q/confirm", Once(handoff=Handoff(b"", 0))),
        (b"q/confirm=jobs:5", Once(handoff=Handoff(b"jobs", 5))),
        (b"q/confirm=a:b+c%3A5", Once(handoff=Handoff(b"a:b+c", 5))),
    ],
)
def test_the_options_of_a_set_that_is_stored_once(raw: bytes, once: Once) -> None:
    assert parse_target(raw, STORING).once == once


@pytest.mark.parametrize(
    ("raw", "begin"),
    [
        (b"q+c", None),
        (b"q+c/dead/open", None),
        (b"q+c/from=0", ChildBegin(0, 0)),
        (b"q+c/open/from=1", ChildBegin(0, 0)),
        (b"q+c/peek/from=17", ChildBegin(16, 0)),
        (b"q+c/open/t=5s/since=12.5", ChildBegin(0, 12_500)),
    ],
)
def test_where_a_child_begins_that_is_made_by_this(raw: bytes, begin: ChildBegin | None) -> None:
    target = parse_target(raw)

    assert (target.name, target.parent) == (b"q+c", b"q")
    assert (target.begin, target.view) == (begin, None)


def test_since_with_peek_browses_and_begins_a_new_child() -> None:
    target = parse_target(b"q+c/peek/since=12")

    assert target.begin == ChildBegin(0, 12_000)
    assert parse_target(b"q/peek/since=12").begin is None
    assert target.view is not None and target.view.since_ms == 12_000


def test_an_item_of_a_key_by_its_version() -> None:
    assert parse_target(b"q/key=A/peek").at_version == 0, "the last"
    assert parse_target(b"q/key=A/peek/at_version=3").at_version == 3


def test_the_objects_that_a_delete_names() -> None:
    upto = parse_deletion(b"q+c/upto=17", True)
    assert isinstance(upto, Upto)
    assert (upto.target.name, upto.target.parent) == (b"q+c", b"q")
    assert (upto.marker, upto.noreply) == (17, True)
    withdraw = parse_deletion(b"q/id=a%20b", False)
    assert isinstance(withdraw, Withdraw)
    assert (withdraw.name, withdraw.id, withdraw.noreply) == (b"q", b"a b", False)
    assert isinstance(parse_deletion(b"q/dead/item=5", False), Remove)


def test_a_confirm_that_names_nothing_behind_its_sign_is_refused() -> None:
    with pytest.raises(ClientError, match=r"^option confirm names a queue and a token, "):
        parse_target(b"q/confirm=", STORING)
