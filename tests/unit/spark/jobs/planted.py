"""The table of what is planted for an audit: for each rule and each variant of it, two stories.

    rule           one of `Found.by_rule`: what the audit says is broken
    variant        how, in words
    breach         a story in which that rule is broken, and that alone
    legal          the nearest story in which nothing is

A story is told to a `Pen`: a queue's own line, or a child's. It returns what the audit has to name:
an item, or words that one of its sentences has. Of one rule all stories stand in one journal, the
legal ones between the others, but those that are told `apart` because they reach what is near.

One rule: what is not planted must not be found, so each journal has as many breaches as stories.
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
    """One variant. `also`: rules that a journal with it breaks besides, once (a sum, mostly)."""

    rule: str
    variant: str
    breach: Story
    legal: Legal
    lines: tuple[str, ...] = BOTH
    also: tuple[str, ...] = ()
    apart: str = ""

    def journal(self, line: str) -> str:
        """The name of the queue in whose journal it is told."""
        return "-".join(each for each in (self.rule, line, self.apart) if each)


@dataclass(slots=True)
class Told:
    """One journal: what the audit has to name in it, by variant, and what is broken besides."""

    book: Book
    named: dict[str, int | str]
    also: set[str]


def tell(cases: Iterable[Case]) -> dict[str, Told]:
    """All stories, by the name of their queue."""
    made: dict[str, Told] = {}
    for case in cases:
        for line in case.lines:
            name = case.journal(line)
            told = made.get(name)
            if told is None:
                book = Book(name, "audit" if line == CHILD else "")
                told = made[name] = Told(book, {}, set())
            case.legal(told.book.line)
            told.named[case.variant] = case.breach(told.book.line)
            if not case.apart:  # what is told apart would reach what was planted
                case.legal(told.book.line)
            told.also.update(case.also)
    return made
