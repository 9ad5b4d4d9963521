"""The audit: no item of any journal was lost, doubled, or out of order.

    python -m kestrelpy.spark.jobs.audit PATH...      spark-submit .../audit/__main__.py PATH...

The checks of each queue, server and generation:

    sums       opening + stored = ended, by kind, + dead + still there (`checks`)
    missing    an item was stored and is nowhere; a number of a record or an item is left out
    phantom    an item ended, or is there, and was never put
    twice      an item was confirmed twice
    order      markers rise; first deliveries follow them; no item has two leases at once (`order`)
    headers    versions of a key have no gap; no id is stored twice, no token issued twice, no time
               of a schedule put twice; a hand-off or move makes one item, is the only end of its
               source, and its target is where the record says (`dedupe`)
    retained   no done item that is retained went before an older one (`common.baseline`)

A fan-out child has all these checks but the last, as a queue `orders+audit`. Its items are those
put for all readers since it was named, and its own. A child that was removed is not checked.

The audit also counts how near to exactly once the deliveries were: deliveries beyond the first of
each item. A crash or a stop of the server ends deliveries without a record; these do not count.

One rule: exit code 1 is for breaches without an explanation; explained ones are shown as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import partial
from typing import Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from journal.files import Disk
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files import History, Ints, plan_events
from kestrelpy.spark.jobs.audit import checks
from kestrelpy.spark.jobs.audit.checks import Basis, Books, Wrong, books
from kestrelpy.spark.jobs.audit.dedupe import HeaderFindings, check_headers
from kestrelpy.spark.jobs.audit.findings import JournalFindings, outcome
from kestrelpy.spark.jobs.audit.lsn_gaps import Continuity, RecordExtent, continuity, extents
from kestrelpy.spark.jobs.audit.order import OrderFindings, check_order
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.baseline import (
    JournalState,
    Opening,
    begun_with,
    journals_in,
    older_snapshot,
    read_openings,
    read_states,
    reliable,
)
from kestrelpy.spark.jobs.common.blocks import read_flushes
from kestrelpy.spark.jobs.common.items import there
from kestrelpy.spark.jobs.common.job import Outcome, Progress, Request, folders, parse, run
from kestrelpy.spark.jobs.common.queries import at_once, sized

NO_POSITIONS: Final = np.array([], np.int64)


@dataclass(slots=True)
class AuditSources:
    """Facts about journals that come from no sum of records."""

    states: dict[int, JournalState] = field(default_factory=dict)
    openings: dict[int, list[Opening]] = field(default_factory=dict)
    compacted: dict[int, set[int]] = field(default_factory=dict)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    about = "Balance the books of every queue: exit code 0 they hold, 1 they do not, 2 unusable."
    request = parse("audit", about, argv, "a folder for the full lists of breaches, as Parquet")
    return run("audit", work, request)


def work(spark: SparkSession, request: Request, progress: Progress) -> Outcome:
    """Audit the journals under some folders."""
    found = audit(spark, request.paths, progress, request.examples, request.out)
    if not found:
        raise KestrelError(
            f"There is no journal in {', '.join(request.paths)}. Name a data directory of "
            "kestrelpy, the folder of a journal, a backup, or an archive."
        )
    return outcome(found, request.out)


def audit(
    spark: SparkSession, paths: Sequence[str], progress: Progress, examples: int,
    out: str | None = None,
) -> list[JournalFindings]:  # fmt: skip
    """Return the findings of each journal, by name."""
    progress.step("asking what is there")
    named = folders(paths)
    sources = _sources(spark, named)
    if any(state.reader and not state.named_lsn for state in sources.states.values()):
        _with_beginnings(spark, paths, sources)
    history = plan_events(paths)
    with sized(spark, sum(split.bytes for split in history.splits)):
        return _audited(spark, paths, history, sources, progress, examples, out)


def _audited(
    spark: SparkSession, paths: Sequence[str], history: History, sources: AuditSources,
    progress: Progress, examples: int, out: str | None,
) -> list[JournalFindings]:  # fmt: skip
    progress.step("reading events")
    last = {jid: state.lsn_last for jid, state in sources.states.items()}
    # Records after the baseline are left to the next audit.
    chunks = packed.read(spark, paths, last=last, history=history)
    chunks = packed.together(spark, chunks.unionByName(there(spark, sources.states.items())))
    chunks = chunks.persist(StorageLevel.MEMORY_AND_DISK)
    events = packed.rows(chunks)
    try:
        spans = extents(chunks)
        _check_known(spark, paths, sources, spans)
        runs = _continuities(events, spans, sources)
        kinds = {kind for span in spans.values() for kind in span.by_kind}
        keyed = any(span.keyed for span in spans.values())
        flushes = read_flushes(spark, paths) if kinds & {ev.FLUSH, ev.UPTO} else []
        bases = _bases(sources, runs, flushes)
        progress.step("adding up items")
        known = {basis.jid: basis for basis in bases}
        blocks = checks.blocks(chunks, known, flushes).orderBy("jid", "block").collect()
        # Spark computes single items only if a check needs them.
        items = checks.items(chunks, known, flushes).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            sums = books(blocks, bases)
            progress.step("looking at the order")
            gives_places = kinds & {ev.RELEASE, ev.REDRIVE, ev.NAME}
            with_header = any(span.with_header for span in spans.values())
            says = keyed or with_header or kinds & {ev.MOVE, ev.LEASE}
            unbroken = {jid: run_of.unbroken_lsn for jid, run_of in runs.items()}
            with at_once(spark) as begin:
                ordering = begin(
                    partial(check_order, spark, blocks, events, items, keyed, examples)
                )
                placing = begin(partial(ev.read_positions, spark, paths)) if gives_places else None
                saying = begin(partial(
                    check_headers, spark, paths, sources.states, unbroken, examples, kinds
                )) if says else None  # fmt: skip
                lists = _lists(items, sums, examples)
            orders = ordering.result()
            positions = placing.result() if placing is not None else {}
            said = saying.result() if saying is not None else {}
            found = [
                _found(sources.states[b.jid], spans[b.jid], runs[b.jid], sums[b.jid],
                       orders.get(b.jid, OrderFindings()), lists[b.jid], b,
                       sources.openings.get(b.jid, []), positions.get(b.jid, NO_POSITIONS),
                       said.get(b.jid, HeaderFindings()))
                for b in bases
            ]  # fmt: skip
            if out is not None:
                progress.step("writing what is wrong")
                _write(spark, items, found, sources.states, out)
        finally:
            items.unpersist()
    finally:
        chunks.unpersist()
    return sorted(found, key=lambda each: (each.server, each.queue, each.generation))


# -- baselines ------------------------------------------------------------------------------------


def _sources(spark: SparkSession, named: Sequence[str]) -> AuditSources:
    """Read the baseline of every folder, on the executors."""
    journals = journals_in(Disk(), named)
    every = list(dict.fromkeys([*journals, *named]))
    context = spark.sparkContext
    states: list[JournalState] = []
    if journals:
        count = packed.tasks_for(spark, len(journals))
        states = context.parallelize(journals, count).flatMap(read_states).collect()
    count = packed.tasks_for(spark, len(every))
    fronts = context.parallelize(every, count).map(read_openings).collect()
    identities = {state.identity for state in states}
    identities.update(each.identity for openings, _ in fronts for each in openings)
    jids = {each: ev.jid_of(bytes.fromhex(each)) for each in identities}
    made = AuditSources()
    for state in states:
        jid = state.jid
        other = made.states.get(jid)
        if other is not None and _life(other) != _life(state):
            raise KestrelError(
                f"{other.folder} and {state.folder} are two histories of one journal, as after a "
                "restored backup. Audit them one after the other."
            )
        if other is None or other.lsn_last < state.lsn_last:
            made.states[jid] = state
    # Children in an older copy may have been removed since.
    made.states = {
        jid: state for jid, state in made.states.items()
        if made.states[jids[state.identity]].folder == state.folder
    }
    openings: dict[int, list[Opening]] = defaultdict(list)
    compacted: dict[int, set[int]] = defaultdict(set)
    for opened, named_compacted in fronts:
        for each in opened:
            openings[jids[each.identity]].append(each)
        for text in named_compacted:
            identity, _, number = text.partition(":")
            if identity in jids:
                compacted[jids[identity]].add(int(number))
    made.openings, made.compacted = openings, compacted
    return made


def _with_beginnings(spark: SparkSession, paths: Sequence[str], sources: AuditSources) -> None:
    """For children that a snapshot has, find when they were named, if that record is there."""
    named = ev.read_beginnings(spark, paths)
    for jid, state in sources.states.items():
        known = [e for e in named.get((state.identity, state.reader), ()) if e[0] <= state.lsn_last]
        if state.reader and not state.named_lsn and known:
            lsn, begins = known[-1]
            begun, moved = begun_with(begins)
            sources.states[jid] = replaced(
                state, named_lsn=lsn, begun=begun, begun_out_of_order=moved
            )


def _life(state: JournalState) -> tuple[str, int]:
    return state.server, state.generation


def _check_known(
    spark: SparkSession, paths: Sequence[str], sources: AuditSources, spans: dict[int, RecordExtent]
) -> None:
    """Raise KestrelError if a journal with records has no baseline."""
    unknown = [jid for jid in spans if jid not in sources.states]
    if not unknown:
        return
    columns = "journal string, server string, queue string"
    rows = ev.read_events(spark, paths, columns).distinct().orderBy("queue").collect()
    named = [row for row in rows if ev.jid_of(bytes.fromhex(row.journal)) in unknown]
    queue = f"queue {named[0].queue} on {named[0].server}" if named else "a queue"
    raise KestrelError(
        f"Of {queue} there is only an archive, and what is still in the queue stands in its data "
        "directory. Name that too, or a backup of it."
    )


def _continuities(
    events: DataFrame, spans: dict[int, RecordExtent], sources: AuditSources
) -> dict[int, Continuity]:
    """Return the continuity of each journal and child; a child is whole from its first record."""
    states = sources.states
    runs = {
        jid: _continuity(events, jid, spans[jid], sources)
        for jid, state in states.items()
        if not state.reader
    }
    for jid, state in states.items():
        if state.reader:
            parent = runs[ev.jid_of(bytes.fromhex(state.identity))]
            runs[jid] = replaced(parent, unbroken_lsn=max(parent.unbroken_lsn, state.named_lsn))
    return runs


def _continuity(
    events: DataFrame, jid: int, span: RecordExtent, sources: AuditSources
) -> Continuity:
    state = sources.states[jid]
    last = state.lsn_last
    opens_behind = any(each.lsn == last + 1 for each in sources.openings.get(jid, []))
    reclaimed = max(state.reclaimed_lsn, older_snapshot(state.folder))
    compacted = sources.compacted.get(jid, set())
    return continuity(events, jid, span, min(reclaimed, last), compacted, last, opens_behind)


def _bases(
    sources: AuditSources, runs: dict[int, Continuity], flushes: Sequence[ev.Flush]
) -> list[Basis]:
    """Return where the books of each journal begin, and with how many items."""
    made = []
    for jid, state in sources.states.items():
        unbroken = runs[jid].unbroken_lsn
        lsns = tuple(each.lsn for each in flushes if each.jid == jid)
        has_lost = bool(runs[jid].lost)
        basis = Basis(jid, unbroken, 0, 0, 1, has_lost, lsns)
        if state.reader:
            if not unbroken == state.named_lsn > 0:  # its number of items then is unknown
                basis = replaced(basis, as_of=unbroken - 1, opening=None, id_from=0)
        elif unbroken > 1:
            known = [
                each
                for each in reliable(sources.openings.get(jid, []))
                if each.lsn >= unbroken and each.as_of <= state.lsn_last
            ]
            first = known[0] if known else None
            basis = replaced(
                basis,
                as_of=first.as_of if first else unbroken - 1,
                opening=first.live if first else None,
                id_from=first.next_item if first else 0,
            )
        made.append(basis)
    return made


# -- findings -------------------------------------------------------------------------------------


def _lists(
    items: DataFrame, sums: dict[int, Books], examples: int
) -> dict[int, list[tuple[int, Wrong]]]:
    """Return the first wrong items of each journal."""
    lists: dict[int, list[tuple[int, Wrong]]] = defaultdict(list)
    if not any(made.wrong for made in sums.values()):
        return lists
    in_turn = Window.partitionBy("jid", "wrong").orderBy("item")
    first = items.where(fn.col("wrong") > 0).select(
        "jid", "wrong", "item", fn.row_number().over(in_turn).alias("nth")
    )  # fmt: skip
    rows = first.where(fn.col("nth") <= examples).orderBy("jid", "wrong", "item").collect()
    for row in rows:
        lists[row.jid].append((row.item, Wrong(row.wrong)))
    return lists


def _found(
    state: JournalState, span: RecordExtent, run_of: Continuity, sums: Books, order: OrderFindings,
    wrong: list[tuple[int, Wrong]], basis: Basis, openings: Sequence[Opening], positions: Ints,
    said: HeaderFindings,
) -> JournalFindings:  # fmt: skip
    """Return the findings of one journal; `positions` are numbers that no item of it has."""
    jumps = np.unique([each.next_item for each in openings])
    gaps = [gap for gap in order.gaps if not _is_explained(gap, jumps, positions)]
    if state.reader or state.passes_on:
        gaps = []  # the queue gives the numbers, and items for children alone are not its own
    return JournalFindings(
        folder=state.folder, server=state.server, queue=state.queue,
        generation=state.generation, journal=state.identity, extent=span,
        unbroken_lsn=run_of.unbroken_lsn, as_of=basis.as_of, lsn_last=state.lsn_last,
        books=sums, order=order, lsn_gaps=[] if state.reader else list(run_of.lost),
        ids_skipped=gaps, wrong=wrong,
        damages=list(state.damages), is_known=state.known, said=said,
        retained_missing=state.retained_missing,
    )  # fmt: skip


def _is_explained(gap: tuple[int, int], jumps: Ints, positions: Ints) -> bool:
    """True if all these numbers were given to positions, perhaps from a start's first number on.

    A start goes on after the ids that the newest segment had counted, written or not.
    """
    first, last = gap
    low, high = np.searchsorted(jumps, (first + 1, last + 2))
    for start in (first, *jumps[low:high].tolist()):
        low, high = np.searchsorted(positions, (start, last + 1))
        if high - low == last + 1 - start:
            return True
    return False


def _write(
    spark: SparkSession, items: DataFrame, found: Sequence[JournalFindings],
    states: dict[int, JournalState], out: str,
) -> None:  # fmt: skip
    """Write all wrong items and all missing lsns as Parquet, over an earlier run's."""
    rows = [(jid, s.server, s.queue, s.generation) for jid, s in states.items()]
    columns = "jid bigint, server string, queue string, generation bigint"
    names = spark.createDataFrame(rows, columns)
    texts = [(int(each), each.list, each.text) for each in Wrong]
    words = spark.createDataFrame(texts, "wrong int, list string, what string")
    wrong = (
        items.where(fn.col("wrong") > 0)
        .join(fn.broadcast(names), "jid")
        .join(fn.broadcast(words), "wrong")
        .select("server", "queue", "generation", "list", "item", "what", "put_lsn", "end_lsn",
                "flushed_lsn", "confirms", "puts")
    )  # fmt: skip
    wrong.orderBy("server", "queue", "generation", "item").write.mode("overwrite").parquet(
        f"{out.rstrip('/')}/items"
    )
    lsn_gaps = [
        (each.server, each.queue, each.generation, first, last)
        for each in found
        for first, last in each.lsn_gaps
    ]
    columns = "server string, queue string, generation bigint, lsn_first bigint, lsn_last bigint"
    spark.createDataFrame(lsn_gaps, columns).coalesce(1).write.mode("overwrite").parquet(
        f"{out.rstrip('/')}/holes"
    )
