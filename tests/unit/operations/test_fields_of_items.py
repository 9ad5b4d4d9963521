"""Each field of an item, by each door, in each state, of a queue and of a child, over restarts.

    number  state of the item                          with
    1       leased by a connection                     a key, an id, an expiry
    2       blocked: ready, its key is locked          a key, an id
    3       delayed since it was stored                -
    4       dead                                       a reason
    5       delayed: given back late                   an attempt
    6       leased by token                            -
    7       ready, behind others                       an origin: it was moved here

One rule: a field that one door shows is the same by every other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.support.http_client import web
from tests.support.server_harness import WALL_MS, ServerHarness

NAMES: Final = ("jobs", "jobs+kid")
Facts = dict[str, str]
_PUTS: Final = (
    b"set jobs/key=A/id=i1 0 3600 3\r\none", b"set jobs/key=A/id=i2 0 0 3\r\ntwo",
    b"set jobs/delay=1h 0 0 5\r\nthree", b"set jobs 0 0 4\r\nfour", b"set jobs 0 0 4\r\nfive",
    b"set jobs 0 0 3\r\nsix", b"set other 0 0 5\r\nseven", b"move other jobs 1",
)  # fmt: skip
_FETCHES: Final = (
    ("anna", b"get %b/open"),  # 1
    ("bert", b"get %b/open"), ("bert", b"get %b/abort/dead=no%%20good"),  # 4
    ("bert", b"get %b/open"), ("bert", b"get %b/abort/delay=10m"),  # 5
    ("cleo", b"gets %b/open/lease=1h"),  # 6
)  # fmt: skip


def _item(**fields: object) -> Facts:
    plain = {
        "attempts": 0, "lease_left_ms": "-", "token": "-", "holder": "-", "age_ms": 10_000,
        "stored_ms": WALL_MS, "expires_ms": "-", "key": "-", "origin": "-", "died_ms": "-",
        "reason": "-",
    }  # fmt: skip
    return {name: str(value) for name, value in (plain | fields).items()}


_LEASE_MS: Final = 1_800_000
_AT_MS: Final = WALL_MS + 10_000
ITEMS: Final = {
    1: _item(
        id=1, marker=1, state="lent", why=f"lent_to_anna_until_{WALL_MS + _LEASE_MS}",
        lease_left_ms=_LEASE_MS - 10_000, holder="anna", expires_ms=WALL_MS + 3_600_000, bytes=3,
        key="A",
    ),
    2: _item(id=2, marker=2, state="ready", why="behind_key_A_held_by_item_1", bytes=3, key="A"),
    3: _item(
        id=3, marker="-", state="delayed", why=f"delayed_until_{WALL_MS + 3_600_000}", bytes=5
    ),
    4: _item(
        id=4, marker=4, state="dead", why="dead:_no%20good", attempts=1, died_ms=WALL_MS,
        reason="no%20good", bytes=4,
    ),
    5: _item(
        id=5, marker=5, state="delayed", why=f"delayed_until_{WALL_MS + 600_000}", attempts=1,
        bytes=4,
    ),
    6: _item(
        id=6, marker=6, state="lent", holder="token", lease_left_ms=3_590_000, bytes=3,
        why=f"lent_by_token_TOKEN_until_{WALL_MS + 3_600_000}", token="TOKEN",
    ),
    7: _item(
        id=7, marker=7, state="ready", why="behind_1_other", bytes=5, origin="SERVER:other:1"
    ),
}  # fmt: skip
# A restart ends the lease by connection and counts no attempt; its key blocks no item any more.
AGAIN: Final = ITEMS | {
    1: ITEMS[1] | {"state": "ready", "why": "it_is_next", "lease_left_ms": "-", "holder": "-"},
    2: ITEMS[2] | {"why": "behind_1_other"},
    7: ITEMS[7] | {"why": "behind_2_others"},
}


def who_of(who: str, name: str) -> str:
    """Return a connection of this queue: a connection holds one item at a time."""
    return who + name.removeprefix("jobs")


def stage_of(memory: object) -> ServerHarness:
    stage = ServerHarness()
    stage.set_queue(max_memory=memory)
    assert stage.say("eve", b"get jobs+kid") == b"END\r\n"
    for each in _PUTS:
        said = stage.say("eve", each)
        assert said in (b"STORED\r\n", b"1\r\n"), (each, said)
    for name in NAMES:
        for who, line in _FETCHES:
            stage.say(who_of(who, name), line % name.encode())
    stage.pass_time(10_000)
    return stage


def facts(stage: ServerHarness, name: str, number: int) -> Facts:
    """Return the answer to `stats q/item`, without the words that differ from start to start."""
    said = stage.say("eye", f"stats {name}/item={number}".encode())
    while not said:
        stage.pass_time(1)
        said = stage.client("eye").take()
    lines = [line.split(" ", 2) for line in said.decode().splitlines() if line != "END"]
    found = {words[1]: words[2] for words in lines}
    token = found.get("token", "-")
    for key, value in found.items():
        if number == 6 and token != "-":
            value = value.replace(f"token_{token}", "token_TOKEN")
            value = "TOKEN" if key == "token" else value
        value = value.replace(stage.server_id, "SERVER").replace("anna+kid", "anna")
        found[key] = value
    return found


@pytest.mark.parametrize("end", ["", "restart", "kill", "cut_power"])
@pytest.mark.parametrize("memory", ["64MiB", 1])
@pytest.mark.parametrize("name", NAMES)
def test_each_field_of_each_item_is_right(name: str, memory: object, end: str) -> None:
    stage = stage_of(memory)
    if end:
        getattr(stage, end)()
        stage.work()
    for number, wanted in (AGAIN if end else ITEMS).items():
        assert facts(stage, name, number) == wanted, number


@pytest.mark.parametrize("end", ["", "cut_power"])
@pytest.mark.parametrize("name", NAMES)
def test_a_full_value_has_the_same_fields(name: str, end: str) -> None:
    stage = stage_of("64MiB")
    if end:
        getattr(stage, end)()
    said = stage.say("eye", f"gets {name}/peek/after=0/n=100/full".encode())
    lines = [line.split() for line in said.decode().splitlines() if line.startswith("VALUE ")]
    ids = {1: "i1", 2: "i2"}
    for words, number in zip(lines, [1, 2, 4, 5, 6, 7], strict=True):
        wanted = (AGAIN if end else ITEMS)[number]
        shown = dict(
            zip(
                ["bytes", "marker", "stored_ms", "expires_ms", "attempts", "state", "key", "id"],
                words[3:], strict=True,
            )
        )  # fmt: skip
        assert shown == {key: wanted[key] for key in shown} | {"id": ids.get(number, "-")}, number


def as_words(key: str, value: Any) -> str:
    """A value of JSON as the wire has it."""
    if key == "reason" and value:
        return quote(value)
    words = "-" if value is None else str(value).replace(" ", "_")
    return "lent" if (key, words) == ("state", "leased") else words


async def test_http_shows_the_same_fields_as_the_wire(tmp_path: Path) -> None:
    moving = {"age_ms", "lease_left_ms"}  # by the clock
    async with web(tmp_path) as server:
        clients: dict[str, Any] = {}

        async def say(who: str, line: bytes) -> bytes:
            if who not in clients:
                clients[who] = await server.memcache()
            said: bytes = await clients[who].ask(line + b"\r\n")
            while said.startswith((b"VALUE", b"STAT")) and not said.endswith(b"END\r\n"):
                said += await clients[who].line()
            return said

        await say("eve", b"get jobs+kid")
        for each in _PUTS:
            await say("eve", each)
        for name in NAMES:
            for who, line in _FETCHES:
                await say(f"{who} {name}" if who == "bert" else f"{who}{name[4:]}",
                          line % name.encode())  # fmt: skip
        for name in NAMES:
            path = f"/admin/queues/{name.replace('+', '%2B')}"
            rows = (await server.client.get(f"{path}/items?limit=100")).json()["items"]
            dead = (await server.client.get(f"{path}/dead")).json()["dead"]
            rows += (await server.client.get(f"{path}/items?state=delayed")).json()["items"][:1]
            assert sorted(row["id"] for row in rows) == [*ITEMS]
            assert [row["id"] for row in dead] == [4]
            for number in ITEMS:
                said = (await say("eye", f"stats {name}/item={number}".encode())).decode()
                lines = [x.split(" ", 2) for x in said.splitlines() if x != "END"]
                wire = {words[1]: words[2] for words in lines}
                one = (await server.client.get(f"{path}/items/{number}")).json()
                shown = {key: as_words(key, value) for key, value in one.items() if key in wire}
                assert shown.keys() == wire.keys()
                differ = {key for key in wire if shown[key] != wire[key]}
                assert differ <= moving, {key: (shown[key], wire[key]) for key in differ}
                for row in [each for each in (*rows, *dead) if each["id"] == number]:
                    both = {key for key in row if key in one} - moving - {"body", "is_cut"}
                    assert {key: row[key] for key in both} == {key: one[key] for key in both}
            assert one["state"] == "ready"
