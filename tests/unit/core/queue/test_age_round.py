"""Thousands of children under a `max_queue_age` are looked at some at a time.

The figures are lines of Python, as in `test_bounded_work.py`.

Promise: slices.
"""

from __future__ import annotations

import pytest

from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.age_round import AGE_CHECK_MS_MAX
from tests.support.core_harness import NAME, CoreHarness
from tests.support.steps import Work

AGE_MS = 100_000
LOOKED = 20
LINES = 600  # by how many steps two ticks may differ: some of them remove children


@pytest.fixture(autouse=True)
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrelpy.core.queue.age_round.LOOKED_MAX", LOOKED)
    monkeypatch.setattr("kestrelpy.core.registry.lifecycle.EXPIRED_MAX", 2)
    monkeypatch.setattr("kestrelpy.core.queue.recount.CHILDREN_A_MS", 0.001)  # much later


def made(children: int, age_ms: int = AGE_MS) -> CoreHarness:
    q = CoreHarness(Policy(max_queue_age_ms=age_ms), queues_max=children + 10)
    q.broker.create(NAME, q.now_ms)
    for number in range(children):
        q.broker.mention(b"jobs+%d" % number, q.now_ms)
    return q


def worst_tick(q: CoreHarness, ms: int) -> int:
    """Let `ms` pass; return the steps of the longest tick."""
    end, worst = q.now_ms + ms, 0
    while (due := q.broker.next_due()) is not None and due <= end:
        q.now_ms = max(due, q.now_ms)
        with Work() as counted:
            q.broker.tick(q.now_ms)
        worst = max(worst, counted.steps)
    q.now_ms = end
    return worst


def use(q: CoreHarness) -> None:
    for child in q.queue.children.values():
        child.asked_ms = q.now_ms


@pytest.mark.parametrize("is_used", [True, False])
def test_a_tick_looks_at_as_many_children_however_many_there_are(is_used: bool) -> None:
    def cost(children: int) -> int:
        q = made(children)
        there, worst = q.queue.children, 0
        for _ in range(8):
            worst = max(worst, worst_tick(q, AGE_MS // 4))
            if is_used:
                use(q)
        assert len(there) == (children if is_used else 0)
        return worst

    few, many = cost(2 * LOOKED), cost(20 * LOOKED)
    assert many < few + LINES


def test_a_tick_for_another_reason_looks_at_no_child_before_its_round() -> None:
    q = made(5 * LOOKED)
    worst_tick(q, AGE_MS // 8)
    asked = [child.asked_ms for child in q.queue.children.values()]
    q.queue.alarm.need(0)
    q.now_ms += 1
    few = worst_tick(q, 1)
    assert [child.asked_ms for child in q.queue.children.values()] == asked
    assert few < LINES


@pytest.mark.parametrize("age_ms", [4, 1000, AGE_MS, 100 * AGE_CHECK_MS_MAX])
def test_a_child_goes_a_quarter_of_the_age_late_at_most(age_ms: int) -> None:
    q = made(3 * LOOKED, age_ms)
    there = q.queue.children
    worst_tick(q, age_ms // 2)
    kept = there[b"7"]
    kept.asked_ms = q.now_ms
    late_ms = min(age_ms // 4, AGE_CHECK_MS_MAX) + 2 * 3 * LOOKED
    worst_tick(q, age_ms - age_ms // 2 + late_ms)
    if age_ms // 2 > late_ms:
        assert [*there.values()] == [kept]
    worst_tick(q, age_ms + late_ms)
    assert not there


def test_an_age_that_is_shortened_counts_at_once() -> None:
    q = made(3, 100 * AGE_MS)
    there = q.queue.children
    worst_tick(q, 2000)
    q.queue.set_policy(Policy(max_queue_age_ms=1000), q.now_ms)
    worst_tick(q, 300)
    assert not there


def test_a_child_that_is_removed_during_a_round_is_passed_over() -> None:
    q = made(3 * LOOKED)
    use(q)
    worst_tick(q, AGE_MS // 4 - 1)
    q.now_ms += 1
    q.broker.tick(q.now_ms)
    for child in [*q.queue.children.values()]:
        q.broker.remove_child(child, q.now_ms)
    worst_tick(q, 10)
    assert not q.queue.children


def test_without_the_setting_a_round_under_way_is_given_up_and_a_later_one_looks_at_all() -> None:
    q = made(3 * LOOKED)
    while not q.queue.age_round._left:
        due = q.broker.next_due()
        assert due is not None
        q.now_ms = max(due, q.now_ms)
        q.broker.tick(q.now_ms)
    there = q.queue.children
    left = len(there)
    q.queue.set_policy(Policy(), q.now_ms)
    q.queue.alarm.need(0)
    q.broker.tick(q.now_ms)
    assert not q.queue.age_round._left
    worst_tick(q, 5 * AGE_MS)
    assert len(there) == left > 0

    q.queue.set_policy(Policy(max_queue_age_ms=AGE_MS), q.now_ms)
    worst_tick(q, AGE_MS)
    assert not there


@pytest.mark.parametrize("trouble", ["", "failed", "no room"])
def test_a_child_whose_log_is_in_trouble_does_not_grow_too_old(trouble: str) -> None:
    """Its removal is a record, which is not written now."""
    q = made(1)
    queue, log = q.queue, q.queue.log
    if trouble == "failed":
        log.failure = OSError("disk on fire")
    log.no_room = trouble if trouble == "no room" else ""

    q.pass_time(3 * AGE_MS)

    assert bool(queue.children) is bool(trouble)
