"""Commits on an engine, one after another: when a write counts as committed, and when not."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest

from journal.engine import Claim, Commits, Create, DeleteFile, Fenced, Rename, Write
from journal.engine.commits import WaitingGroups
from journal.engine.engine import PIECE_BYTES
from tests.support.memory_engine import Fate, MemoryEngine, claimed


def commits_of(engine: MemoryEngine, **more: Any) -> Commits:
    return Commits(engine, claimed(engine, "a"), pause=lambda _: None, **more)


def fates(*first: Fate) -> Callable[[], Fate]:
    left = list(first)
    return lambda: left.pop(0) if left else ""


# -- the outbox ---------------------------------------------------------------------------------


def test_a_commit_takes_what_waits_up_to_a_bound_but_one_group_at_least() -> None:
    outbox = WaitingGroups()
    large = Write(1, 0, b"x" * PIECE_BYTES)
    tickets = [outbox.add((each,)) for each in (Write(1, 0, b"a"), large, large, large)]

    assert tickets == [1, 2, 3, 4]
    assert outbox.take() == (1, [Write(1, 0, b"a")])
    assert [outbox.take()[0] for _ in range(3)] == [2, 3, 4]
    assert outbox.take() == (0, [])
    assert outbox.bytes == 0


def test_a_group_is_never_divided() -> None:
    outbox = WaitingGroups()
    outbox.add((Create(1, "a", 0), Write(1, 0, b"x" * PIECE_BYTES), Rename(1, "b")))
    outbox.add((Write(1, 0, b"y"),))

    assert len(outbox.take()[1]) == 3


# -- commits ------------------------------------------------------------------------------------


def test_what_waits_for_nobody_is_committed_with_the_next_that_is_waited_for() -> None:
    engine = MemoryEngine()
    commits = commits_of(engine)
    commits.add(Create(1, "a", 0))
    commits.wait(commits.add(Write(1, 0, b"x")))

    assert [len(each) for each in engine.commits] == [2]
    assert commits.claim == Claim(1, 1, 1)


@pytest.mark.parametrize("fate", ["not done", "done"])
def test_a_commit_of_unknown_outcome_is_made_once(fate: Fate) -> None:
    engine = MemoryEngine(fates(fate, fate, "not done"))
    commits = commits_of(engine)

    commits.wait(commits.add(Create(1, "a", 0), Write(1, 0, b"x")))
    commits.wait(commits.add(Write(1, 1, b"y")))

    assert engine.contents(1) == {"a": b"xy"}
    assert [len(each) for each in engine.commits] == [2, 1]
    assert commits.trouble == ""


FULL: tuple[tuple[Fate, ...], ...] = (
    ("full",), ("full", "full"), ("full", "", "full"), ("full", "not done"), ("full", "done"),
    ("full", "done", "done", "", "not done"), ("not done", "full"), ("full", "full", "done"),
    ("full", "full", "done", "full", "done", "done"),
)  # fmt: skip


@pytest.mark.parametrize("fate", FULL)
def test_what_a_full_engine_refused_is_done_once_behind_beats(fate: tuple[Fate, ...]) -> None:
    engine = MemoryEngine(fates(*fate))
    commits = commits_of(engine)

    commits.wait(commits.add(Create(1, "a", 0), Write(1, 0, b"x")))
    commits.wait(commits.add(Write(1, 1, b"y")))

    assert engine.contents(1) == {"a": b"xy"}
    assert [len(each) for each in engine.commits if each] == [2, 1]
    assert commits.claim.seq == len(engine.commits)
    assert (commits.trouble, commits.is_full) == ("", False)


def test_the_owner_of_a_full_engine_goes_on_and_says_that_it_is_full() -> None:
    now_s, seen = [0.0], list[tuple[str, bool, float, int]]()

    def pause(_: float) -> None:
        now_s[0] += 1
        told = (commits.trouble, commits.is_full, commits.sure_since_s, commits.claim.seq)
        seen.append(told)

    engine = MemoryEngine(fates("full", "", "full", "", ""))
    commits = Commits(engine, claimed(engine, "a"), clock=lambda: now_s[0], pause=pause)
    commits.wait(commits.add(Create(1, "a", 0)))

    assert seen == [("no room", True, 0.0, 1), ("no room", True, 1.0, 2)]
    assert (commits.sure_since_s, commits.claim.seq) == (2.0, 3)


def test_a_full_engine_that_another_process_claimed_takes_no_beat() -> None:
    engine = MemoryEngine(fates("full"))
    commits = commits_of(engine)
    ticket = commits.add(Create(1, "a", 0))
    claimed(engine, "b")

    with pytest.raises(OSError) as raised:
        commits.wait(ticket)
    assert raised.value.errno == errno.ESTALE


def test_while_the_engine_is_away_the_trouble_is_named_and_nothing_counts() -> None:
    engine = MemoryEngine()
    commits = commits_of(engine)
    seen = list[tuple[str, bool]]()

    def back(_: float) -> None:
        seen.append((commits.trouble, commits.is_committed(1)))
        engine.is_away = len(seen) < 3

    commits._pause = back
    engine.is_away = True
    commits.wait(commits.add(Create(1, "a", 0)))

    assert seen == [("it does not answer", False)] * 3
    assert commits.is_committed(1)


def test_an_owner_whose_slice_is_claimed_commits_nothing_and_every_waiter_hears_it() -> None:
    engine = MemoryEngine()
    commits = commits_of(engine)
    commits.wait(commits.add(Create(1, "a", 0)))
    claimed(engine, "b")

    first, second = commits.add(Write(1, 0, b"x")), commits.add(Write(1, 1, b"y"))
    for act in (
        lambda: commits.wait(first), lambda: commits.wait(second),
        lambda: commits.add(Write(1, 2, b"z")),
    ):  # fmt: skip
        with pytest.raises(OSError, match="b claimed the slice") as raised:
            act()
        assert raised.value.errno == errno.ESTALE
    assert engine.contents(1) == {"a": b""}
    assert isinstance(commits.failure, Fenced)


def test_what_was_committed_before_the_fence_stays_committed() -> None:
    engine = MemoryEngine()
    commits = commits_of(engine)
    ticket = commits.add(Create(1, "a", 0))
    commits.wait(ticket)
    claimed(engine, "b")
    commits.beat()

    commits.wait(ticket)  # it does not raise
    assert commits.failure is not None


def test_an_owner_is_sure_since_its_last_commit_began() -> None:
    """The engine may have done it at any moment from then on."""
    engine = MemoryEngine()
    times = iter([10.0, 11.0, 12.0, 13.0])
    commits = commits_of(engine, clock=lambda: next(times))
    assert commits.sure_since_s == 10.0

    commits.beat()

    assert commits.sure_since_s == 11.0


# -- on a thread --------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["not done", "done"])
def test_a_commit_that_is_asked_for_again_says_nothing_of_later_than_the_first_time(
    fate: Fate,
) -> None:
    now_s = [0.0]
    engine = MemoryEngine(fates("", fate, fate))
    commits = Commits(
        engine, claimed(engine, "a"), clock=lambda: now_s[0],
        pause=lambda _: now_s.__setitem__(0, now_s[0] + 5),
    )  # fmt: skip
    commits.beat()
    now_s[0] = 10.0

    commits.beat()

    assert now_s[0] > 10.0
    assert commits.sure_since_s == 10.0, "a standby may have seen it then, and nothing since"


def test_a_claim_says_nothing_of_later_than_it_was_asked_for() -> None:
    engine = MemoryEngine()
    commits = commits_of(engine, clock=lambda: 9.0, claimed_s=2.0)

    assert commits.sure_since_s == 2.0


def test_after_a_commit_that_took_long_the_next_one_follows_at_once() -> None:
    engine = MemoryEngine(fates("not done", "not done"))
    commits = Commits(engine, claimed(engine, "a"), 60.0, pause=lambda _: None)
    now_s = iter((0.0, 100.0, 200.0, 201.0, 202.0))
    commits._clock = lambda: next(now_s, 202.0)
    commits.wait(commits.add(Create(1, "a", 0)))
    commits.close()

    assert commits.sure_since_s == 200.0, "a beat of its own, and no minute later"
    assert commits.commits == 2


class SlowEngine(MemoryEngine):
    """An engine whose commits wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def commit(self, at: Claim, ops: Any) -> None:
        self.began.release()
        assert self.go.acquire(timeout=30)
        super().commit(at, ops)


