"""Was anything lost, doubled, or out of order? The books of every journal, balanced.

    python -m kestrelpy.spark.jobs.audit PATH...      spark-submit .../audit/__main__.py PATH...

What is asked of each queue, server and generation:

    sums     opening + stored = what ended, by kind, + dead + still there (`balance`)
    missing  an item that was stored and is nowhere; numbers of records or items that are left out
    phantom  an item that ended, or is there, and was never put
    twice    an item that was confirmed twice
    order    markers rise; first deliveries follow them; nothing is lent twice at once (`order`)
    said     versions of a key have no gap, no id is stored twice, no token issued twice, no time of
             a schedule put twice; of no item two are made by a hand-off or move, it ends with that
             alone, and is where its record says (`once`)
    kept     of what is done and retained nothing went before something older (`retained`)

A fan-out child is asked all but the last by itself, as a queue `orders+audit` whose items are those
put for all since it was named, and its own; one that was removed is not asked.

and how near to exactly once it came: deliveries beyond the first of an item. A delivery that a
crash or a stop of the server ended leaves no record, so it is not among them.

One rule: exit code 1 is for what nothing explains; what is explained is shown beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from journal.files import Disk
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files.frame_headers import Ints
from kestrelpy.spark.jobs.audit import checks as judged
from kestrelpy.spark.jobs.audit.dedupe import Said, check_said
from kestrelpy.spark.jobs.audit.findings import Found, outcome
from kestrelpy.spark.jobs.audit.lsn_gaps import Continuity, Extent, continuity, extents
from kestrelpy.spark.jobs.audit.order import Order, check_order
from kestrelpy.spark.jobs.audit.reconcile import Basis, Books, Wrong, books
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
from kestrelpy.spark.jobs.common.items import there
from kestrelpy.spark.jobs.common.job import Outcome, Progress, Request, folders, parse, run

NO_PLACES: Final = np.array([], np.int64)


@dataclass(slots=True)
class Sources:
    """What is known without adding up records."""

    states: dict[int, JournalState] = field(default_factory=dict)
    openings: dict[int, list[Opening]] = field(default_factory=dict)
    survivors: dict[int, set[int]] = field(default_factory=dict)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code."""
    about = "Balance the books of every queue: exit code 0 they hold, 1 they do not, 2 unusable."
    request = parse("audit", about, argv, "a folder for the full lists of breaches, as Parquet")
    return run("audit", work, request)


def work(spark: SparkSession, request: Request, progress: Progress) -> Outcome:
    """Audit what is under some folders."""
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
) -> list[Found]:  # fmt: skip
    """What was found in each journal, by name."""
    progress.step("asking what is there")
    named = folders(paths)
    sources = _sources(spark, named)
    if any(state.reader and not state.named_lsn for state in sources.states.values()):
        _with_beginnings(spark, paths, sources)
    progress.step("reading events")
    last = {jid: state.lsn_last for jid, state in sources.states.items()}
    # Records that came after the state was asked for are left to the next audit.
    chunks = packed.read(spark, paths, last=last)
    chunks = packed.together(spark, chunks.unionByName(there(spark, sources.states.items())))
    chunks = chunks.persist(StorageLevel.MEMORY_AND_DISK)
    events = packed.rows(chunks)
    try:
        spans = extents(chunks)
        _check_known(spark, paths, sources, spans)
        runs = _continuities(events, spans, sources)
        kinds = {kind for span in spans.values() for kind in span.by_kind}
        keyed = any(span.keyed for span in spans.values())
        flushes = ev.read_flushes(spark, paths) if kinds & {ev.FLUSH, ev.UPTO} else []
        bases = _bases(sources, runs, flushes)
        progress.step("adding up items")
        known = {basis.jid: basis for basis in bases}
        blocks = judged.blocks(chunks, known, flushes).orderBy("jid", "block").collect()
        # Nothing is done for single items where none is asked for.
        items = judged.items(chunks, known, flushes).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            sums = books(blocks, bases)
            progress.step("looking at the order")
            orders = check_order(spark, blocks, events, items, keyed, examples)
            lists = _lists(items, sums, examples)
            gives_places = kinds & {ev.RELEASE, ev.REDRIVE, ev.NAME}
            places = ev.read_places(spark, paths) if gives_places else {}
            says = keyed or kinds & {ev.MOVE, ev.LEASE} or any(s.stamped for s in spans.values())
            unbroken = {jid: run_of.unbroken_lsn for jid, run_of in runs.items()}
            said = (
                check_said(spark, paths, sources.states, unbroken, examples, kinds)
                if says else {}
            )
            found = [
                _found(sources.states[b.jid], spans[b.jid], runs[b.jid], sums[b.jid],
                       orders.get(b.jid, Order()), lists[b.jid], b,
                       sources.openings.get(b.jid, []), places.get(b.jid, NO_PLACES),
                       said.get(b.jid, Said()))
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


# -- what is known beside the records -------------------------------------------------------------


def _sources(spark: SparkSession, named: Sequence[str]) -> Sources:
    """Ask every folder, on the executors."""
    journals = journals_in(Disk(), named)
    places = list(dict.fromkeys([*journals, *named]))
    context = spark.sparkContext
    states: list[JournalState] = []
    if journals:
        count = packed.tasks_for(spark, len(journals))
        states = context.parallelize(journals, count).flatMap(read_states).collect()
    count = packed.tasks_for(spark, len(places))
    fronts = context.parallelize(places, count).map(read_openings).collect()
    identities = {state.identity for state in states}
    identities.update(each.identity for openings, _ in fronts for each in openings)
    jids = {each: ev.jid_of(bytes.fromhex(each)) for each in identities}
    made = Sources()
    for state in states:
        jid = state.jid
        other = made.states.get(jid)
        if other is not None and _life(other) != _life(state):
            raise KestrelError(
                f"{other.folder} and {state.folder} are two lives of one journal, as a restored "
                "backup is. Audit them one after the other."
            )
        if other is None or other.lsn_last < state.lsn_last:
            made.states[jid] = state
    # Of a copy that is older its children may be gone by now.
    made.states = {
        jid: state for jid, state in made.states.items()
        if made.states[jids[state.identity]].folder == state.folder
    }
    openings: dict[int, list[Opening]] = defaultdict(list)
    survivors: dict[int, set[int]] = defaultdict(set)
    for opened, named_survivors in fronts:
        for each in opened:
            openings[jids[each.identity]].append(each)
        for text in named_survivors:
            identity, _, number = text.partition(":")
            if identity in jids:
                survivors[jids[identity]].add(int(number))
    made.openings, made.survivors = openings, survivors
    return made


def _with_beginnings(spark: SparkSession, paths: Sequence[str], sources: Sources) -> None:
    """Of children that a snapshot knows: when they were named, if the record of that is kept."""
    named = ev.read_beginnings(spark, paths)
    for jid, state in sources.states.items():
        known = [e for e in named.get((state.identity, state.reader), ()) if e[0] <= state.lsn_last]
        if state.reader and not state.named_lsn and known:
            lsn, begins = known[-1]
            begun, apart = begun_with(begins)
            sources.states[jid] = replaced(state, named_lsn=lsn, begun=begun, begun_apart=apart)


def _life(state: JournalState) -> tuple[str, int]:
    return state.server, state.generation


def _check_known(
    spark: SparkSession, paths: Sequence[str], sources: Sources, spans: dict[int, Extent]
) -> None:
    """Every journal with records has a state, or nobody can tell what is still there."""
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
    events: DataFrame, spans: dict[int, Extent], sources: Sources
) -> dict[int, Continuity]:
    """Of each journal, and of each child in it: that is whole from its first record on."""
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


