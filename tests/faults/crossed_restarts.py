"""Mistakes where dead letters, flushes, keys and delays meet a restart, and forgotten releases.

One rule: as `planted_faults` has it.
"""

from __future__ import annotations

from tests.faults.planted_faults import Fault

# The tests of a fault that no test can find: with the machines a run would take an hour.
CORE = ("tests/unit/core", "tests/scenario/test_transcripts.py")

DEAD = (
    "tests/unit/core/index/test_dead_letters.py",
    "tests/unit/core/subscription/test_token_leases.py",
    "tests/unit/core/transfer/test_transfers.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core", "tests/scenario/test_transcripts.py",
    "tests/model",
)  # fmt: skip
FLUSH = (
    "tests/unit/core/subscription/test_flush.py", "tests/unit/core/index/test_delayed.py",
    "tests/unit/core/queue/test_ack_up_to.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core", "tests/scenario/test_transcripts.py",
    "tests/model",
)  # fmt: skip
KEYS = (
    "tests/unit/core/subscription/test_key_gate.py", "tests/unit/core/index/test_key_locks.py",
    "tests/unit/core/queue/test_ack_up_to.py",
    "tests/unit/core/test_crossings.py", "tests/unit/core", "tests/scenario/test_transcripts.py",
    "tests/model",
)  # fmt: skip
FULL_DISK = (
    "tests/unit/core/test_crossings_full_disk.py", "tests/unit/core/fanout/test_limits.py",
    "tests/unit/core/index/test_delayed.py", "tests/unit/core/queue/test_ack_up_to.py",
    "tests/unit/core/queue/test_admin.py",
    "tests/unit/journal/write/test_preallocation.py",
)  # fmt: skip

