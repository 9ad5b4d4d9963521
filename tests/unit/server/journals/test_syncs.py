"""Threads sync from one list, and tell the loop of many results at once; each sync counts once."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from journal.store import SyncJob
from kestrelpy.core import JournalLog
from kestrelpy.server.journals import syncs as module
from kestrelpy.server.journals.syncs import (
    IN_TURN_SECONDS,
    REPORTED_MAX,
    SLOW_PAUSE_SECONDS,
    SLOW_SECONDS,
    THREADS_MAX,
    Syncs,
)


class Loop:
    """Collects what is to be called on the loop."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    call_soon = call_soon_threadsafe

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class File:
    """A file of a journal. Its sync waits for `go`, and may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.path = "f"
        self.error = error
        self.go = threading.Event()
        self.go.set()
        self.syncs = 0

    def write(self, offset: int, data: bytes) -> None:
        raise AssertionError("nothing is written here")

    def sync(self) -> None:
        self.go.wait(30)
        self.syncs += 1
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        raise AssertionError("nothing is sealed here")


class Journals:
    """Syncs of journals with one file each, and what was reported of them."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.reported: list[int] = []
        self.errors: dict[int, OSError | None] = {}
        self.syncs = Syncs(cast(Any, self.loop), self._finished)

    def _finished(self, target: JournalLog, took_s: float) -> None:
        assert took_s >= 0
        self.reported.append(cast(Any, target).number)

    def add(self, number: int, file: File, in_turn: bool = False) -> None:
        def finish_sync(error: OSError | None) -> None:
            self.errors[number] = error

        journal = SimpleNamespace(finish_sync=finish_sync, folder=str(number))
        target = SimpleNamespace(
            number=number, journal=journal, sync_in_turn=in_turn, is_local=True
        )
        self.syncs.add(cast(Any, target), SyncJob([file], []))

    def wait_for(self, count: int) -> None:
        """Let the loop turn until `count` syncs are reported."""
        pause = threading.Event()
        for _ in range(10_000):
            self.loop.turn()
            if len(self.reported) >= count:
                return
            pause.wait(0.002)
        raise AssertionError(f"only {len(self.reported)} of {count} were reported")


@pytest.fixture
def journals() -> Any:
    made = Journals()
    yield made
    made.syncs.close()


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Journals:
    """Threads that run only when a test calls `syncs._work()`."""
    monkeypatch.setattr(
        module, "threading", SimpleNamespace(Thread=lambda **_: SimpleNamespace(start=bool))
    )
    return Journals()


def run_one_thread(journals: Journals) -> None:
    journals.syncs._calls.put(False)
    journals.syncs._work()


def test_no_sync_begins_before_the_start_of_its_wave(journals: Journals) -> None:
    file = File()
    journals.add(1, file)
    assert journals.syncs.in_flight == 1
    assert file.syncs == 0
    assert not journals.syncs._todo
    journals.syncs.start()
    journals.wait_for(1)
    assert journals.syncs.in_flight == 0


def test_a_file_that_hangs_holds_up_no_other_of_its_wave(journals: Journals) -> None:
    hanging = File()
    hanging.go.clear()
    for number in range(200):
        journals.add(number, hanging if number == 3 else File())
    journals.syncs.start()

    journals.wait_for(199)
    assert 3 not in journals.reported
    journals.add(200, File())  # and none of a later one
    journals.syncs.start()
    journals.wait_for(200)
    assert 3 not in journals.reported

    hanging.go.set()
    journals.wait_for(201)


def test_an_error_is_the_error_of_its_file_alone(journals: Journals) -> None:
    bad, strange = File(OSError(errno.EIO, "Input/output error")), File(ValueError("no file"))
    files = [File(), bad, File(), strange, File()]
    for number, file in enumerate(files):
        journals.add(number, file)
    journals.syncs.start()
    journals.wait_for(5)
    assert [file.syncs for file in files] == [1] * 5, "each is synced once, whatever comes of it"
    assert journals.errors[1] is bad.error
    assert "no file" in str(journals.errors[3])
    assert [journals.errors[number] for number in (0, 2, 4)] == [None] * 3


