"""The referee of `pipeline`: a message lost, altered or doubled without a reason is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from kestrelpy.examples.crew import Books, Fate, fate_of
from kestrelpy.examples.referee import Journals, verdict


def first(fate: Fate) -> int:
    return next(n for n in range(100_000) if fate_of(n) is fate)


PLAIN, OTHER = [n for n in range(20) if fate_of(n) is Fate.HANDLED][:2]
DOUBLED, HOPELESS = first(Fate.DOUBLED), first(Fate.HOPELESS)
NUMBERS = (PLAIN, OTHER, DOUBLED, HOPELESS)
EXPECTED = {number: number + 1000 for number in NUMBERS}


class GoodRun:
    """A run in which all is well: one handled twice for a reason, one dead after three failures."""

    def __init__(self) -> None:
        self.books = Books()
        for number in (PLAIN, OTHER, DOUBLED, DOUBLED):
            self.books.handle(number, EXPECTED[number])
        self.books.failed = Counter({DOUBLED: 1, HOPELESS: 3})
        self.put = Counter(NUMBERS)
        self.confirmed = Counter((PLAIN, OTHER, DOUBLED))
        self.dead = Counter((HOPELESS,))
        self.repeated = 3

    def verdict(self, cut_off: int = 0) -> tuple[list[str], bool]:
        journals = Journals(self.put, self.confirmed, self.dead, self.repeated)
        return verdict(EXPECTED, self.books, journals, cut_off)


@pytest.fixture
def run() -> GoodRun:
    return GoodRun()


def test_all_handled_or_dead_and_each_repetition_explained_is_well(run: GoodRun) -> None:
    assert run.verdict() == (
        [
            "4 lines: 3 handled and confirmed, 1 dead, 0 lost",
            "handled again: 1; 1 were hung up before the confirm, 0 leased when the "
            "daemon was killed",
            "stored again because STORED was lost when the daemon was killed: 0",
            "repeated deliveries: the audit counts 3, the workers 3 (the daemon that was killed "
            "may account for 0)",
        ],
        True,
    )


def lose(run: GoodRun) -> None:
    run.books.handled.pop(PLAIN)
    run.confirmed.pop(PLAIN)
    run.put.pop(PLAIN)


def alter(run: GoodRun) -> None:
    run.books.checksums[PLAIN] = {7}


def put_again(run: GoodRun) -> None:
    run.put[PLAIN] += 1
    run.confirmed[PLAIN] += 1
    run.books.handled[PLAIN] += 1


def forget_the_end(run: GoodRun) -> None:
    run.confirmed.pop(OTHER)
    run.books.unsure[OTHER] += 1


def confirm_twice(run: GoodRun) -> None:
    run.confirmed[OTHER] += 1
    run.books.handled[OTHER] += 1


def confirm_what_nobody_handled(run: GoodRun) -> None:
    run.books.handled.pop(OTHER)
    run.dead[OTHER] += 1


def handle_again(run: GoodRun) -> None:
    run.books.handled[OTHER] += 1


def miscount(run: GoodRun) -> None:
    run.repeated = 5


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose, f"LOST: 1, for instance [{PLAIN}]"),
        (alter, f"NOT AS IT WAS SENT: 1, for instance [{PLAIN}]"),
        (put_again, f"PUT AGAIN WITHOUT A REASON: 1, for instance [{PLAIN}]"),
        (forget_the_end, f"NEITHER CONFIRMED NOR DEAD: 1, for instance [{OTHER}]"),
        (confirm_twice, f"NEVER PUT: 1, for instance [{OTHER}]"),
        (confirm_what_nobody_handled, f"CONFIRMED, NOT HANDLED: 1, for instance [{OTHER}]"),
        (handle_again, f"HANDLED AGAIN WITHOUT A REASON: 1, for instance [{OTHER}]"),
        (miscount, "REPEATED DELIVERIES DIFFER"),
    ],
)
def test_what_nothing_explains_does_not_pass(
    run: GoodRun, spoil: Callable[[GoodRun], None], said: str
) -> None:
    spoil(run)

    sentences, is_well = run.verdict()

    assert not is_well
    assert said in sentences


def test_what_was_sent_again_or_leased_when_the_daemon_was_killed_is_explained(
    run: GoodRun,
) -> None:
    put_again(run)
    run.books.resent[PLAIN] += 1
    handle_again(run)
    run.books.unsure[OTHER] += 1
    run.repeated += 2

    assert run.verdict(cut_off=1)[1]
