"""Streams and categories over HTTP, beside memcache on the same keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from journal.format import text_of, value_of
from kestrelpy.http import streams
from kestrelpy.http.streams import hash_64, is_of_member
from kestrelpy.operations.reading import PAGE_BYTES_MAX
from tests.support.disks import HeldDisk
from tests.support.http_client import web
from tests.support.running import Peer
from tests.unit.http.test_items_and_leases import waiting

STREAM = "/streams/account-123"
ABSENT = {"If-None-Match": "*"}


def at(version: int | str) -> dict[str, str]:
    return {"If-Match": f'"{version}"'}


def bodies(said: httpx.Response) -> list[str]:
    return [each["body"] for each in said.json()["events"]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("account-123", 2828383952216582226), ("someStream", 2053039834977696644),
        ("123", 2318431741638412123), ("456", 2669782135874207551),
        ("abc", -8070080442485551184), ("account", -2132379389342958165),
    ],
)  # fmt: skip
def test_the_hash_has_message_dbs_known_values(text: str, value: int) -> None:
    assert hash_64(text.encode()) == value


def test_each_stream_belongs_to_one_member_and_its_compounds_to_the_same() -> None:
    for key in (text_of(b"123"), text_of(b"abc"), value_of(7)):
        assert [is_of_member(key, each, 3) for each in range(3)].count(True) == 1
    assert is_of_member(text_of(b"123"), 2318431741638412123 % 3, 3)
    assert is_of_member(text_of(b"123+456"), 2318431741638412123 % 3, 3)
    assert is_of_member(text_of(b"abc"), 8070080442485551184 % 5, 5)
    assert not any(is_of_member(b"", each, 3) for each in range(3))


async def test_a_version_is_written_once(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        post = server.client.post
        first = await post(STREAM, content=b"a", headers=ABSENT)
        assert (first.status_code, first.headers["etag"]) == (201, '"1"')
        second = await post(STREAM, content=b"b", headers=at(1))
        assert (second.status_code, second.headers["etag"]) == (201, '"2"')
        appended = await post(STREAM, content=b"c")
        assert appended.json()["version"] == 3
        for headers, expected in ((ABSENT, 0), (at(1), 1), (at(4), 4)):
            said = await post(STREAM, content=b"x", headers=headers)
            assert said.status_code == 412
            assert (said.json()["expected"], said.json()["actual"]) == (expected, 3)
        assert (await post(STREAM, content=b"d", headers={"If-Match": "*"})).status_code == 201
        got = await server.client.get(STREAM)
        assert bodies(got) == ["a", "b", "c", "d"]
        assert got.headers["etag"] == '"4"'


async def test_a_stream_that_was_never_written_has_no_version_and_leaves_no_queue(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        for headers, expected in ((at(1), 1), ({"If-Match": "*"}, "*")):
            said = await server.client.post(STREAM, content=b"x", headers=headers)
            assert said.status_code == 412
            assert (said.json()["expected"], said.json()["actual"]) == (expected, 0)
        assert (await server.client.get(STREAM)).json()["events"] == []
        peer = await server.memcache()
        assert await peer.ask(b"stats account/settings\r\n") == b"END\r\n"
        assert (await server.client.post(STREAM, content=b"a", headers=at(0))).status_code == 201


@pytest.mark.parametrize(("bytes_", "status"), [(9, 201), (10, 400)])
async def test_an_event_that_never_fits_leaves_no_queue(
    bytes_: int, status: int, tmp_path: Path
) -> None:
    """Whether it fits is a matter of its body, not of the name of its queue."""
    async with web(tmp_path, '[queues."account"]\nmax_bytes = 9\n') as server:
        said = await server.client.post(STREAM, content=b"x" * bytes_)
        assert said.status_code == status
        peer = await server.memcache()
        there = await peer.ask(b"stats account/settings\r\n")
        assert (there == b"END\r\n") == (status != 201)


async def test_a_stream_begins_behind_an_event_that_cannot_be_read(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for body in (b"the first", b"the second", b"the third"):
            await server.client.post(STREAM, content=body)
    for segment in tmp_path.rglob("*.segment"):
        data = segment.read_bytes()
        segment.write_bytes(data.replace(b"the second", b"the sec0nd"))
    async with web(tmp_path) as server:
        got = await server.client.get(STREAM)
        assert (bodies(got), got.headers["etag"]) == (["the third"], '"3"')


async def test_both_wires_write_and_read_the_same_streams(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peer = await server.memcache()
        await server.client.post(STREAM, content=b"\0\xff", headers=ABSENT)
        assert await peer.ask(b"add account/key=123 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
        assert await peer.ask(b"cas account/key=123 0 0 1 1\r\nb\r\n") == b"STORED\r\n"
        assert await peer.ask(b"gets account/key=123/peek\r\n") == (
            b"VALUE account/key=123/peek 0 1 2\r\n"
        )
        events = (await server.client.get(STREAM)).json()["events"]
        assert [each["version"] for each in events] == [1, 2]
        assert [each["marker"] for each in events] == [1, 2]
        assert events[0]["base64"] == "AP8="
        assert events[1]["body"] == "b"
        assert {each["stream"] for each in events} == {"account-123"}


async def test_events_stay_when_consumers_have_confirmed_them(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for number in range(5):
            await server.client.post(STREAM, content=b"%d" % number)
        peer = await server.memcache()
        for _ in range(5):
            assert (await peer.ask(b"get account\r\n")).startswith(b"VALUE")
            assert [await peer.line() for _ in range(2)][1] == b"END\r\n"
        for url, expected in (
            (STREAM, ["0", "1", "2", "3", "4"]), (f"{STREAM}?from_version=3&limit=2", ["2", "3"]),
            (f"{STREAM}?from_version=last", ["4"]), (f"{STREAM}?from_version=6", []),
            ("/categories/account", ["0", "1", "2", "3", "4"]),
        ):  # fmt: skip
            assert bodies(await server.client.get(url)) == expected, url


@pytest.mark.parametrize("retain", ["none", "7d"])
async def test_a_queue_that_the_file_names_keeps_its_settings(
    tmp_path: Path, retain: str
) -> None:
    async with web(tmp_path, f'[queues.account]\nretain = "{retain}"\n') as server:
        assert (await server.client.post(STREAM, content=b"a")).status_code == 201
        peer = await server.memcache()
        assert await setting(peer, b"account", b"retain") == (retain.encode(), b"file")
        said = await server.client.get(STREAM)
        assert said.status_code == (400 if retain == "none" else 200)
        if retain == "none":
            assert "retains no completed items" in said.json()["description"]
        assert bodies(await server.client.get(f"{STREAM}?from_version=last")) == ["a"]


async def test_a_queue_that_a_client_declared_keeps_its_settings(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peer = await server.memcache()
        declared = b'max_attempts = 3\n'
        line = b"set account/declare 0 0 %d\r\n%b\r\n" % (len(declared), declared)
        assert await peer.ask(line) == b"STORED\r\n"
        assert (await server.client.post(STREAM, content=b"a")).status_code == 201
        assert await setting(peer, b"account", b"retain") == (b"none", b"default")


async def test_a_queue_without_settings_retains_from_its_first_stream_on(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peer = await server.memcache()
        assert await peer.ask(b"set account/key=9 0 0 1\r\nx\r\n") == b"STORED\r\n"
        refused = await server.client.post("/streams/account-9", content=b"y", headers=ABSENT)
        assert refused.status_code == 412
        assert await setting(peer, b"account", b"retain") == (b"none", b"default")
        assert (await server.client.post("/streams/account-9", content=b"y")).status_code == 201
        assert await setting(peer, b"account", b"retain") == (b"forever", b"declared")


async def test_a_group_shares_the_streams_of_a_category(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for number in range(40):
            await server.client.post(f"/streams/account-{number % 10}", content=b"%d" % number)
        seen = list[str]()
        for member in range(3):
            after, mine = 0, list[str]()
            for _ in range(40):
                url = f"/categories/account?after={after}&limit=2&member={member}&size=3"
                said = (await server.client.get(url)).json()
                if not said["events"]:
                    break
                assert said["next"] == url.replace(f"after={after}", f"after={said['after']}")
                assert len(said["events"]) <= 2
                after = said["after"]
                mine += [each["body"] for each in said["events"]]
            assert mine == sorted(mine, key=int)
            seen += mine
        assert sorted(seen, key=int) == [str(number) for number in range(40)]


async def test_an_answer_to_a_member_of_a_group_has_no_more_bytes_than_any(tmp_path: Path) -> None:
    names = [f"account-{number}" for number in range(10)]
    mine, other = (
        next(each for each in names if is_of_member(text_of(each[8:].encode()), member, 2))
        for member in range(2)
    )
    async with web(tmp_path) as server:
        for number, name in enumerate((mine, other, mine, mine, mine)):
            body = b"%d" % number * (PAGE_BYTES_MAX * 3 // 8)
            await server.client.post(f"/streams/{name}", content=body)
        url, answers = "/categories/account?member=0&size=2", list[str]()
        while said := bodies(answer := await server.client.get(url)):
            answers.append("".join(each[0] for each in said))
            assert sum(map(len, said)) <= PAGE_BYTES_MAX
            url = answer.json()["next"]
        assert answers == ["02", "34"]


async def test_a_category_names_the_streams_and_items_without_one(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/streams/a-b-c", content=b"1")
        odd = "/streams/a-x%2Fy%20z"
        await server.client.post(f"{odd}?id=once", content=b"2")
        again = await server.client.post(f"{odd}?id=once", content=b"2")
        assert again.json() == {"duplicate": True, "id": 2, "version": 1}
        await server.client.post("/queues/a/items", content=b"3")
        events = (await server.client.get("/categories/a")).json()["events"]
        assert [each["stream"] for each in events] == ["a-b-c", "a-x/y z", None]
        assert events[1]["idempotency_key"] == "once"
        assert bodies(await server.client.get(odd)) == ["2"]


async def test_a_category_waits_for_its_next_event(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post(STREAM, content=b"a")
        waits = asyncio.ensure_future(server.client.get("/categories/account?after=1&wait=20s"))
        peer = await server.memcache()
        await waiting(peer, 1, b"account")
        await server.client.post(STREAM, content=b"b")
        assert bodies(await waits) == ["b"]
        empty = await server.client.get("/categories/account?after=2&wait=10ms")
        assert empty.json()["events"] == []


async def test_a_wait_for_an_event_ends_when_the_client_hangs_up(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post(STREAM, content=b"a")
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        asks = b"GET /categories/account?after=1&wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n"
        writer.write(asks)
        peer = await server.memcache()
        await waiting(peer, 1, b"account")
        writer.close()
        await waiting(peer, 0, b"account")


async def test_bad_names_and_values_are_one_sentence(tmp_path: Path) -> None:
    async with web(tmp_path, '[aliases.both]\nto = ["a", "b"]\n') as server:
        post, get = server.client.post, server.client.get
        for done in (
            await post("/streams/account", content=b"x"), await post("/streams/-1", content=b"x"),
            await post("/streams/account-", content=b"x"), await post("/streams/both-1"),
            await post("/streams/a+b-1"), await get("/streams/both-1"),
            await post(STREAM, headers={"If-None-Match": '"1"'}),
            await post(STREAM, headers={"If-Match": 'W/"1"'}),
            await post(STREAM, headers={**ABSENT, **at(1)}), await get("/categories/both"),
            await get(f"{STREAM}?from_version=0"), await get(f"{STREAM}?limit=1001"),
            await get("/categories/a?member=1"), await get("/categories/a?member=3&size=3"),
            await get("/categories/a?size=0&member=0"), await get("/categories/a?wait=61s"),
            await get("/categories/a?after=-1"),
        ):
            assert done.status_code == 400, done.request.url
            assert done.json()["description"]
        large = await post(STREAM, content=b"x" * ((8 << 20) + 1))
        assert large.status_code == 413


async def setting(peer: Peer, queue: bytes, key: bytes) -> tuple[bytes, bytes]:
    """Return a setting of this queue and its source, as `stats` says them."""
    said = dict[bytes, bytes]()
    line = await peer.ask(b"stats %b/settings\r\n" % queue)
    while line != b"END\r\n":
        _, name, value = line.split(b" ", 2)
        said[name.removeprefix(b"queue_%b_" % queue)] = value.strip()
        line = await peer.line()
    return said[b"setting_" + key], said[b"source_" + key]


async def test_events_that_are_only_on_disk_are_read(tmp_path: Path) -> None:
    async with web(tmp_path, "[queue_defaults]\nmax_memory = 1\n") as server:
        for number in range(30):
            await server.client.post(f"/streams/account-{number % 2}", content=b"%d" % number)
        got = await server.client.get("/streams/account-1?from_version=4&limit=3")
        assert bodies(got) == ["7", "9", "11"]
        assert bodies(await server.client.get("/categories/account?after=28")) == ["28", "29"]


async def test_an_event_that_is_not_on_disk_holds_up_no_others(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with web(tmp_path, files=disk) as server:
        client = server.client
        await client.post(STREAM, content=b"1")
        disk.go.clear()
        try:
            posting = asyncio.ensure_future(client.post(STREAM, content=b"2"))
            while server.daemon.broker.queues[b"account"].last_number < 2:
                await asyncio.sleep(0)
            assert bodies(await client.get("/categories/account")) == ["1"]
            asking = asyncio.ensure_future(client.get("/categories/account?after=1"))
            for _ in range(50):
                assert (await client.get("/admin/mode")).status_code == 200
            assert not asking.done()
        finally:
            disk.go.set()
        assert (await posting).status_code == 201
        assert bodies(await asking) == ["2"]


async def test_what_is_not_stored_says_which_of_the_reasons_it_is(tmp_path: Path) -> None:
    async with web(tmp_path, "[queues.account]\nmax_items = 1\n") as server:
        post = server.client.post
        assert (await post(f"{STREAM}?id=7", content=b"a")).status_code == 201
        reused = await post(f"{STREAM}?id=7", content=b"b")
        assert reused.status_code == 422
        assert "7" in reused.json()["description"]
        full = await post(STREAM, content=b"c")
        assert (full.status_code, full.json()["description"]) == (503, "queue account is full")
        other = await post(STREAM, content=b"c", headers=at(3))
        assert (other.status_code, other.json()["actual"]) == (412, 1)


@pytest.mark.parametrize(
    ("query", "headers", "body", "status"),
    [
        ("?id=7", {}, b"1", 200),
        ("?id=7", {}, b"2", 422),
        ("", ABSENT, b"1", 412),
        ("", at(4), b"1", 412),
        ("", {"If-Match": "*"}, b"1", 201),
    ],
    ids=["seen", "seen with another body", "not the first", "another version", "stored"],
)
async def test_an_answer_about_an_event_waits_until_that_is_on_disk(
    query: str, headers: dict[str, str], body: bytes, status: int, tmp_path: Path
) -> None:
    disk = HeldDisk()
    async with web(tmp_path, files=disk) as server:
        client = server.client
        disk.go.clear()
        try:
            first = asyncio.ensure_future(client.post(STREAM + "?id=7", content=b"1"))
            while server.daemon.broker.queues.get(b"account") is None:
                await asyncio.sleep(0)
            second = asyncio.ensure_future(
                client.post(STREAM + query, content=body, headers=headers)
            )
            for _ in range(50):
                assert (await client.get("/admin/mode")).status_code == 200
            assert not second.done()
        finally:
            disk.go.set()
        assert (await first).status_code == 201
        assert (await second).status_code == status


async def test_a_category_without_events_is_answered_when_the_server_stops_before_its_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(self: streams._Scan, after: int, most: int) -> streams.CategoryPage:
        self._call.is_leaving = True
        return streams.CategoryPage([], after, True)

    monkeypatch.setattr(streams._Scan, "read", read)
    async with web(tmp_path) as server:
        said = await server.client.get("/categories/account?wait=20s")
        assert (said.status_code, said.json()["events"]) == (200, [])
