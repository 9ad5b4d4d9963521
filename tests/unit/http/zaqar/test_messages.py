"""Messages are listed by marker, hidden from their own producer, and removed unless claimed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.core import AnyQueue
from kestrelpy.http.zaqar import messages
from kestrelpy.operations import LeaseEnd, LogReader, QueueAdmin
from kestrelpy.server.clock import now_ms
from tests.support.disks import HeldDisk
from tests.support.http_client import Web, web
from tests.support.running import Peer
from tests.support.zaqar import OTHER, Api, bodies
from tests.unit.http.test_items_and_leases import waiting


async def pages(api: Api, queue: str, query: str, most: int = 20) -> list[list[Any]]:
    """The bodies of each page, until there is no next link."""
    found, where = list[list[Any]](), f"/v2/queues/{queue}/messages?{query}"
    for _ in range(most):
        page = (await api.ask("GET", where)).json()
        found.append(bodies(page["messages"]))
        if not page["links"]:
            return found
        (link,) = page["links"]
        assert link["rel"] == "next"
        where = link["href"]
    raise AssertionError(found)


async def test_an_observer_sees_each_message_once_in_sequence(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", *range(25))
        assert await pages(api, "jobs", "echo=true&limit=10") == [
            list(range(10)), list(range(10, 20)), list(range(20, 25)), [],
        ]  # fmt: skip


async def test_markers_go_on_after_a_purge_and_begin_anew_in_a_new_queue(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        (id_,) = await api.post("jobs", 1)
        page = (await api.ask("GET", "/jobs/messages?echo=true")).json()
        following = page["links"][0]["href"]
        await api.ask("POST", "/jobs/purge")
        await api.post("jobs", 2)
        assert bodies((await api.ask("GET", following)).json()["messages"]) == [2]
        await api.ask("DELETE", "/jobs")
        await api.post("jobs", 3)
        assert bodies((await api.ask("GET", following)).json()["messages"]) == [3]
        assert (await api.ask("GET", f"/jobs/messages/{id_}")).status_code == 404
        assert (await api.ask("DELETE", f"/jobs/messages/{id_}")).status_code == 204
        assert await api.listed("jobs") == [3]
        later = await api.ask("GET", "/jobs/messages?echo=true&marker=9999999999-0")
        assert (later.status_code, later.json()["description"]) == (
            400, 'marker is "9999999999-0": it is of another queue'
        )  # fmt: skip


async def test_a_message_is_shown_once_it_is_on_disk(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with web(tmp_path, files=disk) as server:
        api = Api(server.client)
        (first,) = await api.post("jobs", 1)
        second = f"{first.partition('-')[0]}-2"
        disk.go.clear()
        try:
            posting = asyncio.ensure_future(api.post("jobs", 2))
            while server.daemon.broker.queues[b"acme:jobs"].last_number < 2:
                await asyncio.sleep(0)
            asking = asyncio.ensure_future(api.ask("GET", f"/jobs/messages/{second}"))
            for _ in range(50):
                assert await api.listed("jobs") == [1]
            assert not asking.done()
        finally:
            disk.go.set()
        assert await posting == [second]
        assert (await asking).json()["body"] == 2
        assert await api.listed("jobs") == [1, 2]


async def test_claimed_messages_are_listed_only_where_asked(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", 1, 2)
        await api.claim("jobs", "limit=1")
        assert await api.listed("jobs") == [2]
        assert await api.listed("jobs", "echo=True&include_claimed=True") == [1, 2]


async def test_delayed_messages_are_listed_only_where_asked_and_once(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", "later", "later still", delay=600)
        await api.post("jobs", "now")
        assert await api.listed("jobs") == ["now"]
        assert await pages(api, "jobs", "echo=true&include_delayed=true&limit=2") == [
            ["now", "later"], ["later still"], [],
        ]  # fmt: skip
        _, claimed = await api.claim("jobs")
        assert bodies(claimed) == ["now"]


async def test_a_queue_s_defaults_hold_for_messages_that_say_nothing(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        meta = {"_default_message_ttl": 700, "_default_message_delay": 600}
        await api.ask("PUT", "/jobs", {**meta, "_max_messages_post_size": 200})
        later, now = await api.post("jobs", 1), await api.post("jobs", 2, ttl=80, delay=0)
        assert (await api.ask("GET", f"/jobs/messages/{now[0]}")).json()["ttl"] == 80
        assert (await api.ask("GET", f"/jobs/messages/{later[0]}")).status_code == 200
        assert await api.listed("jobs") == [2]
        long = {"messages": [{"body": "x" * 200}]}
        assert (await api.ask("POST", "/jobs/messages", long)).status_code == 400


async def test_ten_thousand_own_messages_make_an_empty_page_with_a_link(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api, other = Api(server.client), Api(server.client, uuid=OTHER)
        for first in range(0, 10_000, 5000):
            await api.post("jobs", *range(first, first + 5000))
        await other.post("jobs", "theirs")
        assert await pages(api, "jobs", "limit=20") == [[], ["theirs"], []]
        assert (await other.listed("jobs", ""))[:2] == [0, 1]
        assert await api.listed("jobs", "echo=true&limit=2") == [0, 1]


async def test_its_own_messages_are_hidden_from_a_listing_alone(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        (id_,) = await api.post("jobs", 1)
        assert await api.listed("jobs", "") == []
        assert (await api.ask("GET", f"/jobs/messages/{id_}")).json()["body"] == 1
        _, claimed = await api.claim("jobs")
        assert bodies(claimed) == [1]


async def test_a_listing_waits_for_what_it_may_show(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api, other = Api(server.client), Api(server.client, uuid=OTHER)
        await api.ask("PUT", "/jobs")
        waits = asyncio.ensure_future(api.listed("jobs", "wait=20"))
        peer = await server.memcache()
        await waiting(peer, 1, b"acme:jobs")
        await api.post("jobs", "own")
        await waiting(peer, 1, b"acme:jobs")
        await other.post("jobs", "theirs")
        assert await waits == ["theirs"]


async def test_a_listing_that_waits_and_hangs_up_leaves_nobody_waiting(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.ask("PUT", "/jobs")
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in api.headers.items())
        path = "/v2/queues/jobs/messages?wait=60"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        peer = await server.memcache()
        await waiting(peer, 1, b"acme:jobs")
        writer.close()
        await waiting(peer, 0, b"acme:jobs")


async def test_a_delayed_message_has_its_marker_when_it_is_due(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", "later", delay=1)
        await api.post("jobs", "now")
        page = (await api.ask("GET", "/jobs/messages?echo=true&wait=20")).json()
        assert bodies(page["messages"]) == ["now"]
        following = (await api.ask("GET", page["links"][0]["href"])).json()
        assert bodies(following["messages"]) == ["later"]


async def test_a_wait_for_a_queue_that_is_not_there_ends_with_its_first_message(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        waits = [
            asyncio.ensure_future(api.listed("jobs", "echo=true&wait=20")) for _ in range(2)
        ]
        await asyncio.sleep(0.1)
        await api.post("jobs", 1)
        assert [await each for each in waits] == [[1], [1]]
        assert await api.listed("other", "wait=1") == []


async def test_bulk_delete_leaves_what_another_client_holds(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        ids = await api.post("jobs", *range(6))
        mine, _ = await api.claim("jobs", "limit=2")
        theirs, _ = await api.claim("jobs", "limit=2")
        joined = ",".join(ids)
        await api.ask("DELETE", f"/jobs/messages?ids={joined}&claim_ids={mine}")
        assert await api.listed("jobs", "echo=true&include_claimed=true") == [2, 3, 4, 5]
        await api.ask("DELETE", f"/jobs/messages?ids={joined}")
        assert await api.listed("jobs", "echo=true&include_claimed=true") == [2, 3]
        assert (await api.ask("GET", f"/jobs/claims/{theirs}")).status_code == 200


async def test_a_message_that_is_done_or_dead_is_gone_for_its_claim_as_well(
    tmp_path: Path,
) -> None:
    async with web(tmp_path, "[queue_defaults]\nmax_attempts = 1\n") as server:
        api = Api(server.client)
        done, dead = await api.post("jobs", 1, 2)
        claim, _ = await api.claim("jobs", "limit=2")
        for _ in range(2):
            said = await api.ask("DELETE", f"/jobs/messages/{done}?claim_id={claim}")
            assert said.status_code == 204, said.text
        await api.ask("DELETE", f"/jobs/claims/{claim}")
        deaths = server.daemon.broker.queues[b"acme:jobs"].reader.dead.deaths
        assert len(deaths) == 1
        for path in (f"{dead}?claim_id={claim}", dead):
            said = await api.ask("DELETE", f"/jobs/messages/{path}")
            assert said.status_code == 204, said.text
        assert len(deaths) == 1


async def test_pop_takes_the_oldest_and_they_are_gone(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", 1, 2, 3)
        popped = (await api.ask("DELETE", "/jobs/messages?pop=2")).json()["messages"]
        assert bodies(popped) == [1, 2]
        assert await api.listed("jobs", "echo=true&include_claimed=true") == [3]


async def lines(peer: Peer, command: bytes, count: int) -> list[bytes]:
    """Ask, and read `count` lines."""
    return [await peer.ask(command), *[await peer.line() for _ in range(count - 1)]]


async def test_what_memcache_stores_is_claimed_and_the_reverse(tmp_path: Path) -> None:
    async with web(tmp_path, '[server]\ndefault_project = "acme"\n') as server:
        api, peer = Api(server.client), await server.memcache()
        assert await peer.ask(b"set jobs 0 0 5\r\n\0\xff\r\n!\r\n") == b"STORED\r\n"
        assert await peer.ask(b'set jobs 0 0 9\r\n{"a": 1 }\r\n') == b"STORED\r\n"
        claim, (raw, json) = await api.claim("jobs")
        assert (raw["body"], json["body"]) == ({"base64": "AP8NCiE="}, {"a": 1})
        assert await peer.ask(b"get jobs\r\n") == b"END\r\n"
        await api.ask("DELETE", f"/jobs/claims/{claim}")
        assert await lines(peer, b"get jobs\r\n", 4) == [
            b"VALUE jobs 0 5\r\n", b"\0\xff\r\n", b"!\r\n", b"END\r\n",
        ]  # fmt: skip
        body = b'{"messages":[{"body": {"b" :  "\xc3\xa9"} }]}'
        assert (await api.ask("POST", "/jobs/messages", body)).status_code == 201
        assert await lines(peer, b"get jobs\r\n", 3) == [
            b"VALUE jobs 0 9\r\n", b'{"a": 1 }\r\n', b"END\r\n",
        ]  # fmt: skip
        assert await lines(peer, b"get jobs/open\r\n", 3) == [
            b"VALUE jobs/open 0 13\r\n", b'{"b" :  "\xc3\xa9"}\r\n', b"END\r\n",
        ]  # fmt: skip
        shown = (await api.ask("GET", "/jobs/messages?include_claimed=1&echo=1")).json()
        (held,) = shown["messages"]
        assert (await api.ask("DELETE", f"/jobs/messages/{held['id']}")).status_code == 403


async def test_a_batch_is_checked_as_a_whole_before_its_first_is_stored(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.ask("PUT", "/jobs", {"_key": {"fields": ["/who"]}})
        batch = {"messages": [{"body": {"who": 1}}, {"body": {}}]}
        assert (await api.ask("POST", "/jobs/messages", batch)).status_code == 400
        assert await api.listed("jobs") == []
        await api.post("jobs", {"who": 1, "n": 1}, {"who": 1, "n": 2}, {"who": 2, "n": 3})
        _, claimed = await api.claim("jobs")
        assert [each["n"] for each in bodies(claimed)] == [1, 3], "one of a key at a time"


async def test_a_full_queue_is_503_and_says_how_many_are_stored(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.ask("PUT", "/jobs", {"_settings": {"max_items": 2}})
        batch = {"messages": [{"body": n} for n in range(3)]}
        done = await api.ask("POST", "/jobs/messages", batch)
        assert (done.status_code, "2 of 3" in done.text) == (503, True)


@pytest.mark.parametrize("mode", ["readonly", "quiescent"])
async def test_a_long_batch_stops_when_nothing_is_stored_any_more(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_STORED_PER_SLICE", 1)
    async with web(tmp_path) as server:
        api, queues = Api(server.client), server.daemon.broker.queues
        posted = asyncio.ensure_future(
            api.ask("POST", "/jobs/messages", {"messages": [{"body": n} for n in range(200)]})
        )
        while not (queue := queues.get(b"acme:jobs")) or not queue.reader.live:
            await asyncio.sleep(0)
        server.daemon.set_mode(mode)
        stored, answer = len(queue.reader.live), await posted
        assert stored <= len(queue.reader.live) < 200
        assert answer.status_code == 503
        assert f"{mode}: {len(queue.reader.live)} of 200 messages are stored" in answer.text


@pytest.mark.parametrize("has_child", [False, True])
async def test_a_long_batch_stops_when_its_queue_is_made_anew(
    has_child: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_STORED_PER_SLICE", 1)
    async with web(tmp_path) as server:
        api, broker = Api(server.client), server.daemon.broker
        await api.post("jobs", 0)
        if has_child:  # then the queue made anew has the log of the one before
            broker.mention(b"acme:jobs+kid", now_ms())
        posted = asyncio.ensure_future(
            api.ask("POST", "/jobs/messages", {"messages": [{"body": n} for n in range(200)]})
        )
        while len(broker.queues[b"acme:jobs"].reader.live) < 3:
            await asyncio.sleep(0)
        QueueAdmin(broker, server.daemon).delete(b"acme:jobs", now_ms())
        broker.create(b"acme:jobs", now_ms())
        answer = await posted
        assert answer.status_code == 503
        assert "the queue was deleted after 2 of 200 messages" in answer.text
        assert not broker.queues[b"acme:jobs"].reader.live


@pytest.mark.parametrize("slice_", [1, 7])
async def test_a_long_batch_is_stored_in_slices_in_sequence(
    slice_: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_STORED_PER_SLICE", slice_)
    async with web(tmp_path) as server:
        api = Api(server.client)
        await asyncio.gather(*(api.post("jobs", *range(n, n + 15)) for n in (0, 100)))
        found = [n for page in await pages(api, "jobs", "echo=true&limit=20") for n in page]
        for first in (0, 100):
            assert [n for n in found if first <= n < first + 15] == list(range(first, first + 15))


def later(server: Web, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Set the wall clock this many seconds forward, without a tick of the core in between."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + seconds * 1_000_000_000)
    server.daemon.broker.clock.offset_ms += seconds * 1000


async def test_each_way_to_see_a_message_says_how_old_it_is_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        first, _ = await api.post("jobs", 1, 2)
        later(server, monkeypatch, 100)
        seen = {"one": (await api.ask("GET", f"/jobs/messages/{first}")).json()["age"]}
        figures = (await api.ask("GET", "/jobs/stats")).json()["messages"]
        seen |= {each: figures[each]["age"] for each in ("oldest", "newest")}
        for how, query in (("ids", f"ids={first}"), ("list", "echo=true")):
            page = (await api.ask("GET", f"/jobs/messages?{query}")).json()["messages"]
            seen[how] = page[0]["age"]
        claim, (claimed,) = await api.claim("jobs", "limit=1")
        seen["claim"] = claimed["age"]
        shown = (await api.ask("GET", f"/jobs/claims/{claim}")).json()
        seen["claimed"] = shown["messages"][0]["age"]
        fresh = shown["age"]
        (popped,) = (await api.ask("DELETE", "/jobs/messages?pop=1")).json()["messages"]
        seen["pop"] = popped["age"]
        assert {how for how, age in seen.items() if not 100 <= age < 1000} == set()
        assert fresh < 100

        later(server, monkeypatch, 200)
        again = (await api.ask("GET", f"/jobs/claims/{claim}")).json()
        assert 200 <= again["age"] < 1000


async def test_a_message_past_its_life_is_shown_by_no_way_before_it_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        (id_,) = await api.post("jobs", 1, ttl=60)
        ways = [f"/jobs/messages/{id_}", f"/jobs/messages?ids={id_}"]
        assert [(await api.ask("GET", way)).status_code for way in ways] == [200, 200]
        later(server, monkeypatch, 100)
        assert [(await api.ask("GET", way)).status_code for way in ways] == [404, 404]
        assert await api.listed("jobs") == []
        assert server.daemon.broker.queues[b"acme:jobs"].reader.live.count == 1


@pytest.mark.parametrize("during", [1, 3])
@pytest.mark.parametrize("change", ["done", "deleted", "made again"])
async def test_what_goes_while_messages_are_read_is_not_shown(
    change: str, during: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what was read before: the first message goes during its own read, or the last one."""
    async with web(tmp_path, "[queue_defaults]\nmax_memory = 1\n") as server:
        api, real, reads = Api(server.client), LogReader.find, list[int]()
        if change == "made again":  # with a child the queue goes on in its log
            await server.client.post("/queues/acme:jobs+kid/leases")
        ids = await api.post("jobs", 1, 2, 3)
        await api.claim("jobs", "limit=1")
        broker, now_ms = server.daemon.broker, server.daemon.now_ms
        queue = broker.queues[b"acme:jobs"]

        def find(reader: LogReader, queue: AnyQueue, id_: int) -> Generator[bytes, None, Any]:
            found = yield from real(reader, queue, id_)
            reads.append(id_)
            if len(reads) != during:
                return found
            if change == "done":
                (lease,) = queue.reader.leases.all()
                LeaseEnd.confirm(queue, lease, now_ms())
                return found
            broker.delete(b"acme:jobs", now_ms())
            if change == "made again":
                assert broker.create(b"acme:jobs", now_ms()) is queue
            return found

        monkeypatch.setattr(LogReader, "find", find)
        many = await api.ask("GET", f"/jobs/messages?ids={','.join(ids)}")
        if change == "done":
            assert bodies(many.json()["messages"]) == [2, 3]
        else:
            assert many.status_code == 404
        assert queue.deleted is (change == "deleted")


@pytest.mark.parametrize("change", ["done", "deleted"])
async def test_a_message_that_goes_while_it_is_read_is_not_shown(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path, "[queue_defaults]\nmax_memory = 1\n") as server:
        api, real = Api(server.client), LogReader.find
        (id_,) = await api.post("jobs", 1)
        await api.claim("jobs", "limit=1")

        def find(reader: LogReader, queue: AnyQueue, id_: int) -> Generator[bytes, None, Any]:
            found = yield from real(reader, queue, id_)
            (lease,) = queue.reader.leases.all()
            if change == "done":
                LeaseEnd.confirm(queue, lease, server.daemon.now_ms())
            else:
                server.daemon.broker.delete(b"acme:jobs", server.daemon.now_ms())
            return found

        monkeypatch.setattr(LogReader, "find", find)
        assert (await api.ask("GET", f"/jobs/messages/{id_}")).status_code == 404
