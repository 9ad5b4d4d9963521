"""The facts of a server, its queues, leases and schedules, in no wire's words.

Health has these states, for each queue and, as the worst of them, for the server:

    ok  ->  out_of_files  no descriptor or memory to open a file with: it is tried again, nothing
                        is lost, and it ends by itself
        ->  disk_full   no room to prepare a segment or less than min_disk_free: nothing new is
                        stored, fetching and confirming go on, and it ends by itself
        ->  damaged     items cannot be read, for the disk gives other bytes or an error: they are
                        not offered, and it ends when an operator acknowledges their loss
        ->  abandoned   a child has items, and no client asked for any for a day: they stay on disk
        ->  failed      a write or a sync failed: nothing is acknowledged until a restart

The server has one state more, worse than these but disk_full and failed:

    ok  ->  no_new_queue  no room or no right to make a file for another queue: the queues that are
                        there go on, and it ends by itself

The fields stand in the order in which every wire gives them: Kestrel's first, then ours. None means
that there is no such thing, or that it is not known. `counter` or `gauge` at a field gives its name
in /metrics.

One rule: every number is read from its owner at the time of the request.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Final, Literal, NamedTuple, get_args, get_type_hints

from journal.sets import IdSet
from journal.store import DiskUse
from kestrelpy.core import AnyQueue, Broker, Browse, Lease, Log, Running, Subscription
from kestrelpy.operations.ports import Site

State = Literal["ok", "abandoned", "damaged", "out_of_files", "disk_full", "failed"]
Health = Literal[State, "no_new_queue"]
HEALTH_STATES: Final[tuple[State, ...]] = get_args(State)
_WORST_FIRST: Final = HEALTH_STATES[:0:-1]
_STORING_NOTHING: Final = ("failed", "disk_full")
_RANGES_MAX: Final = 5  # of unreadable items in a reason
_LAST: Final = 99  # among the series


class Totals(NamedTuple):
    """The sums over all queues; `unwell` names the first queues that are not ok. `reason` is a
    sentence on what is wrong with the server as a whole; None: nothing is."""

    queues: int
    items: int
    stored: int
    bytes: int
    health: Health
    unwell: list[str]
    reason: str | None


class MetricSeries(NamedTuple):
    """The series of a figure in /metrics. Of a queue's, `place` orders the counters, and the
    gauges: new ones come last; `column` is its name in the rows of /metrics and of the page, empty:
    that of the figure. Of the server's, `label` is a name and a value; those of one family stand
    together."""

    family: str
    help: str
    place: int
    column: str
    is_counter: bool
    label: tuple[str, str] | None = None


def counter(
    family: str, text: str, place: int = _LAST, column: str = "",
    label: tuple[str, str] | None = None,
) -> MetricSeries:  # fmt: skip
    """Return the series of a figure that only grows."""
    return MetricSeries(family, text, place, column, is_counter=True, label=label)


def gauge(family: str, text: str, place: int = _LAST, column: str = "") -> MetricSeries:
    """Return the series of a figure that may shrink."""
    return MetricSeries(family, text, place, column, is_counter=False)


def series_of(facts: type[NamedTuple]) -> dict[str, MetricSeries]:
    """Return the series of those of these facts that have one."""
    return {
        name: mark
        for name, hint in get_type_hints(facts, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, MetricSeries)
    }


def _queue_event(event: str) -> MetricSeries:
    text = "Queues made, deleted and aged out."
    return counter("queue_events", text, label=("event", event))


class ServerFacts(NamedTuple):
    """Facts of the whole server. `uptime` and `time` are in seconds, `bytes` of ready bodies.
    `health_reason` says what is wrong with the server as a whole, and is None if nothing is."""

    uptime: int
    time: int
    version: str
    curr_items: int
    total_items: int
    bytes: int
    curr_connections: int
    total_connections: Annotated[int, counter("connections_opened", "Connections that came.")]
    cmd_get: int
    cmd_set: int
    cmd_peek: int
    get_hits: int
    get_misses: int
    bytes_read: int
    bytes_written: int
    queue_creates: Annotated[int, _queue_event("created")]
    queue_deletes: Annotated[int, _queue_event("deleted")]
    queue_expires: Annotated[int, _queue_event("expired")]
    server_id: str
    refused_noreply: int
    health: Health
    http_port: int | None
    health_reason: str | None


class QueueFacts(NamedTuple):
    """Facts of a queue or a child. `age`, of the oldest item that waits, is in ms; `reason` says
    why it is not ok, and is None if it is. `logsize` is the sum of its three parts (see `DiskUse`);
    those of a child are its parent's."""

    items: int
    bytes: Annotated[int, gauge("item_bytes", "Bytes of the bodies of ready items.", 1)]
    total_items: int
    logsize: int
    logsize_live: int
    logsize_done: int
    logsize_reserve: int
    expired_items: Annotated[
        int, counter("items_expired", "Items that ended by their expiry.", 7, "expired")
    ]
    mem_items: int
    mem_bytes: int
    age: int
    discarded: Annotated[int, counter("items_discarded", "Items dropped to make room.", 8)]
    waiters: Annotated[int, gauge("waiters", "Requests that wait for an item.", 2)]
    open_transactions: int
    transactions: Annotated[
        int, counter("deliveries", "Deliveries: leases, and plain gets.", 2, "delivered")
    ]
    canceled_transactions: Annotated[
        int,
        counter("deliveries_returned", "Deliveries that ended without a confirm.", 5, "returned"),
    ]
    total_flushes: int
    delayed: int
    leased: int
    dead: int
    redelivered: Annotated[
        int, counter("redeliveries", "Deliveries of items that came back before.", 3)
    ]
    lease_expired: Annotated[int, counter("leases_expired", "Leases that ended by their time.", 6)]
    duplicates: Annotated[
        int, counter("items_duplicate", "Puts of an id that was seen before.", 10)
    ]
    keys_in_flight: Annotated[int, gauge("keys_in_flight", "Keys of leased items.", 4)]
    keys_blocked: Annotated[int, gauge("keys_blocked", "Keys that an item waits for.", 3)]
    closes_without_open: int
    gaps: Annotated[int, counter("gaps", "Answers to observers whose marker was too old.", 11)]
    children: int
    unreadable: Annotated[
        int, gauge("items_unreadable", "Items that the disk does not give any more.", 5)
    ]
    paused: bool
    failed: bool
    state: State
    reason: str | None


