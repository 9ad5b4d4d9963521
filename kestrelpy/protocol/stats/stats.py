"""The replies to `stats`, under Kestrel's names, in slices that do not stall the loop.

Health has these states, for each queue and, as the worst of them, for the server:

    ok  ->  out_of_files  no descriptor or memory to open a file with: it is tried again, nothing
                        is lost, and it ends by itself
        ->  disk_full   no room to prepare a segment or less than min_disk_free: nothing new is
                        stored, fetching and confirming go on, and it ends by itself
        ->  abandoned   a child has items, and no client asked for any for a day: they stay on disk
        ->  failed      a write or a sync failed: nothing is acknowledged until a restart

One rule: every number is read from its owner at the time of the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import quote

from kestrelpy.core import (
    Broker,
    Browse,
    ChildQueue,
    Lease,
    Log,
    Queue,
    Running,
    Subscription,
    Timetable,
)
from kestrelpy.protocol.ports import Host

_QUEUES_PER_SLICE: Final = 100
_LEASES_PER_SLICE: Final = 200
_SCHEDULES_PER_SLICE: Final = 100
_UNESCAPED: Final = "!$&'()*+,:;=@/"
# The text holds paths, and a line of stats should stay readable.
_REASON_CHARACTERS_MAX: Final = 300

State = Literal["ok", "abandoned", "out_of_files", "disk_full", "failed"]
_WORST_FIRST: Final[tuple[State, ...]] = ("failed", "disk_full", "out_of_files", "abandoned")


def state_of(log: Log) -> State:
    """Return the state of a queue's journal."""
    if log.failure is not None:
        return "failed"
    if log.no_room:
        return "out_of_files" if log.is_short else "disk_full"
    return "ok"


def _state(queue: Queue, now_ms: int) -> State:
    """Return the state of a queue or a child."""
    state = state_of(queue.log)
    if state == "ok" and queue.reader.unread:
        state = "out_of_files"
    if state == "ok" and isinstance(queue, ChildQueue) and queue.is_abandoned(now_ms):
        state = "abandoned"
    return state


def health(broker: Broker, now_ms: int) -> State:
    """Return the worst state of any queue."""
    states = {_state(queue, now_ms) for queue in broker.queues.values()}
    return next((state for state in _WORST_FIRST if state in states), "ok")


def _reason(queue: Queue, now_ms: int) -> str:
    """Return why it is not ok, as one word: clients split a line of stats at its blanks."""
    log = queue.log
    text = str(log.failure) if log.failure is not None else log.no_room or queue.reader.unread
    if not text and isinstance(queue, ChildQueue):
        text = queue.why_abandoned(now_ms)
    word = "_".join(text.split()).encode("ascii", "backslashreplace").decode()
    return word[:_REASON_CHARACTERS_MAX]


