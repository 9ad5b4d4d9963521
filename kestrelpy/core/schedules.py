"""Schedules: find the times that have come, and enqueue one item for each of them, once.

    times ──▶ come ──▶ waiting ──▶ PUT with SCOPE and EPOCH ──▶ nothing up to EPOCH is put again
               │          └── refused (full, failed): tried again every second
               └── came unseen (the server was down, the clock was set): `catch_up`

A time has come when the wall clock shows it. The server puts an item for each time that comes while
it runs. For times that it missed it puts the last one, all of them (at most the last 1,000), or
none, as `catch_up` says. After the clock is set back, a schedule puts nothing until the clock has
passed the latest time already put; it says so from the first such time on.

The times of a changed line begin when the server first runs it: after a reload or a restart nothing
is put for the past. So the log knows the line as well: by a second watermark, which is greater for
each later line.

    scope b"nightly" 0 b"line"    epoch: the second in which it came into force, and a hash of it

One rule: the log alone says which times were put; a restart needs nothing from this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol
from zlib import crc32

from journal.format import Watermark
from kestrelpy.core.broker import Broker
from kestrelpy.core.queue import NOT_STORED, AnyQueue
from kestrelpy.core.timers import NEVER_MS
from kestrelpy.errors import NoRoomYet, Refused

CAUGHT_UP_MAX: Final = 1000
# When two looks are further apart than this, the clock was set or the machine slept: the times in
# between were missed.
MISSED_S: Final = 60
# The longest time between two looks. Each look tries refused items again and reads the clock.
LOOK_MS: Final = 1000
_SOON_MS: Final = 50  # until a journal may have room that had none
PUTS_MAX: Final = 1000  # in one look; the rest is due at once
# One look finds the times of this many schedules, 0.03 to 0.1 ms each. The rest is due at once.
FINDS_MAX: Final = 200
_COMPLAINT_MS: Final = 60_000  # one line a minute about a schedule is enough
_BEHIND_S: Final = 3600  # a clock this far before the latest time put is worth a line
_LINE_SCOPE: Final = b"\0line"
_HASH_BITS: Final = 20  # above them the seconds of a time: all stay below 2^53 until 2242
_HASH_MASK: Final = (1 << _HASH_BITS) - 1


class CatchUp(Enum):
    """Which of the missed times are put."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


_MOST: Final = {CatchUp.NONE: 0, CatchUp.LAST: 1, CatchUp.ALL: CAUGHT_UP_MAX}


class Times(Protocol):
    """The times of a schedule, in whole seconds since 1970."""

    def after(self, moment_s: int) -> Iterator[int]:
        """Return the times later than `moment_s`, rising."""

    def latest(self, after_s: int, to_s: int, most: int) -> list[int]:
        """Return the last `most` times later than `after_s` and up to `to_s`, rising."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a schedule puts, where and when.

    `line` and `timezone` give the times as the operator wrote them.
    """

    name: bytes
    queue: bytes
    body: bytes
    times: Times
    catch_up: CatchUp = CatchUp.LAST
    line: str = ""
    timezone: str = ""

    @property
    def line_scope(self) -> bytes:
        """The scope of the watermark that names its line."""
        return self.name + _LINE_SCOPE

    @property
    def line_hash(self) -> int:
        """The hash of its line and timezone in that watermark."""
        return crc32(f"{self.line}\0{self.timezone}".encode()) & _HASH_MASK

    def has_times_of(self, other: Schedule) -> bool:
        """True if it has the same line and timezone."""
        return (self.line, self.timezone) == (other.line, other.timezone)


