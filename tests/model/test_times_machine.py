"""Each nominal time of a schedule is put exactly once, and of the missed ones as `catch_up` says.

    the server runs      each time that comes is put
    it is down, or the   of the times since the last one that was put: none, the last, all (1,000)
    clock leaps a minute
    another line, zone   nothing for the past
    another queue, body  the times go on, over a restart as well; nothing is put twice
    the clock goes back  nothing up to the last time that was put

The walks stand around days on which clocks change. The model has the times of a line by trying
every five minutes; it is written from what the configuration file says of schedules.

One rule: after each step every queue holds what was put since, as often as it was.

Promise delay: model with delays, retries, deferral, restarts and power cuts; little memory against
    endless; transcripts with kills and power cuts.
Promise: duration.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

import pytest

from tests.model.narrow import Narrow, bodies, measure
from tests.support.server_harness import WALL_MS, ServerHarness

MOST: Final = {"none": 0, "last": 1, "all": 1000}
MISSED_S: Final = 60
# The last day of summer time in Europe, and the first one.
BEGINS: Final = (
    datetime(2024, 10, 26, 23, 40, tzinfo=UTC),
    datetime(2024, 3, 30, 23, 40, tzinfo=UTC),
)
DAYS: Final = 9
LINES: Final = ("30 2 * * *", "15,45 1-3 * * *", "*/20 * * * *", "0 0 * * *", "*/5 1 * * SUN")


def _matches(line: str, local: datetime) -> bool:
    minute, hour, _, _, day = line.split()
    return (
        _in(minute, local.minute) and _in(hour, local.hour)
        and (day == "*" or local.strftime("%a").upper() == day)
    )  # fmt: skip


def _in(text: str, number: int) -> bool:
    if text.startswith("*"):
        return number % int(text[2:] or 1) == 0
    ranges = [each.partition("-") for each in text.split(",")]
    return any(int(low) <= number <= int(high or low) for low, _, high in ranges)


@cache
def times(line: str, timezone: str) -> tuple[int, ...]:
    """Every moment of this line near the days that the walks are at."""
    zone, found = ZoneInfo(timezone), set[int]()
    minutes = range(-2 * 1440, (DAYS + 2) * 1440, 5)  # as the lines are
    for begin in BEGINS:
        if line.split()[1] == "*":  # by elapsed time
            for each in minutes:
                moment = begin + timedelta(minutes=each)
                if _matches(line, moment.astimezone(zone)):
                    found.add(int(moment.timestamp()))
            continue
        for (
            each
        ) in minutes:  # by the clock on the wall: the first of two, and later if there is none
            local = begin.replace(tzinfo=None) + timedelta(minutes=each)
            if _matches(line, local):
                found.add(int(local.replace(tzinfo=zone).timestamp()))
    return tuple(sorted(found))


def between(beat: Beat, after_s: int, to_s: int) -> list[int]:
    every = times(beat.cron, beat.timezone)
    return [*every[bisect_right(every, after_s) : bisect_right(every, to_s)]]


@dataclass
class Beat:
    """One schedule, and its last time that is done."""

    cron: str
    timezone: str
    catch_up: str
    queue: str
    body: bytes
    done_s: int  # the last time that was put, or the moment at which it began
    looked_s: int
    since_s: int = 0  # when its line came into force

    @property
    def floor_s(self) -> int:
        """The time up to which no time was missed."""
        return max(self.done_s, self.since_s)

    @property
    def block(self) -> dict[str, str]:
        return {
            "cron": self.cron, "timezone": self.timezone, "catch_up": self.catch_up,
            "queue": self.queue, "body": self.body.decode(),
        }  # fmt: skip


class Downtime(ServerHarness):
    """A server that may be down for some time between its end and its next start."""

    down_s = 0

    def _start(self) -> None:
        self.now_ms += self.down_s * 1000
        super()._start()


class SchedulesMachine(Narrow):
    """Two schedules, over three queues."""

    draws: ClassVar = {
        "timezone": ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"),
        "catch_up": ("none", "last", "all"),
    }
    effects: ClassVar = (
        "put", "caught up", "passed over", "queue over a restart", "queue by a reload",
        "line over a restart", "line by a reload", "zone", "clock back", "clock forward",
        "left out",
    )  # fmt: skip
    never: ClassVar = {
        ("catch_up=all", "passed over"): "there are fewer than a thousand",
        ("catch_up=none", "caught up"): "that is what it says",
    }
    weights: ClassVar = {
        "run": 5, "sleep": 2, "be_down": 3, "step_back": 1, "step_forward": 1, "change": 3,
        "change_while_down": 3, "leave_out": 1,
    }  # fmt: skip

    def make_stage(self) -> ServerHarness:
        self.begins_s = int(self.pick(BEGINS).timestamp())
        return Downtime(now_ms=ServerHarness.first_ms + self.begins_s * 1000 - WALL_MS)

    def begin(self) -> None:
        self.beats: dict[str, Beat] = {}
        self.wanted: Counter[tuple[str, bytes]] = Counter()
        for name in ("one", "two"):
            line = self.pick(LINES)
            beat = Beat(line, self.drawn["timezone"], self.drawn["catch_up"], "jobs", b"", 0, 0)
            self._begin_anew(name, beat)
            self.stage.set_schedule(name, **beat.block)

    @property
    def unix_s(self) -> int:
        return self.stage.unix_ms // 1000

    def _begin_anew(self, name: str, beat: Beat) -> None:
        self.beats[name] = beat
        beat.body = self.body()
        beat.done_s = beat.looked_s = self.unix_s

    # -- what must have been put ------------------------------------------------------------

    def _look(self) -> None:
        """Put the times that are due after the server's look at its clock."""
        for beat in self.beats.values():
            since_s, beat.looked_s = beat.looked_s, self.unix_s
            # After a clock that was set back even times from before its line began come now.
            after_s = max(since_s, beat.done_s)
            if beat.looked_s - since_s > MISSED_S:
                self._catch_up(beat, between(beat, after_s, beat.looked_s))
            else:
                self._put(beat, between(beat, after_s, beat.looked_s))

    def _put(self, beat: Beat, which: list[int]) -> None:
        if which:
            self.met.add("put")
            self.wanted[beat.queue, beat.body] += len(which)
            beat.done_s = which[-1]

    def _catch_up(self, beat: Beat, overdue: list[int]) -> None:
        most = MOST[beat.catch_up]
        which = overdue[-most:] if most else []
        self._put(beat, which)
        self.met.update(["caught up"] * bool(which) + ["passed over"] * (len(which) < len(overdue)))

    def _come_back(self, anew: Beat | None = None) -> None:
        """Start again: each schedule that the journals know goes on from its last time."""
        assert isinstance(self.stage, Downtime)
        self.stage.down_s = self.pick((0, 1, 100, 3000, 50_000))
        self.come_back(self.pick(("restart", "kill", "cut_power")))
        self._return_to_known_days()
        for beat in self.beats.values():
            beat.looked_s = self.unix_s
            if beat is anew:
                beat.since_s = beat.looked_s
            self._catch_up(beat, between(beat, beat.floor_s, beat.looked_s))

    def check(self) -> None:
        found: Counter[tuple[str, bytes]] = Counter()
        for queue in ("jobs", "mail", "logs"):
            while shown := bodies(self.stage.say("eye", f"get {queue}".encode())):
                found[queue, shown[0]] += 1
        wanted, self.wanted = self.wanted, Counter()
        assert found == wanted, f"put: {found}, not {wanted}"
        said = self.stage.say("eye", b"stats schedules").decode()
        for name, beat in self.beats.items():
            assert f"STAT schedule_{name}_last {beat.done_s}\r\n" in said, (name, beat, said)

    # -- the steps --------------------------------------------------------------------------

    def run(self) -> None:
        """The server runs for a while, and looks at least once a minute."""
        for _ in range(self.pick((1, 7, 40))):
            self._leap(self.pick((7, 31, 60)))
            self._look()

    def sleep(self) -> None:
        """The machine sleeps, and the server goes on."""
        self._leap(self.pick((61, 1800, 4000, 30_000)))
        self._look()

    def be_down(self) -> None:
        self._come_back()

    def _leap(self, seconds: int) -> None:
        self.transcript.append(f"~ {seconds}s")
        self.stage.now_ms += seconds * 1000
        self._return_to_known_days()
        self.stage.work()

    def _return_to_known_days(self) -> None:
        """A walk that leaves the days whose times are known goes back to their begin."""
        assert self.unix_s < self.begins_s + DAYS * 86_400, "the walk is too long"

    def step_back(self) -> None:
        self._step_clock(-self.pick((20, 700, 4000)))
        self.met.add("clock back")

    def step_forward(self) -> None:
        self._step_clock(self.pick((20, 50, 700, 4000)))
        self.met.add("clock forward")

    def _step_clock(self, seconds: int) -> None:
        self.transcript.append(f"= the clock is set by {seconds}s")
        broker = self.stage.broker
        broker.step_clock(broker.clock.offset_ms + seconds * 1000)
        self.stage.first_ms -= seconds * 1000  # also over a start
        self._return_to_known_days()
        self.stage.pass_time(1000)  # it looks within a second
        self._look()

    def change(self) -> None:
        name = self.pick([*self.beats])
        beat, what = self._changed(self.beats[name])
        self.stage.set_schedule(name, **beat.block)
        if what in ("line", "zone"):
            beat.since_s = beat.looked_s
        self.beats[name] = beat
        self.met.add(f"{what} by a reload" if what != "zone" else what)
        self._look()

    def change_while_down(self) -> None:
        """The file changes, and the server looks at it at its next start."""
        name = self.pick([*self.beats])
        beat, what = self._changed(self.beats[name])
        self.beats[name] = beat
        self.stage.write_schedule(name, **beat.block)
        self._come_back(beat if what in ("line", "zone") else None)
        self.met.add(f"{what} over a restart" if what != "zone" else what)

    def _changed(self, beat: Beat) -> tuple[Beat, str]:
        changed = replace(beat, body=self.body())
        what = self.pick(("queue", "queue", "line", "zone", "body"))
        if what == "queue":
            changed.queue = self.pick([q for q in ("jobs", "mail", "logs") if q != beat.queue])
        elif what == "line":
            changed.cron = self.pick([line for line in LINES if line != beat.cron])
        elif what == "zone":
            zones = self.draws["timezone"]
            changed.timezone = self.pick([each for each in zones if each != beat.timezone])
        self.transcript.append(f"= another {what}: {changed}")
        return changed, what

    def leave_out(self) -> None:
        """A schedule that the file does not have for a while has missed its times."""
        name = self.pick([*self.beats])
        beat = self.beats.pop(name)
        self.stage.drop_schedule(name)
        self._leap(self.pick((20, 1000, 9000)))
        self._look()
        self.beats[name] = beat
        self.stage.set_schedule(name, **beat.block)
        beat.looked_s = self.unix_s
        self._catch_up(beat, between(beat, beat.floor_s, beat.looked_s))
        self.met.add("left out")


@pytest.mark.slow
def test_each_time_is_put_once_whatever_changes() -> None:
    measure(SchedulesMachine, walks=20, steps=24)
