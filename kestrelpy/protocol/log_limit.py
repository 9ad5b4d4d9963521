"""Log lines that a client can provoke: at most one per second for each key.

    key      an address, or an address or a queue together with the event
    take     "" or " (17 more like it were not logged)", to end the line with; None: do not log it

One rule: a flood costs the log a bounded number of lines per second, from one address or from many;
the next line counts the lines that were left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERVAL_MS: Final = 1000
# One client can have millions of addresses (127.0.0.0/8, IPv6): those above this number share one
# key.
KEYS_MAX: Final = 64
MANY: Final = "many addresses"


@dataclass(slots=True)
class _Logged:
    """The time of the last line for a key, and the number of lines left out since."""

    at_ms: int
    left: int = 0


class LogLimit:
    """The line counters of one server."""

    __slots__ = ("_logged",)

    def __init__(self) -> None:
        self._logged: dict[str, _Logged] = {}

    def take(self, key: str, now_ms: int) -> str | None:
        """Return the end of a line that may be logged now; None if it is left out and counted."""
        if key not in self._logged and len(self._logged) >= KEYS_MAX:
            self._drop_stale(now_ms)
            if len(self._logged) >= KEYS_MAX:
                key = MANY
        said = self._logged.get(key)
        if said is None:
            self._logged[key] = _Logged(now_ms)
            return ""
        if now_ms - said.at_ms < INTERVAL_MS:
            said.left += 1
            return None
        left, said.left, said.at_ms = said.left, 0, now_ms
        return f" ({left} more like it were not logged)" if left else ""

    def rest(self, now_ms: int) -> list[str]:
        """Return lines about left-out lines that no later line has counted; call it from time to
        time."""
        lines = []
        for key, said in self._logged.items():
            if said.left and now_ms - said.at_ms >= INTERVAL_MS:
                lines.append(f"{key}: {said.left} more lines like the last one were not logged")
                said.left, said.at_ms = 0, now_ms
        return lines

    def _drop_stale(self, now_ms: int) -> None:
        """Drop the keys that have nothing left to report."""
        for key, said in [*self._logged.items()]:
            if not said.left and now_ms - said.at_ms >= INTERVAL_MS:
                del self._logged[key]


def address_of(peer: str) -> str:
    """Return a peer's name without its port."""
    return peer.rpartition(":")[0] or peer
