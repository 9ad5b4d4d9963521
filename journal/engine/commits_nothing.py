"""What an engine as of one moment refuses: everything that would write.

One rule: nothing is asked of the engine.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NoReturn

from journal.engine.engine import Claim, Layout, Member, Op, Takeover


class CommitsNothing:
    """The part of `EngineMoment` that raises OSError, whatever it is asked."""

    def __init__(self, name: str) -> None:
        """`name` is what the sentence names: the engine, without its secrets."""
        self._name = name

    def claim(
        self, number: int, member: Member, seen: int, seq: int | None = None
    ) -> Claim:
        self._refuse()

    def commit(self, at: Claim, ops: Sequence[Op]) -> None:
        self._refuse()

    def release(self, at: Claim) -> None:
        self._refuse()

    def note(
        self, member: Member, takeover_s: float, waits: Sequence[int] | None = None
    ) -> None:
        self._refuse()

    def note_takeover(self, takeover: Takeover) -> None:
        self._refuse()

    def agree(self, layout: Layout) -> Layout:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EROFS, "it is read as of one moment, and not written to", self._name)
