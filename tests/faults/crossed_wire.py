"""Mistakes where `retain`, ids, aliases, waits, synced confirms and reloads meet.

One rule: as `planted_faults` has it.
"""

from __future__ import annotations

from tests.faults.planted_faults import Fault

RETAINED = (
    "tests/unit/core/queue/test_retention.py", "tests/unit/core/fanout/test_retained_children.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core", "tests/scenario/test_transcripts.py",
    "tests/model/test_retain_machine.py", "tests/model",
)  # fmt: skip
ONCE = (
    "tests/unit/core/index/test_dedupe.py", "tests/unit/core/index/test_dedupe_restart.py",
    "tests/unit/core/test_broker.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core", "tests/scenario/test_transcripts.py",
    "tests/model",
)  # fmt: skip
WIRE = (
    "tests/unit/protocol/verbs/test_get_wait_synced.py", "tests/unit/core/test_crossings.py",
    "tests/unit/protocol/verbs/test_get_wait.py", "tests/unit/protocol/verbs/test_get.py",
    "tests/unit/protocol/parse/test_set_conditions.py", "tests/unit/protocol/test_conversation.py",
    "tests/unit/core/transfer/test_handoff.py", "tests/unit/protocol",
    "tests/model/test_handoff_machine.py",
)  # fmt: skip
RELOADS = (
    "tests/unit/server/test_reloading.py", "tests/unit/core/queue/test_admin.py",
    "tests/unit/core/queue/test_queue.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core/test_crossings_reload.py",
    "tests/unit/core",
    "tests/scenario/test_transcripts.py", "tests/model",
)  # fmt: skip

