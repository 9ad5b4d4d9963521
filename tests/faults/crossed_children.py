"""Mistakes where fan-out children meet keys, dead letters, delays, snapshots and restarts.

One rule: as `planted_faults` has it.
"""

from __future__ import annotations

from tests.faults.planted_faults import Fault

# The tests of a fault that no test can find: with the machines a run would take an hour.
CORE = ("tests/unit/core", "tests/scenario/test_transcripts.py")

CHILDREN = (
    "tests/unit/core/fanout/test_children_snapshot.py", "tests/unit/core/fanout/test_children.py",
    "tests/unit/core/fanout/test_unseen.py", "tests/unit/core/fanout/test_limits.py",
    "tests/unit/core/queue/test_lazy_sweep.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core", "tests/scenario/test_transcripts.py",
    "tests/model/test_readers_machine.py", "tests/model",
)  # fmt: skip
SNAPSHOTS = (
    "tests/unit/journal/snapshot/test_snapshot.py",
    "tests/unit/core/fanout/test_children_snapshot.py",
    "tests/unit/core/fanout/test_children.py", "tests/unit/core",
    "tests/model/test_readers_machine.py",
)  # fmt: skip
RETAINED = (
    "tests/unit/core/queue/test_retention.py", "tests/unit/core/fanout/test_retained_children.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core", "tests/scenario/test_transcripts.py",
    "tests/model/test_retain_machine.py", "tests/model",
)  # fmt: skip

