"""The messages on a wrong configuration, and how a setting is written in a sentence.

One rule: a problem is one sentence on one line, it can always be printed, and it has no password.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from journal.engine import without_secret
from kestrelpy.durations import shown


class ConfigError(Exception):
    """The configuration cannot be used; `str()` is one sentence per problem, one per line."""

    def __init__(self, problems: Sequence[str]) -> None:
        # A path or a variable's name may hold anything; a message can always be printed.
        lines = [each.encode(errors="backslashreplace").decode() for each in problems]
        self.problems: Final = tuple(line.replace("\n", "\\n") for line in lines)
        super().__init__("\n".join(self.problems))


def as_written(place: tuple[str, ...], value: object) -> str:
    """Return a setting as in the file, `[server] port = 22133`, or the head of a table,
    `[server]`."""
    *above, key = (at if re.fullmatch("[a-z_]{1,60}", at) else shown(at) for at in place)
    if isinstance(value, dict):
        return f"[{'.'.join((*above, key))}]"
    return f"{'[' + '.'.join(above) + '] ' if above else ''}{key} = {shown(_sayable(value))}"


def _sayable(value: object) -> object:
    if isinstance(value, list):
        return [_sayable(each) for each in value]
    return without_secret(str(value)) if isinstance(value, str | Path) else value
