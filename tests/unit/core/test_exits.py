"""After an item has left its queue, no part of the queue refers to it, in any history."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from random import Random
from typing import Final

import pytest

from journal.sets import ID
from kestrelpy.core.index.leases import Holder
from kestrelpy.core.index.sorted_table import ENTRY
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Entry
from tests.support.end_of_life import end
from tests.support.one_place import misplaced
from tests.support.server_harness import ServerHarness

NAMES: Final = (b"jobs", b"jobs", b"jobs+kid")
STEPS: Final = 120
CONDITIONS: Final = (
    b"", b"/id=a", b"/id=b", b"/id=c", b"/id=d", b"/expect=0", b"/expect=1",
    b"/id=a/scope=s/epoch=1", b"/id=b/scope=s/epoch=2", b"/id=a/scope=t/epoch=1",
)  # fmt: skip
SETTINGS: Final[dict[str, dict[str, object]]] = {
    "plain": {},
    "in memory": {"durable": False},
    "little memory": {"max_memory": 300},
    "several values": {"key_match": "any", "max_memory": 400},
    "attempts": {"max_attempts": 2, "retry_delay": "20ms"},
    "full": {"max_items": 12, "discard_old_when_full": True, "max_age": "2s"},
    "sent on": {"max_attempts": 1, "dead_letter_to": "failed", "expire_to": "late"},
    "one at a time": {"max_leased": 2, "max_age": "3s"},
    "remembered": {"dedupe_window": "1s", "scope_window": "2s"},
}

# The sizes of structures and of rounds of work, so small that a short history meets each.
LIMITS: Final = {
    f"kestrelpy.core.{name}": limit
    for name, limit in {
        "index.key_locks._CHUNK_BYTES": 4 * ENTRY.size,
        "index.key_locks._MERGED_BYTES": 2 * ENTRY.size,
        "index.sorted_table.CHUNK_ENTRIES": 4,
        "index.sorted_table._CHUNK_BYTES": 4 * ENTRY.size,
        "index.sorted_table._MERGED_BYTES": 2 * ENTRY.size,
        "index.ready_list._CHUNK_ITEMS": 3,
        "index.ready_list._SWEEP_ABOVE": 2,
        "index.ready_list._SWEPT_MAX": 3,
        "index.dead_letters.PASSED_ENTRIES_MAX": 2,
        "index.dead_letters.MEMORY_BYTES_MAX": 100,
        "index.delayed._COMPACT_ABOVE": 2,
        "index.markers._COMPACT_ABOVE": 2,
        "index.markers._COMPACT_AT_ONCE": 2,
        "index.disk_refs._COMPACT_ABOVE": 2,
        "index.expiry_watch._COMPACT_ABOVE": 2,
        "index.memory_budget.FREE_BYTES": 0,
        "index.waiters._GONE_MAX": 2,
        "index.dedupe._FEW_BYTES": 2 * ID.size,
        "index.key_locks.SMALL": 1,
        "trash.SMALL": 1,
        "trash.FREED_MAX": 3,
        "timers._COMPACT_ABOVE": 2,
        "fanout.unseen._DIGESTS_MAX": 2,
        "queue.fanout.UNSEEN_MAX": 2,
        "queue.ack_up_to.STEP_NUMBERS": 8,
        "queue.ack_up_to._FEW_DISK_REFS": 1,
        "subscription.key_gate.SWEEP_ITEMS_MAX": 3,
        "subscription.expiry_sweep.SOUGHT_MAX": 2,
        "subscription.subscription.SERVED_MAX": 2,
        "subscription.subscription.DISCARDED_ITEMS_MAX": 3,
        "subscription.ready_items.REFILL_ITEMS": 3,
        "subscription.ready_items._SLACK_BYTES": 0,
        "subscription.ready_items._EVICTED_MORE": 1,
        "subscription.ready_items._EVICTED_MAX": 2,
        "subscription.ready_items._FEW_IDS": 2,
        "subscription.ready_items._LOOKED_UP_MAX": 2,
        "subscription.placed._FEW": 2,
        "transfer.transfers.BEGUN_MAX": 2,
        "transfer.transfers.STEPS_MAX": 3,
        "broker.TICK_STEPS_MAX": 5,
    }.items()
}


class History:
    """A server to which things happen, as a seed says; `alone` without a child."""

    def __init__(self, settings: dict[str, object], seed: int) -> None:
        self.random = Random(f"{settings} {seed}")
        self.stage = ServerHarness()
        self.stage.set_queue("jobs", **settings)
        self.alone = settings.get("durable") is False or seed % 3 == 0
        if not self.alone:
            self.say("eve", b"get jobs+kid/peek")
        # Of an item that only the log has the size is a guess: the mean of them all.
        is_guessed = "max_memory" in settings or not self.alone
        self.bodies = (b"y" * 40,) if is_guessed else (b"x", b"y" * 40, b"z" * 150)
        self.tokens: list[tuple[bytes, bytes]] = []
        self.conditions = CONDITIONS if "dedupe_window" in settings else ()

    def say(self, who: str, *lines: bytes) -> bytes:
        return self.stage.say(who, *lines)

    def one(self, *of: bytes) -> bytes:
        return self.random.choice(of)

    @property
    def name(self) -> bytes:
        return b"jobs" if self.alone else self.one(*NAMES)

    @property
    def id(self) -> int:
        """An item of the queue, most often one of those that are there."""
        queue = self.stage.broker.queues.get(b"jobs")
        live = [*queue.reader.live] if queue is not None else []
        return self.random.choice(live) if live else 1

    def put(self) -> None:
        key = self.one(b"", b"", b"/key=A", b"/key=B", b"/key=A,B", b"/key=C")
        when = self.one(b"", b"", b"", b"/delay=30ms", b"/delay=2s")
        expiry = self.one(b"0", b"0", b"1", b"3")
        body = self.one(*self.bodies)
        said = self.one(*self.conditions) if self.conditions else b""
        if said.startswith(b"/expect"):
            key = key or b"/key=A"
        line = b"set jobs%b%b%b 0 %b %d" % (key, said, when, expiry, len(body))
        self.say("put", line, body)

    def fetch(self) -> None:
        who = self.random.choice(["anna", "bob", "carl"])
        how = self.one(
            b"/open", b"/open", b"/open/lease=200ms", b"/open/dead/lease=200ms", b"/close/open",
            b"/open/dead", b"/dead", b"", b"/peek", b"/open/t=50ms", b"/t=300ms",
        )  # fmt: skip
        name = self.name
        said = self.say(who, b"gets %b%b" % (name, how))
        if b"lease=" in how and said.startswith(b"VALUE"):
            self.tokens.append((name, said.split()[4]))

    def give_back(self) -> None:
        who = self.random.choice(["anna", "bob", "carl"])
        how = self.one(
            b"/abort", b"/abort/delay=30ms", b"/close", b"/close", b"/defer", b"/abort/dead=bad",
        )  # fmt: skip
        self.say(who, b"get %b%b" % (self.name, how))

    def claim(self) -> None:
        """Lease an item as a Zaqar client does: it lives on for a while after the lease."""
        queue = self.stage.broker.queues.get(self.name)
        if queue is not None and queue.log.has_lease_room():
            lease = queue.reader.open(Holder("z"), self.stage.now_ms, False, 200, 5000)
            if lease is not None:
                self.tokens.append((queue.name, b"%d" % lease.token))
        self.stage.work()

    def by_token(self) -> None:
        if not self.tokens:
            return
        name, token = self.tokens.pop(self.random.randrange(len(self.tokens)))
        line = self.one(
            b"delete %b/token=%b", b"get %b/abort/token=%b", b"touch %b/token=%b 1",
            b"get %b/abort/delay=30ms/token=%b", b"get %b/abort/dead=no/token=%b",
        )  # fmt: skip
        self.say("anna", line % (name, token))

    def pass_time(self) -> None:
        self.stage.pass_time(self.random.choice([1, 10, 40, 250, 1100]))

    def leave(self) -> None:
        who = self.random.choice(["anna", "bob", "carl"])
        if who in self.stage.clients:
            self.stage.clients[who].take()
            self.stage.hang_up(who)

    def operate(self) -> None:
        id_, name = self.id, self.name
        line = self.one(
            b"redrive %b %d" % (name, id_), b"retry %b %d" % (name, id_),
            b"delete %b/upto=%d" % (name, id_), b"delete %b/item=%d" % (name, id_),
            b"delete %b/item=%d" % (name, id_), b"delete %b/dead/item=%d" % (name, id_),
            b"redrive %b all" % name, b"move %b other 2" % name,
        )  # fmt: skip
        self.say("op", line)

    def sweep(self) -> None:
        verb = self.one(b"flush", b"flush", b"flush_expired", b"pause", b"resume", b"resume")
        self.say("op", b"%b %b" % (verb, self.name))

    def come_back(self) -> None:
        for client in self.stage.clients.values():
            client.take()
        self.random.choice([self.stage.kill, self.stage.restart])()
        self.stage.work()

    def step(self) -> None:
        does: dict[Callable[[], None], int] = {
            self.put: 30, self.fetch: 25, self.give_back: 16, self.by_token: 10, self.claim: 5,
            self.pass_time: 10, self.leave: 3, self.operate: 10, self.sweep: 2, self.come_back: 1,
        }  # fmt: skip
        [do] = self.random.choices([*does], [*does.values()])
        do()
        for client in self.stage.clients.values():
            client.take()


def run(settings: str, seed: int, steps: int = STEPS) -> None:
    """Run a random history, and check everything after each of its steps."""
    history = History(SETTINGS[settings], seed)
    for number in range(steps):
        history.step()
        assert misplaced(history.stage.broker) == [], f"{settings} {seed}, step {number}"
    end(history.stage)
    assert misplaced(history.stage.broker) == []


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_every_item_has_one_place_and_nothing_names_one_that_is_gone(settings: str) -> None:
    for seed in range(2):
        run(settings, seed)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_with_little_limits_every_item_has_one_place(
    settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every list has several chunks, every sweep several rounds, every compaction comes soon."""
    for where, limit in LIMITS.items():
        monkeypatch.setattr(where, limit)
    for seed in range(2, 6):
        run(settings, seed)


GONE: Final = (
    "out_of_order", "unreadable", "ageless", "restored", "held_keys", "expiries", "sought_keys",
    "ends.ids", "watch.watched", "delays.ids", "dead.ids", "dead.unlogged", "leases.token_ids",
    "leases.moving", "markers.hidden", "ready.disk_refs.ids", "key_gate.whole", "live",
)  # fmt: skip


@pytest.mark.parametrize("where", GONE)
def test_whatever_names_an_item_that_is_gone_is_said(where: str) -> None:
    stage = ServerHarness()
    stage.store(b"x", b"y")
    assert stage.say("bob", b"get jobs").startswith(b"VALUE")
    assert misplaced(stage.broker) == []
    known = attrgetter(where)(stage.queue("jobs").reader)
    item = Item(1, 1, b"", 0, 0, 0)
    if isinstance(known, dict):
        known[1] = Entry(1, 1, item) if "watch" in where else item
    else:
        known.add(1)
    assert misplaced(stage.broker) != []
