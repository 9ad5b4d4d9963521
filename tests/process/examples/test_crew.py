"""The crew of `pipeline`: failures follow from numbers, and whatever happens is written down."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrelpy.examples.crew import Books, Crew, Fate, fate_of
from kestrelpy.examples.messages import QUEUES, Message
from kestrelpy.examples.trio import ATTEMPTS, DAEMONS, Daemon

pytestmark = pytest.mark.slow


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[Daemon]]:
    made = [Daemon(tmp_path / f"daemon-{number}") for number in range(DAEMONS)]
    try:
        for each in made:
            each.start()
        yield made
    finally:
        for each in made:
            each.kill()


def of_every_fate(each: int) -> list[int]:
    """Return numbers of messages, some of each fate, in their order."""
    found = {fate: [n for n in range(20_000) if fate_of(n) is fate][:each] for fate in Fate}
    return sorted(number for numbers in found.values() for number in numbers)


def run(daemons: list[Daemon], sent: list[Message], kill: bool = False) -> Books:
    crew = Crew(daemons, sent)
    if kill:
        daemons[0].kill()
        daemons[0].start()
    crew.start_work()
    ended = threading.Event()
    while not (
        crew.has_stored_all and all(each.is_empty(list(QUEUES.values())) for each in daemons)
    ):
        ended.wait(0.01)
    crew.stop()
    for each in daemons:
        each.stop()
    return crew.books


def test_there_are_failures_of_every_kind_and_they_are_few() -> None:
    drawn = Counter(fate_of(number) for number in range(20_000))

    assert set(drawn) == set(Fate)
    assert drawn[Fate.HANDLED] > 19_000


def test_every_message_is_handled_as_often_as_its_fate_says(daemons: list[Daemon]) -> None:
    numbers = of_every_fate(8)
    sent = [Message(n, "tests", "INFO", f"line {n}") for n in numbers]

    books = run(daemons, sent)

    often = {Fate.DOUBLED: 2, Fate.HOPELESS: 0}
    assert books.handled == +Counter({n: often.get(fate_of(n), 1) for n in numbers})
    failures = {Fate.HANDLED: 0, Fate.HOPELESS: ATTEMPTS}
    assert books.failed == +Counter({n: failures.get(fate_of(n), 1) for n in numbers})
    assert books.stored == len(sent)
    for message in sent:
        assert books.checksums.get(message.number, {message.checksum}) == {message.checksum}
    assert not books.unsure
    assert not books.resent


def test_what_a_kill_leaves_unsaid_is_written_down(daemons: list[Daemon]) -> None:
    sent = [Message(n, "tests", "DEBUG", f"line {n}") for n in range(600)]

    books = run(daemons, sent, kill=True)

    lost = [n for n in range(600) if not books.handled[n] and fate_of(n) is not Fate.HOPELESS]
    assert lost == []
    again = books.handled - Counter(range(600))
    assert set(again) <= {n for n in again if fate_of(n) is Fate.DOUBLED} | set(books.resent) | set(
        books.unsure
    )
