"""The table of planted breaches for an audit: for each rule and each variant, two stories.

    rule           one of `JournalFindings.by_rule`: the rule that is broken
    variant        how, in words
    breach         a story that breaks that rule, and no other
    legal          the nearest story that breaks none

A story is written with a `Pen`: for the queue itself, or for a child. It returns the item that the
audit has to name, or words of one of its sentences. All stories of one rule are in one journal, the
legal ones between the others, except those with `apart`, which affect records near them.

One rule: only planted breaches may be found, so each journal has as many breaches as stories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tests.unit.spark.jobs.books import Book, Pen

Story = Callable[[Pen], int | str]
Legal = Callable[[Pen], object]
OWN: Final = "own"
CHILD: Final = "child"
BOTH: Final = (OWN, CHILD)


@dataclass(frozen=True)
class Case:
    """One variant of a breach. `also` are other rules that it breaks once (mostly a sum)."""

    rule: str
    variant: str
    breach: Story
    legal: Legal
    lines: tuple[str, ...] = BOTH
    also: tuple[str, ...] = ()
    apart: str = ""

    def journal(self, line: str) -> str:
        """The name of the queue whose journal has the story."""
        return "-".join(each for each in (self.rule, line, self.apart) if each)


@dataclass(slots=True)
class Planted:
    """One journal, the items that the audit has to name, by variant, and other broken rules."""

    book: Book
    named: dict[str, int | str]
    also: set[str]


def plant(cases: Iterable[Case]) -> dict[str, Planted]:
    """Write all stories; return the journals by the name of their queue."""
    made: dict[str, Planted] = {}
    for case in cases:
        for line in case.lines:
            name = case.journal(line)
            planted = made.get(name)
            if planted is None:
                book = Book(name, "audit" if line == CHILD else "")
                planted = made[name] = Planted(book, {}, set())
            case.legal(planted.book.line)
            planted.named[case.variant] = case.breach(planted.book.line)
            if not case.apart:  # its legal story would affect the planted one
                case.legal(planted.book.line)
            planted.also.update(case.also)
    return made
