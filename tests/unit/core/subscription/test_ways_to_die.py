"""An item dies by each end of a lease: by connection and by token, of a queue and of a child.

    buried                 at once, for the reason of the client
    given back, hang-up,   when the attempts are used up, for that reason
    deadline
    deferred               never: it counts nothing

One rule: the dead letter keeps its attempts, its reason and its time, over restarts.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.server_harness import WALL_MS, ServerHarness

MOST: Final = 2
# By way: the option of the end, and the reason that the dead letter has.
WAYS: Final[dict[str, tuple[bytes, str]]] = {
    "buried": (b"/abort/dead=no", "no"), "given back": (b"/abort", "abort"),
    "given back late": (b"/abort/delay=1s", "abort"), "hang-up": (b"", "hangup"),
    "deadline": (b"", "lease"), "deferred": (b"/defer", ""),
}  # fmt: skip
NAMES: Final = (b"jobs", b"jobs+kid")
# A lease by token outlives its connection.
ENDS: Final = [
    (way, by) for way in WAYS for by in ("connection", "token") if (way, by) != ("hang-up", "token")
]


def end_one(stage: ServerHarness, name: bytes, way: str, by: str) -> None:
    """Deliver an item, and end the delivery this way."""
    line = b"gets " + name + b"/open" + b"/lease=5s" * (by == "token")
    said = stage.say("kim", line)
    assert said.startswith(b"VALUE"), said
    end, _ = WAYS[way]
    if way == "hang-up":
        stage.hang_up("kim")
    elif way == "deadline":
        stage.pass_time(5000)
        stage.say("kim", b"get " + name + b"/abort")  # the mark that its lease is over
    else:
        token = b"/token=" + said.split()[4] if by == "token" else b""
        assert stage.say("kim", b"get " + name + end + token) == b"END\r\n"
    stage.pass_time(1000)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("way", "by"), ENDS)
def test_an_item_dies(way: str, by: str, name: bytes, restarts: bool) -> None:
    stage = ServerHarness()
    stage.set_queue(max_attempts=MOST, lease="5s")
    stage.say("eve", b"get jobs+kid")
    stage.say("eve", b"set jobs 0 0 1", b"x")
    counted = 1 if way == "buried" else MOST
    for _ in range(counted):
        end_one(stage, name, way, by)
    began_ms = stage.unix_ms
    if restarts:
        stage.restart()
        stage.work()
    facts = dict(
        line.split(" ", 2)[1:] for line in
        stage.say("eye", b"stats " + name + b"/item=1").decode().splitlines()[:-1]
    )  # fmt: skip
    reason = WAYS[way][1]
    assert facts["state"] == ("dead" if reason else "ready")
    assert facts["reason"] == (reason or "-")
    assert facts["attempts"] == str(counted if reason else 0)
    if reason:
        assert WALL_MS <= int(facts["died_ms"]) <= began_ms
        assert stage.say("kim", b"get " + name) == b"END\r\n"
        assert stage.say("kim", b"get " + name + b"/dead").startswith(b"VALUE")
    (other,) = [each for each in NAMES if each != name]
    assert stage.say("kim", b"get " + other).startswith(b"VALUE"), "it is dead in one alone"


@pytest.mark.parametrize(
    ("way", "by"), [each for each in ENDS if each[0] in ("given back", "hang-up", "deadline")]
)
@pytest.mark.parametrize("name", NAMES)
def test_what_comes_back_waits_for_the_retry_delay(name: bytes, way: str, by: str) -> None:
    stage = ServerHarness()
    stage.set_queue(retry_delay="30s", lease="5s")
    stage.say("eve", b"get jobs+kid")
    stage.say("eve", b"set jobs 0 0 1", b"x")
    end_one(stage, name, way, by)
    assert stage.say("kim", b"get " + name) == b"END\r\n"
    stage.pass_time(29_000)
    assert stage.say("kim", b"get " + name).startswith(b"VALUE")


@pytest.mark.parametrize("age", ["none", "1h"])
@pytest.mark.parametrize("how", ["by itself", "redriven away", "moved"])
@pytest.mark.parametrize("name", NAMES)
def test_the_life_of_an_item_that_moves_to_another_queue(name: bytes, how: str, age: str) -> None:
    """A dead letter loses the expiry that it had; a moved item keeps its own."""
    stage = ServerHarness()
    for each in NAMES:  # each has an age of its own
        to = {"dead_letter_to": "failed", "dead_letter_age": age if each == name else "2h"}
        stage.set_queue(each.decode(), **(to if how == "by itself" else {}))
    stage.say("eve", b"get jobs+kid")
    stage.say("eve", b"set jobs 0 100 1", b"x")
    if how == "moved":
        assert stage.say("op", b"move " + name + b" failed 1") == b"1\r\n"
    else:
        stage.say("kim", b"get " + name + b"/open")
        stage.say("kim", b"get " + name + b"/abort/dead")
    if how == "redriven away":
        assert stage.say("op", b"redrive " + name + b" all failed") == b"1\r\n"
    stage.pass_time(10)
    (shown,) = [
        line.split() for line in
        stage.say("eye", b"gets failed/peek/after=0/full").splitlines() if line[:5] == b"VALUE"
    ]  # fmt: skip
    stored_ms, expires = int(shown[5]), shown[6]
    if how == "moved":
        assert expires == b"%d" % (WALL_MS + 100_000)
    elif how == "by itself" and age == "1h":
        assert expires == b"%d" % (stored_ms + 3_600_000)
    else:
        assert expires == b"-"