def server_stats(broker: Broker, host: Host, now_ms: int) -> list[tuple[str, object]]:
    """Return the global lines: Kestrel's in Kestrel's order, then ours."""
    counters = broker.counters
    unix_ms = now_ms + broker.clock.offset_ms
    queues = broker.queues.values()
    return [
        ("uptime", (now_ms - host.started_ms) // 1000),
        ("time", unix_ms // 1000),
        ("version", host.version),
        ("curr_items", sum(q.reader.ready.count for q in queues)),
        ("total_items", sum(q.total_items for q in queues)),
        ("bytes", sum(q.reader.ready.bytes for q in queues)),
        ("curr_connections", counters.connections),
        ("total_connections", counters.connections_total),
        ("cmd_get", counters.cmd_get),
        ("cmd_set", counters.cmd_set),
        ("cmd_peek", counters.cmd_peek),
        ("get_hits", counters.get_hits),
        ("get_misses", counters.get_misses),
        ("bytes_read", counters.bytes_read),
        ("bytes_written", counters.bytes_written),
        ("queue_creates", counters.queue_creates),
        ("queue_deletes", counters.queue_deletes),
        ("queue_expires", counters.queue_expires),
        ("server_id", host.server_id),
        ("refused_noreply", counters.refused_quietly),
        ("health", health(broker, now_ms)),
    ]


def queue_stats(queue: Queue, now_ms: int) -> list[tuple[str, object]]:
    """Return one queue's lines without their prefix: Kestrel's in Kestrel's order, then ours."""
    reader = queue.reader
    ready, keyed, counters = reader.ready, reader.key_gate, reader.counters
    oldest = reader.ready.first(), next(iter(keyed.whole.values()), None)
    stored_ms = min((item.stored_ms for item in oldest if item is not None), default=0)
    age_ms = now_ms + queue.clock.offset_ms - stored_ms if stored_ms else 0
    state = _state(queue, now_ms)
    return [
        ("items", ready.count),
        ("bytes", ready.bytes),
        ("total_items", queue.total_items),
        ("logsize", queue.log.disk_bytes()),
        ("expired_items", counters.expired),
        ("mem_items", ready.resident + len(keyed.whole) + len(reader.leases)),
        ("mem_bytes", ready.resident_bytes + keyed.whole_bytes + reader.leased_bytes),
        ("age", max(age_ms, 0)),
        ("discarded", counters.discarded),
        ("waiters", reader.waiters.count),
        ("open_transactions", len(reader.leases)),
        ("transactions", counters.opened),
        ("canceled_transactions", counters.cancelled),
        ("total_flushes", counters.flushes),
        ("delayed", reader.delays.count),
        ("leased", len(reader.leases)),
        ("dead", len(reader.dead)),
        ("redelivered", counters.redelivered),
        ("lease_expired", counters.lease_expired),
        ("duplicates", counters.duplicates),
        ("keys_in_flight", keyed.in_flight),
        ("keys_blocked", keyed.keys.blocked_values),
        ("closes_without_open", counters.closes_without_open),
        ("gaps", counters.gaps),
        ("children", len(queue.children)),
        ("paused", int(reader.paused)),
        ("failed", int(state == "failed")),
        ("state", state),
        *((("reason", _reason(queue, now_ms)),) if state != "ok" else ()),
    ]


def stats_lines(broker: Broker, host: Host, now_ms: int) -> Iterator[bytes]:
    """`stats` in slices."""
    yield lines("", server_stats(broker, host, now_ms))
    names = sorted(broker.queues)
    for start in range(0, len(names), _QUEUES_PER_SLICE):
        yield b"".join(
            _queue_lines(broker.queues[name], now_ms)
            for name in names[start : start + _QUEUES_PER_SLICE]
            if name in broker.queues
        )
    yield b"END\r\n"


def one_queue_lines(queue: Queue | None, now_ms: int) -> Iterator[bytes]:
    """`stats <queue>`."""
    yield (_queue_lines(queue, now_ms) if queue is not None else b"") + b"END\r\n"


def marker_lines(broker: Broker) -> Iterator[bytes]:
    """`stats markers`: the stored markers that a browser can read, queue by queue."""
    names = sorted(broker.queues)
    for start in range(0, len(names), _QUEUES_PER_SLICE):
        yield b"".join(
            lines(f"queue_{name.decode('ascii')}_", _markers(broker.queues[name]))
            for name in names[start : start + _QUEUES_PER_SLICE]
            if name in broker.queues
        )
    yield b"END\r\n"


def _markers(queue: Queue) -> list[tuple[str, object]]:
    """The earliest retained marker (the next one if there is none) and the latest (0: none yet)."""
    latest = min(queue.last_number, queue.log.item_stored)
    first = Browse(queue).first(0)
    return [
        ("marker_earliest", first if 0 < first <= latest else latest + 1),
        ("marker_latest", latest),
        ("generation", queue.generation),
        ("kept_bytes", queue.log.retained_bytes() if queue.retained else queue.reader.live_bytes),
    ]


def open_lines(queue: Queue | None, now_ms: int) -> Iterator[bytes]:
    """`stats <queue>/open`: every leased item, a line for each of its facts."""
    leases = queue.reader.leases.all() if queue is not None else []
    for start in range(0, len(leases), _LEASES_PER_SLICE):
        out = []
        for lease in leases[start : start + _LEASES_PER_SLICE]:
            assert queue is not None
            item = lease.item
            left_ms = "-" if lease.deadline_ms is None else max(lease.deadline_ms - now_ms, 0)
            facts: list[tuple[str, object]] = [
                ("id", item.id),
                ("marker", item.marker),
                ("token", lease.token if is_shown(queue.reader, lease) else "-"),
                ("attempts", lease.attempts),
                ("lease_left_ms", left_ms),
                ("age_ms", _age_ms(item.stored_ms, now_ms + queue.clock.offset_ms)),
                ("holder", lease.holder.name),
                ("state", "dead" if lease.dead else "lent"),
            ]
            name = queue.name.decode("ascii")
            out.append(lines(f"queue_{name}_open_{item.id}_", facts))
        yield b"".join(out)
    yield b"END\r\n"


def is_shown(reader: Subscription, lease: Lease) -> bool:
    """True if a client has seen its token, which then names it from any connection."""
    return reader.leases.by_token(lease.token) is lease


def _age_ms(stored_ms: int, unix_ms: int) -> object:
    """Return the age; for an item leased since before a restart only the log knows it."""
    return max(unix_ms - stored_ms, 0) if stored_ms else "-"


def schedule_lines(timetable: Timetable) -> Iterator[bytes]:
    """`stats schedules`: all of them by name, in slices; times are seconds since 1970."""
    names = sorted(timetable.running)
    for start in range(0, len(names), _SCHEDULES_PER_SLICE):
        yield b"".join(
            lines(f"schedule_{name.decode('ascii')}_", _schedule(timetable.running[name]))
            for name in names[start : start + _SCHEDULES_PER_SLICE]
            if name in timetable.running
        )
    yield b"END\r\n"


def _schedule(running: Running) -> list[tuple[str, object]]:
    """Its next run and its progress; a value is one word, so blanks are quoted."""
    schedule = running.schedule
    return [
        ("queue", schedule.queue.decode("ascii")),
        ("cron", quote(schedule.line, _UNESCAPED)),
        ("timezone", schedule.timezone),
        ("catch_up", schedule.catch_up.value),
        ("next", running.next_s if running.next_s is not None else "-"),
        ("last", running.done_s),
        ("waiting", len(running.waiting)),
        ("state", quote(running.state, _UNESCAPED)),
    ]


def dump_lines(broker: Broker, names: list[bytes], now_ms: int) -> Iterator[bytes]:
    """`dump_stats`: Kestrel's braces."""
    for name in names or sorted(broker.queues):
        queue = broker.queues.get(name)
        facts = queue_stats(queue, now_ms) if queue is not None else []
        inside = "".join(f"  {key}={value}\r\n" for key, value in facts)
        yield f"queue '{name.decode('ascii', 'replace')}' {{\r\n{inside}}}\r\n".encode()
    yield b"END\r\n"


def _queue_lines(queue: Queue, now_ms: int) -> bytes:
    return lines(f"queue_{queue.name.decode('ascii')}_", queue_stats(queue, now_ms))


def lines(prefix: str, facts: list[tuple[str, object]]) -> bytes:
    return "".join(f"STAT {prefix}{key} {value}\r\n" for key, value in facts).encode()
