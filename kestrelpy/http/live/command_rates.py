"""The commands a second of each connection that a viewer looks at.

    count and time of the look before ──▶ this look ──▶ rate

One rule: it remembers a bounded number of connections, those that were looked at last.
"""

from __future__ import annotations

from typing import Final, NamedTuple

KNOWN_MAX: Final = 2000
# Two looks that come closer together, of two viewers, share a rate.
_APART_MS: Final = 900
_SECOND_MS: Final = 1000


class _Look(NamedTuple):
    at_ms: int
    commands: int
    rate: float | None


class CommandRates:
    """The rates of the connections of one server."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, _Look] = {}

    def rate(self, connection: int, count: int, now_ms: int) -> float | None:
        """Return the commands a second since the look before; None: this is the first one."""
        before = self._known.pop(connection, None)
        look = before
        if before is None:
            look = _Look(now_ms, count, None)
        elif now_ms - before.at_ms >= _APART_MS:
            rate = (count - before.commands) * _SECOND_MS / (now_ms - before.at_ms)
            look = _Look(now_ms, count, round(rate, 1))
        assert look is not None
        self._known[connection] = look
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return look.rate
