"""`archive_to`: whatever was stored and confirmed stays readable, in the archive or in the journal.

Segments are small, items come and go, the journal is tidied up, processes end and come back, the
setting changes by reload.

One rule: an archived file never changes and never goes, whatever the journal does afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from kestrelpy.core.log.log import JournalLog
from tests.model.narrow import Narrow, bodies, measure
from tests.support.little_memory import little_memory
from tests.support.server_harness import ServerHarness
from tests.support.tidying import reclaim, tidy

ARCHIVES = ("none", "old", "older")


class ArchiveMachine(Narrow):
    """One queue, and the folders where its segments may go."""

    draws: ClassVar = {"archive_to": ARCHIVES, "retain": ("none", "2KiB", "forever")}
    effects: ClassVar = (
        "archived", "removed", "restarted", "reloaded", "rewritten",
    )  # fmt: skip
    weights: ClassVar = {
        "put": 8, "take": 6, "keep_house": 5, "reclaim": 3, "come_again": 1, "reload": 1.5,
    }  # fmt: skip
    never: ClassVar = {
        ("retain=forever", gone): "nothing goes" for gone in ("archived", "removed")
    } | {("retain=forever", "rewritten"): "nothing goes"}  # fmt: skip

    def make_stage(self) -> ServerHarness:
        self.patch = little_memory(300)
        try:
            return ServerHarness()
        except BaseException:
            self.patch.undo()
            raise

    def begin(self) -> None:
        self.archive = self.drawn["archive_to"]
        self.stage.set_queue("jobs", **self.drawn)
        self.items: list[bytes] = []
        self.late: list[bytes] = []
        self.sure: set[bytes] = set()  # bodies that are in the journal or in an archive
        self.archived: dict[str, bytes] = {}

    def close(self) -> None:
        self.patch.undo()

    @property
    def log(self) -> JournalLog | None:
        queue = self.stage.broker.queues.get(b"jobs")
        return queue.log if queue is not None and isinstance(queue.log, JournalLog) else None

    def _files(self, folder: str) -> dict[str, bytes]:
        disk = self.stage.disk
        try:
            return {f"{folder}/{n}": disk.read(f"{folder}/{n}") for n in disk.names(folder)}
        except FileNotFoundError:
            return {}

    def _journal(self) -> dict[str, bytes]:
        assert self.log is not None
        return self._files(self.log.journal.folder)

    # -- the steps --------------------------------------------------------------------------

    def put(self) -> None:
        for _ in range(self.pick((1, 4))):
            body = self.body() + b"x" * self.pick((0, 90, 700))
            is_late = self.random.random() < 0.2  # it stays while others go
            key = "jobs/delay=1h" if is_late else "jobs"
            assert self.set("prod", key, body) == b"STORED\r\n"
            (self.late if is_late else self.items).append(body)
            self.sure.add(body)

    def take(self) -> None:
        for _ in range(self.pick((1, 6))):
            assert bodies(self.ask("kim", b"get jobs")) == self.items[:1]
            del self.items[:1]

    def keep_house(self) -> None:
        if self.log is not None:
            self._goes(lambda log: tidy(self.stage, log))

    def reclaim(self) -> None:
        if self.log is not None:
            self._goes(lambda log: reclaim(self.stage, log))

    def _goes(self, work: Callable[[JournalLog], object]) -> None:
        before = {n: each for n, each in self._journal().items() if n.endswith(".segment")}
        archives = self._archives()
        assert self.log is not None
        work(self.log)
        gone = {n: each for n, each in before.items() if n not in self._journal()}
        self.transcript.append(f"(tidied: {sorted(gone)} went)")
        if not gone:
            return
        come, here = {*self._archives()} - {*archives}, f"{self.archive}/"
        others = {name for name in come if not name.startswith(here)}
        assert not others, f"archive_to is {self.archive}, and {others} came"
        if self.archive == "none":
            self.met.add("removed")
            self.sure &= self._there()
            return
        found = self._files(self.archive)
        for name, data in gone.items():
            segment = name.rpartition("/")[2]
            kept = b"".join(each for n, each in found.items() if n.endswith(f".{segment}"))
            lost = [body for body in self.sure if body in data and body not in kept]
            assert kept and not lost, f"{name} went, and {lost} is not in {[*found]}"
            self.met.update(["rewritten"] * any(b in data for b in self.items + self.late))
        self.met.add("archived")
        self.archived |= found

    def _archives(self) -> dict[str, bytes]:
        return self._files("old") | self._files("older")

    def _whole(self) -> bytes:
        files = self._journal() if self.log is not None else {}
        return b"".join((files | self._archives()).values())

    def _there(self) -> set[bytes]:
        whole = self._whole()
        return {body for body in self.sure if body in whole}

    def come_again(self) -> None:
        self.come_back(self.pick(("restart", "kill", "cut_power")))
        self.met.add("restarted")

    def reload(self) -> None:
        self.archive = self.pick([each for each in ARCHIVES if each != self.archive])
        assert self.stage.reload_with({"jobs": {"archive_to": self.archive}}, {})
        self.met.add("reloaded")

    def check(self) -> None:
        for name, data in self.archived.items():
            assert self.stage.disk.read(name) == data, f"{name} has changed"

    def end(self) -> None:
        assert self.sure == self._there(), f"gone: {self.sure - self._there()}"
        for body in self.items:
            assert bodies(self.ask("kim", b"get jobs")) == [body]


@pytest.mark.slow
def test_what_was_stored_stays_in_the_journal_or_in_the_archive() -> None:
    measure(ArchiveMachine, walks=20, steps=50)
