"""Owners that sleep, claims that come late and answers that are lost, on a bucket in memory.

Promise claim: owners and claimers that sleep, and answers that are lost, on an object store.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from journal.engine import (
    Claim,
    Create,
    DeleteFile,
    EngineAway,
    EngineFull,
    Fenced,
    FileFacts,
    Member,
    Write,
)
from journal.engine.object_store import (
    ObjectStoreEngine,
    ObjectStoreMoment,
    make_store,
    object_store_engine,
    packing,
)
from journal.engine.object_store.members import Members
from tests.support.memory_bucket import Fate, MemoryBucket
from tests.support.memory_engine import claimed

STEPS = 120
LOG = 7  # the file that has the id of each commit, at its number
WIDTH = 8


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def often_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "DUE_ENTRIES", 4)


@pytest.fixture
def bucket() -> MemoryBucket:
    made = MemoryBucket()
    assert make_store(made) == (True, [], [])
    return made


def engine_on(bucket: MemoryBucket, clock: Clock | None = None) -> ObjectStoreEngine:
    """An engine that deletes at once what is needed no more, and asks each time."""
    clock = clock or Clock()
    return ObjectStoreEngine(bucket, clock, keep_s=0.0, looks_s=-1.0, is_threaded=False)


def committed(engine: ObjectStoreEngine, at: Claim, count: int) -> Claim:
    """Make so many commits; return the right to the next one."""
    for _ in range(count):
        engine.commit(at, [Create(at.seq + 100, f"f{at.seq}", 0), Write(at.seq + 100, 0, b"x" * 9)])
        at = at.after()
    return at


# -- owners that sleep ----------------------------------------------------------------------------


def test_a_former_owner_that_slept_finds_its_position_taken_for_ever(bucket: MemoryBucket) -> None:
    old, new = engine_on(bucket), engine_on(bucket)
    at = committed(old, claimed(old, "a"), 3)
    committed(new, claimed(new, "b"), 40)  # its log was packed and deleted several times
    assert len([key for key in bucket.objects if "/log/" in key]) < 15

    with pytest.raises(Fenced):
        old.commit(at, [Create(1, "late", 0)])


def test_a_claim_at_a_position_that_was_deleted_is_void(bucket: MemoryBucket) -> None:
    owner, sleeper = engine_on(bucket), engine_on(bucket)
    at = committed(owner, claimed(owner, "a"), 3)

    write = bucket.put_new

    def slowly(key: str, data: bytes) -> bool:
        nonlocal at
        if "slices/1/log" in key and at.seq == 3:
            at = at.after()
            at = committed(owner, at._replace(seq=3), 40)
        return write(key, data)

    seen = sleeper.owners()[1]
    bucket.put_new = slowly  # type: ignore[method-assign]  # the claimer sleeps before its write
    with pytest.raises(Fenced):
        sleeper.claim(1, Member("b"), seen.epoch, seen.seq)

    owner.commit(at, [])  # it still owns the slice


def test_a_former_owner_deletes_nothing(bucket: MemoryBucket) -> None:
    old, new = engine_on(bucket), engine_on(bucket)
    at = committed(old, claimed(old, "a"), 4)  # a snapshot waits for its entry
    now = claimed(new, "b")
    with pytest.raises(Fenced):
        old.commit(at, [])
    old._delete_left()

    assert len(engine_on(bucket).files(now)) == 4
    assert new.read(now, 102, 0, 9) == b"x" * 9


# -- unknown outcomes -----------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["done", "not done", "late"])
def test_a_commit_whose_answer_was_lost_is_done_once(bucket: MemoryBucket, fate: Fate) -> None:
    engine = engine_on(bucket)
    at = committed(engine, claimed(engine, "a"), 1)
    bucket.fate = lambda: fate
    with pytest.raises(EngineAway):
        engine.commit(at, [Write(100, 0, b"lost")])
    bucket.fate = lambda: ""
    engine.commit(at, [Write(100, 0, b"lost")])
    engine.commit(at.after(), [Write(100, 0, b"next")])
    while bucket.late:
        bucket.arrive()

    for each in (engine, engine_on(bucket)):
        assert each.read(at.after().after(), 100, 0, 9) == b"nextxxxxx"
        assert each.owners()[1].seq == 3


def test_no_room_is_said_only_when_nothing_can_be_done_any_more(bucket: MemoryBucket) -> None:
    engine = engine_on(bucket)
    at = claimed(engine, "a")
    fates: Iterator[Fate] = iter(["full", "late", "full"])
    bucket.fate = lambda: next(fates)
    with pytest.raises(EngineFull):
        engine.commit(at, [Create(1, "a", 0)])
    with pytest.raises(EngineAway):
        engine.commit(at, [Create(1, "a", 0)])
    with pytest.raises(EngineAway) as found:  # the one before may still be done
        engine.commit(at, [Create(1, "a", 0)])
    assert not isinstance(found.value, EngineFull)


# -- snapshots ------------------------------------------------------------------------------------


def test_little_is_left_of_what_was_deleted_and_all_of_what_was_not(bucket: MemoryBucket) -> None:
    engine = engine_on(bucket)
    at = claimed(engine, "a")
    for number in range(60):
        engine.commit(at, [Create(number, f"f{number}", 0), Write(number, 3, b"y" * 1000)])
        at = at.after()
        if number >= 2:
            engine.commit(at, [DeleteFile(number - 2), Write(number, 500, b"z")])
            at = at.after()
    at = committed(engine, at, 12)

    later = engine_on(bucket)
    assert {each.path for each in later.files(at)} >= {"f58", "f59"}
    assert FileFacts(59, "f59", 1003, 1003) in later.files(at)
    assert later.read(at, 59, 0, 1010) == b"\0\0\0" + b"y" * 497 + b"z" + b"y" * 502 + b"\0" * 7
    assert len(bucket.objects) < 25
    assert sum(map(len, bucket.objects.values())) < 20_000


def test_what_a_killed_owner_has_left_is_swept_by_the_next(bucket: MemoryBucket) -> None:
    first = engine_on(bucket)
    committed(first, claimed(first, "a"), 4)  # packs and a snapshot that no entry names
    bucket.objects["slices/1/packs/stray"] = b"of a process that died"
    second = engine_on(bucket)
    at = committed(second, claimed(second, "b"), 12)

    assert "slices/1/packs/stray" not in bucket.objects
    assert len(engine_on(bucket).files(at)) == 16


def test_a_moment_stays_as_it_was_while_the_owner_commits(bucket: MemoryBucket) -> None:
    owner = ObjectStoreEngine(bucket, is_threaded=False)  # it keeps what a backup may read
    at = committed(owner, claimed(owner, "a"), 7)
    moment = ObjectStoreMoment(bucket)
    files = moment.files(at)
    committed(owner, at, 30)

    assert moment.files(at) == files
    assert all(moment.read(at, each.file, 0, 9) == b"x" * 9 for each in files)
    with pytest.raises(OSError, match="one moment"):
        moment.commit(at, [])


def test_a_standby_that_slept_finds_the_owner_far_away(bucket: MemoryBucket) -> None:
    owner, clock = engine_on(bucket), Clock()
    standby = ObjectStoreEngine(bucket, clock, is_threaded=False)
    at = committed(owner, claimed(owner, "a"), 2)
    assert standby.owners()[1].seq == 2
    at = committed(owner, at, 600)  # its next entry was deleted
    assert standby.owners()[1].seq == 2  # it looks twice a second
    clock.now = 2.0

    assert standby.owners()[1][1:3] == (1, at.seq)


def test_a_backlog_that_cannot_be_packed_is_packed_later(
    bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store_engine, "_BACKLOG_BYTES", 10)
    monkeypatch.setattr(bucket, "put", refused)
    engine = engine_on(bucket)
    at = committed(engine, claimed(engine, "a"), 2)
    with pytest.raises(EngineAway, match="cannot be packed now"):
        committed(engine, at, 3)
    engine.commit(at, [])  # a beat has room
    at = at.after()
    engine.commit(at, [])
    monkeypatch.undo()

    at = committed(engine, at.after(), 1)
    assert len(engine_on(bucket).files(at)) == 3


def refused(key: str, data: bytes) -> None:
    raise EngineAway("memory", "slow down")


# -- members --------------------------------------------------------------------------------------


def test_a_drained_member_is_one_at_another_address(bucket: MemoryBucket) -> None:
    members = Members(bucket, Clock())
    members.note(Member("x", "there:1"), 2.0, [1])
    members.note(Member("y", "there:1"), 2.0)
    assert members.drain("x", True) == ["there:1"]
    members.note(Member("x", "there:2"), 2.0)
    assert [(*each.member, each.is_drained, each.waits) for each in members.seats()] == [
        ("x", "there:1", True, (1,)), ("x", "there:2", True, ()), ("y", "there:1", False, ()),
    ]  # fmt: skip

    assert members.drain("x", False) == ["there:1", "there:2"]
    assert members.drain("z", True) == []
    assert not any(each.is_drained for each in members.seats())


# -- stores ---------------------------------------------------------------------------------------


def test_a_store_that_writes_over_an_object_is_refused(bucket: MemoryBucket) -> None:
    bucket.is_conditional = False
    assert "conditional writes" in make_store(bucket).unsafe[0]
    with pytest.raises(EngineAway, match="conditional writes"):
        claimed(engine_on(bucket), "a")


def test_a_store_that_was_not_made_is_refused() -> None:
    with pytest.raises(EngineAway, match="fleet init"):
        engine_on(MemoryBucket()).owners()


# -- many processes -------------------------------------------------------------------------------


class World:
    """Processes that own a slice, or believe it. Each commit writes its id at its own number."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bucket = MemoryBucket()
        make_store(self.bucket)
        self.bucket.fate, self.bucket.before = self.fate, self.before
        self.engines = [engine_on(self.bucket) for _ in range(3)]
        self.owned: list[Claim | None] = [None] * 3
        self.unsure: list[list[Write] | None] = [None] * 3
        self.busy: set[int] = set()
        self.acknowledged: dict[int, bytes] = {}
        self.next = 0

    def fate(self) -> Fate:
        return self.chance.choices(("", "done", "not done", "late"), (12, 1, 1, 1))[0]

    def before(self) -> None:
        """Others act while a request is under way."""
        while self.chance.random() < 0.3 and len(self.busy) < 3:
            self.step()

    def step(self) -> None:
        """Let a process do something, if one has nothing under way."""
        free = [each for each in range(3) if each not in self.busy]
        if not free:
            return
        who = self.chance.choice(free)
        self.busy.add(who)
        try:
            if self.bucket.late and self.chance.random() < 0.3:
                self.bucket.arrive()
            elif self.owned[who] is None or self.chance.random() < 0.03:
                self.claim(who)
            else:
                for _ in range(self.chance.randint(1, 6)):
                    self.commit(who)
        finally:
            self.busy.discard(who)

    def claim(self, who: int) -> None:
        engine = self.engines[who] = engine_on(self.bucket)
        self.owned[who] = self.unsure[who] = None
        try:
            owner = engine.owners().get(1)
            known = (owner.epoch, owner.seq) if owner else (0, None)
            at = engine.claim(1, Member(str(who)), *known)
        except (Fenced, EngineAway):
            return
        self.owned[who] = at
        self.check(engine, at)

    def commit(self, who: int) -> None:
        at, engine = self.owned[who], self.engines[who]
        if at is None:
            return
        ops = self.unsure[who]
        if ops is None:
            self.next += 1
            ops = [Write(LOG, at.seq * WIDTH, f"{self.next:08}".encode())]
        try:
            engine.commit(at, [Create(LOG, "log", 0), *ops] if at.seq == 0 else ops)
        except Fenced:
            self.owned[who] = self.unsure[who] = None
            return
        except EngineAway:
            self.unsure[who] = ops
            return
        assert at.seq not in self.acknowledged, "two owners had the same commit"
        self.acknowledged[at.seq] = ops[0].data
        self.owned[who], self.unsure[who] = at.after(), None

    def check(self, engine: ObjectStoreEngine, at: Claim) -> None:
        """Each acknowledged commit before this claim is there."""
        found = engine.read(at, LOG, 0, at.seq * WIDTH)
        for seq, data in self.acknowledged.items():
            if seq < at.seq:
                assert found[seq * WIDTH : (seq + 1) * WIDTH] == data, seq
        assert len(found) == at.seq * WIDTH and b"\0" not in found


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_was_acknowledged_is_lost_whoever_sleeps_or_claims(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.bucket.fate, world.bucket.before = lambda: "", lambda: None
    while world.bucket.late:
        world.bucket.arrive()
    engine = engine_on(world.bucket)
    at = claimed(engine, "last")

    assert max(world.acknowledged, default=-1) < at.seq
    world.check(engine, at)
    assert len(world.acknowledged) > STEPS / 4
