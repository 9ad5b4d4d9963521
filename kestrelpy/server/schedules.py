"""The schedules of the configuration: a turn that is due enqueues their items.

One rule: the core decides which run time is due; here are only the clock, the configuration and the
log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kestrelpy.config import Config
from kestrelpy.core import Broker, CatchUp, Schedule, Timetable

log = logging.getLogger("kestrelpy.schedules")


class Schedules:
    """The schedules of one server. `mode` returns up, readonly or quiescent."""

    def __init__(self, broker: Broker, mode: Callable[[], str]) -> None:
        self.timetable = Timetable(broker)
        self._mode = mode

    def put_in_force(self, config: Config, now_ms: int) -> None:
        """Take the schedules of this configuration."""
        self.timetable.take_over(schedules_of(config), now_ms)

    def next_due(self) -> int | None:
        """Return when to look again; None: never."""
        return self.timetable.next_due()

    def look(self, now_ms: int) -> None:
        """Enqueue the items that are due, if it is time to look."""
        due = self.timetable.next_due()
        if due is None or due > now_ms:
            return
        mode = self._mode()
        why_not = "" if mode == "up" else f"{mode}: this server stores nothing now"
        self.timetable.look(now_ms, why_not)
        for complaint in self.timetable.complaints:
            log.warning("%s", complaint)
        self.timetable.complaints.clear()


def sooner(one_ms: int | None, other_ms: int | None) -> int | None:
    """Return the earlier of two times; None: never."""
    if one_ms is None or other_ms is None:
        return other_ms if one_ms is None else one_ms
    return min(one_ms, other_ms)


def schedules_of(config: Config) -> list[Schedule]:
    """Return the schedules in the core's form."""
    return [
        Schedule(
            name.encode(), block.queue.encode(), block.body_bytes, block.times,
            CatchUp(block.catch_up), block.cron, block.timezone,
        )
        for name, block in config.schedules.items()
    ]  # fmt: skip
