"""The items of a queue by its log alone, from a folder that the queue itself wrote."""

from __future__ import annotations

from pathlib import Path

from journal.files import Disk
from kestrelpy.core.queue.admin import Admin
from kestrelpy.spark.files.plan_items import plan_items, state_of
from kestrelpy.spark.files.queue_state import DEAD, DELAYED, LEASED, READY, STATES
from tests.support.transfer_harness import TransferHarness
from tests.unit.spark.jobs.stories import Story, spill


def states(story: Story, folder: Path) -> dict[int, str]:
    """Return the state of every item that a read of this queue's folder shows."""
    saved = story.save(folder)
    history = plan_items([str(saved)], Disk())
    assert history.problems == []
    (journal,) = history.journals
    assert journal.state is not None
    found: dict[int, str] = {}
    own = journal.state.own
    for item in own.items:
        code = (
            LEASED if item in own.leased else DEAD if item in own.dead
            else DELAYED if item in own.delayed else READY
        )  # fmt: skip
        found[item] = STATES[code]
    return found


def test_an_item_leased_by_token_is_leased_until_it_is_confirmed(tmp_path: Path) -> None:
    story = Story()
    story.put(b"one", b"two")
    lease = story.open(lease_ms=60_000)
    story.life.commit()
    assert states(story, tmp_path / "a") == {1: "lent", 2: "ready"}
    story.do_maintenance()
    assert states(story, tmp_path / "b") == {1: "lent", 2: "ready"}
    story.confirm(lease)
    story.do_maintenance()
    assert states(story, tmp_path / "c") == {2: "ready"}


def test_a_cancelled_item_is_gone_and_a_pause_changes_no_item(tmp_path: Path) -> None:
    story = Story()
    story.put(b"one", b"two")
    Admin(story.life.jobs).cancel(1, 3, story.life.now_ms)
    Admin(story.life.jobs).pause(True, story.life.now_ms)
    story.do_maintenance()
    assert states(story, tmp_path) == {2: "ready"}


def test_of_a_deleted_queue_whose_child_has_items_nothing_is_there(tmp_path: Path) -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1)
    for body in (b"1", b"2", b"3"):
        town.put("jobs", body)
    town.say("client", b"get jobs+audit/peek")
    town.put("jobs", b"4")
    town.fail("jobs")
    town.take("jobs", options="/lease=60s")
    town.say("client", b"set jobs/delay=60s 0 0 1", b"5")
    (journal,) = plan_items([str(spill(town.disk.kill_clone(), tmp_path / "before"))]).journals
    assert journal.state is not None
    assert journal.state.own.items.count == 5
    assert town.say("client", b"delete jobs") == b"DELETED\r\n"
    (journal,) = plan_items([str(spill(town.disk.kill_clone(), tmp_path / "after"))]).journals
    assert journal.state is not None
    assert journal.splits == [], "no split has anything of it"
    own = journal.state.own
    assert not (own.items or own.dead or own.leased or own.delayed)


def test_the_state_of_a_folder_is_read_without_its_daemon(tmp_path: Path) -> None:
    story = Story(max_attempts=1)
    story.put(b"one", b"two", b"three")
    story.open()
    story.give_back()
    saved = story.save(tmp_path)
    (folder,) = [path for path in saved.iterdir() if path.is_dir()]
    own = state_of(Disk(), str(folder)).own
    assert (len(own.items), list(own.dead)) == (3, [1])
