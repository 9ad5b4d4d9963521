"""The files of one journal over random lives: kills, power cuts in the middle of anything, clean
ends; snapshots, rewriting, an archive, backups in between.

Whatever happened, the archive and the log together have every record from the first on, once;
backups beside them change nothing; `verify` finds no damage; and no item that was stored is lost.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.errors import Damage
from journal.format.folder import journal_folders
from journal.tools.backup import copy_journal
from journal.tools.verify import check_journal
from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from kestrelpy.spark.files import decode
from kestrelpy.spark.files.plan_events import plan_events
from tests.support import server_harness
from tests.support.end_of_life import end
from tests.support.memory_disk import PowerCut
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

SEEDS = range(50, 60)
ENDS = 6  # in each
ARCHIVE = "/archive"
DUE = (b"", b"/delay=1s", b"/delay=1h", b"/delay=5h")


class Life:
    """A queue, the items that were stored in it, and those that were handed out."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.stage = ServerHarness()
        self.stage.set_queue(archive_to=ARCHIVE)
        self.sent: list[bytes] = []  # and not answered yet
        self.stored: set[bytes] = set()
        self.taken: set[bytes] = set()
        self.backups: list[str] = []
        self.serial = 0

    @property
    def log(self) -> JournalLog:
        log = self.stage.queue("jobs").log
        assert isinstance(log, JournalLog)
        return log

    # -- what a day brings --------------------------------------------------------------------

    def put(self, count: int, option: bytes = b"") -> None:
        for _ in range(count):
            self.serial += 1
            body = b"%06d" % self.serial + b"." * 100
            self.sent.append(body)
            said = self.stage.say("prod", b"set jobs%b 0 0 106\r\n%b" % (option, body))
            answered = said.count(b"STORED")  # maybe to those before it
            self.stored.update(self.sent[:answered])
            del self.sent[:answered]

    def take(self, count: int) -> None:
        for _ in range(count):
            said = self.stage.say("cons", b"get jobs/open")
            if said.startswith(b"VALUE"):
                self.taken.add(said.split(b"\r\n")[1])
                self.stage.say("cons", b"get jobs/close")

    def pass_items(self, count: int) -> None:
        for _ in range(count):
            self.put(1)
            self.take(1)

    def leave_unsynced(self) -> None:
        self.stage.hold_syncs()
        for _ in range(self.random.randint(1, 5)):
            self.put(self.random.randint(1, 10), b"/delay=1s")
            if self.random.random() < 0.4:
                self.stage.sync()

    def back_up(self) -> None:
        (folder,) = journal_folders(self.stage.disk, "data")
        backup = f"/backup{len(self.backups)}"
        assert copy_journal(self.stage.disk, folder, f"{backup}/jobs.1") is not None
        self.backups.append(backup)

    def live(self) -> None:
        """Until it is cut off, if it is."""
        random = self.random
        self.stage.pass_time(random.choice([10, 2000, 4_000_000]))
        self.pass_items(random.choice([10, 100]))
        self.take(random.choice([0, 100, 100]))
        for _ in range(random.randint(0, 3)):
            tidy(self.stage, self.log)
        self.discover()
        if random.random() < 0.3:
            self.stage.disk.cut_power_at(random.randint(20, 1500))
        self.put(random.choice([0, 2, 8, 20]), random.choice(DUE))
        self.pass_items(random.choice([0, 10]))
        if random.random() < 0.3:
            self.back_up()
        if random.random() < 0.3:
            tidy(self.stage, self.log)
        if random.random() < 0.9:
            self.leave_unsynced()

    # -- and how it ends ----------------------------------------------------------------------

    def close(self) -> None:
        """In an orderly way."""
        self.stage.disk.cut_power_at(-1)
        self.stage.go()
        self.forget()
        self.stage.restart()
        self.discover()

    def forget(self) -> None:
        """Drop the requests without an answer: they are never answered."""
        for client in self.stage.clients.values():
            client.take()
        self.sent.clear()

    def end(self) -> None:
        """Somehow, and perhaps so again in the start that follows."""
        stage, random = self.stage, self.random
        while True:
            seed, kept = random.random(), random.random() < 0.5
            stage.disk = stage.disk.kill_clone() if kept else stage.disk.crash_clone(Random(seed))
            self.forget()
            self.discover()
            if random.random() < 0.2:
                stage.disk.cut_power_at(random.randint(1, 40))
            try:
                stage._come_back()
            except PowerCut:
                continue
            stage.disk.cut_power_at(-1)
            assert [d for d in stage.found.damages if d.kind != "torn"] == []
            self.discover()
            return

    # -- what must be true --------------------------------------------------------------------

    def discover(self) -> None:
        for folder in journal_folders(self.stage.disk, "data"):
            assert check_journal(self.stage.disk, folder).damages == []
        self.read("data")
        archive = [ARCHIVE] if self.stage.disk.names(ARCHIVE) else []
        lsns = self.read("data", *archive)
        assert lsns == list(range(1, len(lsns) + 1))
        some = [backup for backup in self.backups if self.random.random() < 0.5]
        assert set(self.read("data", *archive, *some)) >= set(lsns)
        self.read("data", *some)

    def read(self, *paths: str) -> list[int]:
        """Return the records that Spark reads there; check that it reports no loss."""
        disk, damages, lsns = self.stage.disk, list[Damage](), list[int]()
        history = plan_events(paths, disk)
        for split in history.splits:
            for headers in decode.verified(split, damages.append, disk):
                found = headers.lsn.tolist()
                lsns += [n for n in found if not any(low <= n <= high for low, high in split.skip)]
        assert [d for d in (*history.damages, *damages) if d.kind != "torn"] == []
        assert history.problems == []
        assert len(set(lsns)) == len(lsns)
        return sorted(lsns)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_damaged_or_missing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    smallest = random.choice([2048, 4096, 8192])
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(smallest, 8192, 1 << 20))
    life = Life(random)
    life.put(3)
    for _ in range(ENDS):
        try:
            life.live()
            if random.random() < 0.2:
                life.close()
                continue
        except PowerCut:
            pass
        life.end()
    life.stage.pass_time(24 * 3_600_000)
    life.take(len(life.stored) + 100)
    assert life.stored <= life.taken
    end(life.stage)