def _continuity(events: DataFrame, jid: int, span: Extent, sources: Sources) -> Continuity:
    state = sources.states[jid]
    last = state.lsn_last
    opens_behind = any(each.lsn == last + 1 for each in sources.openings.get(jid, []))
    reclaimed = max(state.reclaimed_lsn, older_snapshot(state.folder))
    survivors = sources.survivors.get(jid, set())
    return continuity(events, jid, span, min(reclaimed, last), survivors, last, opens_behind)


def _bases(
    sources: Sources, runs: dict[int, Continuity], flushes: Sequence[ev.Flush]
) -> list[Basis]:
    """Where the books of each journal begin, and with what."""
    made = []
    for jid, state in sources.states.items():
        unbroken = runs[jid].unbroken_lsn
        lsns = tuple(each.lsn for each in flushes if each.jid == jid)
        has_lost = bool(runs[jid].lost)
        basis = Basis(jid, unbroken, 0, 0, 1, has_lost, lsns)
        if state.reader:
            if not unbroken == state.named_lsn > 0:  # nobody says how many it had then
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


# -- what came of it ------------------------------------------------------------------------------


def _lists(
    items: DataFrame, sums: dict[int, Books], examples: int
) -> dict[int, list[tuple[int, Wrong]]]:
    """The first items of each journal with which something is wrong."""
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
    state: JournalState, span: Extent, run_of: Continuity, sums: Books, order: Order,
    wrong: list[tuple[int, Wrong]], basis: Basis, openings: Sequence[Opening], places: Ints,
    said: Said,
) -> Found:  # fmt: skip
    """One journal, judged; `places` are numbers that it gave to no item."""
    jumps = np.unique([each.next_item for each in openings])
    gaps = [gap for gap in order.gaps if not _is_explained(gap, jumps, places)]
    if state.reader or state.passes_on:
        gaps = []  # numbers are given by the queue, and what it passes on is no item of its own
    return Found(
        folder=state.folder, server=state.server, queue=state.queue,
        generation=state.generation, journal=state.identity, extent=span,
        unbroken_lsn=run_of.unbroken_lsn, as_of=basis.as_of, lsn_last=state.lsn_last,
        books=sums, order=order, holes=[] if state.reader else list(run_of.lost),
        ids_skipped=gaps, wrong=wrong,
        damages=list(state.damages), is_known=state.known, said=said,
        retained_missing=state.retained_missing,
    )  # fmt: skip


def _is_explained(gap: tuple[int, int], jumps: Ints, places: Ints) -> bool:
    """Did all these numbers go to places, be it from one on with which a start went on?

    It goes on behind the ids that the newest segment had counted, written or not.
    """
    first, last = gap
    low, high = np.searchsorted(jumps, (first + 1, last + 2))
    for start in (first, *jumps[low:high].tolist()):
        low, high = np.searchsorted(places, (start, last + 1))
        if high - low == last + 1 - start:
            return True
    return False


def _write(
    spark: SparkSession, items: DataFrame, found: Sequence[Found],
    states: dict[int, JournalState], out: str,
) -> None:  # fmt: skip
    """All that is wrong with items, and all holes, as Parquet: what was there is replaced."""
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
    holes = [
        (each.server, each.queue, each.generation, first, last)
        for each in found
        for first, last in each.holes
    ]
    columns = "server string, queue string, generation bigint, lsn_first bigint, lsn_last bigint"
    spark.createDataFrame(holes, columns).coalesce(1).write.mode("overwrite").parquet(
        f"{out.rstrip('/')}/holes"
    )
