"""The findings of an audit, as sentences for people and as facts for programs. Pure.

    jobs on 5f2c (generation 1763712000): lsn 1 to 9,200, since 2026-11-21T16:00:00Z
      stored 5,000 = confirmed 4,800 + dead 3 + there 197: it adds up
      4,900 items were delivered, 4,790 of them once: 110 deliveries more (2.2 %): abort 80, ...
      order: 4,890 first deliveries in order, 12 explained by a restart

One rule: a breach names its queue, and its item, lsn or file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from journal.errors import Damage
from journal.tools import utc
from kestrelpy.spark.jobs.audit.checks import Books, Wrong
from kestrelpy.spark.jobs.audit.dedupe import HeaderFindings
from kestrelpy.spark.jobs.audit.lsn_gaps import RecordExtent
from kestrelpy.spark.jobs.audit.order import OrderFindings
from kestrelpy.spark.jobs.common.events import HOW, UNDERSTOOD
from kestrelpy.spark.jobs.common.job import BREACH, HOLDS, UNUSABLE, Outcome, counted

_LISTS: Final = ("missing", "phantom", "twice")


@dataclass(frozen=True, slots=True)
class JournalFindings:
    """The findings of one journal."""

    folder: str
    server: str
    queue: str
    generation: int
    journal: str
    extent: RecordExtent
    unbroken_lsn: int
    as_of: int
    lsn_last: int
    books: Books
    order: OrderFindings
    lsn_gaps: list[tuple[int, int]]
    ids_skipped: list[tuple[int, int]]
    wrong: list[tuple[int, Wrong]]
    damages: list[Damage]
    is_known: bool
    said: HeaderFindings = field(default_factory=HeaderFindings)
    retained_missing: Sequence[tuple[int, int]] = ()

    @property
    def name(self) -> str:
        """The queue with its server and generation."""
        return f"{self.queue} on {self.server or '?'} (generation {self.generation})"

    @property
    def lossy(self) -> list[Damage]:
        """Damages that may have cost an item or a record."""
        return [
            d for d in self.damages
            if d.kind != "foreign" and (d.id_last >= d.id_first or d.lsn_last >= d.lsn_first)
        ]  # fmt: skip

    @property
    def unexplained(self) -> int:
        """The difference of the sum that the wrong items do not explain."""
        difference = self.books.difference
        if difference is None:
            return 0
        named = self.books.wrong
        return difference - named.get(Wrong.LOST, 0) + named.get(Wrong.NO_PUT, 0)

    @property
    def adds_up(self) -> bool:
        """True if the sums add up."""
        return self.books.difference in (0, None)

    @property
    def by_rule(self) -> dict[str, int]:
        """How often each rule is broken, for all rules, by name."""
        order, wrong = self.order, self.books.wrong
        return {
            "sum": 0 if self.adds_up else 1,
            **{each.name.lower(): wrong.get(each, 0) for each in Wrong},
            "record_missing": len(self.lsn_gaps),
            "number_skipped": len(self.ids_skipped),
            "retained_gone": len(self.retained_missing),
            "damage": len(self.lossy),
            "deliveries_swapped": order.swapped,
            "puts_swapped": order.puts_swapped,
            "lent_twice": order.overlaps,
            **self.said.by_rule,
        }

    @property
    def breaches(self) -> int:
        """How many breaches of all rules there are."""
        return sum(self.by_rule.values())

    @property
    def code(self) -> int:
        """The exit code of this journal."""
        if self.breaches:
            return BREACH
        return HOLDS if self.is_checked else UNUSABLE

    @property
    def is_checked(self) -> bool:
        """True if this version knows all its records."""
        return self.is_known and set(UNDERSTOOD).issuperset(self.extent.by_kind)


def outcome(found: Sequence[JournalFindings], out: str | None) -> Outcome:
    """Return the whole audit as text, facts and exit code."""
    breaches = sum(each.breaches for each in found)
    lines = [line for each in found for line in _lines(each)]
    lines.append(_verdict(found, breaches))
    if out is not None and breaches:
        lines.append(f"The full lists are in {out}.")
    facts: dict[str, object] = {
        "holds": not breaches,
        "breaches": breaches,
        "totals": _totals(found),
        "journals": [_facts(each) for each in found],
    }
    codes = {each.code for each in found}
    code = BREACH if BREACH in codes else max(codes, default=HOLDS)
    return Outcome("\n".join(lines), facts, code)


def _verdict(found: Sequence[JournalFindings], breaches: int) -> str:
    unknown = [each.name for each in found if not each.is_checked]
    if breaches:
        where = sum(1 for each in found if each.breaches)
        what = "1 breach" if breaches == 1 else f"{breaches:,} breaches"
        return f"It does not hold: {what} in {counted(where, 'queue')}."
    if unknown:
        return (
            f"{', '.join(unknown)}: has records of kinds that this version does not know; use the "
            "kestrelpy that wrote them. The others hold."
        )
    items = sum(each.books.stored for each in found)
    return f"It holds: {counted(items, 'item')} in {counted(len(found), 'queue')}."


# -- words ----------------------------------------------------------------------------------------


def _lines(found: JournalFindings) -> list[str]:
    span = found.extent
    since = f", since {utc(span.first_ms)}" if span.first_ms else ""
    first = span.first or found.lsn_last + 1
    lines = [f"{found.name}: lsn {first:,} to {found.lsn_last:,}{since}"]
    if found.unbroken_lsn > first:
        lines.append(f"  without gaps from lsn {found.unbroken_lsn:,} on; segments before that "
                     "were reclaimed or compacted")  # fmt: skip
    lines += [f"  {line}" for line in (_sum(found), *_deliveries(found), *_order(found))]
    if found.said.again:
        lines.append(f"  {counted(found.said.again, 'id')} came again after more than a minute: "
                     "right where the queue remembers them no longer than that")  # fmt: skip
    lines += [f"  BREACH {line}" for line in _breaches(found)]
    return lines


def _sum(found: JournalFindings) -> str:
    books = found.books
    inn = f"stored {books.stored:,}"
    if books.opening is None:
        inn = f"unknown opening + {inn}"
    elif books.opening:
        inn = f"opening {books.opening:,} (as of lsn {found.as_of:,}) + {inn}"
    parts = {**books.ended, "flushed": books.flushed, "dead": books.dead}
    parts["flushed of the opening"] = books.flushed_unseen
    went = [f"{name} {count:,}" for name, count in parts.items() if count]
    went.append(f"there {books.there:,}")
    verdict = "it adds up" if found.adds_up else f"{books.difference:,} do not add up"
    if books.opening is None:
        verdict = "the number of items before is not known"
    return f"{inn} = {' + '.join(went)}: {verdict}"


def _deliveries(found: JournalFindings) -> list[str]:
    books = found.books
    if not books.delivered:
        return []
    how = [(name, found.extent.by_how.get(number, 0)) for number, name in enumerate(HOW)]
    how.append(("other reasons", found.extent.by_how.get(len(HOW), 0)))
    causes = ", ".join(f"{name} {count:,}" for name, count in how if name and count)
    more = f"{books.repeated:,} deliveries beyond the first ({_share(books):.4%})"
    lines = [
        f"{counted(books.delivered, 'item')} delivered, {books.delivered_once:,} of them exactly "
        f"once; {more}" + (f"; ended by {causes}" if causes else "")
    ]
    if books.unrecorded:
        lines.append(f"{books.unrecorded:,} earlier deliveries have no record")
    return lines


def _share(books: Books) -> float:
    return books.repeated / books.delivered if books.delivered else 0.0


def _order(found: JournalFindings) -> list[str]:
    order = found.order
    if not order.checked:
        return []
    why = {
        "by a restart": order.restart,
        "by a clock that was set back": order.clock,
        "by being too close to tell": order.close,
    }
    explained = ", ".join(f"{count:,} {name}" for name, count in why.items() if count)
    text = f"order: {order.swapped:,} out of {order.checked:,} first deliveries are out of order"
    return [text + (f"; explained: {explained}" if explained else "")]


def _breaches(found: JournalFindings) -> Iterable[str]:
    if not found.adds_up:
        if found.unexplained:
            named = found.unexplained
            yield (
                f"sum: {abs(named):,} of the opening "
                + ("are missing" if named > 0 else "are there or ended, and too many")
            )
        else:
            yield f"sum: {found.books.difference:,}, by the items below"
    for first, last in found.lsn_gaps:
        yield f"missing: lsn {_range(first, last)}: records that should be there are not"
    for first, last in found.ids_skipped:
        yield f"missing: item {_range(first, last)}: between items that were stored"
    for first, last in found.retained_missing:
        yield (f"missing: item {_range(first, last)}: done and retained, and gone although older "
               "ones are there")  # fmt: skip
    for damage in found.lossy:
        yield f"missing: {damage.sentence()}"
    for wrong, count in found.books.wrong.items():
        items = [str(item) for item, what in found.wrong if what == wrong]
        rest = f" and {count - len(items):,} more" if count > len(items) else ""
        yield f"{wrong.list}: item {', '.join(items)}{rest} {wrong.text}"
    yield from found.said.examples
    if found.said.breaches > len(found.said.examples):
        yield f"and {found.said.breaches - len(found.said.examples):,} more of these"
    order = found.order
    if order.breaches:
        counts = {
            "first deliveries": order.swapped,
            "puts": order.puts_swapped,
            "deliveries at once": order.overlaps,
        }
        text = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        yield f"order: {text}: {'; '.join(order.examples)}"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


# -- facts ----------------------------------------------------------------------------------------


def _totals(found: Sequence[JournalFindings]) -> dict[str, object]:
    books = [each.books for each in found]
    delivered = sum(each.delivered for each in books)
    repeated = sum(each.repeated for each in books)
    return {
        "journals": len(found),
        "records": sum(each.extent.records for each in found),
        "stored": sum(each.stored for each in books),
        "delivered": delivered,
        "delivered_once": sum(each.delivered_once for each in books),
        "repeated": repeated,
        "repeated_share": repeated / delivered if delivered else 0.0,
    }


def _facts(found: JournalFindings) -> dict[str, object]:
    books, order = found.books, found.order
    lists: dict[str, object] = {
        name: [
            {"item": item, "what": wrong.text} for item, wrong in found.wrong if wrong.list == name
        ]
        for name in _LISTS
    }
    return {
        "server": found.server, "queue": found.queue, "generation": found.generation,
        "journal": found.journal, "folder": found.folder,
        "lsn_first": found.extent.first, "unbroken_lsn": found.unbroken_lsn,
        "lsn_last": found.lsn_last, "records": found.extent.records,
        "since": utc(found.extent.first_ms) if found.extent.first_ms else None,
        "until": utc(found.extent.last_ms) if found.extent.last_ms else None,
        "opening": books.opening, "opening_lsn": found.as_of, "stored": books.stored,
        **books.ended, "flushed": books.flushed, "flushed_unseen": books.flushed_unseen,
        "dead": books.dead, "there": books.there, "difference": books.difference,
        "delivered": books.delivered, "delivered_once": books.delivered_once,
        "deliveries": books.deliveries, "repeated": books.repeated,
        "repeated_share": _share(books), "unrecorded": books.unrecorded,
        "wrong": {each.name.lower(): count for each, count in books.wrong.items()},
        **lists,
        "lsn_gaps": [list(each) for each in found.lsn_gaps],
        "ids_skipped": [list(each) for each in found.ids_skipped],
        "retained_missing": [list(each) for each in found.retained_missing],
        "damages": [each.sentence() for each in found.damages],
        "order": {
            "judged": order.checked, "swapped": order.swapped, "puts_swapped": order.puts_swapped,
            "overlaps": order.overlaps, "explained_by_restart": order.restart,
            "explained_by_clock": order.clock, "too_close": order.close,
            "examples": order.examples,
        },
        "said": {
            "breaches": found.said.breaches, "again": found.said.again,
            "examples": found.said.examples,
        },
        "of_other_readers": found.extent.of_child, "judged": found.is_checked,
        "breaches": found.breaches,
        "by_rule": {rule: count for rule, count in found.by_rule.items() if count},
    }  # fmt: skip