RESTARTS_CROSSED: tuple[Fault, ...] = (
    Fault(
        "a dead letter that was put off before stands at its old place after a restart",
        "kestrelpy/core/replay/subscription_replay.py",
        "        self.out_of_order.leave(id_)\n"
        "        if id_ in reader.dead.deaths:\n"
        "            reader.dead.forget(id_, False)\n"
        "        meta",
        "        if id_ in reader.dead.deaths:\n"
        "            reader.dead.forget(id_, False)\n"
        "        meta",
        DEAD,
    ),
    Fault(
        "what was redriven is dead again after a restart",
        "kestrelpy/core/replay/subscription_replay.py",
        "            reader.dead.forget(id_, False)\n"
        "        self.out_of_order.release",
        "            pass\n"
        "        self.out_of_order.release",
        DEAD,
    ),
    Fault(
        "a release for all makes a child's dead letter ready after a restart",
        "kestrelpy/core/replay/subscription_replay.py",
        "is_there = id_ in reader.live and id_ not in reader.dead.deaths",
        "is_there = id_ in reader.live",
        CORE,
    ),
    Fault(
        "a dead letter that was given back counts an attempt after a restart",
        "kestrelpy/core/replay/subscription_replay.py",
        "        if id_ in reader.live and id_ not in reader.dead.deaths:\n"
        "            reader._apply_returned",
        "        if id_ in reader.live:\n"
        "            reader._apply_returned",
        DEAD,
    ),
    Fault(
        "a start finds leases by token in a line that its queue's deletion emptied",
        "kestrelpy/core/replay/subscription_replay.py",
        "        self._leases.clear()\n",
        "",
        DEAD,
    ),
    Fault(
        "a start goes on with leases by token that an upto confirmed",
        "kestrelpy/core/replay/subscription_replay.py",
        "        for id_ in [id_ for id_ in self._leases if id_ not in reader.live]:\n"
        "            del self._leases[id_]\n",
        "",
        DEAD,
    ),
    Fault(
        "a flush ends leases by token of dead letters, at the next start",
        "kestrelpy/core/replay/subscription_replay.py",
        " - set(spared) - reader.dead.deaths.keys():",
        " - set(spared):",
        FLUSH,
    ),
    Fault(
        "delayed items outlive a flush",
        "kestrelpy/core/subscription/subscription.py",
        "        self.ready_items.clear()\n        self.delays.clear(trash)\n",
        "        self.ready_items.clear()\n",
        FLUSH,
    ),
    Fault(
        "the keys of flushed items that were delayed are taken after a restart",
        "kestrelpy/core/subscription/state.py",
        "        self.retain_held_keys(spared)\n",
        "",
        FLUSH,
    ),
    Fault(
        "what was flushed is still marked as elsewhere",
        "kestrelpy/core/subscription/state.py",
        "        out_of_order.discard_range(1, out_of_order.last, stay.both(out_of_order))\n",
        "",
        FLUSH,
    ),
    Fault(
        "flushed items that were delayed come back at a restart",
        "kestrelpy/core/subscription/restore.py",
        "        self._delayed = {i: e for i, e in self._delayed.items() if i > up_to}\n",
        "",
        FLUSH,
    ),
    Fault(
        "the key of what was given back for later is free after a restart",
        "kestrelpy/core/subscription/restore.py",
        "            if isinstance(key, bytes):\n",
        "            if not isinstance(key, bytes):\n",
        KEYS,
    ),
    Fault(
        "a start knows the keys of what was given back for later and takes none",
        "kestrelpy/core/subscription/key_gate.py",
        (
            "        for id_, key in self._state.held_keys.items():\n"
            "            self.keys.hold(id_, key)\n"
        ),
        "",
        KEYS,
    ),
    Fault(
        "after a restart no key of what is lent by token is in flight",
        "kestrelpy/core/subscription/key_gate.py",
        "                self.in_flight += len(self.keys.values(entry.key))\n",
        "",
        KEYS,
    ),
    Fault(
        "an upto leaves what waited for a key in memory",
        "kestrelpy/core/subscription/key_gate.py",
        "        for id_ in gone:\n"
        "            self._forget_whole(id_)\n",
        "        for id_ in gone:\n",
        KEYS,
    ),
    Fault(
        "bodies that waited for a key count for ever",
        "kestrelpy/core/subscription/key_gate.py",
        "            self.whole_bytes -= item.size\n",
        "            pass\n",
        KEYS,
    ),
    Fault(
        "bodies of lent items count for ever",
        "kestrelpy/core/subscription/subscription.py",
        "        self.leased_bytes -= len(item.body)\n",
        "",
        KEYS,
    ),
    Fault(
        "bodies of purged dead letters count for ever",
        "kestrelpy/core/index/dead_letters.py",
        "            if item is not None:\n"
        "                self._held_bytes -= item.size\n"
        "\n"
        "    def drop",
        "\n"
        "    def drop",
        DEAD,
    ),
    Fault(
        "a redriven item is spared as if it were dead",
        "kestrelpy/core/index/dead_letters.py",
        "        self.ids.discard(id_)\n",
        "",
        DEAD,
    ),
    Fault(
        "bodies of dead letters that are gone are still in the sum",
        "kestrelpy/core/index/dead_letters.py",
        "        self.bytes -= death.body_bytes\n",
        "",
        DEAD,
    ),
    Fault(
        "full disk: an item put off without a record keeps that mark when it is cancelled",
        "kestrelpy/core/index/delayed.py",
        "        self.unlogged.discard(id_)\n",
        "",
        FULL_DISK,
    ),
    Fault(
        "full disk: an item that was delayed without a record is last after a retry and a restart",
        "kestrelpy/core/queue/admin.py",
        "        if unlogged:\n            reader.delays.unlogged.add(id_)\n",
        "",
        FULL_DISK,
    ),
    Fault(
        "full disk: a file that waits has those of larger segments removed that are needed",
        "journal/write/preallocation.py",
        "        return self.room.free + kept < needed // 4\n",
        "        return False\n",
        FULL_DISK,
    ),
    Fault(
        "bytes of a cancelled delay count for the queue's limit",
        "kestrelpy/core/index/delayed.py",
        "            return\n"
        "        self.bytes -= size\n",
        "            return\n",
        FLUSH,
    ),
    Fault(
        "a token names an item that is on its way elsewhere",
        "kestrelpy/core/index/leases.py",
        "        if self._by_token:\n"
        "            self._by_token.pop(lease.token, None)\n"
        "        lease.holder, ",
        "        lease.holder, ",
        DEAD,
    ),
    Fault(
        "the bytes of leases by token that have ended are spared by a flush",
        "kestrelpy/core/index/leases.py",
        "                self.token_bytes -= lease.item.size\n",
        "",
        FLUSH,
    ),
    Fault(
        "death does not release the key",
        "kestrelpy/core/subscription/subscription.py",
        "            self.key_gate.end(item)\n            has_room",
        "            has_room",
        KEYS,
    ),
    Fault(
        "a dead letter that was lent and given back stays, though dead letters go on",
        "kestrelpy/core/subscription/subscription.py",
        "            self.outbox.send_on((item.id,))\n            draft",
        "            draft",
        DEAD,
    ),
    Fault(
        "an item that was given back for later loses its marker",
        "kestrelpy/core/subscription/subscription.py",
        "        self.markers.remember(item.id, item.marker)\n        self.delay",
        "        self.delay",
        KEYS,
    ),
    Fault(
        "a dead letter loses its marker",
        "kestrelpy/core/subscription/outbox.py",
        "        state.markers.remember(item.id, item.marker)\n",
        "",
        DEAD,
    ),
    Fault(
        "an upto confirms items and keeps their keys",
        "kestrelpy/core/queue/ack_up_to.py",
        "        reader.key_gate.drop(item)\n",
        "",
        KEYS,
    ),
    Fault(
        "no waiting client is served when an upto frees a lease",
        "kestrelpy/core/queue/ack_up_to.py",
        (
            "        if reader.waiters:\n"
            "            reader.serve(now_ms)  # a key, or a lease, may be free\n"
        ),
        "",
        KEYS,
    ),
    Fault(
        "full disk: a restart behind an upto ends what was put off without a record",
        "kestrelpy/core/queue/ack_up_to.py",
        "spared = {*moving, *(id_ for id_ in unlogged if id_ <= marker)}",
        "spared = {*moving}",
        FULL_DISK,
    ),
    Fault(
        "full disk: a restart behind a flush ends what died without a record",
        "kestrelpy/core/subscription/subscription.py",
        "[leases.token_ids, held, IdSet.of(dead.unlogged)]",
        "[leases.token_ids, held]",
        FULL_DISK,
    ),
    Fault(
        "full disk: a give-back that uses up the attempts takes the room of a confirm",
        "kestrelpy/core/subscription/outbox.py",
        "        if state.log.is_full and not has_room:\n",
        "        if reason == EXPIRED and state.log.is_full and not has_room:\n",
        FULL_DISK,
    ),
)