class MarkerFacts(NamedTuple):
    """The stored markers that an observer can read: the earliest (the next one if there is none),
    and the latest (0: none yet). `retains`: 1 if done items stay readable."""

    marker_earliest: int
    marker_latest: int
    generation: int
    kept_bytes: int
    retains: int


class LeaseFacts(NamedTuple):
    """One lease. `token` is None if no client has seen it, `age_ms` if only the log knows it."""

    id: int
    marker: int
    token: int | None
    attempts: int
    lease_left_ms: int | None
    age_ms: int | None
    holder: str
    state: Literal["dead", "lent"]


class ScheduleFacts(NamedTuple):
    """One schedule. `next` and `last` are seconds since 1970."""

    queue: str
    cron: str
    timezone: str
    catch_up: str
    next: int | None
    last: int
    waiting: int
    state: str


def state_of(log: Log) -> State:
    """Return the state of a queue's journal."""
    if log.failure is not None:
        return "failed"
    if log.no_room:
        return "out_of_files" if log.is_short else "disk_full"
    return "ok"


def server_health(broker: Broker, states: Collection[State]) -> tuple[Health, str | None]:
    """Return the worst of the states of the queues and of the server, and why the server is not
    well as a whole."""
    worst: State = next((state for state in _WORST_FIRST if state in states), "ok")
    if broker.refusal:
        return "failed", broker.refusal
    if broker.no_new_queue:
        return worst if worst in _STORING_NOTHING else "no_new_queue", broker.no_new_queue
    return worst, None


def queue_state(queue: AnyQueue, now_ms: int) -> State:
    """Return the state of a queue or a child."""
    state = state_of(queue.log)
    if state == "ok" and queue.reader.unread:
        state = "out_of_files"
    if state == "ok" and queue.reader.unreadable.count:
        state = "damaged"
    child = queue.child
    if state == "ok" and child is not None and child.is_abandoned(now_ms):
        state = "abandoned"
    return state


def _reason(queue: AnyQueue, now_ms: int) -> str:
    """Return why it is not ok."""
    log = queue.log
    text = str(log.failure) if log.failure is not None else log.no_room or queue.reader.unread
    if not text and (lost := queue.reader.unreadable).count:
        text = unreadable_in_words(lost)
    if not text and queue.child is not None:
        text = queue.child.why_abandoned(now_ms)
    return text


def unreadable_in_words(lost: IdSet) -> str:
    """Return a sentence about items, one at least, that cannot be read."""
    ranges, last = list[str](), 0
    while first := lost.first_from(last + 1):
        if len(ranges) == _RANGES_MAX:
            ranges.append("more")
            break
        last = first
        while last + 1 in lost:
            last += 1
        ranges.append(str(first) if first == last else f"{first} to {last}")
    items = "item" if lost.count == 1 else "items"
    return f"{lost.count} {items} cannot be read: {', '.join(ranges)}"


def server_facts(broker: Broker, site: Site, totals: Totals, now_ms: int) -> ServerFacts:
    """Return the facts of the server, given the totals of its queues (`survey`)."""
    return server_figures(broker, site, now_ms)._replace(
        curr_items=totals.items, total_items=totals.stored, bytes=totals.bytes,
        health=totals.health, health_reason=totals.reason,
    )  # fmt: skip


