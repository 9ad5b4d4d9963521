"""The replies to `stats`, under Kestrel's names, in slices that do not stall the loop.

    operations: facts ──▶ `STAT <name> <one word>`, a line for each

A new figure begins as a field of `operations.stats_facts`.

One rule: a value is one word, because clients split a line of stats at its blanks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import quote

from kestrelpy.core import AnyQueue, Broker, Timetable
from kestrelpy.operations import (
    facts_named,
    lease_facts,
    list_delayed,
    marker_facts,
    queue_facts,
    quoted,
    schedule_facts,
    server_facts,
    survey,
)
from kestrelpy.protocol.ports import Host

_QUEUES_PER_SLICE: Final = 100
_LEASES_PER_SLICE: Final = 200
_SCHEDULES_PER_SLICE: Final = 100
_UNESCAPED: Final = "!$&'()*+,:;=@/"  # left as they are in the words of a schedule
_NONE: Final = "-"
DELAYED_MAX: Final = 1000
# The text holds paths, and a line of stats should stay readable.
_REASON_CHARACTERS_MAX: Final = 300
_END: Final = b"END\r\n"

Lines = list[tuple[str, object]]


def word(value: object) -> object:
    """Return a fact as one word: `-` for None, 0 or 1 for a truth, bytes quoted as in a URL."""
    if type(value) is int:  # nearly all are
        return value
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return "_".join(value.split()) or _NONE
    if isinstance(value, bytes):
        return quoted(value) or _NONE
    return value


def words(facts: NamedTuple) -> Lines:
    """Return the names and the words of facts."""
    return [(name, word(value)) for name, value in facts_named(facts).items()]


def _with_reason(facts: NamedTuple) -> Lines:
    """Return the words of facts; the last fact is a reason, and is left out if there is none."""
    *found, (name, reason) = words(facts)
    if reason != _NONE:
        text = str(reason).encode("ascii", "backslashreplace").decode()
        found.append((name, text[:_REASON_CHARACTERS_MAX]))
    return found


def _of_queue(queue: AnyQueue, now_ms: int) -> Lines:
    """Return one queue's lines without their prefix."""
    return _with_reason(queue_facts(queue, now_ms))


def stats_lines(broker: Broker, host: Host, now_ms: int) -> Iterator[bytes]:
    """`stats` in slices."""
    totals = yield from survey(broker, now_ms)
    yield lines("", _with_reason(server_facts(broker, host, totals, now_ms)))
    names = sorted(broker.queues)
    for start in range(0, len(names), _QUEUES_PER_SLICE):
        yield b"".join(
            _queue_lines(broker.queues[name], now_ms)
            for name in names[start : start + _QUEUES_PER_SLICE]
            if name in broker.queues
        )
    yield _END


def one_queue_lines(queue: AnyQueue | None, now_ms: int) -> Iterator[bytes]:
    """`stats <queue>`."""
    yield (_queue_lines(queue, now_ms) if queue is not None else b"") + _END


def marker_lines(broker: Broker) -> Iterator[bytes]:
    """`stats markers`: the stored markers that a browser can read, queue by queue."""
    names = sorted(broker.queues)
    for start in range(0, len(names), _QUEUES_PER_SLICE):
        yield b"".join(
            lines(f"queue_{name.decode('ascii')}_", words(marker_facts(broker.queues[name])))
            for name in names[start : start + _QUEUES_PER_SLICE]
            if name in broker.queues
        )
    yield _END


def open_lines(queue: AnyQueue | None, now_ms: int) -> Iterator[bytes]:
    """`stats <queue>/open`: every leased item, a line for each of its facts."""
    leases = queue.reader.leases.all() if queue is not None else []
    for start in range(0, len(leases), _LEASES_PER_SLICE):
        out = []
        for lease in leases[start : start + _LEASES_PER_SLICE]:
            assert queue is not None
            prefix = f"queue_{queue.name.decode('ascii')}_open_{lease.item.id}_"
            out.append(lines(prefix, words(lease_facts(queue, lease, now_ms))))
        yield b"".join(out)
    yield _END


def delayed_lines(queue: AnyQueue | None) -> Iterator[bytes]:
    """`stats <queue>/delayed`: when the next DELAYED_MAX delayed items are due, the first first."""
    if queue is not None:
        prefix = f"queue_{queue.name.decode('ascii')}_delayed_"
        due = list_delayed(queue, DELAYED_MAX)
        yield lines(prefix, [(f"{item.id}_due_ms", item.due_ms) for item in due])
    yield _END


def schedule_lines(timetable: Timetable) -> Iterator[bytes]:
    """`stats schedules`: all of them by name, in slices; times are seconds since 1970."""
    names = sorted(timetable.running)
    for start in range(0, len(names), _SCHEDULES_PER_SLICE):
        yield b"".join(
            lines(f"schedule_{name.decode('ascii')}_", _of_schedule(timetable, name))
            for name in names[start : start + _SCHEDULES_PER_SLICE]
            if name in timetable.running
        )
    yield _END


def _of_schedule(timetable: Timetable, name: bytes) -> Lines:
    """Return a schedule's words; blanks in its cron line and its state are quoted as in a URL."""
    facts = schedule_facts(timetable.running[name])
    said = {each: quote(getattr(facts, each), _UNESCAPED) for each in ("cron", "state")}
    return [(key, said.get(key, value)) for key, value in words(facts)]


def dump_lines(broker: Broker, names: list[bytes], now_ms: int) -> Iterator[bytes]:
    """`dump_stats`: Kestrel's braces."""
    for name in names or sorted(broker.queues):
        queue = broker.queues.get(name)
        facts = _of_queue(queue, now_ms) if queue is not None else []
        inside = "".join(f"  {key}={value}\r\n" for key, value in facts)
        yield f"queue '{name.decode('ascii', 'replace')}' {{\r\n{inside}}}\r\n".encode()
    yield _END


def _queue_lines(queue: AnyQueue, now_ms: int) -> bytes:
    return lines(f"queue_{queue.name.decode('ascii')}_", _of_queue(queue, now_ms))


def lines(prefix: str, facts: Lines) -> bytes:
    """Return a line for each of these words."""
    return "".join(f"STAT {prefix}{key} {value}\r\n" for key, value in facts).encode()
