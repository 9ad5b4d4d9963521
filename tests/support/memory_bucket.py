"""A bucket in memory: requests that are lost, done late, or overtaken by other processes.

One rule: it is at least as unkind as a real store that keeps its word. A write of a new object is
done once, or not at all; one whose answer was lost may be done at any later time.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Final, Literal

from journal.engine import EngineAway, EngineFull
from journal.engine.object_store import Found, ListedObject

# The fate of a write: it is done; the answer is lost, and it is done, not done, or done late; there
# is no room.
Fate = Literal["", "done", "not done", "late", "full"]
_NOW: Final = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)


class MemoryBucket:
    """`ObjectBucket` in memory. `before` is called before each write: others may act meanwhile."""

    name = "memory"

    def __init__(
        self, fate: Callable[[], Fate] = lambda: "",
        before: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.objects: dict[str, bytes] = {}
        self.fate = fate
        self.before = before
        self.late: list[tuple[str, bytes]] = []
        self.requests = 0
        self.is_conditional = True  # False: it writes over what is there, as some stores do

    def put_new(self, key: str, data: bytes) -> bool:
        self.requests += 1
        self.before()
        fate = self.fate()
        if fate == "full":
            raise EngineFull(self.name, "no room")
        if fate == "late":
            self.late.append((key, data))
        if fate in ("not done", "late"):
            raise EngineAway(self.name, "the answer was lost")
        if not self.is_conditional:
            self.objects[key] = data
        there = self.objects.setdefault(key, data)
        if fate == "done":
            raise EngineAway(self.name, "the answer was lost")
        return there == data

    def arrive(self) -> None:
        """Do a write that is late."""
        self.objects.setdefault(*self.late.pop(0))

    def put(self, key: str, data: bytes) -> None:
        self.requests += 1
        self.before()
        self.objects[key] = data

    def get(self, key: str, bytes_max: int | None = None) -> Found | None:
        self.requests += 1
        data = self.objects.get(key)
        return None if data is None else Found(data[:bytes_max], _NOW)

    def parts(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.requests += 1
        if key not in self.objects:
            raise FileNotFoundError(key)
        return [self.objects[key][begin:end] for begin, end in ranges]

    def listed(self, folder: str, after: str = "") -> list[ListedObject]:
        self.requests += 1
        return [
            ListedObject(key, len(data), _NOW) for key, data in sorted(self.objects.items())
            if key.startswith(folder + "/") and key > after
        ]  # fmt: skip

    def folders(self, folder: str) -> list[str]:
        self.requests += 1
        return sorted({
            key.removeprefix(folder).split("/")[0] for key in self.objects if key.startswith(folder)
        })  # fmt: skip

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)