def test_while_a_commit_is_in_flight_the_next_one_gathers() -> None:
    engine = SlowEngine()
    commits = commits_of(engine, beat_s=60.0)
    tickets = [commits.add(Create(1, "a", 0))]
    assert commits.tell(tickets[0], lambda _: None)
    assert engine.began.acquire(timeout=30)
    tickets += [commits.add(Write(1, at, b"x")) for at in range(100)]

    assert not any(map(commits.is_committed, tickets))
    engine.go.release()
    commits.wait(tickets[0])
    assert not any(map(commits.is_committed, tickets[1:]))
    engine.go.release()
    commits.wait(tickets[-1])

    assert [len(each) for each in engine.commits] == [1, 100]
    engine.go.release(9)
    commits.close()


def test_what_nobody_waits_for_gathers_until_somebody_does() -> None:
    engine = SlowEngine()
    commits = commits_of(engine, beat_s=60.0)
    commits.add(Create(1, "a", 0))
    last = [commits.add(Write(1, at, b"x")) for at in range(9)][-1]
    assert not engine.began.acquire(timeout=0.01)
    engine.go.release(9)
    commits.wait(last)

    assert [len(each) for each in engine.commits] == [10]
    commits.close()


class Ear:
    """Hears what was told, by which thread."""

    def __init__(self) -> None:
        self.results: dict[int, OSError | None] = {}
        self.threads: set[str] = set()
        self.rang = threading.Semaphore(0)

    def of(self, ticket: int) -> Callable[[OSError | None], None]:
        def hear(error: OSError | None) -> None:
            assert ticket not in self.results
            self.results[ticket] = error
            self.threads.add(threading.current_thread().name)
            self.rang.release()

        return hear