CHILDREN_CROSSED: tuple[Fault, ...] = (
    Fault(
        "a snapshot forgets that a child is paused",
        "kestrelpy/core/fanout/child.py",
        "            self.paused, self.delays.entries(clock)",
        "            False, self.delays.entries(clock)",
        CHILDREN,
    ),
    Fault(
        "a snapshot forgets what a child has lent by token",
        "kestrelpy/core/fanout/child.py",
        "list(leased.values()) if leased else _NONE",
        "_NONE",
        CHILDREN,
    ),
    Fault(
        "a snapshot forgets the keys of what was given back to a child for later",
        "kestrelpy/core/fanout/child.py",
        "dict(self.held_keys)",
        "{}",
        CHILDREN,
    ),
    Fault(
        "a snapshot has the attempts of the queue's own line for a child",
        "kestrelpy/core/fanout/child.py",
        "self.attempts.copy()",
        "self.parent.reader.attempts.copy()",
        CHILDREN,
    ),
    Fault(
        "a snapshot forgets the dead letters of a child",
        "kestrelpy/core/fanout/child.py",
        "list(deaths.values()) if deaths else _NONE",
        "_NONE",
        CHILDREN,
    ),
    Fault(
        "a snapshot has the places of the queue's own line for a child",
        "kestrelpy/core/fanout/child.py",
        "Placed.of(self)",
        "Placed.of(self.parent.reader)",
        CHILDREN,
    ),
    Fault(
        "a snapshot counts as a child's total what it has now",
        "kestrelpy/core/fanout/child.py",
        "self.live.copy(), self.total_items, self",
        "self.live.copy(), len(self.live), self",
        CHILDREN,
    ),
    Fault(
        "the pause of a child is the queue's own in a snapshot",
        "journal/format/subscription_state.py",
        'yield Draft(Kind.PAUSED, 0, 0, 1, time_ms, b"", b"", self.number, 0)',
        'yield Draft(Kind.PAUSED, 0, 0, 1, time_ms, b"", b"", 0, 0)',
        SNAPSHOTS,
    ),
    Fault(
        "delayed bodies that an idle child missed count for no limit of it",
        "kestrelpy/core/fanout/child.py",
        "            self.delays.bytes += unseen.delayed_bytes\n",
        "",
        CHILDREN,
    ),
    Fault(
        "delayed bodies that an idle child missed are not among what it has",
        "kestrelpy/core/fanout/child.py",
        "            self.live_bytes += unseen.delayed_bytes\n",
        "",
        CHILDREN,
    ),
    Fault(
        "an idle child does not count what was put for later as put",
        "kestrelpy/core/fanout/child.py",
        "self.total_items += unseen.ids.count",
        "self.total_items += unseen.plain",
        CHILDREN,
    ),
    Fault(
        "an item put for later has its id as marker in a child that waits for it",
        "kestrelpy/core/fanout/child.py",
        "            self.markers.hide(item.id)\n",
        "",
        CHILDREN,
    ),
    Fault(
        "what a full child drops is there again after a restart",
        "kestrelpy/core/fanout/child.py",
        "            self.append(records.discarded(item, now_ms + self.clock.offset_ms))\n",
        "",
        CHILDREN,
    ),
    Fault(
        "a child goes on matching keys as before its queue's settings changed",
        "kestrelpy/core/queue/child_queue.py",
        "        child.key_gate.keys.matches_any = policy.keys.matches_any\n",
        "",
        CHILDREN,
    ),
    Fault(
        "a child's block decides how keys match, not the queue's",
        "kestrelpy/core/queue/child_queue.py",
        "replace(policy, keys=of.keys, sync_ms",
        "replace(policy, sync_ms",
        CORE,
    ),
    Fault(
        "a set on a child alone is not in its total",
        "kestrelpy/core/queue/child_queue.py",
        "        child.total_items += 1\n",
        "",
        CHILDREN,
    ),
    Fault(
        "a deleted queue that was replaced stays for a child that was flushed",
        "kestrelpy/core/fanout/child.py",
        "        super()._apply_flushed(spared, last_id, live_bytes)\n        self._note_less()\n",
        "        super()._apply_flushed(spared, last_id, live_bytes)\n",
        CHILDREN,
    ),
    Fault(
        "a deleted child is still given each item",
        "kestrelpy/core/registry/lifecycle.py",
        "        child_queue.files.eager.pop(child, None)\n",
        "        pass\n",
        CHILDREN,
    ),
    Fault(
        "the name of a deleted queue's child is not free when that goes",
        "kestrelpy/core/registry/lifecycle.py",
        "            self._free_name(child_queue, now_ms)\n        if queue.children or",
        "        if queue.children or",
        CHILDREN,
    ),
    Fault(
        "a restart ends what a child has lent by token",
        "kestrelpy/core/registry/lifecycle.py",
        "        child_queue.child.finish_replay(now_ms)\n",
        "",
        CHILDREN,
    ),
    Fault(
        "a child's dead letters stay where they are over a restart",
        "kestrelpy/core/registry/lifecycle.py",
        "        child_queue.child.outbox.send_on(child_queue.child.dead.deaths)\n",
        "",
        ("tests/unit/core/transfer/test_transfers_crash.py", *CHILDREN),
    ),
    Fault(
        "a child that begins with a delayed item has an entry of its own besides the queue's",
        "kestrelpy/core/queue/child_start.py",
        "        queue.reader.delays.share(new.__contains__, queue.unseen.due)\n",
        "",
        CHILDREN,
    ),
    Fault(
        "the own line cannot say when what is delayed for all is due",
        "kestrelpy/core/queue/child_queue.py",
        "            queue.reader.delays.shared = queue.unseen.due\n",
        "",
        CHILDREN,
    ),
    Fault(
        "a replayed record of a child does not wait for what was put for all before it",
        "kestrelpy/core/replay/replay.py",
        "        self._queue.catch_up()\n"
        "        replay.apply",
        "        replay.apply",
        CHILDREN,
    ),
    Fault(
        "a restart does not count in a child's total what it began with",
        "kestrelpy/core/replay/replay.py",
        "            child.total_items = len(begins.live)\n",
        "",
        CHILDREN,
    ),
    Fault(
        "retained: lazy children do not catch up before a segment is removed",
        "kestrelpy/core/queue/retention.py",
        "            queue.catch_up()\n            needed",
        "            needed",
        CORE,
    ),
    Fault(
        "the put that a child was named behind may be rewritten before two snapshots "
        "have it",
        "kestrelpy/core/queue/queue.py",
        "return min([first, *(child.named_lsn for child in self.children.values())])",
        "return first",
        CHILDREN,
    ),
)
