"""Journals for audits: stories of a queue, on a memory disk, saved to a real folder.

`Story` runs a queue one verb after the other; `random_story` makes a long random one, with kills
and power cuts; `retold` is a journal with other records in it than its queue wrote.
Nothing here knows what an audit says of it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from journal.files import Disk
from journal.format.key import text_of
from journal.format.kinds import Kind
from journal.format.record import Draft
from journal.format.segment import SegmentHeader
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import Snapshot
from journal.tools.view import read_journal
from journal.write.segment_file import Sizes
from journal.write.writer import Journal
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.subscription import DEFERRED, OVERDUE
from tests.support.disk_harness import WALL_MS, DiskHarness
from tests.support.memory_disk import MemoryDisk

ROOM = Sizes(1 << 20, 1 << 20, 4 << 20)  # all of a test in one segment
TINY = Sizes(2048, 4096, 1 << 20)


class Story:
    """The life of one queue, from its first item to the end of the test."""

    def __init__(self, sizes: Sizes = ROOM, **policy: Any) -> None:
        self.life = DiskHarness(Policy(**policy), sizes)
        self.life.pass_time(1000)
        self._leases: list[Lease] = []

    @property
    def leases(self) -> list[Lease]:
        """The leased items, the oldest first."""
        held = list(self.life.reader.leases)
        return [lease for lease in self._leases if any(lease is each for each in held)]

    def put(
        self, *bodies: bytes, expires_in_ms: int = 0, key: bytes = NO_KEY, delay_ms: int = 0
    ) -> None:
        """Store items."""
        delay = Delay(delay_ms) if delay_ms else None
        for body in bodies:
            expires = self.life.unix_ms + expires_in_ms if expires_in_ms else 0
            self.life.put(body, expires, delay, key)
            self.life.pass_time(1)
        self.life.commit()

    def open(self, who: str = "anna", dead: bool = False, lease_ms: int = 0) -> Lease | None:
        """Lease the next item."""
        lease = self.life.open(who, dead, lease_ms)
        if lease is not None:
            self._leases.append(lease)
            self.life.pass_time(1)
        return lease

    def confirm(self, lease: Lease | None = None) -> None:
        """Confirm this lease, or the oldest."""
        self.life.reader.confirm(self._taken(lease), self.life.now_ms)
        self.life.pass_time(1)
        self.life.commit()

    def give_back(
        self, reason: bytes = b"abort", lease: Lease | None = None, delay_ms: int = 0
    ) -> None:
        """Give back this lease, or the oldest."""
        delay = Delay(delay_ms) if delay_ms else None
        self.life.reader.nack(self._taken(lease), self.life.now_ms, reason, delay)
        self.life.pass_time(1)
        self.life.commit()

    def take(self, count: int, pace_ms: int = 2) -> None:
        """Open and confirm `count` items."""
        for _ in range(count):
            lease = self.open()
            self.life.pass_time(pace_ms)
            self.confirm(lease)

    def grow_old(self, rounds: int = 8) -> None:
        """Keep the first item leased while others come and go: segments are compacted."""
        self.put(b"stays")
        self.open("keeper")
        for _ in range(rounds):
            self.put(*(b"%d" % n for n in range(10)))
            self.take(9)
            self.do_maintenance()

    def flush(self) -> None:
        """Flush: remove all ready and delayed items."""
        self.life.jobs.flush(self.life.now_ms)
        self.life.commit()

    def pass_time(self, ms: int) -> None:
        """Let time pass without other events."""
        self.life.pass_time(ms)
        self.life.commit()

    def hang_up(self, who: str) -> None:
        """Hang up a connection."""
        self.life.broker.hang_up(self.life.who(who), self.life.now_ms)
        self.life.commit()

    def step_clock(self, ms: int) -> None:
        """Set the wall clock."""
        self.life.broker.clock.offset_ms += ms

    def do_maintenance(self) -> None:
        """Snapshots and rewriting are done."""
        self.life.commit()
        self.life.do_all()

    def kill(self) -> None:
        """`kill -9`, and a start."""
        self.life.kill()
        self._leases = []

    def cut_power(self, seed: int) -> None:
        """Cut the power, and start again."""
        self.life.cut_power(seed)
        self._leases = []

    def stop(self) -> None:
        """Close the journal in order, and start again."""
        self.do_maintenance()
        self.life.log.journal.close(self.life.unix_ms)
        self.kill()

    def save(self, folder: Path) -> Path:
        """Write the files that a `kill -9` at this moment leaves into a real folder; return it."""
        return spill(self.life.disk.kill_clone(), folder)

    def _taken(self, lease: Lease | None) -> Lease:
        lease = lease or self.leases[0]
        self._leases = [each for each in self._leases if each is not lease]
        return lease


def spill(disk: MemoryDisk, folder: Path, inside: str = "data") -> Path:
    """Write every file of a memory disk below `inside` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in disk.names(inside):
        path = f"{inside}/{name}"
        try:
            (folder / name).write_bytes(disk.read(path))
        except IsADirectoryError:
            spill(disk, folder / name, path)
    return folder


