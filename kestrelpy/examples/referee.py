"""Compares the results of a run of `pipeline`, as the crew recorded them, with the journals.

    put = confirmed + dead         by number, in the journals
    handled = confirmed + again    by number; each `again` has its reason
    all    = handled or dead       no message is lost or altered

One rule: numbers are compared as multisets, never only counted, and every difference needs a reason
that was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kestrelpy.examples.crew import Books, Fate, fate_of

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Journals:
    """Numbers of messages, as often as the journals have them, and the audit's count."""

    put: Counter[int]
    confirmed: Counter[int]
    dead: Counter[int]
    repeated: int


def verdict(
    expected: Mapping[int, int], books: Books, journals: Journals, cut_off: int
) -> tuple[list[str], bool]:
    """Return the result in sentences, and True if all is well.

    `expected`: each message's checksum. `cut_off`: how many deliveries may have ended just when the
    daemon was killed, without a record and without the worker's knowledge.
    """
    handled = books.handled
    again = handled - journals.confirmed
    doubled = Counter(n for n in again if fate_of(n) is Fate.DOUBLED)
    wrongs = {
        "LOST": [n for n in expected if not handled[n] and not journals.dead[n]],
        "NOT AS IT WAS SENT": [
            n for n, sums in books.checksums.items() if sums != {expected.get(n)}
        ],
        "PUT AGAIN WITHOUT A REASON": _more(journals.put, Counter(expected.keys()) + books.resent),
        "NEITHER CONFIRMED NOR DEAD": _more(journals.put, journals.confirmed + journals.dead),
        "NEVER PUT": _more(journals.confirmed + journals.dead, journals.put),
        "CONFIRMED, NOT HANDLED": _more(journals.confirmed, handled),
        "HANDLED AGAIN WITHOUT A REASON": _more(again, doubled + books.unsure),
    }
    repeated = books.failed.total() - journals.dead.total()
    slack = books.unsure.total() + cut_off
    resent = (journals.put - Counter(expected.keys())).total()
    sentences = [
        f"{len(expected):,} lines: {len(handled):,} handled and confirmed, "
        f"{len(journals.dead):,} dead, {len(wrongs['LOST']):,} lost",
        f"handled again: {again.total():,}; {(again & doubled).total():,} were hung up "
        f"before the confirm, {(again - doubled).total():,} leased when the daemon was killed",
        f"stored again because STORED was lost when the daemon was killed: {resent:,}",
        f"repeated deliveries: the audit counts {journals.repeated:,}, the workers {repeated:,} "
        f"(the daemon that was killed may account for {slack:,})",
    ]
    for what, numbers in wrongs.items():
        if numbers:
            sentences.append(f"{what}: {len(numbers):,}, for instance {numbers[:_SHOWN]}")
    is_near = abs(journals.repeated - repeated) <= slack
    if not is_near:
        sentences.append("REPEATED DELIVERIES DIFFER")
    return sentences, is_near and not any(wrongs.values())


def _more(one: Counter[int], other: Counter[int]) -> list[int]:
    """Return the numbers that the one has more often than the other."""
    return sorted(one - other)
