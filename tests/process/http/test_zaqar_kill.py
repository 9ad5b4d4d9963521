"""`kill -9` on either side of each answer of the messaging API: every answer stays true.

The daemon is a process of its own: after the kill only its files count.

Promises: http-stored, zaqar-kill.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import kill_under, new_seed, rounds
from tests.support.zaqar import CLIENT, OTHER, bodies

HEADERS = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
PATIENCE_SECONDS = 30.0
BULK = 20


class Gone(OSError):
    """The daemon is gone: nothing is known of the request."""


class Caller:
    """A client of one project, on a connection of its own."""

    def __init__(self, daemon: DaemonProcess, uuid: str = CLIENT) -> None:
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{daemon.http_port}/v2/queues", timeout=PATIENCE_SECONDS,
            headers={**HEADERS, "Client-ID": uuid},
        )  # fmt: skip

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            return self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            raise Gone from error

    def post(self, *bodies: Any) -> list[str]:
        done = self.ask("POST", "/jobs/messages", {"messages": [{"body": b} for b in bodies]})
        assert done.status_code == 201, done.text
        return [href.rpartition("/")[2] for href in done.json()["resources"]]

    def claim(self, limit: int = BULK) -> tuple[str, list[Any]]:
        done = self.ask("POST", f"/jobs/claims?limit={limit}", {"ttl": 600})
        if done.status_code == 204:
            return "", []
        assert done.status_code == 201, done.text
        return done.headers["location"].rpartition("/")[2], done.json()["messages"]

    def everything(self) -> dict[str, Any]:
        """Return the bodies of all messages, by id."""
        found: dict[str, Any] = {}
        where = "/jobs/messages?limit=20&echo=true&include_claimed=true"
        for _ in range(10_000):
            page = self.ask("GET", where).json()
            found |= {each["id"]: each["body"] for each in page["messages"]}
            if not page["links"]:
                return found
            where = page["links"][0]["href"].removeprefix("/v2/queues")
        raise AssertionError("the pages never end")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", http_port="0") as running:
        yield running


def again(daemon: DaemonProcess) -> Caller:
    daemon.kill()
    daemon.start()
    return Caller(daemon)


def test_a_claim_is_held_over_a_kill_and_its_delete_counts(daemon: DaemonProcess) -> None:
    caller = Caller(daemon)
    ids = caller.post(1, 2, 3)
    claim, _ = caller.claim(2)
    caller = again(daemon)
    assert bodies(caller.claim()[1]) == [3], "the claimed ones are still claimed"
    held = caller.ask("GET", f"/jobs/claims/{claim}").json()
    assert (bodies(held["messages"]), held["ttl"]) == ([1, 2], 600)
    assert caller.ask("DELETE", f"/jobs/messages/{ids[0]}").status_code == 403
    where = f"/jobs/messages/{ids[0]}?claim_id={claim}"
    assert caller.ask("DELETE", where).status_code == 204
    caller = again(daemon)
    assert bodies(caller.ask("GET", f"/jobs/claims/{claim}").json()["messages"]) == [2]
    assert caller.ask("DELETE", where).status_code == 204
    assert caller.ask("DELETE", f"/jobs/claims/{claim}").status_code == 204
    caller = again(daemon)
    assert caller.ask("GET", f"/jobs/claims/{claim}").status_code == 404
    assert bodies(caller.claim()[1]) == [2]


def test_metadata_and_their_settings_are_there_after_a_kill(daemon: DaemonProcess) -> None:
    caller = Caller(daemon)
    meta = {"team": "mail", "_max_claim_count": 1, "_dead_letter_queue": "dead"}
    assert caller.ask("PUT", "/jobs", meta).status_code == 201
    caller = again(daemon)
    shown = caller.ask("GET", "/jobs").json()
    assert {key: shown[key] for key in meta} == meta
    caller.post("poison")
    claim, _ = caller.claim()
    caller.ask("DELETE", f"/jobs/claims/{claim}")
    caller = again(daemon)
    done = caller.ask("POST", "/dead/claims?wait=20")
    assert bodies(done.json()["messages"]) == ["poison"]
    assert caller.ask("PUT", "/jobs", {"team": "post"}).status_code == 204
    caller = again(daemon)
    shown = caller.ask("GET", "/jobs").json()
    assert (shown["team"], shown["_max_claim_count"]) == ("post", None)


def test_a_client_s_own_messages_are_hidden_from_it_after_a_kill(daemon: DaemonProcess) -> None:
    Caller(daemon).post("mine")
    Caller(daemon, OTHER).post("theirs")
    caller = again(daemon)
    assert bodies(caller.ask("GET", "/jobs/messages").json()["messages"]) == ["theirs"]


@pytest.mark.slow
def test_messages_are_there_or_gone_as_was_answered_whatever_kill_comes(
    daemon: DaemonProcess,
) -> None:
    """Producers post, workers claim and delete in bulk, and `kill -9` comes at any moment."""
    chance = random.Random(new_seed())
    there: dict[str, Any] = {}  # posted, and not asked to be deleted
    gone: set[str] = set()  # deleted, and that was answered
    doubted: set[str] = set()  # asked to be deleted without an answer
    number = 0

    def produce() -> None:
        nonlocal number
        caller = Caller(daemon)
        for _ in range(10_000):
            some = list(range(number, number + BULK))
            number += BULK
            there.update(zip(caller.post(*some), some, strict=True))

    def work() -> None:
        caller = Caller(daemon, OTHER)
        for _ in range(10_000):
            claim, messages = caller.claim(chance.randrange(1, BULK + 1))
            ids = [each["id"] for each in messages]
            assert not gone & set(ids), "a deleted message came back"
            doubted.update(ids)
            if ids:
                where = f"/jobs/messages?ids={','.join(ids)}&claim_ids={claim}"
                assert caller.ask("DELETE", where).status_code == 204
                gone.update(ids)
                doubted.difference_update(ids)

    seen_doubt = 0
    for _ in rounds(4, lambda: bool(gone)):
        kill_under(daemon, [produce, work, work], chance.uniform(0.2, 1.0))
        seen_doubt += len(doubted)
        daemon.start()
        found = Caller(daemon).everything()
        assert not gone & found.keys(), "what was deleted is gone"
        missing = there.keys() - gone - doubted - found.keys()
        assert not missing, "what was posted is there"
        assert all(there[id_] == found[id_] for id_ in found.keys() & there.keys())
