"""For each rule of the audit, and each variant of it: what is planted it finds, and nothing else.

All journals are made first and audited together, because a run of Spark costs more than a journal.
`planted` says what a story is.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from kestrelpy.spark.jobs.audit import audit
from kestrelpy.spark.jobs.findings import Found, outcome
from kestrelpy.spark.jobs.running import Progress
from tests.spark.jobs import planted_items
from tests.spark.jobs.planted import CHILD, Told, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

CASES = planted_items.CASES
TOLD = tell(CASES)
EXAMPLES = 10_000


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """What the audit finds in each line, by its name."""
    data = tmp_path_factory.mktemp("planted")
    for told in TOLD.values():
        told.book.save(data)
    nobody = Progress(io.StringIO(), False)
    return {each.queue: each for each in audit(spark, [str(data)], nobody, EXAMPLES)}


def line_of(queue: str) -> str:
    """The line whose stories are told in this queue's journal."""
    return f"{queue}+audit" if queue.split("-")[1] == CHILD else queue


def rule_of(queue: str) -> str:
    """The rule that is broken in this queue's journal."""
    return queue.partition("-")[0]


def said(found: Found) -> str:
    """Everything, for who reads why a test fails."""
    return outcome([found], None).text


@pytest.mark.parametrize(
    ("queue", "variant"),
    [(case.journal(line), case.variant) for case in CASES for line in case.lines],
    ids=str,
)
def test_what_is_planted_is_named(found: dict[str, Found], queue: str, variant: str) -> None:
    each, what = found[line_of(queue)], TOLD[queue].named[variant]
    if isinstance(what, int):
        named = [(item, wrong.name.lower()) for item, wrong in each.wrong]
        assert (what, rule_of(queue)) in named, said(each)
    else:
        assert what in said(each)


@pytest.mark.parametrize("queue", TOLD)
def test_nothing_else_is_found_beside_it(found: dict[str, Found], queue: str) -> None:
    told: Told = TOLD[queue]
    each = found[line_of(queue)]
    expected = {rule_of(queue): len(told.named), **dict.fromkeys(told.also, 1)}
    if all(isinstance(what, int) for what in told.named.values()):
        assert {item for item, _ in each.wrong} == {*told.named.values()}
    assert {rule: n for rule, n in each.by_rule.items() if n} == expected, said(each)
    for other in found.values():
        if other is not each and other.queue.split("+")[0] == queue:
            assert not other.breaches, said(other)
