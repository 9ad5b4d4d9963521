"""HTTP through a router before three slices: as one server, also when a slice ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from journal.engine import Member
from kestrelpy.fleet import MemberFacts, TakeoverFacts
from kestrelpy.http.slices import door
from tests.support.sliced_web import SLICES, SlicedWeb, SliceHere, sliced_web

QUEUES = ("a", "c", "g")  # one in each slice


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[SlicedWeb]:
    config = "[server]\nallow_delete = true\nallow_shutdown = true\n"
    async with sliced_web(tmp_path, config) as running:
        yield running


def is_waiting(web: SlicedWeb, queue: str) -> bool:
    """True if a client waits for an item of this queue."""
    daemon = web.of(queue).daemon
    assert daemon is not None
    calls = [each.call for each in daemon._http.connected()]
    return any(call is not None and call.is_waiting for call in calls)


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():
        await asyncio.sleep(0.005)


async def test_an_item_goes_to_the_slice_of_its_queue(web: SlicedWeb) -> None:
    for name in QUEUES:
        said = await web.client.post(f"/queues/{name}/items", content=name)
        assert (said.status_code, said.json()) == (201, {"id": 1})
    for name in QUEUES:
        daemon = web.of(name).daemon
        assert daemon is not None
        assert set(daemon.broker.queues) == {name.encode()}
        lease = (await web.client.post(f"/queues/{name}/leases")).json()["leases"][0]
        assert lease["body"] == name
        gone = await web.client.delete(f"/queues/{name}/leases/{lease['token']}")
        assert gone.status_code == 204


async def test_a_large_body_passes_in_both_directions(web: SlicedWeb) -> None:
    body = bytes(range(256)) * (3 << 12)  # 3 MiB

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 50_000):
            yield body[start : start + 50_000]

    for content in (body, pieces()):
        said = await web.client.post("/queues/a/items", content=content)
        assert said.status_code == 201
        taken = await web.client.post(
            "/queues/a/leases", headers={"Accept": "application/octet-stream"}
        )
        assert taken.content == body


async def test_a_body_above_the_limit_is_refused_and_the_next_request_is_answered(
    web: SlicedWeb,
) -> None:
    said = await web.client.post("/queues/a/leases", content=b"x" * (2 << 20))
    assert (said.status_code, said.json()["title"]) == (413, "Request Entity Too Large")
    said = await web.client.post("/v2/queues/a/messages", content=b"x" * (2 << 20))
    assert said.status_code == 400
    assert (await web.client.get("/health")).status_code == 200


async def test_a_connection_to_a_slice_serves_one_request_after_the_other(web: SlicedWeb) -> None:
    for _ in range(5):
        assert (await web.client.get("/admin/queues/a")).status_code == 404
    assert len(web.connects) == 1


async def test_a_waiting_client_gets_the_item_that_another_one_stores(web: SlicedWeb) -> None:
    waiting = asyncio.create_task(web.client.post("/queues/c/leases?wait=20s"))
    await until(lambda: is_waiting(web, "c"))
    await web.client.post("/queues/c/items", content="late")
    assert (await waiting).json()["leases"][0]["body"] == "late"


async def test_a_client_that_hangs_up_waits_no_more_in_the_slice(web: SlicedWeb) -> None:
    peer = await web.raw(
        b"POST /queues/c/leases?wait=20s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    )
    await until(lambda: is_waiting(web, "c"))
    peer.writer.close()
    await until(lambda: not is_waiting(web, "c"))


async def test_a_slice_that_stops_in_a_wait_says_so(web: SlicedWeb) -> None:
    waiting = asyncio.create_task(web.client.post("/queues/c/leases?wait=20s"))
    await until(lambda: is_waiting(web, "c"))
    await web.of("c").stop()
    said = await waiting
    assert said.status_code == 503
    assert said.json()["description"] == "the server stops: ask again later"


async def test_a_request_whose_slice_ends_is_sent_once_and_its_outcome_is_open(
    web: SlicedWeb,
) -> None:
    await web.client.post("/queues/c/items", content="first")
    connects = len(web.connects)
    waiting = asyncio.create_task(web.client.post("/queues/c/leases?wait=20s&limit=1&after=5"))
    assert (await waiting).status_code == 400
    waiting = asyncio.create_task(web.client.post("/queues/g/leases?wait=20s"))
    await until(lambda: is_waiting(web, "g"))
    daemon = web.of("g").daemon
    assert daemon is not None
    daemon._http.abort()  # as a kill does
    said = await waiting
    assert said.status_code == 502
    assert "may have been carried out, or not" in said.json()["description"]
    assert web.connects[connects:].count(web.placement.slice_of(b"g")) == 1


async def test_a_slice_that_is_away_is_named_and_the_others_go_on(web: SlicedWeb) -> None:
    await web.of("c").stop()
    number = web.placement.slice_of(b"c")
    why = f"slice {number} does not serve: ended with code 1"
    said = await web.client.post("/queues/c/items", content="c")
    assert (said.status_code, said.json()["description"]) == (503, why)
    assert (await web.client.post("/queues/a/items", content="a")).status_code == 201
    said = await web.client.get("/health")
    assert (said.status_code, said.json()["status"], said.json()["reason"]) == (503, "failed", why)
    assert said.json()["unserved"] == [number]
    said = await web.client.get("/ready")
    assert (said.status_code, said.json()["why"]) == (503, why)
    assert (await web.client.get("/metrics")).status_code == 503
    await web.of("c").start()
    assert (await web.client.get("/ready")).json() == {"ready": True, "why": None, "warning": None}


async def test_a_member_of_a_fleet_is_ready_while_a_slice_is_away_and_warns_of_it(
    web: SlicedWeb,
) -> None:
    web.is_in_fleet = True
    await web.slices[2].stop()
    warning = "slice 2 does not serve: ended with code 1"
    said = await web.client.get("/ready")
    assert (said.status_code, said.json()) == (
        200, {"ready": True, "why": None, "warning": warning},
    )  # fmt: skip
    assert (await web.client.get("/health")).status_code == 503
    for number in (1, 3):
        await web.slices[number].stop()
    assert (await web.client.get("/ready")).status_code == 503


async def test_what_names_the_slices_that_are_away_waits_for_none_that_is_silent(
    web: SlicedWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web.slices[2].stop()
    silent = await asyncio.start_unix_server(lambda reader, writer: None, web.slices[2].http)
    monkeypatch.setattr(web, "why_away", lambda number: None)
    monkeypatch.setattr(door, "ANSWER_SECONDS", 0.0)
    async with silent:
        said = await web.client.get("/health")
        assert said.status_code == 503
        assert "slice 2 does not serve: it does not answer" in said.text


async def test_the_router_tells_the_fleet_also_while_no_slice_serves(web: SlicedWeb) -> None:
    web.members = [MemberFacts("b", "host-b:1", "up", 7, [1, 2, 3], [], 5)]
    web.takeovers = [TakeoverFacts(2, 3, "a", "b", "silent", 3000, 250, 60_000)]
    for _ in range(2):
        said = (await web.client.get("/admin/fleet")).json()
        assert [each["slice"] for each in said["slices"]] == [1, 2, 3]
        assert said["members"][0] | {"member": "b", "state": "up"} == said["members"][0]
        assert said["takeovers"][0]["took_ms"] == 250
        for each in web.slices.values():
            await each.stop()
    assert [each["why"] for each in said["slices"]] == ["ended with code 1"] * SLICES


async def test_nobody_is_told_of_the_fleet_while_no_slice_can_check_a_login(
    web: SlicedWeb,
) -> None:
    web.needs_login = True
    assert (await web.client.get("/admin/fleet")).status_code == 200
    for each in web.slices.values():
        await each.stop()
    assert (await web.client.get("/admin/fleet")).status_code == 503


async def test_a_slice_refuses_who_may_not_see_the_fleet(web: SlicedWeb) -> None:
    assert (await web.client.get("/admin/fleet?slice=1")).status_code == 400
    said = await web.client.get("/admin/fleet", headers={"Host": "evil.example"})
    assert said.status_code == 421


async def test_metrics_tell_the_slices_and_the_members(web: SlicedWeb) -> None:
    web.members = [
        MemberFacts("b", "host-b:1", "up", 7, [1, 2, 3], [], 5),
        MemberFacts("c", "host-c:1", "gone", 7, [], [], None),
    ]
    lines = (await web.client.get("/metrics")).text.splitlines()
    for line in (
        'kestrelpy_slice_beat_age_seconds{slice="2"} 0.005', "kestrelpy_takeovers_total 0.0",
        'kestrelpy_member_up{member="b",address="host-b:1"} 1.0',
        'kestrelpy_member_up{member="c",address="host-c:1"} 0.0',
        'kestrelpy_member_slices{member="b",address="host-b:1"} 3.0',
    ):
        key, _, value = line.rpartition(" ")
        labels = set(key.partition("{")[2].rstrip("}").split(","))
        name = key.partition("{")[0]
        assert any(
            each.startswith(name) and each.endswith(f" {value}")
            and labels == set(each.rpartition(" ")[0].partition("{")[2].rstrip("}").split(","))
            for each in lines
        ), line  # fmt: skip


async def test_what_any_slice_answers_is_asked_on_this_machine(web: SlicedWeb) -> None:
    web.elsewhere = {1: Member("b", "host-b:1"), 2: Member("b", "host-b:1")}
    assert (await web.client.get("/admin/me")).status_code == 200
    assert web.connects == [3]
    await web.slices[3].stop()
    assert (await web.client.get("/admin/me")).status_code == 200
    assert web.connects == [3, 1]


async def test_a_request_to_a_member_that_has_lost_its_slice_waits_no_more(
    web: SlicedWeb,
) -> None:
    number = web.placement.slice_of(b"a")
    web.elsewhere = {number: Member("b", "host-b:1")}
    asking = asyncio.create_task(web.client.post("/queues/a/leases?wait=20s"))
    await until(lambda: is_waiting(web, "a"))
    web.moved(number, Member("c", "host-c:1"))
    assert (await asking).status_code == 502
    assert web.connects == [number]  # it is sent once


async def test_a_stranger_is_refused_by_the_router_itself(web: SlicedWeb) -> None:
    said = await web.client.get("/health", headers={"Host": "evil.example"})
    assert said.status_code == 421
    said = await web.client.post("/queues/a/items", headers={"Origin": "http://evil.example"})
    assert said.status_code == 403
    assert (await web.client.request("OPTIONS", "/health")).status_code == 405
    assert web.connects == []


async def test_the_slice_knows_the_address_of_the_client_and_believes_no_client(
    web: SlicedWeb,
) -> None:
    waiting = asyncio.create_task(
        web.client.post("/queues/c/leases?wait=20s", headers={"Kestrelpy-Client": "1.2.3.4:5"})
    )
    await until(lambda: is_waiting(web, "c"))
    said = await web.client.get("/admin/connections")
    peers = [each["peer"] for each in said.json()["connections"] if each["is_waiting"]]
    assert len(peers) == 1
    assert peers[0].startswith("127.0.0.1:")
    await web.client.post("/queues/c/items", content="x")
    await waiting


async def test_a_job_is_known_by_one_number_everywhere(web: SlicedWeb) -> None:
    known = []
    for name in QUEUES:
        await web.client.post(f"/queues/{name}/items", content="x")
        said = await web.client.post(f"/admin/queues/{name}/purge", json={"all": True})
        assert said.status_code == 200
        known.append(said.json()["id"])
    assert sorted(known) == [1, 2, 3]
    listed = (await web.client.get("/admin/jobs")).json()["jobs"]
    assert {(each["id"], each["queue"]) for each in listed} == set(zip(known, QUEUES, strict=True))
    for number, name in zip(known, QUEUES, strict=True):
        assert (await web.client.get(f"/admin/jobs/{number}")).json()["queue"] == name
    said = await web.client.get("/admin/jobs/9")
    assert said.json()["description"].startswith("there is no job 9:")


async def test_a_connection_is_closed_by_the_number_of_the_list(web: SlicedWeb) -> None:
    clients = {name: await web.of(name).memcache() for name in QUEUES}
    for each in clients.values():
        assert await each.ask(b"client 10.0.0.1:7 -\r\nget x\r\n")
    said = (await web.client.get("/admin/connections?limit=2")).json()
    rows = said["connections"]
    while said["next"]:
        said = (await web.client.get(said["next"])).json()
        rows += said["connections"]
    ids = [each["id"] for each in rows]
    assert ids == sorted(set(ids))
    ours = [each["id"] for each in rows if each["wire"] == "memcache"]
    assert len(ours) == len(clients)
    for each in ours:
        assert (await web.client.delete(f"/admin/connections/{each}")).json() == {"count": 1}
    for client in clients.values():
        while await client.line():
            pass


async def test_a_reload_that_one_slice_or_the_router_refuses_reaches_none(
    web: SlicedWeb,
) -> None:
    config = web.config_file.read_text()
    web.config_file.write_text(config + "[queue_defaults]\nmax_items = 7\n")
    web.refusal = "configuration not reloaded: the router has a reason"
    said = await web.client.post("/admin/reload")
    assert (said.status_code, said.json()["description"]) == (503, web.refusal)
    assert [max_items(each) for each in web.slices.values()] == [None] * SLICES

    web.refusal, last = "", web.slices[SLICES]
    queue = next(name for name in map(str, range(99)) if web.of(name) is last)
    assert (await web.client.post(f"/queues/{queue}/items", content=b"1")).status_code == 201
    web.config_file.write_text(
        config + "[queue_defaults]\nmax_items = 7\n"
        f'[queues.{queue}]\nkey_format = "json"\nkey = ["account"]\n'
    )
    for path in ("/admin/reload?dry_run", "/admin/reload"):
        said = await web.client.post(path)
        assert said.status_code == 503
        assert f"queue {queue}: key settings cannot change" in said.json()["description"]
    assert [max_items(each) for each in web.slices.values()] == [None] * SLICES

    web.config_file.write_text(config + "[queue_defaults]\nmax_items = 7\n")
    said = await web.client.post("/admin/reload?dry_run")
    assert said.json() == {"count": 1, "is_dry_run": True}
    assert [max_items(each) for each in web.slices.values()] == [None] * SLICES
    assert web.reloads == 0
    assert (await web.client.post("/admin/reload")).json() == {"count": 1}
    assert [max_items(each) for each in web.slices.values()] == [7] * SLICES
    assert web.reloads == 1


def max_items(each: SliceHere) -> int | None:
    """The setting of the queue `jobs` in this slice."""
    assert each.daemon is not None
    return each.daemon.policies.of(b"jobs", b"").max_items


async def test_reload_and_mode_reach_every_slice(web: SlicedWeb) -> None:
    assert (await web.client.post("/admin/reload")).json() == {"count": 1}
    assert web.reloads == 1
    assert (await web.client.patch("/admin/mode", json={"mode": "readonly"})).status_code == 200
    for each in web.slices.values():
        assert each.daemon is not None
        assert each.daemon.mode == "readonly"
    assert (await web.client.get("/ready")).json()["why"] == "readonly"


@pytest.mark.parametrize(
    ("path", "body", "status", "ends"),
    [
        ("/admin/drain?dry_run", None, 200, False),
        ("/admin/drain", {"dry_run": True}, 200, False),
        ("/admin/drain?dry_run=true", {"dry_run": True}, 400, False),
        ("/admin/drain?dry_run=maybe", None, 400, False),
        ("/admin/drain?dry_run=false", None, 202, True),
        ("/admin/drain", None, 202, True),
    ],
)
async def test_a_drain_ends_the_router(
    web: SlicedWeb, path: str, body: object, status: int, ends: bool
) -> None:
    said = await (web.client.post(path, json=body) if body else web.client.post(path))
    assert said.status_code == status
    assert bool(web.ended) is ends
    assert all(each.daemon and not each.daemon.is_leaving for each in web.slices.values())


async def test_the_files_of_the_page_need_no_slice(web: SlicedWeb) -> None:
    for each in web.slices.values():
        await each.stop()
    said = await web.client.get("/")
    assert (said.status_code, said.headers["content-type"][:9]) == (200, "text/html")
    again = await web.client.get("/", headers={"If-None-Match": said.headers["etag"]})
    assert again.status_code == 304
    assert (await web.client.get("/page/none.js")).status_code == 404


async def test_a_path_that_is_none_is_answered_as_by_a_server(web: SlicedWeb) -> None:
    assert (await web.client.get("/nothing")).status_code == 404
    said = await web.client.delete("/health")
    assert (said.status_code, said.headers["allow"]) == (405, "GET, HEAD")
    assert (await web.client.head("/health")).status_code == 200
    assert (await web.client.head("/admin/queues")).content == b""
    assert (await web.client.get("/openapi.json")).json()["openapi"]
