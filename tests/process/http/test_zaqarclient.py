"""An unmodified python-zaqarclient lives its whole life with a real daemon.

The client opens a connection for each call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zaqarclient.queues import client as zaqar
from zaqarclient.queues.v2.message import Message
from zaqarclient.transport import errors

from tests.support.daemon import DaemonProcess

ONE, OTHER = "0" * 31 + "1", "0" * 31 + "2"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", http_port="0") as running:
        yield running


def client(daemon: DaemonProcess, uuid: str = ONE, project: str = "acme") -> Any:
    conf = {
        "auth_opts": {"backend": "noauth", "options": {"os_project_id": project}},
        "client_uuid": uuid,
    }  # fmt: skip
    return zaqar.Client(f"http://127.0.0.1:{daemon.http_port}", 2, conf)


def bodies(messages: Any) -> list[Any]:
    return [each.body for each in messages]


def test_messages_are_posted_listed_claimed_and_deleted(daemon: DaemonProcess) -> None:
    worker = client(daemon)
    queue = worker.queue("jobs")
    assert not queue.exists()
    posted = queue.post([{"body": {"n": n}, "ttl": 300} for n in range(12)])
    assert len(posted["resources"]) == 12
    assert queue.exists()

    assert bodies(queue.messages(echo=True)) == [{"n": n} for n in range(10)]
    assert bodies(queue.messages(echo=True).stream()) == [{"n": n} for n in range(12)]
    assert bodies(queue.messages()) == [], "its own are hidden from it"
    assert len(bodies(client(daemon, OTHER).queue("jobs").messages(limit=20))) == 12

    claim = queue.claim(ttl=600, grace=100, limit=5)
    claimed = list(claim)
    assert bodies(claimed) == [{"n": n} for n in range(5)]
    assert [each.claim_id for each in claimed] == [claim.id] * 5
    assert [each.claim_count for each in claimed] == [1] * 5
    claimed[0].delete()
    with pytest.raises(errors.ForbiddenError):
        Message(queue, 60, 0, 0, href=claimed[1].href.partition("?")[0]).delete()

    claim.update(ttl=900)
    again = queue.claim(id=claim.id)
    assert (again.ttl, again.age, len(list(again))) == (900, 0, 4)
    claim.delete()
    with pytest.raises(errors.ResourceNotFound):
        queue.claim(id=claim.id).age  # noqa: B018
    default = queue.claim()
    assert bodies(default) == [{"n": n} for n in range(1, 11)]
    assert bodies(queue.claim()) == [{"n": 11}]
    assert list(queue.claim()) == []


def test_messages_are_found_by_id_deleted_and_popped(daemon: DaemonProcess) -> None:
    queue = client(daemon).queue("jobs")
    hrefs = queue.post([{"body": n} for n in range(6)])["resources"]
    ids = [href.rpartition("/")[2] for href in hrefs]
    one = queue.message(ids[0])
    assert (one.body, one.ttl, one.claim_count, one.id) == (0, 3600, 0, ids[0])
    assert bodies(queue.messages(*ids[:3])) == [0, 1, 2]
    queue.delete_messages(*ids[:2])
    with pytest.raises(errors.ResourceNotFound):
        queue.message(ids[0])
    assert bodies(queue.pop(count=2)) == [2, 3]
    assert queue.stats["messages"]["total"] == 2
    queue.purge()
    assert queue.stats["messages"] == {"claimed": 0, "free": 0, "total": 0}


def test_metadata_are_read_and_patched(daemon: DaemonProcess) -> None:
    queue = client(daemon).queue("jobs", force_create=True)
    queue.metadata({"team": "mail", "_max_claim_count": 2})
    assert queue.metadata(force_reload=True)["team"] == "mail"
    changed = queue.metadata({"team": "post"})
    assert (changed["team"], changed["_max_claim_count"]) == ("post", None)
    assert "team" not in queue.metadata({})


def test_queues_are_listed_and_deleted(daemon: DaemonProcess) -> None:
    owner = client(daemon)
    assert list(owner.queues()[0].stream()) == []
    for name in ("b", "a", "c"):
        owner.queue(name, force_create=True)
    listed, count = owner.queues(with_count=True)
    assert ([each.name for each in listed], count) == (["a", "b", "c"], 3)
    assert list(client(daemon, project="another").queues()[0]) == []
    owner.queue("b").delete()
    assert [each.name for each in owner.queues(limit=1)[0].stream()] == ["a", "c"]


def test_home_ping_and_health_answer(daemon: DaemonProcess) -> None:
    any_client = client(daemon)
    assert any_client.ping()
    assert any_client.health()["catalog_reachable"]
    assert "rel/queues" in any_client.homedoc()["resources"]


def test_what_the_server_has_not_is_an_error_to_it(daemon: DaemonProcess) -> None:
    queue = client(daemon).queue("jobs", force_create=True)
    with pytest.raises(errors.ResourceNotFound):
        queue.signed_url()
    with pytest.raises(errors.ResourceNotFound):
        list(queue.subscriptions())
    with pytest.raises(errors.ResourceNotFound):
        list(client(daemon).pools())
    with pytest.raises(errors.MalformedRequest):
        queue.post([{"body": "x" * 300_000}])


def test_a_claim_lasts_over_a_kill(daemon: DaemonProcess) -> None:
    queue = client(daemon).queue("jobs", force_create=True)
    queue.metadata({"team": "mail"})
    queue.post([{"body": n, "ttl": 60} for n in range(3)])
    claim = queue.claim(ttl=600, grace=60)
    first = next(iter(claim))
    first.delete()
    daemon.kill()
    daemon.start()
    queue = client(daemon).queue("jobs")
    assert queue.metadata()["team"] == "mail"
    again = queue.claim(id=claim.id)
    held = list(again)
    assert (bodies(held), again.ttl) == ([1, 2], 600)
    assert [each.ttl for each in held] == [660, 660]
    assert list(queue.claim()) == []
    held[0].delete()
    claim.delete()
    assert bodies(queue.claim()) == [2]
    assert bodies(queue.messages(include_claimed=True)) == [], "the client is remembered"
    assert bodies(client(daemon, OTHER).queue("jobs").messages(include_claimed=True)) == [2]
    assert daemon.stop() == 0
