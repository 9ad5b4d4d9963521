"""How far `lifecycle` has read each journal, so that the next run reads only what is new.

    lsn    1 ......... synced ... last          synced   a power cut takes no record up to here
           |------ read before ----|             last     the last record that was read
    next run:                      |--- read    the segment still reaches to `last`: go on there
             or:      |------------- read       it does not, so records after `synced` may be others

One rule: a record that is read counts once. The rows of reclaimed records stay as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from journal.errors import ITEM_MAX
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files import History, PlannedJournal, Split, children
from kestrelpy.spark.jobs.common import events as ev

NOBODY = "-"  # a server without a name: an empty name makes no folder


@dataclass(frozen=True, slots=True)
class Read:
    """How far a journal was read; `stop` is the offset after `last` in its segment, 0: unknown."""

    server: str
    queue: str
    generation: int
    synced: int
    last: int
    journal: int = 0
    segment: int = 0
    stop: int = 0
    missing: int = 0  # records that were gone before they were read


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The state of a reader before this run: numbers of a journal or a child.

    - `synced`: a row with a later record may change.
    - `again_after`: records after it are read again; those that the last run left do not count.
    - `item_first`, `item_last`: items with a put that was read before; 0: none.
    """

    synced: int
    again_after: int = ITEM_MAX
    item_first: int = 0
    item_last: int = 0


@dataclass(slots=True)
class Plan:
    """The plan of a run: the new part of the history, and how far each journal is read after it."""

    history: History
    read: dict[str, Read]
    again_after: dict[str, int]


def what_is_new(history: History, known: Mapping[str, Read]) -> Plan:
    """Return the part of the history that was not read yet. Raises KestrelError."""
    plan = Plan(History([], history.problems), dict(known), {})
    for journal in history.journals:
        identity = journal.identity.hex()
        before = known.get(identity)
        if before is None:
            plan.history.journals.append(journal)
            plan.read[identity] = _read(journal, None)
            continue
        if before.generation != journal.generation:
            raise KestrelError(
                f"The journal of {journal.queue} in {', '.join(journal.folders)} is another "
                "history than the one that was read before, as after a restored backup. Say "
                "another --out."
            )
        if journal.lsn_next - 1 <= before.synced:
            continue  # an older copy, or nothing new
        new, again_after = _after(journal, before)
        plan.again_after[identity] = again_after
        plan.history.journals.append(new)
        plan.read[identity] = _read(journal, before)
    return plan


def _after(journal: PlannedJournal, before: Read) -> tuple[PlannedJournal, int]:
    """Return the journal without what was read, and the lsn after which it is read again."""
    last = next((s for s in journal.splits if _is_at(s, before)), None)
    if last is None or last.lsn_last < before.last:
        splits = [s.only(before.synced + 1, ITEM_MAX) for s in journal.splits
                  if s.lsn_last > before.synced]  # fmt: skip
        is_whole = journal.whole_from <= before.synced + 1
        return replace(journal, splits=splits), before.synced if is_whole else ITEM_MAX
    splits = []
    for split in journal.splits:
        if split is last and before.stop and before.stop < (split.stop or split.size):
            split = replace(split, start=before.stop, lsn_first=before.last + 1)
        if split.lsn_last > before.last:
            splits.append(split.only(before.last + 1, ITEM_MAX))
    return replace(journal, splits=splits), before.last


def _is_at(split: Split, before: Read) -> bool:
    return (split.journal, split.segment) == (before.journal, before.segment) and not (
        split.is_compacted
    )


def _read(journal: PlannedJournal, before: Read | None) -> Read:
    logs = [split for split in journal.splits if not split.is_compacted]
    end = max(logs, key=lambda split: split.lsn_last, default=None)
    last = journal.lsn_next - 1
    missing = before.missing if before is not None else 0
    if before is not None:
        missing += max(min(journal.whole_from - 1, last) - before.last, 0)
    found = Read(
        journal.server or NOBODY, journal.queue, journal.generation,
        min(max(journal.lsn_synced, before.synced if before is not None else 0), last), last,
        missing=missing,
    )  # fmt: skip
    if end is None or end.lsn_last != last:
        return found
    return replace(found, journal=end.journal, segment=end.segment, stop=end.stop)


def names(journals: Iterable[PlannedJournal]) -> dict[int, tuple[str, str, int]]:
    """Return server, queue and generation of each journal and child, by its number."""
    found: dict[int, tuple[str, str, int]] = {}
    for j in journals:
        jid, server = ev.jid_of(j.identity), j.server or NOBODY
        found[jid] = (server, j.queue, j.generation)
        for child in children(j.reader_names):
            queue = f"{j.queue}+{child.name}"
            found[ev.reader_jid(jid, child.reader)] = (server, queue, j.generation)
    return found


def numbers_of(journal: PlannedJournal) -> list[int]:
    """Return the numbers of a journal and its children."""
    jid = ev.jid_of(journal.identity)
    return [jid, *(ev.reader_jid(jid, c.reader) for c in children(journal.reader_names))]


def as_json(read: Mapping[str, Read]) -> dict[str, Any]:
    """Return it as members of a state."""
    return {identity: asdict(each) for identity, each in read.items()}


def from_json(said: Mapping[str, Any]) -> dict[str, Read]:
    """Return it from a state."""
    return {identity: Read(**each) for identity, each in said.items()}
