"""Each rule of the audit, and each variant of it, finds the planted breaches, and no others.

All journals are made first and audited together, because a run of Spark costs more than a journal.
`planted` says what a story is.

Promise audit: a table of all its rules with each of their variants: one planted that it names, with
    queue and item, and the nearest right one that it does not; journals that the kill tests of the
    daemon leave (load, moves, hand-off chains, ids, versions, tokens, children, observers), which
    pass, and about which it states the same as the clients saw.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kestrelpy.spark.jobs.audit import audit
from kestrelpy.spark.jobs.audit.checks import Wrong
from kestrelpy.spark.jobs.audit.dedupe import RULES
from kestrelpy.spark.jobs.audit.findings import JournalFindings, outcome
from kestrelpy.spark.jobs.common.job import BREACH, HOLDS, Progress
from tests.unit.spark.jobs import planted_files, planted_items, planted_order, planted_said
from tests.unit.spark.jobs.planted import CHILD, plant
from tests.unit.spark.jobs.planted_files import FileCase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

CASES = (*planted_items.CASES, *planted_order.CASES, *planted_said.CASES)
PLANTED = plant(CASES)
FILES = {case.queue: case for case in planted_files.CASES}
STORIES = planted_files.STORIES
EXAMPLES = 10_000


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, JournalFindings]:
    """The audit's findings for each queue and child, by name; for stories by their names."""
    data = tmp_path_factory.mktemp("planted")
    for planted in PLANTED.values():
        planted.book.save(data)
    for queue, case in FILES.items():
        case.breach(data, queue)
        case.legal(data, f"{queue}-legal")
    names = {data: ""}
    for rule, (breach, legal) in STORIES.items():
        for name, story in ((rule, breach), (f"{rule}-legal", legal)):
            names[story(tmp_path_factory.mktemp(name))] = name
    silent = Progress(io.StringIO(), False)
    each = audit(spark, [*map(str, names)], silent, EXAMPLES)
    return {names[Path(one.folder).parent] or one.queue: one for one in each}


def line_of(queue: str) -> str:
    """Return the queue or child whose findings have the breaches of this queue's journal.

    Breaches of ids, versions and moves are named with the queue.
    """
    is_of_child = queue.split("-")[1] == CHILD and rule_of(queue) not in RULES
    return f"{queue}+audit" if is_of_child else queue


def rule_of(queue: str) -> str:
    """The rule that is broken in this queue's journal."""
    return queue.partition("-")[0]


def said(found: JournalFindings) -> str:
    """Return the whole text, for the message of a failed test."""
    return outcome([found], None).text


def broken(found: JournalFindings) -> dict[str, int]:
    """Return the broken rules, and how often each is."""
    return {rule: count for rule, count in found.by_rule.items() if count}


@pytest.mark.parametrize(
    ("queue", "variant"),
    [(case.journal(line), case.variant) for case in CASES for line in case.lines],
    ids=str,
)
def test_planted_breaches_are_named(
    found: dict[str, JournalFindings], queue: str, variant: str
) -> None:
    each, what = found[line_of(queue)], PLANTED[queue].named[variant]
    if isinstance(what, int):
        named = [(item, wrong.name.lower()) for item, wrong in each.wrong]
        assert (what, rule_of(queue)) in named, said(each)
    else:
        assert what in said(each)


@pytest.mark.parametrize("queue", PLANTED)
def test_no_other_breach_is_found(found: dict[str, JournalFindings], queue: str) -> None:
    planted, each = PLANTED[queue], found[line_of(queue)]
    if all(isinstance(what, int) for what in planted.named.values()):
        assert {item for item, _ in each.wrong} == {*planted.named.values()}
    expected = {rule_of(queue): len(planted.named), **dict.fromkeys(planted.also, 1)}
    assert other_than_damage(each, queue) == expected, said(each)
    for name in {queue, f"{queue}+audit", *(one.queue for one in planted.book.others.values())}:
        if name in found and name != line_of(queue):
            assert not other_than_damage(found[name], queue), said(found[name])


def other_than_damage(found: JournalFindings, queue: str) -> dict[str, int]:
    """Return the broken rules; where items are there without their puts, the bytes that may have
    held these are named as well, of the log that the queue and its children share."""
    broken_rules = broken(found)
    if rule_of(queue) in ("no_put", "puts_swapped"):
        broken_rules.pop("damage", None)
    return broken_rules


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_records_missing_from_files_are_named(
    found: dict[str, JournalFindings], case: FileCase
) -> None:
    each = found[case.queue + case.line]
    counts = broken(each)
    assert {*counts} == {rule for rule, _ in case.broken}, said(each)
    for rule, count in case.broken:
        assert counts[rule] == (count or counts[rule]), said(each)
    assert outcome([each], None).code == BREACH


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_records_not_missing_from_files_are_no_breach(
    found: dict[str, JournalFindings], case: FileCase
) -> None:
    each = found[f"{case.queue}-legal{case.line}"]
    assert outcome([each], None).code == HOLDS, said(each)


@pytest.mark.parametrize("rule", STORIES)
def test_the_faults_of_one_queue_are_checked(found: dict[str, JournalFindings], rule: str) -> None:
    assert broken(found[rule]) == {rule: 1}, said(found[rule])
    assert not found[f"{rule}-legal"].breaches, said(found[f"{rule}-legal"])


def test_every_rule_of_the_audit_is_in_the_table(found: dict[str, JournalFindings]) -> None:
    rules = {rule for each in found.values() for rule in each.by_rule}
    table = {case.rule for case in (*CASES, *FILES.values())} | {*STORIES}
    assert rules == table
    assert {each.name.lower() for each in Wrong} | {*RULES} <= rules
