"""Dead letters by filter and by reason, each look with a bound."""

from __future__ import annotations

from typing import Any

import pytest

from kestrelpy.operations.lists import deaths
from kestrelpy.operations.lists.deaths import DeathFilter, DeathGroup, Deaths
from tests.support.server_harness import ServerHarness
from tests.support.steps import counted, ended


@pytest.fixture
def server() -> ServerHarness:
    made = ServerHarness()
    for why in (b"bad", b"late", b"bad"):
        made.say("a", b"set jobs 0 0 1", b"x")
        made.say("a", b"get jobs/open")
        made.say("a", b"get jobs/abort/dead=" + why)
        made.pass_time(1000)
    return made


@pytest.mark.parametrize(
    ("filter_", "ids"),
    [
        ({}, [1, 2, 3]),
        ({"reason": b"bad"}, [1, 3]),
        ({"attempts_least": 2}, []),
    ],
)
def test_a_filter_chooses_dead_letters(
    server: ServerHarness, filter_: dict[str, Any], ids: list[int]
) -> None:
    assert Deaths(server.queue("jobs")).some(DeathFilter(**filter_), 0, 9) == (ids, 0)


def test_a_time_chooses_the_dead_letters_before_it(server: ServerHarness) -> None:
    found = Deaths(server.queue("jobs"))
    second_ms = found.facts([2])[0].died_ms
    assert found.some(DeathFilter(died_before_ms=second_ms), 0, 9) == ([1], 0)
    assert found.some(DeathFilter(died_from_ms=second_ms), 0, 9) == ([2, 3], 0)


def test_a_look_stops_at_its_bound_and_goes_on_from_there(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Deaths(server.queue("jobs"))
    assert found.some(DeathFilter(), 0, 1) == ([1], 1)
    monkeypatch.setattr(deaths, "LOOKED_MAX", 2)
    assert found.some(DeathFilter(reason=b"none"), 0, 1) == ([], 2)
    assert found.some(DeathFilter(reason=b"none"), 2, 1) == ([], 0)


def test_reasons_are_grouped_the_largest_first_up_to_a_bound(
    server: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Deaths(server.queue("jobs"))
    first, second, third = (each.died_ms for each in found.facts([1, 2, 3]))
    bad, late = DeathGroup(b"bad", 2, first, third, 3), DeathGroup(b"late", 1, second, second, 2)
    assert ended(found.reasons()) == ([bad, late], True)
    monkeypatch.setattr(deaths, "REASONS_MAX", 1)
    assert ended(found.reasons()) == ([bad], False)
    monkeypatch.setattr(deaths, "REASONS_MAX", 2)
    monkeypatch.setattr(deaths, "LOOKED_MAX", 1)
    monkeypatch.setattr(deaths, "COUNTED_MAX", 2)
    assert counted(found.reasons()) == (([DeathGroup(b"bad", 1, first, first, 1), late], False), 2)


def test_a_hundred_thousand_dead_of_five_thousand_reasons_are_grouped_in_slices() -> None:
    made = ServerHarness()
    made.say("a", b"set jobs 0 0 1", b"x")
    queue = made.queue("jobs")
    for id_ in range(1, 100_001):
        queue.reader.dead.add(id_, 1, b"reason %d" % (id_ % 5000), id_, 1)
    (groups, is_complete), slices = counted(Deaths(queue).reasons())
    assert (len(groups), is_complete, slices) == (5000, True, 100)
    assert groups[0] == DeathGroup(b"reason 0", 20, 5000, 100_000, 100_000)


def test_the_facts_of_a_dead_letter_have_its_reason(server: ServerHarness) -> None:
    (death,) = Deaths(server.queue("jobs")).facts([2, 99])
    assert (death.id, death.reason, death.attempts, death.is_leased) == (2, b"late", 1, False)


def test_a_page_ends_with_the_last_dead_letter_or_when_it_is_full(server: ServerHarness) -> None:
    found = Deaths(server.queue("jobs"))
    assert counted(found.page(DeathFilter(), 0, 9)) == (([1, 2, 3], 0), 0)
    assert counted(found.page(DeathFilter(), 0, 2)) == (([1, 2], 2), 0)