class Running:
    """One schedule and its progress.

    Times up to `done_s` are never put again: it is the last time put, or the time at which the
    schedule began. `next_s` is None when no further time comes.
    """

    __slots__ = (
        "_coming", "_next_s", "_passed_s", "_sought_s", "complained_ms", "done_s", "is_known",
        "looked_s", "refused", "schedule", "since_s", "waiting",
    )  # fmt: skip

    def __init__(self, schedule: Schedule, done_s: int, looked_s: int) -> None:
        """`looked_s`: times up to this one have been looked at."""
        self.schedule = schedule
        self.done_s = done_s
        self.looked_s = looked_s
        self.since_s = done_s  # when its line came into force: no earlier time is of this line
        self.waiting: list[int] = []  # times that have come and are not put yet, rising
        self.is_known = False  # True once the queue's log names this schedule
        self.refused = ""  # why the first waiting time was refused
        self.complained_ms = -_COMPLAINT_MS
        # The first time that comes again because the clock was set back; None: none does.
        self._passed_s: int | None = None
        if looked_s < done_s:
            self._set_back(looked_s)
        self.seek(looked_s)

    def seek(self, from_s: int) -> None:
        """Find the next time after `from_s` and after every time that has come, once it is asked
        for: a reload of thousands of schedules does not wait for that."""
        self._sought_s: int | None = max(from_s, self._come_s)

    @property
    def next_s(self) -> int | None:
        """The next time; None: no further one comes."""
        if self._sought_s is not None:
            self._coming = self.schedule.times.after(self._sought_s)
            self._next_s, self._sought_s = next(self._coming, None), None
        return self._next_s

    def is_work(self, unix_s: int) -> bool:
        """True if `look` has to find times: that takes up to 0.1 ms."""
        if self._sought_s is not None or unix_s < self.looked_s:
            return True
        return self._next_s is not None and self._next_s <= unix_s

    @property
    def _come_s(self) -> int:
        return self.waiting[-1] if self.waiting else self.done_s

    def look(self, unix_s: int) -> None:
        """Move the times that have come by `unix_s` to `waiting`."""
        since_s, self.looked_s = self.looked_s, unix_s
        if unix_s < since_s:
            self._set_back(unix_s)
            self.seek(unix_s)
        elif unix_s - since_s > MISSED_S:
            if self.next_s is not None and self.next_s <= unix_s:
                self.miss(since_s)
        else:
            while self.next_s is not None and self.next_s <= unix_s:
                self.waiting.append(self.next_s)
                self._next_s = next(self._coming, None)

    def _set_back(self, unix_s: int) -> None:
        """Note the first time that comes again, now that the clock was set back."""
        coming = next(self.schedule.times.after(unix_s), None)
        self._passed_s = coming if coming is not None and coming <= self.done_s else None

    def miss(self, since_s: int) -> None:
        """Treat the times from `since_s` to `looked_s` as missed; those to catch up on wait."""
        most = _MOST[self.schedule.catch_up]
        since_s = max(since_s, self._come_s)
        if most:
            self.waiting += self.schedule.times.latest(since_s, self.looked_s, most)
        self.seek(self.looked_s)

    def done(self) -> None:
        """Note that the first waiting time was put."""
        self.done_s, self._passed_s = self.waiting.pop(0), None

    def refuse(self, why: str) -> None:
        """Note that the first waiting time was refused; keep the waiting times `catch_up` allows.

        At least the last of them goes on waiting.
        """
        self.refused = why
        del self.waiting[: -max(_MOST[self.schedule.catch_up], 1)]

    @property
    def state(self) -> str:
        """The reason of the last refusal, a complaint about the clock, or "ok"."""
        if self.refused:
            return self.refused
        behind_s = self.done_s - self.looked_s
        passed_s = self._passed_s
        is_passing = passed_s is not None and passed_s <= self.looked_s <= self.done_s + MISSED_S
        if is_passing or behind_s > _BEHIND_S:
            return (
                f"the clock is {max(behind_s, 0)} seconds behind the last time that was put: it "
                "was set back, and no time is put twice"
            )
        return "ok"


