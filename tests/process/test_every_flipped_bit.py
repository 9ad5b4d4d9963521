"""The start, or the first read of its place, names every flipped bit of every file of a data
directory, or the bit changes nothing. None changes something in silence.

`make test` flips one bit of every eighth byte, `make test-fast` of every 31st, and `make sweep` all
bits, in two hours. In long runs of filler it takes every sixteenth byte.

Promise flipped-bit: one bit of every fifth byte of every file, one at a time, of a directory with
    something of everything; each bit in `make sweep`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from random import Random

import pytest

from journal.errors import JournalError
from journal.sets.id_counts import IdCounts
from journal.write.segment_file import Sizes
from kestrelpy.core.broker import Broker
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import Queue
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.restart import recover
from tests.support import server_harness
from tests.support.memory_disk import MemoryDisk
from tests.support.server_harness import ServerHarness

SEED = 14
_SIZES = Sizes(2048, 4096, 1 << 20)
_AROUND = 16  # bytes around a word that are no filler
_LEAST = 50  # bytes of each file that are named whatever is flipped in them
_BITS = 8
PARTS = ("first", "second", "left", "timed", "jobs*.chunk", "jobs*.snapshot", "jobs*[0-4].segment",
         "jobs*5.segment", "jobs*[6-9].segment", "server-id", "tokens")  # fmt: skip
_CRON = "0 0 * * * *"  # at every full hour


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_harness, "_SIZES", _SIZES)


def say(stage: ServerHarness, who: str, *lines: bytes) -> bytes:
    """Send lines, and check that no answer is an error; return the answers."""
    heard = stage.say(who, *lines)
    assert b"ERROR" not in heard, heard
    return heard


def put(stage: ServerHarness, key: bytes, body: bytes) -> None:
    assert say(stage, "p", b"set %b 0 0 %d" % (key, len(body)), body) == b"STORED\r\n"


def logs(stage: ServerHarness) -> Iterator[tuple[Queue, JournalLog]]:
    for queue in stage.broker.logged:
        if isinstance(queue.log, JournalLog):
            yield queue, queue.log


def take_snapshot(stage: ServerHarness, name: str) -> None:
    """Take a snapshot of this queue, with its chunk, and compact segments that are mostly dead."""
    log = stage.queue(name).log
    assert isinstance(log, JournalLog)
    maintenance = log.store.maintenance
    job = maintenance.begin_snapshot(log.state(), stage.unix_ms)
    job.run(stage.disk)
    outdated = maintenance.finish_snapshot(job, True)
    chosen = maintenance.choose(job.snapshot.lsn)
    if chosen:
        needed = job.snapshot.needed()
        carry = maintenance.begin_compaction(chosen, needed, lambda: None, stage.unix_ms)
        outdated += maintenance.finish_compaction(chosen, carry, carry.run(stage.disk))
    for path in (*outdated, *log.take_dead()):
        stage.disk.remove(path)
    stage.work()


def begin(disk: MemoryDisk, now_ms: int) -> ServerHarness:
    """Start a server from this disk."""
    stage = ServerHarness(disk, now_ms)
    stage.set_schedule("hourly", cron=_CRON, queue="timed", body="tick")
    return stage


@functools.cache
def lived(closed: bool) -> tuple[MemoryDisk, int]:
    """Return a small data directory with something of everything, and its time."""
    stage = ServerHarness()
    stage.set_schedule("hourly", cron=_CRON, queue="timed", body="tick")
    stage.pass_time(3_600_000)
    say(stage, "a", b"pause timed")
    # A deleted queue's tokens, and one that is deleted while a child of it has items.
    put(stage, b"gone", b"x")
    say(stage, "a", b"gets gone/open/lease=60s")
    say(stage, "a", b"delete gone")
    put(stage, b"left", b"y")
    say(stage, "a", b"get left+child/peek")
    put(stage, b"left", b"for the child")
    say(stage, "a", b"delete left")
    # Declared settings, ids, a scope, versions, a child; snapshots, chunks, a rewritten segment.
    say(stage, "a", b"set jobs/declare 0 0 32", b'max_attempts = 2\nlease = "90s"\n\n')
    say(stage, "a", b"get jobs+audit/peek")
    for number in range(16):
        put(stage, b"jobs", b"item %d " % number * 12)
        if number % 4 == 3:
            put(stage, b"jobs/id=id-%d" % number, b"once")
            put(stage, b"jobs/id=n%d/scope=s/epoch=%d" % (number, number), b"scoped")
            put(stage, b"jobs/key=k%d" % (number % 3), b"version")
            take_snapshot(stage, "jobs")
        if number > 5:
            say(stage, "d", b"get jobs")
            say(stage, "d", b"get jobs+audit")
    # Items that are dead, returned, leased by token or delayed, also after the last snapshot.
    for _ in range(3):
        say(stage, "d", b"get jobs/open")
        say(stage, "d", b"get jobs/abort")
    say(stage, "d", b"gets jobs/open/lease=50m")
    say(stage, "d", b"gets jobs+audit/open/lease=50m")
    put(stage, b"jobs/delay=3h", b"later")
    put(stage, b"jobs/key=a,b", b"under a key")
    take_snapshot(stage, "jobs")
    put(stage, b"jobs/id=last", b"behind the snapshot")
    say(stage, "d", b"gets jobs/open/lease=40m")
    say(stage, "d", b"get jobs+audit/open")
    say(stage, "d", b"get jobs+audit/abort")
    # A hand-off on its way: the copy is on disk, and nothing says so where the original was.
    put(stage, b"first", b"step one")
    say(stage, "h", b"get first/open")
    stage.hold_writes()
    stage.send("h", b"set second/confirm 0 0 8\r\nstep two\r\n")
    second = stage.queue("second").log
    assert isinstance(second, JournalLog)
    stage.write_log(second)
    sync = second.journal.begin_sync()
    assert sync is not None
    sync.run()
    if closed:
        stage.kill()
        stage.restart()
        stage.restart()
    assert {q.name for q, _ in logs(stage)} == {b"jobs", b"left", b"timed", b"first", b"second"}
    return stage.disk.kill_clone(), stage.now_ms


def found(stage: ServerHarness) -> list[str]:
    """Return all damages and notes that have been named so far."""
    named = [*stage.found.notes, *(d.sentence() for d in stage.found.damages)]
    for queue, log in logs(stage):
        damages = [*log.store.read_ahead.damages]
        for reader in queue.readers:
            damages += reader.damages
            named += reader.notes
        named += [damage.sentence() for damage in damages]
    return named


def facts_of(stage: ServerHarness) -> dict[str, object]:
    """Return all facts that clients and the next start would find."""
    facts: dict[str, object] = {
        "server": stage.server_id, "tokens": stage.broker.tokens.on_disk,
        "names": sorted(stage.broker.queues),
    }  # fmt: skip
    for queue, log in logs(stage):
        state = log.state()
        facts[f"{queue.name.decode()}.{queue.generation}"] = [
            plain(state), sorted(map(bytes, queue.dedupe.ids.table)),
            sorted(map(bytes, queue.dedupe.versions.table)), queue.dedupe.versions.lost_item,
            [plain(scope.ids) for scope in queue.dedupe.ids.scopes.values()],
        ]  # fmt: skip
    for name in sorted(stage.broker.queues):
        facts[f"items of {name.decode()}"] = stage.say(
            "look", b"gets %b/peek/after=0/n=1000/full" % name, b"get %b/peek" % name,
            b"get %b/dead/peek" % name, b"stats %b/open" % name,
        )  # fmt: skip
    return facts


def plain(thing: object) -> object:
    """Return a state as values that can be compared."""
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing) if field.name != "fresh"]
        return {name: plain(getattr(thing, name)) for name in names}
    if isinstance(thing, IdCounts):
        return [thing.get(item) for item in range(1, 100)]
    if isinstance(thing, dict):
        return {key: plain(value) for key, value in thing.items()}
    if isinstance(thing, bytes | str | int | None):
        return thing
    assert isinstance(thing, Iterable), thing
    return [plain(each) for each in thing]


def files(disk: MemoryDisk, folder: str = "data") -> Iterator[str]:
    for name in disk.names(folder):
        path = f"{folder}/{name}"
        if disk.names(path):
            yield from files(disk, path)
        elif disk.mode(path) & 0o100000 and disk.size(path):
            yield path


def beside(disk: MemoryDisk, path: str) -> MemoryDisk:
    """This file with what a start reads together with it: a queue knows nothing of the others."""
    alone = disk.kill_clone()
    folder = path.split("/")[1]
    together = ("first.", "second.")  # a hand-off is on its way between them
    for name in alone.names("data"):
        is_together = name.startswith(together) and folder.startswith(together)
        if alone.names(f"data/{name}") and name != folder and not is_together:
            alone.remove_folder(f"data/{name}")
    return alone


def is_named_at_once(disk: MemoryDisk, now_ms: int) -> bool:
    """Does recovery alone name something? Without all the rest of a start: for speed."""
    directory = DataDirectory(disk.kill_clone(), "data", _SIZES)
    wall = ClockOffset(server_harness.WALL_MS - 1_000_000)
    broker = Broker(lambda name, declared: Policy(), lambda queue: MemoryLog(), wall, 99)
    try:
        directory.lock()
        broker.server_id = directory.server_id.encode()
        seen = recover(directory, broker, [], now_ms, now_ms + wall.offset_ms)
    except JournalError as error:
        assert "data/" in str(error), "it says where"
        return True
    return bool(seen.notes or seen.damages)


def is_named(disk: MemoryDisk, now_ms: int, whole: dict[str, object]) -> bool:
    """Does a start, or whoever reads, name something? Otherwise everything is as it was."""
    if is_named_at_once(disk, now_ms):
        return True
    stage = begin(disk, now_ms)
    facts = facts_of(stage)
    if found(stage):
        return True
    assert facts == whole
    return False


def offsets(data: bytes, each: int) -> Iterator[int]:
    """Yield every offset number `each` of a file; in long runs of filler, sixteen times fewer."""
    words = bytearray(len(data))
    for at, byte in enumerate(data):
        if byte not in b"\0 \n":
            words[max(at - _AROUND, 0) : at + _AROUND] = b"\1" * (min(at, _AROUND) + _AROUND)
    for at in range(0, len(data), each):
        if words[at] or at % (_AROUND * each) == 0:
            yield at


def sweep(closed: bool, part: str, each: int, bits: int) -> None:
    """Flip `bits` bits of every byte number `each` of the files in one part of a data directory."""
    kept, now_ms = lived(closed)
    random, silent = Random(SEED), list[str]()
    for path in (path for path in files(kept) if fnmatch(path, f"data/{part}*")):
        alone, data = beside(kept, path), kept.read(path)
        calm = begin(alone.kill_clone(), now_ms)
        whole = facts_of(calm)
        assert not found(calm)
        flipped = named = 0
        for offset in offsets(data, each):
            for bit in random.sample(range(_BITS), bits):
                disk = alone.kill_clone()
                disk.damage(path, offset, bytes([data[offset] ^ 1 << bit]))
                flipped += 1
                try:
                    named += is_named(disk, now_ms, whole)
                except AssertionError:
                    silent.append(f"{path} at {offset}, bit {bit}")
        print(f"{path}: {named} of {flipped} flips named, the others harmless")
        # The older snapshot is read if the newer one is damaged; a file to be used again says
        # nothing.
        if not path.endswith((".snapshot", ".recycled")):
            assert named * each >= _LEAST * bits, path
    assert not silent, f"SEED={SEED}: {len(silent)} were not: " + "; ".join(silent[:50])


_ALL = pytest.mark.parametrize("part", PARTS)
_ENDS = pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])


@_ALL
@_ENDS
def test_a_flipped_bit_is_named_or_changes_nothing(closed: bool, part: str) -> None:
    sweep(closed, part, 31, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes, on a machine that has more to do
@_ALL
@_ENDS
def test_more_flipped_bits_are_named_or_change_nothing(closed: bool, part: str) -> None:
    sweep(closed, part, 8, 1)


@pytest.mark.sweep
@_ALL
@_ENDS
def test_every_flipped_bit_is_named_or_changes_nothing(closed: bool, part: str) -> None:
    sweep(closed, part, 1, _BITS)