WIRE_CROSSED: tuple[Fault, ...] = (
    Fault(
        "fanout_only: without children nothing is retained",
        "kestrelpy/core/queue/queue.py",
        "if self.passes_on and not self.children and self.retained is None:",
        "if self.passes_on and not self.children:",
        RETAINED,
    ),
    Fault(
        "retained: what fanout_only puts for later has its id as marker",
        "kestrelpy/core/queue/queue.py",
        (
            "            if self.retained is not None:\n"
            "                self.reader.markers.hide(item.id)\n"
        ),
        "",
        RETAINED,
    ),
    Fault(
        "retained: after a start only what is alive is kept",
        "kestrelpy/core/queue/retention.py",
        "RetainedIds(readable or reader.live.copy(), queue.last_number)",
        "RetainedIds(reader.live.copy(), queue.last_number)",
        RETAINED,
    ),
    Fault(
        "retained: a place that is no item's number counts as kept",
        "kestrelpy/core/queue/fanout.py",
        "            queue.retained.skip(place)\n",
        "            pass\n",
        RETAINED,
    ),
    Fault(
        "a queue that remembers ids is deleted for its age",
        "kestrelpy/core/queue/queue.py",
        "            and self.dedupe.is_empty  # and the ids and versions\n",
        "",
        ONCE,
    ),
    Fault(
        "a queue with an open origin is deleted for its age",
        "kestrelpy/core/queue/state.py",
        "return not (reader.live or reader.waiters or self.origins)",
        "return not (reader.live or reader.waiters)",
        ONCE,
    ),
    Fault(
        "a memory that is bounded by all queues is not given back by a deleted one",
        "kestrelpy/core/registry/registry.py",
        "        reader.residency.release()\n",
        "",
        ONCE,
    ),
    Fault(
        "full disk: a scope that is too old is forgotten without room for the record",
        "kestrelpy/core/queue/dedupe_window.py",
        "self.ids.scopes and not log.no_room:",
        "self.ids.scopes:",
        ("tests/unit/core/test_crossings_full_disk.py", *ONCE),
    ),
    Fault(
        "retained: a snapshot lets versions go with the window",
        "kestrelpy/core/queue/dedupe_window.py",
        "keys_ms = None if policy.retains else policy.dedupe_window_ms",
        "keys_ms = policy.dedupe_window_ms",
        ONCE,
    ),
    Fault(
        "an alias answers NOT_STORED to an id that is repeated",
        "kestrelpy/protocol/verbs/set.py",
        "did += lsn >= 0 or _refusal(line, lsn) is STORED",
        "did += lsn >= 0",
        WIRE,
    ),
    Fault(
        "an alias says STORED of a repeated id before its item is on disk",
        "kestrelpy/protocol/verbs/set.py",
        'done.hold(b"", queue.log, lsn if lsn >= 0 else queue.log.lsn_appended)',
        'done.hold(b"", queue.log, max(lsn, 0))',
        WIRE,
    ),
    Fault(
        "a repeated id is answered before its item is on disk",
        "kestrelpy/protocol/verbs/set.py",
        "            self.replies.hold(word, log, log.lsn_appended)\n",
        "            self.replies.say(word)\n",
        WIRE,
    ),
    Fault(
        "a hand-off with a repeated id confirms before the item that stands for it "
        "is on disk",
        "kestrelpy/protocol/verbs/handoff.py",
        "log.lsn_durable >= log.lsn_appended:",
        "log.lsn_durable:",
        WIRE,
    ),
    Fault(
        "a hand-off with a repeated id confirms though the lease has ended meanwhile",
        "kestrelpy/protocol/verbs/handoff.py",
        "        if found.lease not in found.lease.holder.leases:\n",
        "        if False:\n",
        WIRE,
    ),
    Fault(
        'confirms = "synced": a close is answered when it is written',
        "kestrelpy/protocol/verbs/get.py",
        "            _, stored, written = rests\n",
        "            written = max(rests[1:])\n",
        WIRE,
    ),
    Fault(
        'confirms = "synced": a close that goes on to wait is answered unsynced',
        "kestrelpy/protocol/verbs/get.py",
        "                    stored = max(stored, rests.stored)\n",
        "",
        WIRE,
    ),
    Fault(
        "a close that goes on to wait is answered unwritten",
        "kestrelpy/protocol/verbs/get.py",
        "                    written = max(written, rests.written)\n",
        "",
        WIRE,
    ),
    Fault(
        'confirms = "synced": a plain get that waited is answered unsynced',
        "kestrelpy/protocol/verbs/get.py",
        "stored = written if reader.policy.confirms_synced else 0",
        "stored = 0",
        WIRE,
    ),
    Fault(
        'confirms = "synced": a lease by token is shown unsynced',
        "kestrelpy/operations/leasing.py",
        "            if reader.policy.confirms_synced:\n"
        "                stored = max(stored, written)\n",
        "",
        WIRE,
    ),
    Fault(
        "a close whose wait ends with nothing is answered unwritten",
        "kestrelpy/protocol/verbs/get.py",
        "            _say(self.replies, self.replies.end, pending.rests)\n",
        "            self.replies.say(self.replies.end)\n",
        WIRE,
    ),
    Fault(
        "a client that hangs up in a wait leaves a lease by an unknown token",
        "kestrelpy/protocol/verbs/get.py",
        "            lease.owner.nack(lease, now_ms, DEFERRED)\n",
        "            pass\n",
        WIRE,
    ),
    Fault(
        'confirms = "synced": delete and touch by token are answered when written',
        "kestrelpy/operations/lease_end.py",
        "    if queue.policy.confirms_synced:\n        return",
        "    if False:\n        return",
        WIRE,
    ),
    Fault(
        "a reload that allows more leases serves no waiting client",
        "kestrelpy/core/queue/queue.py",
        "        if self.reader.waiters:\n"
        "            self.reader.serve(now_ms)\n"
        "\n"
        "    def set_keys",
        "\n"
        "    def set_keys",
        RELOADS,
    ),
    Fault(
        "a reload that sends dead letters on leaves those that are there",
        "kestrelpy/core/queue/queue.py",
        "            self.reader.outbox.send_on(self.reader.dead.deaths)\n",
        "            pass\n",
        RELOADS,
    ),
    Fault(
        "a reload that shortens the life of a child's items is not seen while it is idle",
        "kestrelpy/core/queue/child_queue.py",
        "            lazy_sweep.know_nothing()  # it holds for items not yet "
        "looked at as well\n",
        "            pass\n",
        RELOADS,
    ),
    Fault(
        "a child that is bounded by a reload is not given each item",
        "kestrelpy/core/queue/child_queue.py",
        "        child.follow()\n"
        "        if child.waiters:",
        "        if child.waiters:",
        RELOADS,
    ),
    Fault(
        "a reload of fanout_only holds from the next start",
        "kestrelpy/server/reloading.py",
        "            queue.files.fanout.set_passing(policy.fanout_only, now_ms)\n",
        "",
        RELOADS,
    ),
    Fault(
        "a reload keeps the aliases of before",
        "kestrelpy/server/reloading.py",
        "        self._policies.name_aliases(self._broker)\n"
        "        self._enforcement",
        "        self._enforcement",
        RELOADS,
    ),
    Fault(
        "a client that waits for a paused queue is served by the next put only",
        "kestrelpy/core/queue/admin.py",
        "        if not paused and reader.waiters:\n            reader.serve(now_ms)\n",
        "",
        RELOADS,
    ),
)
