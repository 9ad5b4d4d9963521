"""The processes of a fleet, as each of them says; and what an operator wants of them.

    members/…/said       its name, its address, its `takeover`; written again and again
    members/…/waits      the slices that it is ready to take over
    members/drained-…    an operator wants the member of a name to own no slice, wherever it is

One rule: nothing here decides who may commit.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from journal.engine.engine import Member, Seat
from journal.engine.object_store.bucket import ListedObject, ObjectBucket

_FORGOTTEN_SECONDS: Final = 86_400  # a member that said nothing for so long
_READ_SECONDS: Final = 5.0  # what a member says is read so often
_LISTED_SECONDS: Final = 2.0  # all of them are
_SAID: Final = "said"
_WAITS: Final = "waits"
_NEVER: Final = float("-inf")


class Members:
    """What the processes of a fleet say. For any thread."""

    def __init__(self, bucket: ObjectBucket, clock: Callable[[], float]) -> None:
        self._bucket = bucket
        self._clock = clock
        self._takeovers: dict[Member, tuple[float, float]] = {}  # when it was read, the setting
        self._seats: tuple[float, list[Seat]] = (_NEVER, [])
        self._noted: tuple[str, float] | None = None  # what this process said last, and when

    def note(
        self, member: Member, takeover_s: float, waits: Sequence[int] | None = None
    ) -> None:
        """Say that this process is there, and which slices it waits for; raise EngineAway."""
        folder = _folder(member)
        if waits is not None:
            self._bucket.put(f"{folder}/{_WAITS}", json.dumps([*waits]).encode())
        text = {"name": member.name, "address": member.address, "takeover": takeover_s}
        self._bucket.put(f"{folder}/{_SAID}", json.dumps(text).encode())
        self._noted = f"{folder}/{_SAID}", self._clock()
        self._takeovers[member] = self._clock(), takeover_s
        self._seats = _NEVER, []

    def takeover(self, member: Member) -> float:
        """Return the setting of a member; 0: it is not known. Raise EngineAway."""
        read_s, takeover_s = self._takeovers.get(member, (_NEVER, 0.0))
        if self._clock() - read_s >= _READ_SECONDS:
            said = self._read(f"{_folder(member)}/{_SAID}")
            takeover_s = float(said["takeover"]) if said is not None else 0.0
            self._takeovers[member] = self._clock(), takeover_s
        return takeover_s

    def seats(self) -> list[Seat]:
        """Return the processes that may own slices, by name. Raise EngineAway."""
        listed_s, seats = self._seats
        if self._clock() - listed_s >= _LISTED_SECONDS:
            seats = self._read_seats()
            self._seats = self._clock(), seats
        return seats

    def _read_seats(self) -> list[Seat]:
        listed, seats = self._bucket.listed("members"), list[Seat]()
        keys, now_s = {each.key for each in listed}, self._store_time(listed)
        for each in listed:
            folder, _, name = each.key.rpartition("/")
            age_s = max(now_s - each.written_at.timestamp(), 0.0)
            if name != _SAID or age_s >= _FORGOTTEN_SECONDS:
                continue
            said = self._read(each.key)
            waits = self._read(f"{folder}/{_WAITS}") if f"{folder}/{_WAITS}" in keys else []
            if said is not None:
                member = Member(said["name"], said["address"])
                is_drained = _drained(member.name) in keys
                seats.append(Seat(member, said["takeover"], age_s, is_drained, tuple(waits or ())))
        return sorted(seats)

    def _read(self, key: str) -> Any:
        found = self._bucket.get(key)
        return None if found is None else json.loads(found.data)

    def _store_time(self, listed: list[ListedObject]) -> float:
        """Return the time by the store's clock, which has dated what this process said last; by the
        clock of this machine, if it has said nothing."""
        for each in listed:
            if self._noted is not None and each.key == self._noted[0]:
                return each.written_at.timestamp() + self._clock() - self._noted[1]
        return time.time()

    def drain(self, name: str, is_drained: bool) -> list[str]:
        """Say whether the member of this name is to own slices; return the addresses of the
        processes that have the name. Raise EngineAway."""
        found = [each.member.address for each in self._read_seats() if each.member.name == name]
        if found and is_drained:
            self._bucket.put(_drained(name), b"drained")
        elif not is_drained:
            self._bucket.delete([_drained(name)])
        self._seats = _NEVER, []
        return found


def _folder(member: Member) -> str:
    return f"members/{_digest(json.dumps(member))}"


def _drained(name: str) -> str:
    return f"members/drained-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