def random_story(seed: int, steps: int = 400) -> Story:
    """A life by chance: several consumers, limits, expiry, deaths, flushes, restarts; every other
    one with keys and delays.
    """
    chance = random.Random(seed)
    limits: dict[str, Any] = {
        "max_attempts": chance.choice([2, 3, 100]),
        "lease_ms": chance.choice([20, 1000, None]),
        "max_memory_bytes": chance.choice([0, 300, 1 << 20]),
    }
    if chance.random() < 0.4:
        limits |= {"max_items": 12, "discard_old_when_full": True}
    if chance.random() < 0.3:
        limits |= {"retry_delay_ms": 7, "retry_backoff": 2.0}
    sizes = chance.choice([TINY, replace(TINY, segment_max=2048), ROOM])
    story = Story(sizes, **limits)
    for _ in range(steps):
        one_step(story, chance, keyed=seed % 4 == 1, delays=seed % 4 > 1)
    return story


def one_step(story: Story, chance: random.Random, keyed: bool, delays: bool) -> None:
    """Something happens."""
    dice = chance.random()
    delay_ms = chance.choice([0, 0, 3, 30]) if delays else 0
    if dice < 0.36:
        expires = chance.choice([0, 0, 0, 5, 50]) if not delay_ms else 0
        key = text_of(chance.choice([b"A", b"B", b"C"])) if keyed and chance.random() < 0.8 else b""
        story.put(
            b"x" * chance.randrange(60), expires_in_ms=expires, key=key, delay_ms=delay_ms
        )
    elif dice < 0.62:
        lease_ms = chance.choice([0, 0, 10, 500])
        story.open(chance.choice("abc"), dead=not lease_ms and chance.random() < 0.15,
                   lease_ms=lease_ms)  # fmt: skip
    elif dice < 0.82 and story.leases:
        lease = chance.choice(story.leases)
        if chance.random() < 0.75:
            story.confirm(lease)
        else:
            reason = chance.choice([b"abort", b"hangup", DEFERRED, OVERDUE])
            story.give_back(reason, lease, delay_ms)
    elif dice < 0.92:
        story.pass_time(chance.randrange(12))
    elif dice < 0.93:
        story.flush()
    elif dice < 0.96:
        story.do_maintenance()
    elif dice < 0.975:
        story.step_clock(chance.choice([5000, -10, -3000]))
    elif dice < 0.985:
        story.kill()
    elif dice < 0.992:
        story.cut_power(chance.randrange(1 << 30))
    elif dice < 0.996:
        story.stop()
    else:
        story.hang_up(chance.choice("abc"))


def retold(
    source: Path, target: Path, edit: Callable[[list[Draft]], None], queue: str = "jobs",
    server: bytes = b"",
) -> Path:  # fmt: skip
    """The records of the journal in `source`, changed, as if they had been written like that.

    Their numbers have no gaps and no record is damaged.
    """
    view = read_journal(Disk(), str(source))
    drafts = [Draft(*record[:8], 0) for record in view.records()]
    edit(drafts)
    assert view.checkpoint is not None, "a journal that was written to opens with one"
    opening = replace(
        view.checkpoint, name=queue.encode(), server=server, next_item=1, next_place=1,
        live_items=0, total_items=0,
    )  # fmt: skip
    folder = target / source.name.replace("jobs", queue)
    journal = Journal(Disk(), str(folder), os.urandom(16), ROOM, lambda: opening)
    for draft in drafts:
        if draft.kind in (Kind.FLUSHED, Kind.UPTO, Kind.READER):
            journal.append_flush(draft, IdSet())
        else:
            journal.append(draft)
    journal.close(WALL_MS)
    return target


def journal_of(data: Path) -> Path:
    """The folder of the one queue in a data directory."""
    (folder,) = data.glob("jobs.*")
    return folder


def forget(folder: Path, nth: int) -> int:
    """Rewrite the newest snapshot as if the daemon had lost its nth item from memory; return the
    id."""
    path = max(folder.glob("*.snapshot"))
    snapshot = Snapshot.decode(path.read_bytes(), str(path))
    header = SegmentHeader.decode(path.read_bytes(), str(path))
    assert header is not None
    item = sorted(snapshot.live)[nth]
    snapshot.live.discard(item)
    path.write_bytes(snapshot.encode(header.journal, header.identity, header.created_ms))
    return item