class Timetable:
    """All schedules of a server. `complaints` holds lines for the server's log; with
    `waits_for_room` an item waits for the next segment of its queue."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.running: dict[bytes, Running] = {}
        self.complaints: list[str] = []
        self._looked_ms = 0
        self._is_due = False
        self._next_unix_ms = NEVER_MS  # when the next time comes
        self.waits_for_room = False

    def take_over(self, schedules: Iterable[Schedule], now_ms: int) -> None:
        """Run these schedules from now on. A new one begins now; the others keep their progress."""
        unix_s = self._unix_s(now_ms)
        before, self.running = self.running, {}
        known = self._all_known()
        for schedule in schedules:
            there = before.get(schedule.name)
            if there is None:
                running = self._begun(schedule, unix_s, known)
            elif there.schedule == schedule:
                running = there
            else:
                running = Running(schedule, there.done_s, there.looked_s)
                if schedule.has_times_of(there.schedule):
                    running.waiting, running.since_s = there.waiting, there.since_s
                else:
                    running.since_s = there.looked_s
                running.seek(there.looked_s)
            self.running[schedule.name] = running
        self._is_due = True

    @staticmethod
    def _begun(schedule: Schedule, unix_s: int, all_known: Mapping[bytes, int]) -> Running:
        """Return the schedule with the progress that the logs give, in whichever queue."""
        known = all_known.get(schedule.name)
        running = Running(schedule, unix_s if known is None else known, unix_s)
        if known is None:
            return running
        line = all_known.get(schedule.line_scope)
        if line is None or line & _HASH_MASK == schedule.line_hash:
            running.miss(max(known, (line or 0) >> _HASH_BITS))
        else:
            running.since_s = unix_s
        return running

    def _all_known(self) -> dict[bytes, int]:
        """Return the greatest watermark of each scope, in whichever queue: one pass for all
        schedules, since there may be thousands of both."""
        found: dict[bytes, int] = {}
        for queue in self._broker.queues.values():
            for scope, value in queue.files.watermarks.items():
                found[scope] = max(value, found.get(scope, value))
        return found

    def next_due(self) -> int | None:
        """Return when to look again, on the monotonic clock; None: never."""
        if not self.running:
            return None
        if self._is_due:
            return self._looked_ms
        next_ms = self._next_unix_ms - self._broker.clock.offset_ms
        return min(self._looked_ms + LOOK_MS, next_ms)

    def look(self, now_ms: int, why_not: str = "") -> None:
        """Put the times that have come; with a `why_not`, refuse them all for that reason."""
        unix_s = self._unix_s(now_ms)
        self._looked_ms, self._is_due = now_ms, False
        puts = begins = PUTS_MAX  # the records of a begin are as much work as an item's
        self.waits_for_room = False
        finds, times = FINDS_MAX, list[int]()
        known: dict[bytes, int] = {}
        if not why_not and not all(each.is_known for each in self.running.values()):
            known = self._all_known()
        for running in self.running.values():
            if running.is_work(unix_s):
                if not finds:
                    continue  # it is its turn at the next look, which is due at once
                finds -= 1
            running.look(unix_s)
            if (next_s := running.next_s) is not None:
                times.append(next_s)
            if running.waiting or not running.is_known:
                try:
                    if why_not:
                        raise Refused(why_not)
                    if not running.is_known and begins:
                        begins -= 1
                        self._make_known(running, known, now_ms)
                    if running.is_known:
                        puts -= self._serve(running, puts, now_ms)
                except NoRoomYet:
                    self.waits_for_room = True
                except Refused as refused:
                    running.refuse(str(refused))
            if running.state != "ok" and now_ms - running.complained_ms >= _COMPLAINT_MS:
                running.complained_ms = now_ms
                name = running.schedule.name.decode("ascii", "replace")
                self.complaints.append(f"schedule {name}: {running.state}")
        self._is_due = not (puts and begins and finds)
        self._next_unix_ms = min(times, default=NEVER_MS // 1000) * 1000
        if self.waits_for_room:
            soon_ms = now_ms + self._broker.clock.offset_ms + _SOON_MS
            self._next_unix_ms = min(self._next_unix_ms, soon_ms)

    def put_now(self, schedule: Schedule, now_ms: int) -> tuple[AnyQueue, int]:
        """Put an item of this schedule now, beside its times; return its queue, and the record to
        wait for. Raise Refused."""
        queue = self._queue(schedule.queue, now_ms)
        key = queue.policy.keys.key_of(queue.name, (), schedule.body)
        lsn = queue.put(schedule.body, 0, 0, now_ms, key)
        if lsn == NOT_STORED:
            raise Refused(f"queue {schedule.queue.decode('ascii')} is full")
        return queue, lsn

    def _serve(self, running: Running, most: int, now_ms: int) -> int:
        """Put at most `most` waiting times; return how many were put. Raise Refused."""
        schedule = running.schedule
        running.refused = ""
        put = 0
        while running.waiting and put < most:
            nominal = Watermark(schedule.name, running.waiting[0])
            queue = self._queue(schedule.queue, now_ms)
            key = queue.policy.keys.key_of(queue.name, (), schedule.body)
            if queue.put(schedule.body, 0, 0, now_ms, key, nominal) == NOT_STORED:
                raise Refused(f"queue {schedule.queue.decode('ascii')} is full")
            running.done()
            put += 1
        return put

    def _make_known(self, running: Running, known: Mapping[bytes, int], now_ms: int) -> None:
        """Record the schedule's start in its queue, so that missed first times are caught up on.
        `known`: the watermarks of all queues."""
        queue = self._queue(running.schedule.queue, now_ms)
        if queue.files.watermarks.get(running.schedule.name, -1) < running.done_s:
            queue.files.skip(Watermark(running.schedule.name, running.done_s), now_ms)
        schedule, said = running.schedule, known.get(running.schedule.line_scope)
        if said is None or said & _HASH_MASK != schedule.line_hash:
            since = max(running.since_s, 0 if said is None else (said >> _HASH_BITS) + 1)
            mark = Watermark(schedule.line_scope, since << _HASH_BITS | schedule.line_hash)
            queue.files.skip(mark, now_ms)
        running.is_known = True

    def _queue(self, name: bytes, now_ms: int) -> AnyQueue:
        return self._broker.queues.get(name) or self._broker.create(name, now_ms)

    def _unix_s(self, now_ms: int) -> int:
        return max((now_ms + self._broker.clock.offset_ms) // 1000, 0)
