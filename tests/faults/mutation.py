"""One small change of a source: its place, its rank in a draw, and its diff."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Mutation:
    """The operator's change number `occurrence` in a file; of one place it is number `variant`."""

    path: str
    line: int
    column: int
    operator: str
    variant: int
    occurrence: int


def difference(old: str, new: str) -> tuple[int, str, str]:
    """Return the number of the first line that differs, and the lines before and after."""
    was, now = old.splitlines(), new.splitlines()
    blocks = difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    parts = [each for each in blocks if each[0] != "equal"]
    first, last = parts[0], parts[-1]
    before, after = was[first[1] : last[2]], now[first[3] : last[4]]
    return first[1] + 1, _stripped(before), _stripped(after)


def rank(mutation: Mutation, lines: list[str], seed: int) -> str:
    """Return a hash that stays the same when lines above the change move."""
    line = lines[mutation.line - 1]
    same = sum(each == line for each in lines[: mutation.line - 1])
    column = mutation.column - len(line) + len(line.lstrip())
    told = seed, mutation.path, line.strip(), same, column, mutation.operator, mutation.variant
    return hashlib.sha256(repr(told).encode()).hexdigest()


def _stripped(lines: list[str]) -> str:
    return "\n".join(line.strip() for line in lines)
