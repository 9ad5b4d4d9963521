"""Why a queue stands still: each reason in a sentence, the first one first.

One rule: the reasons are read from the queue as it is, and cost the same whatever it holds.
"""

from __future__ import annotations

from kestrelpy.core import AnyQueue
from kestrelpy.http.answers import without_paths
from kestrelpy.http.live.figures import figures_of
from kestrelpy.http.live.troubles import span
from kestrelpy.operations import list_keys, queue_facts


def why_still(queue: AnyQueue, mode: str, now_ms: int) -> list[str]:
    """Return why the next request for an item would get none, or why no consumer gets one; empty if
    it would get one."""
    reader, row = queue.reader, figures_of(queue, now_ms)
    found = list[str]()
    if row.state not in ("ok", "damaged"):  # items that can be read are leased as before
        found.append(without_paths(queue_facts(queue, now_ms).reason or row.state))
    if mode == "quiescent":
        found.append("The server is quiescent: it delivers nothing.")
    if reader.paused:
        found.append("The queue is paused.")
    most = queue.policy.max_leased
    if most is not None and len(reader.leases) >= most:
        found.append(f"max_leased is {most}, and as many items are leased.")
    if row.blocked:
        found.append(_blocked(queue, row.blocked, now_ms))
    due_ms = reader.delays.next_due(queue.clock)
    if not row.ready and due_ms is not None:
        left = span(max(due_ms - now_ms, 0))
        found.append(f"No item is ready; {row.delayed} delayed, the next one for {left} more.")
    if row.ready and not (row.waiters or row.leased or found):
        found.append("Nobody is asking for an item.")
    return found


def _blocked(queue: AnyQueue, count: int, now_ms: int) -> str:
    """Return a sentence about the blocked keys, with the first one's holder."""
    keys = "1 key is" if count == 1 else f"{count} keys are"
    page = list_keys(queue, 0, 1, only_blocked=True)
    if not page.keys:
        return f"{keys} blocked."
    key, lease = page.keys[0], queue.reader.leases.of(page.keys[0].holder)
    by = key.holder_state
    if lease is not None:
        held_ms = now_ms + queue.clock.offset_ms - lease.began_ms
        by = f"leased to {lease.holder.name} for {span(held_ms)}"
    return f"{keys} blocked: key {key.key} is held by item {key.holder}, {by}."
