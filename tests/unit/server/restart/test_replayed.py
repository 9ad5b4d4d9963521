"""One read of a folder: the facts that its replay finds."""

from __future__ import annotations

import pytest

from journal.errors import JournalError
from journal.format import TOKENS_SKIPPED, segment_name
from kestrelpy.server.restart.replayed import Replayed
from tests.support.server_harness import ServerHarness


def replayed(stage: ServerHarness, name: str) -> Replayed:
    """The replay of the one folder of this queue, by another broker's fresh queue."""
    (folder,) = [each for each in stage.disk.names("data") if each.startswith(f"{name}.")]
    generation = int(folder.rpartition(".")[2])
    queue = ServerHarness().broker.fresh(name.encode(), generation, 0)
    return Replayed(stage.disk, f"data/{folder}", queue)


def test_a_queue_is_filled_and_nothing_on_the_disk_changes() -> None:
    stage = ServerHarness()
    stage.store(b"a", b"b")
    stage.kill()
    before = {name: stage.disk.names(f"data/{name}") for name in stage.disk.names("data")}
    found = replayed(stage, "jobs")
    assert (found.error, found.was_written(), found.is_needed()) == (None, True, False)
    assert found.queue.total_items == 2
    assert before == {name: stage.disk.names(f"data/{name}") for name in stage.disk.names("data")}


def test_a_folder_without_a_record_was_not_written() -> None:
    stage = ServerHarness()
    stage.disk.make_folder("data/jobs.5")
    found = replayed(stage, "jobs")
    assert (found.error, found.was_written(), found.is_needed()) == (None, False, False)


def test_a_queue_with_items_of_children_is_needed() -> None:
    stage = ServerHarness()
    stage.say("a", b"get jobs+audit")
    stage.store(b"a")
    stage.kill()
    assert replayed(stage, "jobs").is_needed()


def test_a_queue_with_children_without_items_is_needed_for_damage_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = ServerHarness()
    stage.say("a", b"get jobs+audit")
    stage.store(b"a")
    stage.say("a", b"get jobs+audit")
    stage.kill()
    whole = replayed(stage, "jobs")
    assert whole.queue.children
    assert not whole.is_needed()
    monkeypatch.setattr(whole, "damages", lambda: ["lost"])
    assert whole.is_needed()
    whole.queue.children.clear()
    assert not whole.is_needed()


def test_an_error_of_the_replay_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = ServerHarness()
    stage.store(b"a")
    stage.kill()
    whole = replayed(stage, "jobs")
    whole.raise_error()

    def fail(*_: object) -> None:
        raise JournalError("it cannot be read")

    monkeypatch.setattr("kestrelpy.core.Replay.run", fail)
    found = replayed(stage, "jobs")
    with pytest.raises(JournalError, match=r"data/jobs\.\d+: it cannot be read"):
        found.raise_error()


def test_tokens_that_damaged_bytes_may_have_reserved_are_skipped() -> None:
    stage = ServerHarness()
    stage.store(b"lost")
    stage.store(b"b")
    stage.kill()
    assert replayed(stage, "jobs").tokens_below() == 1
    (folder,) = [each for each in stage.disk.names("data") if each.startswith("jobs.")]
    path = f"data/{folder}/{segment_name(1)}"
    stage.disk.damage(path, stage.disk.read(path).index(b"lost"), b"LOST")
    found = replayed(stage, "jobs")
    assert [each.path for each in found.damages()] == [path]
    assert found.tokens_below() == 1 + TOKENS_SKIPPED
