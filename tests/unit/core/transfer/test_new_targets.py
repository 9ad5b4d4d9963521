"""A queue that would refuse an item is not made for it, whoever moves the item there."""

from __future__ import annotations

import pytest

from tests.support.server_harness import ServerHarness

WAYS = ("move", "redrive", "dead_letter_to", "expire_to")


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("name", [b"jobs", b"jobs+kid"])
@pytest.mark.parametrize("way", WAYS)
def test_a_queue_that_would_refuse_it_is_not_made(way: str, name: bytes, size: int) -> None:
    stage = ServerHarness()
    stage.set_queue("small", max_item_size=3)
    targets = {way: "small"} if way.endswith("to") else {}
    stage.set_queue("jobs", **targets)
    stage.set_queue("jobs+kid", **targets)
    stage.say("eve", b"get jobs+kid")
    expiry = 5 if way == "expire_to" else 0
    stage.say("eve", b"set jobs 0 %d %d" % (expiry, size), b"x" * size)
    if way in ("redrive", "dead_letter_to"):
        stage.say("kim", b"get " + name + b"/open")
        stage.say("kim", b"get " + name + b"/abort/dead")
    if way == "move":
        stage.say("op", b"move " + name + b" small 1")
    elif way == "redrive":
        stage.say("op", b"redrive " + name + b" all small")
    stage.pass_time(6000)
    fits = size <= 3
    assert (b"small" in stage.broker.queues) == fits
    if fits:
        assert stage.say("kim", b"get small").startswith(b"VALUE")
    else:
        stage.pass_time(10_000)
        dead = b"" if way == "move" else b"/dead"
        assert stage.say("kim", b"get " + name + dead).startswith(b"VALUE"), "it stays"
