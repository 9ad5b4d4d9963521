"""The spec's rules of schedules: each time is put once, over reloads and restarts.

    a time comes ──▶ put at once
             └── the queue is full ──▶ waits, if `catch_up` allows it ──▶ put a second later

The items of a schedule have one body, so only their count is compared. Where the spec leaves
freedom, `must` and `may` differ: the least and the largest number of puts once there is room.

One rule: a time that was put is not counted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MISSED_MAX: Final = 1000  # times that `catch_up = "all"` keeps
PATIENCE_MS: Final = 1100  # "tries again every second"


@dataclass(eq=False)
class Beat:
    """One schedule. `must` and `may`: the least and the largest number of its times that wait."""

    queue: str
    body: bytes
    every_s: int
    catch_up: str
    next_ms: int = 0
    must: int = 0
    may: int = 0
    had_room: bool = False  # before the other events of the moment at which its time came
    is_unsure: bool = False  # since a reload the log may not know its last time
    changed_ms: int = 0  # the last reload
    is_at_once: bool = False  # the puts that it may do now, it may not do later
    has_waited: bool = False

    @property
    def cron(self) -> str:
        return f"*/{self.every_s} * * * * *"

    def seek(self, now_ms: int) -> None:
        """Find its next time."""
        each_ms = self.every_s * 1000
        self.next_ms = (now_ms // each_ms + 1) * each_ms

    def come(self, now_ms: int) -> None:
        """Its time has come."""
        if self.next_ms <= now_ms:
            self.must, self.may = self.must + 1, self.may + 1
            self.seek(now_ms)

    def put(self, stored_ms: int) -> None:
        """Note that a time was put then; if it was put at that very time, the log knows it."""
        self.must, self.may = max(self.must - 1, 0), self.may - 1
        self.has_waited &= self.may > 0
        if not self.may and stored_ms > self.changed_ms and stored_ms % (self.every_s * 1000) == 0:
            self.is_unsure = False

    def refuse(self) -> None:
        """There was no room: `catch_up` says how many times go on waiting."""
        self.has_waited, self.is_at_once = True, False
        if self.catch_up == "none":
            self.must, self.may = 0, min(self.may, 1)
        elif self.catch_up == "last":
            self.must, self.may = min(self.must, 1), min(self.may, 1)

    def restart(self, is_forgotten: bool) -> None:
        """Count the waiting times as missed, as when the server is down."""
        self.is_unsure |= is_forgotten
        self.is_at_once = True
        most = {"none": 0, "last": 1}.get(self.catch_up, MISSED_MAX)
        self.must, self.may = min(self.must, most), min(self.may, most)
        if self.is_unsure:  # it begins anew, or with the times of another block
            self.must = 0
            self.may = most

    def change(self, now_ms: int, body: bytes, every_s: int, catch_up: str) -> None:
        """Reload: the schedule goes on from where it was; a time of this very second may count."""
        self.is_unsure |= (every_s, catch_up) != (self.every_s, self.catch_up)
        if every_s != self.every_s:
            self.must = 0  # another line puts nothing for the past, not even what waits
        self.body, self.every_s, self.catch_up = body, every_s, catch_up
        self.must = min(self.must, {"none": 0, "last": 1}.get(catch_up, self.must))
        self.may += 1
        self.is_at_once, self.changed_ms = True, now_ms
        self.seek(now_ms)

    def rest(self, has_room: bool) -> None:
        """Note that all puts of this moment have come."""
        if self.is_at_once and has_room:
            self.may = max(self.must, min(self.may, 1) if self.catch_up == "none" else 0)
            self.is_at_once = False
