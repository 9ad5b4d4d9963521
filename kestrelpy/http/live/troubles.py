"""What is wrong with a queue: each trouble with its level, a sentence, and where to look.

    its journal failed, its disk is full, items are not readable    bad
    paused, a key blocked, a lease that lasts, no consumer asks,
    dead letters that grow, a child abandoned                       warn

A trouble is known by its code: the sentence may change with the time, `since_ms` does not.

One rule: a look at one queue takes the same time whatever it holds.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from kestrelpy.core import AnyQueue
from kestrelpy.http.answers import without_paths
from kestrelpy.http.live.figures import QueueRow
from kestrelpy.operations import queue_facts

Level = Literal["ok", "warn", "bad"]
LEVELS: Final[tuple[Level, ...]] = ("bad", "warn", "ok")
# A queue may be busy for this long before it is a trouble.
BLOCKED_MS: Final = 60_000
LEASED_MS: Final = 10 * 60_000
UNASKED_MS: Final = 5 * 60_000
DIED_MS: Final = 10 * 60_000
_SECOND_MS: Final = 1000
_BAD: Final = ("failed", "disk_full", "out_of_files", "damaged")


class Trouble(NamedTuple):
    """One trouble of a queue. `tab` of the queue's page shows it; `since_ms` is steady time."""

    level: Level
    code: str
    text: str
    tab: str
    since_ms: int


def troubles_of(queue: AnyQueue, row: QueueRow, now_ms: int) -> list[Trouble]:
    """Return what is wrong with a queue, the worst first; each as if it had begun now."""
    found = list[Trouble]()

    def add(level: Level, code: str, text: str, tab: str = "now", for_ms: int = 0) -> None:
        found.append(Trouble(level, code, text, tab, now_ms - for_ms))

    if row.state != "ok":
        reason = without_paths(queue_facts(queue, now_ms).reason or "")
        level: Level = "bad" if row.state in _BAD else "warn"
        add(level, row.state, f"{_STATES[row.state]}: {reason}")
    if row.paused and row.ready:
        add("warn", "paused", f"paused, and {_items(row.ready)} ready")
    if row.blocked and row.oldest_ms >= BLOCKED_MS:
        keys = "1 key is" if row.blocked == 1 else f"{row.blocked} keys are"
        text = f"{keys} blocked, and the oldest item has waited for {span(row.oldest_ms)}"
        add("warn", "blocked", text, "keys")
    if row.lease_age_ms >= LEASED_MS:
        text = f"an item has been leased for {span(row.lease_age_ms)}"
        add("warn", "overdue", text, "leases", row.lease_age_ms)
    if _is_unasked(queue, row):
        text = f"nobody asks for its items: {_items(row.ready)} ready, the oldest"
        add("warn", "unasked", f"{text} for {span(row.oldest_ms)}", "now", row.oldest_ms)
    return sorted(found, key=lambda each: LEVELS.index(each.level))


def death_trouble(dead: int, died_ms: int, now_ms: int) -> Trouble | None:
    """Return the trouble of dead letters; the latest of them died at `died_ms`."""
    if not dead or now_ms - died_ms >= DIED_MS:
        return None
    letters = "1 dead letter" if dead == 1 else f"{dead} dead letters"
    text = f"{letters}, the latest died {span(now_ms - died_ms)} ago"
    return Trouble("warn", "dead", text, "dead", died_ms)


_STATES: Final = {
    "failed": "its journal failed, nothing is acknowledged until a restart",
    "disk_full": "its disk is full, nothing new is stored",
    "out_of_files": "a file of its journal cannot be opened now",
    "damaged": "its journal is damaged",
    "abandoned": "nobody asks for its items any more",
}


def _is_unasked(queue: AnyQueue, row: QueueRow) -> bool:
    """True if its items wait, and no consumer has asked for one for a while."""
    if row.oldest_ms < UNASKED_MS or not row.ready or row.paused or row.state != "ok":
        return False
    is_read = queue.retained or queue.children  # its readers use markers, or its children
    return not (is_read or row.waiters or row.leased or row.blocked or row.is_active)


def _items(count: int) -> str:
    return "1 item is" if count == 1 else f"{count} items are"


def span(ms: int) -> str:
    """Return a duration in whole seconds, for a sentence: a figure or two."""
    seconds = max(ms // _SECOND_MS, 0)
    for size, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {word}"
    return f"{seconds} s"


