"""Every verb has a place to go to."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.parse import Parser
from kestrelpy.protocol.parse import parser as parsing
from kestrelpy.protocol.routing.merging import MERGED
from kestrelpy.protocol.routing.routed import HERE
from kestrelpy.protocol.routing.routes import PLAIN, queues_of
from kestrelpy.protocol.verbs import admin


def parsed(line: bytes) -> list[bytes] | None:
    parser = Parser(lambda name: 100, {})
    parser.feed(line + b"\r\n")
    command = parser.next()
    assert command is not None
    return queues_of(command)


def test_every_verb_has_a_row_and_one_without_a_queue_an_answer() -> None:
    assert PLAIN.keys() == admin._VERBS.keys() == parsing._PLAIN
    nowhere = {verb for verb, names in PLAIN.items() if names([]) is None}
    assert nowhere == {*HERE, *MERGED}
    assert not {*HERE} & {*MERGED}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b"set a 0 0 0\r\n", [b"a"]),
        (b"set a+x/confirm=b:7 0 0 0\r\n", [b"a+x", b"b"]),
        (b"set a/confirm 0 0 0\r\n", [b"a"]),
        (b"get a/open/t=1s", [b"a"]),
        (b"gets a b+x/peek", [b"a", b"b+x"]),
        (b"delete a/item=3", [b"a"]),
        (b"delete a+x/upto=4", [b"a+x"]),
        (b"delete a/id=4", [b"a"]),
        (b"touch a/token=3 4", [b"a"]),
        (b"monitor a 3", [b"a"]),
        (b"confirm a 3", [b"a"]),
        (b"mg a/open v", [b"a"]),
        (b"md a/token=3", [b"a"]),
        (b"stats a/item=3", [b"a"]),
        (b"stats schedules", None),
        (b"stats markers", None),
        (b"stats", None),
        (b"move a b 3", [b"a", b"b"]),
        (b"redrive a all", [b"a"]),
        (b"redrive a all b", [b"a", b"b"]),
        (b"move", [b""]),
        (b"redrive", [b""]),
        (b"flush a", [b"a"]),
        (b"flush a/x", [b"a"]),
        (b"flush", [b""]),
        (b"retry a 3", [b"a"]),
        (b"nonsense", None),
    ],
)
def test_the_queues_that_a_request_names(line: bytes, names: list[bytes] | None) -> None:
    assert parsed(line) == names