def test_all_that_a_commit_has_are_notified_by_its_thread_and_no_others() -> None:
    engine, ear = SlowEngine(), Ear()
    commits = commits_of(engine, beat_s=60.0)
    first, second = commits.add(Create(1, "a", 0)), commits.add(Write(1, 0, b"x"))
    for ticket in (second, first):
        assert commits.tell(ticket, ear.of(ticket))
    assert engine.began.acquire(timeout=30)
    third = commits.add(Write(1, 1, b"y"))
    assert commits.tell(third, ear.of(third))
    assert not ear.results, "nothing is committed"
    engine.go.release()
    assert ear.rang.acquire(timeout=30)
    assert ear.rang.acquire(timeout=30)
    assert ear.results == {second: None, first: None}
    engine.go.release(9)
    assert ear.rang.acquire(timeout=30)
    assert ear.threads == {"kestrelpy-commit"}

    assert commits.tell(first, ear.of(0)), "it is committed long since"
    assert ear.results[0] is None
    commits.close()


def test_all_that_wait_are_notified_that_another_has_claimed_the_slice() -> None:
    engine, ear = SlowEngine(), Ear()
    commits = commits_of(engine, beat_s=60.0)
    engine.go.release(9)
    tickets = [commits.add(Create(1, "a", 0))]
    commits.wait(tickets[0])
    claimed(engine, "b")
    tickets += [commits.add(Write(1, at, b"x")) for at in range(3)]
    for ticket in tickets:
        commits.tell(ticket, ear.of(ticket))
    for _ in tickets:
        assert ear.rang.acquire(timeout=30)
    assert commits.tell(99, ear.of(99)), "it comes too late"

    assert ear.results.pop(tickets[0]) is None
    assert all(error is not None and error.errno == errno.ESTALE for error in ear.results.values())
    assert len(ear.results) == 4


def test_without_a_thread_nobody_is_notified() -> None:
    commits = commits_of(MemoryEngine())
    assert not commits.tell(commits.add(Create(1, "a", 0)), lambda _: None)


def test_a_thread_beats_while_nothing_is_committed() -> None:
    engine = SlowEngine()
    commits = commits_of(engine, beat_s=0.001)
    for _ in range(3):
        assert engine.began.acquire(timeout=30)
        engine.go.release()

    engine.go.release(9)
    commits.close()
    assert all(each == () for each in engine.commits)


def test_what_comes_behind_a_close_is_refused_and_waits_for_nobody() -> None:
    """A segment may be about to be removed when the process ends."""
    engine = MemoryEngine()
    commits = commits_of(engine, beat_s=60.0)
    commits.wait(commits.add(Create(1, "a", 10)))
    commits.close()

    heard = list[OSError | None]()
    assert commits.tell(2, heard.append)
    for act in (lambda: commits.add(DeleteFile(1)), lambda: commits.wait(2)):
        with pytest.raises(OSError, match="this process is ending"):
            act()
    assert [each is not None and each.errno for each in heard] == [errno.ESHUTDOWN]
    assert commits.failure is None, "the slice is released"
    assert list(engine.contents(1)) == ["a"]


def test_a_close_commits_what_waits_and_does_not_wait_for_an_engine_that_is_away() -> None:
    engine = MemoryEngine()
    commits = commits_of(engine, beat_s=60.0)
    commits.add(Create(1, "a", 0))
    commits.close()
    assert engine.contents(1) == {"a": b""}

    again = commits_of(engine, beat_s=60.0)
    engine.is_away = True
    ticket = again.add(Write(1, 0, b"x"))
    again.close()
    with pytest.raises(OSError, match="does not answer"):
        again.wait(ticket)
