"""An expiry counts from the wall clock's now in every form of a set."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.server_harness import WALL_MS, ServerHarness

# The requests before the set, and the line of the set with @ for the expiry.
FORMS: Final[dict[str, tuple[list[bytes], bytes]]] = {
    "plain": ([], b"set jobs 0 @ 1"),
    "a key": ([], b"set jobs/key=A 0 @ 1"),
    "two keys": ([], b"set jobs/key=A,B 0 @ 1"),
    "an id": ([], b"set jobs/id=7 0 @ 1"),
    "a scope": ([], b"set jobs/id=7/scope=s/epoch=1 0 @ 1"),
    "a version": ([], b"cas jobs/key=A 0 @ 1 0"),
    "the first of its key": ([], b"add jobs/key=A 0 @ 1"),
    "only if empty": ([], b"add jobs 0 @ 1"),
    "a hand-off": ([b"set from 0 0 1\r\nx", b"get from/open"], b"set jobs/confirm 0 @ 1"),
    "an alias": ([], b"set both 0 @ 1"),
    "meta": ([], b"ms jobs 1 T@"),
}
expiries = pytest.mark.parametrize(
    ("expiry", "stays_ms"), [(10, 10_000), ((WALL_MS + 20_000) // 1000, 20_000)],
    ids=["seconds", "a date"],
)  # fmt: skip


@expiries
@pytest.mark.parametrize("name", FORMS)
def test_an_item_is_there_up_to_its_expiry_and_not_after(
    name: str, expiry: int, stays_ms: int
) -> None:
    stage = ServerHarness()
    stage.set_alias("both", ["jobs", "other"])
    before, line = FORMS[name]
    for each in before:
        stage.say("ann", each)

    said = stage.say("ann", line.replace(b"@", b"%d" % expiry), b"1")

    assert said in (b"STORED\r\n", b"HD\r\n")
    stage.pass_time(stays_ms - 1)
    assert stage.say("bob", b"get jobs/peek").startswith(b"VALUE ")
    stage.pass_time(1)
    assert stage.say("bob", b"get jobs/peek") == b"END\r\n"


def test_an_alias_whose_queues_all_refuse_for_now_answers_with_the_first_refusal() -> None:
    stage = ServerHarness()
    stage.set_alias("both", ["jobs", "other"])
    stage.set_mode("readonly")
    said = stage.say("a", b"set both 0 0 1", b"x")
    assert said.startswith(b"SERVER_ERROR ")
    stage.set_mode("up")
    stage.broker.queues_max = 0
    assert stage.say("a", b"set both 0 0 1", b"x").startswith(b"SERVER_ERROR ")


@pytest.mark.parametrize(
    ("line", "ready", "after_a_minute"),
    [
        (b"jobs 0 0 1", 3, 3), (b"jobs 0 50 1", 3, 0), (b"jobs/delay=50s 0 0 1", 0, 3),
        (b"jobs/key=A 0 0 1", 1, 1),
    ],
)  # fmt: skip
def test_equal_sets_that_come_together_are_each_what_their_line_says(
    line: bytes, ready: int, after_a_minute: int
) -> None:
    stage = ServerHarness()
    stage.send("a", (b"set " + line + b"\r\nx\r\n") * 3)
    assert stage.client("a").take().count(b"STORED\r\n") == 3

    def openable() -> int:
        clients = [f"{stage.now_ms} {n}" for n in range(3)]
        found = sum(b"VALUE" in stage.say(each, b"get jobs/open") for each in clients)
        for each in clients:
            stage.hang_up(each)
        return found

    assert openable() == ready
    stage.pass_time(60_000)
    assert openable() == after_a_minute