def test_a_thread_tells_the_loop_once_of_all_that_it_synced_meanwhile(
    by_hand: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.clock, "elapsed", lambda: 0.0)
    for number in range(100):
        by_hand.add(number, File())
    by_hand.syncs.start()
    run_one_thread(by_hand)
    assert len(by_hand.loop.calls) == 1
    by_hand.loop.turn()
    assert by_hand.reported == list(range(100))


def test_with_more_to_sync_results_are_delivered_after_a_while(
    by_hand: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand.add(1, File())
    slow = File()
    by_hand.add(2, slow)
    told: list[int] = []
    monkeypatch.setattr(slow, "sync", lambda: told.append(len(by_hand.loop.calls)))
    times = iter([0.0, 0.0, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002])
    monkeypatch.setattr(module.clock, "elapsed", lambda: next(times))
    by_hand.syncs.start()
    run_one_thread(by_hand)
    assert told == [1], "the first is told before the second has ended"


def test_a_sync_added_while_the_last_thread_goes_to_rest_is_done(by_hand: Journals) -> None:
    for number in range(THREADS_MAX):
        by_hand.add(number, File())
    by_hand.syncs.start()
    run_one_thread(by_hand)  # all rest now, and the loop does not know it
    by_hand.add(99, File())
    by_hand.syncs.start()
    assert by_hand.syncs._calls.empty(), "the loop knows of no free thread"

    by_hand.loop.turn()
    run_one_thread(by_hand)
    by_hand.loop.turn()
    assert 99 in by_hand.reported


def test_of_many_results_some_are_reported_in_each_callback(by_hand: Journals) -> None:
    for number in range(2 * REPORTED_MAX + 1):
        by_hand.add(number, File())
    by_hand.syncs.start()
    run_one_thread(by_hand)
    counts = []
    while by_hand.loop.calls:
        by_hand.loop.turn()
        counts.append(len(by_hand.reported))
    assert [count for count in counts if count] == [
        REPORTED_MAX, 2 * REPORTED_MAX, 2 * REPORTED_MAX + 1,
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["journal", "turn"])
def test_an_error_at_one_report_leaves_the_others(
    by_hand: Journals, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    def finished(target: Any, took_s: float) -> None:
        if target.number == 0:
            raise RuntimeError("a bug")
        by_hand.reported.append(target.number)

    def finish_sync(error: OSError | None) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(by_hand.syncs, "_finished", finished)
    for number in range(3):
        by_hand.add(number, File())
    if where == "journal":
        cast(Any, by_hand.syncs._added[0].target).journal.finish_sync = finish_sync
    by_hand.syncs.start()
    run_one_thread(by_hand)
    by_hand.loop.turn()
    assert by_hand.reported == [1, 2]
    assert by_hand.syncs.in_flight == 0
    assert "after a sync of 0" in caplog.text


# -- in the turn --------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes: a turn has time for each sync."""
    monkeypatch.setattr(module.clock, "elapsed", lambda: 100.0)


@pytest.mark.usefixtures("at_once")
def test_a_sync_in_the_turn_is_reported_before_the_turn_goes_on(by_hand: Journals) -> None:
    file, other = File(), File()
    by_hand.add(1, file, in_turn=True)
    by_hand.add(2, other)
    by_hand.syncs.start()
    assert by_hand.reported == [1]
    assert (file.syncs, other.syncs) == (1, 0)
    assert by_hand.syncs.in_flight == 1
    run_one_thread(by_hand)
    by_hand.loop.turn()
    assert by_hand.reported == [1, 2]
    assert file.syncs == 1


@pytest.mark.usefixtures("at_once")
def test_an_error_in_the_turn_is_the_error_of_its_file(by_hand: Journals) -> None:
    bad = File(OSError(errno.EIO, "Input/output error"))
    by_hand.add(1, bad, in_turn=True)
    by_hand.add(2, File(), in_turn=True)
    by_hand.syncs.start()
    assert by_hand.errors == {1: bad.error, 2: None}
    assert bad.syncs == 1


def test_after_a_slow_sync_in_the_turn_they_run_on_threads_for_a_while(
    by_hand: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.clock, "elapsed", lambda: now[0])
    slow = File()

    def sync() -> None:
        now[0] += SLOW_SECONDS

    monkeypatch.setattr(slow, "sync", sync)
    by_hand.add(1, slow, in_turn=True)
    by_hand.add(2, File(), in_turn=True)
    by_hand.syncs.start()
    assert by_hand.reported == [1]
    now[0] += SLOW_PAUSE_SECONDS / 2
    by_hand.add(3, File(), in_turn=True)
    by_hand.syncs.start()
    assert by_hand.reported == [1]
    run_one_thread(by_hand)
    by_hand.loop.turn()
    assert by_hand.reported == [1, 2, 3]

    now[0] += SLOW_PAUSE_SECONDS
    by_hand.add(4, File(), in_turn=True)
    by_hand.syncs.start()
    assert by_hand.reported == [1, 2, 3, 4]


def test_a_turn_syncs_for_a_bounded_time(
    by_hand: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.clock, "elapsed", lambda: now[0])

    def sync(file: File) -> None:
        now[0] += IN_TURN_SECONDS / 4

    monkeypatch.setattr(File, "sync", sync)
    for number in range(10):
        by_hand.add(number, File(), in_turn=True)
    by_hand.syncs.start()
    assert len(by_hand.reported) in (4, 5)
    assert len(by_hand.syncs._todo) == 10 - len(by_hand.reported), "the others are for threads"


class Engine:
    """The files of an engine, which tells by itself, or leaves it to a thread."""

    def __init__(self, tells: bool = True) -> None:
        self.tells = tells
        self.callbacks: list[Callable[[OSError | None], None]] = []

    def sync_later(self, handles: object, done: Callable[[OSError | None], None]) -> bool:
        if self.tells:
            self.callbacks.append(done)
        return self.tells


class Sealed(File):
    """A file that is closed once."""

    def __init__(self, error: OSError | None = None) -> None:
        super().__init__()
        self.closed = 0
        self._why = error

    def close(self) -> None:
        self.closed += 1
        if self._why is not None:
            raise self._why


def add_on_engine(journals: Journals, number: int, engine: Engine, sealed: Sealed) -> None:
    def finish_sync(error: OSError | None) -> None:
        journals.errors[number] = error

    journal = SimpleNamespace(finish_sync=finish_sync, folder=str(number), files=engine)
    target = SimpleNamespace(number=number, journal=journal, sync_in_turn=False, is_local=False)
    journals.syncs.add(cast(Any, target), SyncJob([sealed], [sealed]))


FENCED = OSError(errno.ESTALE, "another process has claimed the slice")


@pytest.mark.parametrize(("error", "closing", "found"), [
    (None, None, None),
    (FENCED, None, FENCED),
    (None, OSError(errno.EIO, "no"), errno.EIO),
    (FENCED, OSError(errno.EIO, "no"), FENCED),
])  # fmt: skip
def test_an_engine_tells_of_its_files_without_a_thread_of_ours(
    by_hand: Journals, error: OSError | None, closing: OSError | None, found: OSError | int | None
) -> None:
    engine, sealed = Engine(), Sealed(closing)
    add_on_engine(by_hand, 1, engine, sealed)
    add_on_engine(by_hand, 2, engine, Sealed())
    by_hand.syncs.start()
    assert by_hand.syncs.in_flight == 2
    assert not sealed.closed, "it is not over"
    for done in engine.callbacks:
        done(error)
    assert len(by_hand.loop.calls) == 1, "the loop is told once"
    by_hand.loop.turn()

    assert by_hand.reported == [1, 2]
    assert sealed.closed == 1
    assert sealed.syncs == by_hand.syncs._threads == by_hand.syncs.in_flight == 0
    error = by_hand.errors[1]
    assert (error.errno if isinstance(found, int) and error is not None else error) == found


def test_an_engine_that_tells_nobody_is_waited_for_on_a_thread(journals: Journals) -> None:
    sealed = Sealed()
    add_on_engine(journals, 1, Engine(tells=False), sealed)
    journals.syncs.start()
    journals.wait_for(1)

    assert (sealed.syncs, sealed.closed) == (1, 1)
