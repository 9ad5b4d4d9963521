"""The audit: what was planted is found and named; what only looks like a breach is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from journal.files import Disk
from journal.reader import read_journal
from journal.record import Draft, Kind, ended
from journal.segment import segment_name
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.balance import Wrong
from kestrelpy.spark.jobs.findings import outcome
from tests.spark.jobs.audits import audit_holds, audited, breach
from tests.spark.jobs.lives import (
    TINY,
    Story,
    forget,
    journal_of,
    random_story,
    retold,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.usefixtures("by_hand"), pytest.mark.slow]

SEEDS = [seed for seed in range(40) if seed != 6]  # 6: see the journal's own tests


def nth(drafts: list[Draft], kind: Kind, item: int) -> int:
    """Where the first record of that kind about this item stands."""
    return next(n for n, d in enumerate(drafts) if d.kind == kind and d.item == item)


def plain(tmp_path: Path) -> Path:
    """Ten items stored, eight of them confirmed one after the other."""
    story = Story()
    story.put(*(b"%d" % n for n in range(10)))
    story.take(8, pace_ms=20)
    return story.save(tmp_path / "plain")


def many(tmp_path: Path) -> Path:
    """A hundred items in several segments."""
    story = Story(TINY)
    story.put(*(b"%d" % n for n in range(100)))
    return story.save(tmp_path / "data")


def holding(data: Path, lsn: int) -> Path:
    """The segment that has this record."""
    records = read_journal(Disk(), str(journal_of(data))).records()
    number = next(record.segment for record in records if record.lsn == lsn)
    return journal_of(data) / segment_name(number)


# -- it holds -------------------------------------------------------------------------------------


def test_the_books_of_random_lives_balance_whatever_was_killed_or_cut(
    spark: SparkSession, tmp_path: Path
) -> None:
    for seed in SEEDS:
        random_story(seed).save(tmp_path / str(seed))

    found = audit_holds(spark, *(tmp_path / str(seed) for seed in SEEDS))

    assert len(found) == len(SEEDS)
    assert sum(each.books.ended["confirmed"] for each in found) > 100
    assert sum(each.books.flushed for each in found) > 10
    assert sum(each.books.ended["discarded"] for each in found) > 10
    assert sum(each.books.ended["expired"] for each in found) > 10
    assert sum(each.books.dead for each in found) > 0
    assert any(each.unbroken_lsn > each.extent.first for each in found), "nothing was reclaimed"
    assert all(each.books.opening is not None for each in found)


def test_every_side_of_the_books_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(max_attempts=2, max_items=8, discard_old_when_full=True)
    story.put(b"confirmed", b"dead", b"expired", b"again")
    story.take(1)
    for _ in range(2):
        story.open()
        story.give_back()  # the second time it dies
    story.open()
    story.open()
    story.give_back(b"hangup", story.lent[1])
    story.confirm()
    story.put(b"flushed", b"flushed")
    story.flush()
    story.put(b"expires", expires_in_ms=5)
    story.pass_time(20)
    story.put(*(b"%d" % n for n in range(10)))  # two too many

    (found,) = audit_holds(spark, story.save(tmp_path / "data"))

    books = found.books
    assert books.opening == 0
    assert (books.stored, books.ended["confirmed"], books.dead) == (17, 2, 1)
    assert (books.flushed, books.ended["expired"], books.ended["discarded"]) == (3, 1, 2)
    assert books.there == 8
    assert (books.delivered, books.delivered_once, books.repeated) == (4, 3, 1)


def test_a_delivery_that_a_kill_ended_explains_a_later_first_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story()
    story.put(b"1", b"2", b"3", b"keeps the segment")
    story.open("anna")
    story.open("bert")
    story.confirm(story.lent[1])
    story.kill()
    story.take(2)

    (found,) = audit_holds(spark, story.save(tmp_path / "data"))

    assert found.order.restart == 1
    assert found.order.judged == 3


def test_a_clock_that_was_set_back_is_no_disorder(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.put(b"1", b"2", b"3", b"4")
    story.take(2)
    story.step_clock(-60_000)
    story.take(1)
    story.open()
    story.step_clock(-1_000)
    story.confirm()

    (found,) = audit_holds(spark, story.save(tmp_path / "data"))

    assert found.order.clock == 2


def test_dead_items_that_are_taken_from_the_dead_line_are_confirmed(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story(max_attempts=1)
    story.put(b"1", b"2", b"3")
    for _ in range(3):
        story.open()
        story.give_back()
    story.open(dead=True)
    story.give_back()
    story.open(dead=True)
    story.confirm()
    story.flush()

    (found,) = audit_holds(spark, story.save(tmp_path / "data"))

    assert (found.books.ended["confirmed"], found.books.dead) == (1, 2)


def test_what_a_flush_spared_goes_on_living(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.put(b"1", b"2", b"3")
    story.open()
    story.flush()
    story.give_back()

    (found,) = audit_holds(spark, story.save(tmp_path / "data"))

    assert (found.books.flushed, found.books.there) == (2, 1)


def test_a_queue_that_was_made_again_has_books_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = plain(tmp_path), Story()
    second.put(b"new")
    there = second.save(tmp_path / "second")
    shutil.move(journal_of(there), first / "jobs.1700000009")

    assert [each.books.stored for each in audit_holds(spark, first)] == [10, 1]


# -- it does not ----------------------------------------------------------------------------------


def test_an_item_that_the_daemon_forgot_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(TINY)
    for _ in range(8):
        story.put(*(b"%d" % n for n in range(10)))
        story.take(9)
        story.settle()
    data = story.save(tmp_path / "data")
    (whole,) = audit_holds(spark, data)

    item = forget(journal_of(data), -1)

    (found,) = audited(spark, data)
    assert whole.books.difference == 0
    assert f"missing: item {item} was stored, and neither ended nor is it there" in breach([found])
    assert found.books.difference == 1


def test_an_item_of_the_opening_that_is_forgotten_shows_in_the_sum(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story(TINY)
    for _ in range(8):
        story.put(*(b"%d" % n for n in range(10)))
        story.take(9)
        story.settle()
    data = story.save(tmp_path / "data")
    (before,) = audit_holds(spark, data)
    assert before.books.opening, "nothing was reclaimed"

    forget(journal_of(data), 0)

    assert "1 of the opening are missing" in breach(audited(spark, data))


def test_a_put_that_is_left_out_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    def lose(drafts: list[Draft]) -> None:
        del drafts[nth(drafts, Kind.DONE, 4)], drafts[nth(drafts, Kind.PUT, 4)]

    data = retold(journal_of(plain(tmp_path)), tmp_path / "data", lose)

    assert "missing: item 4: between items that were stored" in breach(audited(spark, data))


def test_an_end_of_an_item_that_was_never_put_is_a_phantom(
    spark: SparkSession, tmp_path: Path
) -> None:
    def add(drafts: list[Draft]) -> None:
        done = drafts[nth(drafts, Kind.DONE, 4)]
        drafts.append(done._replace(item=77))

    data = retold(journal_of(plain(tmp_path)), tmp_path / "data", add)

    said = breach(audited(spark, data))
    assert "phantom: item 77 was delivered or ended, and was never put" in said


def test_a_double_confirm_is_named(spark: SparkSession, tmp_path: Path) -> None:
    def confirm_again(drafts: list[Draft]) -> None:
        drafts.append(drafts[nth(drafts, Kind.DONE, 4)])

    data = retold(journal_of(plain(tmp_path)), tmp_path / "data", confirm_again)
    (found,) = audited(spark, data)

    assert "twice: item 4 was confirmed more than once" in breach([found])
    assert found.books.wrong == {Wrong.CONFIRMED_TWICE: 1}


def test_a_swap_of_two_first_deliveries_is_named(spark: SparkSession, tmp_path: Path) -> None:
    def swap(drafts: list[Draft]) -> None:
        a, b = nth(drafts, Kind.DONE, 3), nth(drafts, Kind.DONE, 6)
        drafts[a], drafts[b] = drafts[a]._replace(item=6), drafts[b]._replace(item=3)

    data = retold(journal_of(plain(tmp_path)), tmp_path / "data", swap)
    (found,) = audited(spark, data)

    assert "order: 3 first deliveries: item 4 was first opened" in breach([found])
    assert found.books.wrong == {}, "only the order is wrong"


def test_a_swap_of_two_puts_is_named(spark: SparkSession, tmp_path: Path) -> None:
    def swap(drafts: list[Draft]) -> None:
        a, b = nth(drafts, Kind.PUT, 3), nth(drafts, Kind.PUT, 6)
        drafts[a], drafts[b] = drafts[b], drafts[a]

    data = retold(journal_of(plain(tmp_path)), tmp_path / "data", swap)

    assert "was put (lsn" in breach(audited(spark, data))


def test_an_item_that_two_have_at_once_is_named(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.put(b"1", b"2")
    story.open()
    story.pass_time(50)
    story.give_back()
    story.open()
    story.pass_time(50)
    story.confirm()

    def overlap(drafts: list[Draft]) -> None:
        at = nth(drafts, Kind.DONE, 1)
        drafts[at] = drafts[at]._replace(number=drafts[at].number - 30)

    source = story.save(tmp_path / "source")
    audit_holds(spark, source)
    data = retold(journal_of(source), tmp_path / "data", overlap)

    assert "item 1 lent twice at once" in breach(audited(spark, data))


def test_a_segment_that_was_cut_out_is_named_by_its_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = many(tmp_path)
    audit_holds(spark, data)

    holding(data, lsn=30).unlink()

    (found,) = audited(spark, data)
    ((first, last),) = found.holes
    assert first <= 30 <= last
    assert f"missing: lsn {first} to {last}" in breach([found])


def test_a_segment_without_its_end_is_named(spark: SparkSession, tmp_path: Path) -> None:
    data = many(tmp_path)
    segment = holding(data, lsn=30)

    segment.write_bytes(segment.read_bytes()[:1200])

    assert f"{segment}: truncated at byte 1200" in breach(audited(spark, data))


def test_an_end_after_the_end_is_named(spark: SparkSession, tmp_path: Path) -> None:
    def add(drafts: list[Draft]) -> None:
        small, meta = ended(0, 1)
        done = drafts[nth(drafts, Kind.DONE, 2)]
        drafts.append(done._replace(kind=Kind.EXPIRED, small=small, meta=meta, number=0))
        drafts.append(done._replace(kind=Kind.RETURNED, item=3, small=1))

    data = retold(journal_of(plain(tmp_path)), tmp_path / "data", add)

    said = breach(audited(spark, data))
    assert "twice: item 2 ended more than once" in said
    assert "phantom: item 3 was given back, died or was flushed although it had ended" in said


# -- how it is said -------------------------------------------------------------------------------


def test_the_full_lists_are_written_and_replaced(spark: SparkSession, tmp_path: Path) -> None:
    def confirm_again(drafts: list[Draft]) -> None:
        drafts += [drafts[nth(drafts, Kind.DONE, item)] for item in range(1, 8)]

    data = retold(journal_of(plain(tmp_path)), tmp_path / "data", confirm_again)
    for _ in range(2):
        (found,) = audited(spark, data, out=tmp_path / "out")

    rows = spark.read.parquet(str(tmp_path / "out" / "items")).collect()
    assert {(row.item, row.list) for row in rows} == {(item, "twice") for item in range(1, 8)}
    assert len(rows) == 7
    assert len(found.wrong) == 5, "in the words only examples"
    assert "and 2 more" in breach([found])


def test_facts_are_json_and_tell_all_of_it(spark: SparkSession, tmp_path: Path) -> None:
    told = outcome(audited(spark, plain(tmp_path)), None)

    facts = json.loads(json.dumps(told.facts))
    (queue,) = facts["journals"]
    assert facts["holds"] is True
    assert (queue["queue"], queue["stored"], queue["confirmed"], queue["there"]) == (
        "jobs", 10, 8, 2,
    )  # fmt: skip
    assert "stored 10 = confirmed 8 + there 2: it adds up" in told.text


def test_a_folder_that_is_not_there_or_has_no_journal_is_a_sentence(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(KestrelError, match="There is no folder"):
        audited(spark, tmp_path / "nowhere")
