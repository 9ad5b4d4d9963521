"""A hundred connections race for one key: exactly one wins, and versions have no gap.

Promises: id, version.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
from tests.support.raw import Raw

RACERS = 100
ROUNDS = 20


@pytest.fixture
def racers(tmp_path: Path) -> object:
    with DaemonProcess(tmp_path / "data") as daemon:
        with ExitStack() as stack:
            yield [
                stack.enter_context(Raw(("127.0.0.1", daemon.port))) for _ in range(RACERS)
            ]
        leave_nothing(daemon)


def race(racers: list[Raw], requests: list[bytes]) -> Counter[bytes]:
    """Send all requests before any answer is read; return how often each answer came."""
    for racer, request in zip(racers, requests, strict=True):
        racer.send(request)
    return Counter(racer.line().rstrip() for racer in racers)


def test_of_a_hundred_adds_of_one_key_one_wins(racers: list[Raw]) -> None:
    for turn in range(ROUNDS):
        requests = [
            b"add acc/key=%d 0 0 2\r\n%02d\r\n" % (turn, number) for number in range(RACERS)
        ]

        assert race(racers, requests) == {b"STORED": 1, b"NOT_STORED": RACERS - 1}


def test_of_a_hundred_adds_of_one_id_one_wins(racers: list[Raw]) -> None:
    for turn in range(ROUNDS):
        requests = [
            b"add jobs/id=%d 0 0 2\r\n%02d\r\n" % (turn, number) for number in range(RACERS)
        ]

        assert race(racers, requests) == {b"STORED": 1, b"NOT_STORED": RACERS - 1}
    assert items(racers[0], b"jobs") == ROUNDS


def test_of_a_hundred_idempotent_sets_all_are_stored_and_one_is_there(racers: list[Raw]) -> None:
    assert race(racers, [b"set jobs/id=a 0 0 1\r\nx\r\n"] * RACERS) == {b"STORED": RACERS}
    assert items(racers[0], b"jobs") == 1


def test_of_a_hundred_cas_at_one_version_one_wins_and_versions_have_no_gap(
    racers: list[Raw],
) -> None:
    for version in range(ROUNDS):
        answers = race(racers, [b"cas acc/key=A 0 0 1 %d\r\nx\r\n" % version] * RACERS)

        assert answers == {b"STORED": 1, b"EXISTS": RACERS - 1}
    racers[0].ask(b"gets acc/key=A/peek\r\n", b"VALUE acc/key=A/peek 0 1 %d\r\n" % ROUNDS)


def items(raw: Raw, queue: bytes) -> int:
    raw.send(b"stats %b\r\n" % queue)
    found = 0
    while (line := raw.line().rstrip()) != b"END":
        if line.startswith(b"STAT queue_%b_items " % queue):
            found = int(line.split()[-1])
    return found
