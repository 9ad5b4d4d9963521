"""A claim is its tokens: it ends and renews its own leases, survives, and waits in line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from journal.store import Put
from kestrelpy.core import ABORTED, Lease
from kestrelpy.http.call import Call, Gone
from kestrelpy.operations import LeaseEnd, Rests
from kestrelpy.operations.claiming import Claiming
from tests.support.http_client import Web, web
from tests.support.zaqar import Api, bodies
from tests.unit.http.test_items_and_leases import waiting

DISK = "[queue_defaults]\nmax_memory = 1\n"


async def test_a_claim_takes_the_oldest_and_a_second_one_what_is_left(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", *range(25))
        first, claimed = await api.claim("jobs", "limit=20")
        assert bodies(claimed) == list(range(20))
        assert first.endswith("-20")
        assert {each["href"].rpartition("?claim_id=")[2] for each in claimed} == {first}
        second, rest = await api.claim("jobs", "limit=20")
        assert bodies(rest) == list(range(20, 25))
        assert second.endswith("-5")
        assert await api.claim("jobs") == ("", [])


async def test_a_released_message_is_the_oldest_again_and_its_claim_counts(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", 1, 2, 3)
        claim, _ = await api.claim("jobs", "limit=2")
        await api.ask("PATCH", f"/jobs/claims/{claim}", {"ttl": 600})
        assert (await api.ask("DELETE", f"/jobs/claims/{claim}")).status_code == 204
        assert (await api.ask("GET", f"/jobs/claims/{claim}")).status_code == 404
        _, again = await api.claim("jobs", "limit=3")
        assert bodies(again) == [1, 2, 3]
        assert [each["claim_count"] for each in again] == [2, 2, 1]


async def test_a_late_worker_never_ends_the_work_of_another(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        (id_,) = await api.post("jobs", 1)
        late, _ = await api.claim("jobs")
        await api.ask("DELETE", f"/jobs/claims/{late}")
        where = f"/jobs/messages/{id_}?claim_id={late}"
        assert (await api.ask("DELETE", where)).status_code == 400
        held, _ = await api.claim("jobs")
        assert (await api.ask("DELETE", where)).status_code == 403
        await api.ask("DELETE", f"/jobs/messages?ids={id_}&claim_ids={late}")
        await api.ask("DELETE", f"/jobs/messages?ids={id_}")
        await api.ask("DELETE", f"/jobs/claims/{late}")
        await api.ask("PATCH", f"/jobs/claims/{late}", {"ttl": 60})
        shown = (await api.ask("GET", f"/jobs/claims/{held}")).json()
        assert (bodies(shown["messages"]), shown["ttl"]) == ([1], 300)


async def test_a_claim_lasts_while_one_of_its_messages_does(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        ids = await api.post("jobs", 1, 2)
        claim, _ = await api.claim("jobs")
        for at, id_ in enumerate(ids):
            assert (await api.ask("GET", f"/jobs/claims/{claim}")).status_code == 200
            for _ in range(2 - at):  # a repeated delete is no mistake
                where = f"/jobs/messages/{id_}?claim_id={claim}"
                assert (await api.ask("DELETE", where)).status_code == 204
        assert (await api.ask("GET", f"/jobs/claims/{claim}")).status_code == 404


async def test_a_claimed_message_lasts_for_the_grace_after_its_claim(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        for ttl, grace, life in ((777, 60, 837), (121, 62, 183), (60, 90, 120)):
            await api.post("jobs", 1, ttl=120)
            _, (message,) = await api.claim("jobs", ttl=ttl, grace=grace)
            assert message["ttl"] == life
        claim, _ = await api.claim("jobs")
        assert claim == ""


async def test_a_renewal_lets_a_message_live_longer(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        (id_,) = await api.post("jobs", 1, ttl=120)
        claim, _ = await api.claim("jobs", ttl=60, grace=60)
        await api.ask("PATCH", f"/jobs/claims/{claim}", {"ttl": 600, "grace": 100})
        assert (await api.ask("GET", f"/jobs/messages/{id_}")).json()["ttl"] == 700
        await api.ask("DELETE", f"/jobs/claims/{claim}")
        assert (await api.ask("GET", f"/jobs/messages/{id_}")).json()["ttl"] == 700


async def test_messages_that_are_only_on_disk_are_claimed_and_shown(tmp_path: Path) -> None:
    async with web(tmp_path, DISK) as server:
        api = Api(server.client)
        await api.post("jobs", *range(40))
        claim, claimed = await api.claim("jobs", "limit=20", ttl=600)
        assert bodies(claimed) == list(range(20))
        shown = (await api.ask("GET", f"/jobs/claims/{claim}")).json()
        assert bodies(shown["messages"]) == list(range(20))
        assert await api.listed("jobs", "echo=true&limit=20") == list(range(20, 40))


@pytest.mark.parametrize("how", ["abort", "close", "bury"])
@pytest.mark.parametrize("gone", [1, 3])
async def test_what_goes_while_a_claim_is_read_is_not_shown_with_it(
    gone: int, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path, DISK) as server:
        api = Api(server.client)
        await api.post("jobs", 1, 2, 3)
        claim, _ = await api.claim("jobs", "limit=3")
        first = int(claim.partition("-")[0])
        queue, real = server.daemon.broker.queues[b"acme:jobs"], Claiming.puts
        ends: dict[str, Callable[[Lease, int], Rests]] = {
            "abort": lambda lease, now_ms: LeaseEnd.give_back(queue, lease, now_ms, ABORTED),
            "close": lambda lease, now_ms: LeaseEnd.confirm(queue, lease, now_ms),
            "bury": lambda lease, now_ms: LeaseEnd.bury(queue, lease, b"why", now_ms),
        }

        def puts(
            claiming: Claiming, reader: Any, now_ms: int
        ) -> Generator[bytes, None, list[Put]]:
            found = yield from real(claiming, reader, now_ms)
            for token in range(first, first + gone):
                lease = LeaseEnd.named(queue, token, now_ms)
                assert lease is not None
                ends[how](lease, now_ms)
            return found

        monkeypatch.setattr(Claiming, "puts", puts)
        shown = await api.ask("GET", f"/jobs/claims/{claim}")

        if gone == 3:
            assert shown.status_code == 404
        else:
            assert bodies(shown.json()["messages"]) == [2, 3]


async def started(server: Web, api: Api, count: int, query: str) -> asyncio.Task[Any]:
    """A claim that waits; `count` clients wait then."""
    task: asyncio.Task[Any] = asyncio.ensure_future(api.claim("jobs", query))
    await waiting(await server.memcache(), count, b"acme:jobs")
    return task


async def test_two_claims_that_wait_are_served_before_a_third(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        (first,) = await api.post("jobs", 0)
        await api.ask("DELETE", f"/jobs/messages/{first}")
        waits = [await started(server, api, n + 1, "wait=20&limit=1") for n in range(2)]
        third: asyncio.Task[Any] = asyncio.ensure_future(api.claim("jobs", "wait=20&limit=5"))
        await api.post("jobs", 1, 2, 3)
        found = [(await each)[1] for each in (*waits, third)]
        assert [bodies(each) for each in found] == [[1], [2], [3]]


async def test_a_claim_that_waits_and_hangs_up_takes_nothing(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        (first,) = await api.post("jobs", 0)
        await api.ask("DELETE", f"/jobs/messages/{first}")
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in api.headers.items())
        writer.write(
            f"POST /v2/queues/jobs/claims?wait=60 HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"
            .encode()
        )  # fmt: skip
        peer = await server.memcache()
        await waiting(peer, 1, b"acme:jobs")
        writer.close()
        await waiting(peer, 0, b"acme:jobs")
        await api.post("jobs", 1)
        _, (message,) = await api.claim("jobs")
        assert (message["body"], message["claim_count"]) == (1, 1)


async def test_a_claim_whose_client_is_gone_before_the_answer_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        api, real = Api(server.client), Call.until
        await api.post("jobs", 1, 2)

        async def gone(call: Call, *rests: Rests) -> None:
            await real(call, *rests)
            raise Gone

        for method, path in (("POST", "/jobs/claims"), ("DELETE", "/jobs/messages?pop=2")):
            monkeypatch.setattr(Call, "until", gone)
            await api.ask(method, path)
            monkeypatch.setattr(Call, "until", real)
            assert await api.listed("jobs") == [1, 2]
        _, claimed = await api.claim("jobs")
        assert [each["claim_count"] for each in claimed] == [1, 1]


async def test_after_its_last_claim_a_message_is_in_the_dead_letter_queue(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.ask("PUT", "/jobs", {
            "_max_claim_count": 2, "_dead_letter_queue": "dead",
            "_dead_letter_queue_messages_ttl": 500,
        })  # fmt: skip
        await api.post("jobs", "poison", ttl=100)
        for _ in range(2):
            claim, _ = await api.claim("jobs", ttl=60, grace=60)
            await api.ask("PATCH", f"/jobs/claims/{claim}", {"ttl": 60})
            await api.ask("DELETE", f"/jobs/claims/{claim}")
        assert await api.claim("jobs") == ("", [])
        _, (dead,) = await api.claim("dead", "wait=20")
        assert (dead["body"], dead["ttl"], dead["claim_count"]) == ("poison", 500, 1)
        assert await api.listed("dead", "include_claimed=true") == [], "it is still its own"
        assert (await api.ask("GET", "/jobs/stats")).json()["messages"]["total"] == 0


async def test_parallel_producers_and_workers_do_each_message_once(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api, done = Api(server.client), list[int]()

        async def produce(first: int) -> None:
            for n in range(first, first + 100, 20):
                await api.post("jobs", *range(n, n + 20))

        async def work() -> None:
            for _ in range(200):
                claim, claimed = await api.claim("jobs", "limit=7&wait=1")
                if not claimed:
                    return
                for each in claimed:
                    where = f"/jobs/messages/{each['id']}?claim_id={claim}"
                    assert (await api.ask("DELETE", where)).status_code == 204
                    done.append(each["body"])

        await asyncio.gather(*(produce(n * 100) for n in range(4)), *(work() for _ in range(4)))
        assert sorted(done) == list(range(400))


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
@pytest.mark.parametrize("queue", ["jobs", "none"])
async def test_a_claim_that_never_was_is_named(queue: str, verb: str, tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", 1)
        for claim in ("77-1", "what"):
            said = await api.ask(verb, f"/{queue}/claims/{claim}", {} if verb == "PATCH" else None)
            assert said.status_code == 404
            assert f"claim {claim} is over, or never was" in said.text
