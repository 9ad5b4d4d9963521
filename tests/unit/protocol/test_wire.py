"""The wires by name."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.parse import Parser
from kestrelpy.protocol.text.parser import TextParser
from kestrelpy.protocol.wire import wire_named


@pytest.mark.parametrize(("name", "kind"), [("memcache", Parser), ("text", TextParser)])
def test_each_wire_has_its_name_and_its_parser(name: str, kind: type) -> None:
    wire = wire_named(name)
    assert wire.name == name
    assert isinstance(wire.requests(lambda name: 1, {}), kind)
