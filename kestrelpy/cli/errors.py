"""How a command fails: one sentence on stderr and an exit code, never a traceback.

    0   done            1   nothing there, or the answer is no
    2   wrong usage or configuration, or no server
"""

from __future__ import annotations

from typing import Final

NOTHING: Final = 1
UNUSABLE: Final = 2


class CommandError(Exception):
    """Ends a command. The text is for the person at the terminal, one sentence a line."""

    def __init__(self, text: str, code: int = UNUSABLE) -> None:
        super().__init__(text)
        self.code: Final = code
