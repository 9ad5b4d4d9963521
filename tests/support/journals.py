"""Builders for tests of the journal: small segments, short names, and a restart in one word."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from random import Random

from journal.files import Files, Handle
from journal.format.checkpoint import Checkpoint
from journal.format.describe import sentence
from journal.format.folder import parse_folder_name
from journal.format.kinds import Kind
from journal.format.record import Draft, RawDraft, Record, number_given
from journal.recovery.recovery import Recovery
from journal.recovery.reopen import recovered_journal
from journal.sets.id_set import IdSet
from journal.store import LogStore
from journal.write.segment_file import Sizes
from journal.write.writer import Journal
from tests.support.memory_disk import MemoryDisk

FOLDER = "/data/jobs.1"
# Room for a few records each: 2 KiB is one segment's overhead and about four small items.
TINY = Sizes(segment_min=2048, segment_max=2048, batch_max=1 << 20)
TIME_MS = 1_700_000_000_000
IDENTITY = bytes(range(16))


def check_times(drafts: list[RawDraft]) -> None:
    """Fail if one of these records of a queue has a time of another clock than the wall clock."""
    for draft in drafts:
        assert draft[4] > TIME_MS // 2, f"not by the wall clock: {draft}"


@dataclass
class Queue:
    """The part of a queue that a checkpoint asks for: its next numbers."""

    next_item: int = 1
    name: bytes = b"jobs"
    live: dict[int, int] = field(default_factory=dict)  # item to the lsn of its put

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(
            self.name, self.next_item, self.next_item, total_items=self.next_item - 1
        )


@dataclass
class Writer:
    """A journal with the least of a queue on top, and every step of a commit as one word."""

    store: LogStore
    queue: Queue
    recovery: Recovery
    records: list[Record]

    @property
    def journal(self) -> Journal:
        return self.store.writer

    def put(self, body: bytes, item: int = 0) -> int:
        """Append a put; returns its lsn."""
        item = item or self.queue.next_item
        self.queue.next_item = max(self.queue.next_item, item + 1)
        lsn = self.journal.append(Draft(Kind.PUT, item, item, 0, TIME_MS, b"", body, 0, 0))
        self.queue.live[item] = lsn
        return lsn

    def done(self, item: int) -> int:
        """Append the confirm of an item; returns its lsn."""
        put_lsn = self.queue.live.pop(item)
        return self.journal.append(Draft(Kind.DONE, item, 0, 1, TIME_MS, b"", b"", 0, put_lsn))

    def write(self) -> None:
        """Write all that is pending, preparing segments as they are wanted."""
        journal = self.journal
        for _ in range(1000):
            journal.write(TIME_MS)
            if journal.wants_preallocation:
                self.prepare()
            elif not journal.has_pending or journal.commit.failure is not None:
                return
        raise AssertionError("a thousand turns did not write what was pending")

    def prepare(self) -> bool:
        """Prepare the next segment; was there room?"""
        order = self.journal.begin_preallocation(TIME_MS)
        try:
            handle: Handle = order.prepare(self.journal.files)
        except OSError:
            self.journal.preallocation_failed(order)
            return False
        self.journal.finish_preallocation(order, handle)
        return True

    def sync(self) -> bool:
        """Do one sync from beginning to end; return True if it succeeded."""
        job = self.journal.begin_sync()
        if job is None:
            return self.journal.commit.failure is None
        try:
            job.run()
        except OSError as error:
            self.journal.finish_sync(error)
            return False
        self.journal.finish_sync(None)
        return True

    def commit(self) -> None:
        """Write and sync everything that was appended."""
        self.write()
        self.sync()

    def put_all(self, *bodies: bytes) -> None:
        """Put and commit each in its turn."""
        for body in bodies:
            self.put(body)
            self.commit()

    def drop_dead(self) -> list[str]:
        """Remove the segments that hold nothing alive."""
        dead = self.store.take_dead()
        for path in dead:
            self.journal.files.remove(path)
        return dead

    def close(self) -> None:
        """Stop cleanly."""
        self.journal.close(TIME_MS)


def start(files: Files, sizes: Sizes = TINY, folder: str = FOLDER) -> Writer:
    """Start one queue as a daemon does: recover, replay, reopen."""
    recovery = Recovery(files, folder)
    records = list(recovery.records())
    queue = Queue()
    for record in records:
        if record.kind == Kind.PUT:
            queue.live[record.item] = record.lsn
        elif record.kind == Kind.DONE:
            queue.live.pop(record.item, None)
        queue.next_item = max(queue.next_item, number_given(record) + 1)
    if recovery.checkpoint is not None:
        found = Checkpoint.from_record(recovery.checkpoint)
        queue.next_item = max(queue.next_item, found.next_item)
    for damage in recovery.damages:
        if damage.kind == "torn":
            continue  # no client has seen these items: their numbers are given again
        queue.next_item = max(queue.next_item, min(damage.id_last, 1 << 40) + 1)
    store = recovered_journal(recovery, sizes, queue.checkpoint, TIME_MS)
    live = IdSet()
    for item in sorted(queue.live):
        live.add(item)
    store.writer.adopt(live, 0)
    return Writer(store, queue, recovery, records)


def fresh(files: Files, sizes: Sizes = TINY, folder: str = FOLDER) -> Writer:
    """A new journal whose identity is known, so that its bytes are the same in every run."""
    name, generation = parse_folder_name(os.path.basename(folder))
    queue = Queue(name=name if generation else b"jobs")
    store = LogStore.new(files, folder, IDENTITY, sizes, queue.checkpoint)
    return Writer(store, queue, Recovery(files, folder), [])


def filled(count: int, seed: int = 1, sizes: Sizes = TINY, largest: int = 600) -> Writer:
    """Return a journal with `count` puts of random size, and confirms of some in between."""
    random, writer = Random(seed), fresh(MemoryDisk(), sizes)
    for _ in range(count):
        writer.put(random.randbytes(random.choice((0, 1, 30, random.randrange(largest)))))
        if random.random() < 0.3:
            writer.done(random.choice(sorted(writer.queue.live)))
        if random.random() < 0.5:
            writer.commit()
    writer.commit()
    return writer


def bodies(records: list[Record]) -> list[bytes]:
    """The bodies of the puts among `records`."""
    return [r.body for r in records if r.kind == Kind.PUT]


def story(records: list[Record]) -> str:
    """Records as sentences on one line."""
    return ", ".join(sentence(r) for r in records)


def segments(files: Files, folder: str = FOLDER) -> list[int]:
    """The numbers of the segment files that are there."""
    return [int(n[:10]) for n in files.names(folder) if n.endswith(".segment")]


def path_of(number: int, folder: str = FOLDER) -> str:
    """Where segment `number` lives."""
    return f"{folder}/{number:010d}.segment"


def disk_with(*batches: list[bytes], sizes: Sizes = TINY) -> MemoryDisk:
    """A disk with a journal that committed these batches of puts and was then killed."""
    disk = MemoryDisk()
    writer = fresh(disk, sizes)
    for batch in batches:
        for body in batch:
            writer.put(body)
        writer.commit()
    return disk.kill_clone()