def server_figures(broker: Broker, site: Site, now_ms: int) -> ServerFacts:
    """Return the facts of the server without the totals of its queues. The time does not depend on
    the number of queues."""
    counters = broker.counters
    unix_ms = now_ms + broker.clock.offset_ms
    return ServerFacts(
        uptime=(now_ms - site.started_ms) // 1000,
        time=unix_ms // 1000,
        version=site.version,
        curr_items=0,
        total_items=0,
        bytes=0,
        curr_connections=counters.connections,
        total_connections=counters.connections_total,
        cmd_get=counters.cmd_get,
        cmd_set=counters.cmd_set,
        cmd_peek=counters.cmd_peek,
        get_hits=counters.get_hits,
        get_misses=counters.get_misses,
        bytes_read=counters.bytes_read,
        bytes_written=counters.bytes_written,
        queue_creates=counters.queue_creates,
        queue_deletes=counters.queue_deletes,
        queue_expires=counters.queue_expires,
        server_id=site.server_id,
        refused_noreply=counters.refused_quietly,
        health="ok",
        http_port=site.http_port,
        health_reason=None,
    )


def queue_facts(queue: AnyQueue, now_ms: int) -> QueueFacts:
    """Return the facts of a queue or a child."""
    facts = queue_figures(queue, queue.log.disk_use(), now_ms)
    return facts if facts.state == "ok" else facts._replace(reason=_reason(queue, now_ms))


def queue_figures(queue: AnyQueue, disk: DiskUse, now_ms: int) -> QueueFacts:
    """Return the facts of a queue or a child without a reason. The time does not depend on the
    number of its items. `disk` is the use of its journal."""
    reader = queue.reader
    ready, keyed, counters = reader.ready, reader.key_gate, reader.counters
    oldest = ready.first(), next(iter(keyed.whole.values()), None)
    stored_ms = min([item.stored_ms for item in oldest if item is not None], default=0)
    age_ms = now_ms + queue.clock.offset_ms - stored_ms if stored_ms else 0
    state, leased = queue_state(queue, now_ms), len(reader.leases)
    return QueueFacts(
        items=ready.count,
        bytes=ready.bytes,
        total_items=queue.total_items,
        logsize=disk.total,
        logsize_live=disk.live,
        logsize_done=disk.done,
        logsize_reserve=disk.reserve,
        expired_items=counters.expired,
        mem_items=ready.resident + len(keyed.whole) + leased,
        mem_bytes=ready.resident_bytes + keyed.whole_bytes + reader.leased_bytes,
        age=max(age_ms, 0),
        discarded=counters.discarded,
        waiters=reader.waiters.count,
        open_transactions=leased,
        transactions=counters.opened,
        canceled_transactions=counters.cancelled,
        total_flushes=counters.flushes,
        delayed=reader.delays.count,
        leased=leased,
        dead=len(reader.dead),
        redelivered=counters.redelivered,
        lease_expired=counters.lease_expired,
        duplicates=counters.duplicates,
        keys_in_flight=keyed.in_flight,
        keys_blocked=keyed.keys.blocked_values,
        closes_without_open=counters.closes_without_open,
        gaps=counters.gaps,
        children=len(queue.children),
        unreadable=reader.unreadable.count,
        paused=reader.paused,
        failed=state == "failed",
        state=state,
        reason=None,
    )


def marker_facts(queue: AnyQueue) -> MarkerFacts:
    """Return the markers of a queue or a child."""
    latest = min(queue.last_number, queue.log.item_stored)
    first = Browse(queue).first(0)
    retained = queue.log.retained_bytes() if queue.retained else queue.reader.live_bytes
    return MarkerFacts(
        marker_earliest=first if 0 < first <= latest else latest + 1,
        marker_latest=latest,
        generation=queue.generation,
        kept_bytes=retained,
        retains=int(queue.retained is not None),
    )


def lease_facts(queue: AnyQueue, lease: Lease, now_ms: int) -> LeaseFacts:
    """Return the facts of a lease of this queue."""
    item, unix_ms = lease.item, now_ms + queue.clock.offset_ms
    return LeaseFacts(
        id=item.id,
        marker=item.marker,
        token=lease.token if is_shown(queue.reader, lease) else None,
        attempts=lease.attempts,
        lease_left_ms=left_ms(lease, now_ms),
        age_ms=max(unix_ms - item.stored_ms, 0) if item.stored_ms else None,
        holder=lease.holder.name,
        state="dead" if lease.dead else "lent",
    )


def left_ms(lease: Lease, now_ms: int) -> int | None:
    """Return the time that the lease has left; None: it ends when its holder hangs up."""
    return None if lease.deadline_ms is None else max(lease.deadline_ms - now_ms, 0)


def is_shown(reader: Subscription, lease: Lease) -> bool:
    """True if a client has seen its token, which then names it from any connection."""
    return reader.leases.by_token(lease.token) is lease


def schedule_facts(running: Running) -> ScheduleFacts:
    """Return the next run of a schedule, and its progress."""
    schedule = running.schedule
    return ScheduleFacts(
        queue=schedule.queue.decode("ascii"),
        cron=schedule.line,
        timezone=schedule.timezone,
        catch_up=schedule.catch_up.value,
        next=running.next_s,
        last=running.done_s,
        waiting=len(running.waiting),
        state=running.state,
    )
