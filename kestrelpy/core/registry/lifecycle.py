"""Children are named, found, and removed.

    first mention ──▶ READER, synced before its answer ──▶ sees every later item
    from=<marker> ──▶ the same record says with which of the earlier ones it begins
    delete        ──▶ READER, takes nothing more: what it alone needed may go

One rule: which items a child has follows from the log alone, whatever is kept or due when it is
read again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from journal.format.out_of_order import DelayedEntry, PlacedEntry
from journal.format.subscription_state import STOPS, TAKES, Beginning, named
from journal.sets.id_set import IdSet
from kestrelpy.core.fanout.child import Child
from kestrelpy.core.fanout.unseen import Missed
from kestrelpy.core.log.shared_log import SharedLog, on_disk
from kestrelpy.core.queue.browse import Kept
from kestrelpy.core.queue.child_queue import Branch
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.outbox import AT_ONCE_MS, send_on
from kestrelpy.core.subscription.restore import Apart
from kestrelpy.core.subscription.token_leases import resume
from kestrelpy.core.timers import Alarm, Timers
from kestrelpy.errors import ServerError

if TYPE_CHECKING:
    from kestrelpy.core.broker import Broker

# Numbers of readers are 16 bits in a record. One of a child that was removed may be given again by
# a later life of the server.
READERS_MAX: Final = (1 << 16) - 1
# Of a longer line nobody adds up the bodies: it would take too long.
_WEIGHED_MAX: Final = 50_000
# A wanted child that found a full disk is tried again after so long, and for so many queues then.
LATER_MS: Final = 1000
LATER_MAX: Final = 100


def mention(
    broker: Broker, name: bytes, now_ms: int, begin: int | None = None, may_wait: bool = False
) -> Branch | None:
    """The child of this full name, made if need be; its `named_lsn` is the record to wait for.

    It sees markers from `begin` on, as far as kept; None: what is put from now on. A parent that is
    not there is made too: nothing that is put into it is to be missed. Returns None where naming a
    child does not make it. Raises ServerError when the journal has failed or has no room for it, or
    when there are too many queues (those that the configuration names are there in any case).
    `may_wait`: a shortage is no reason to refuse it.
    """
    parent, _, part = name.partition(b"+")
    if not part or b"+" in part:
        return None
    queue = broker.queues.get(parent)
    policy = queue.policy if queue is not None else broker.policy_of(parent, b"")
    if not (policy.fanout_create or part in policy.children):
        return None
    if queue is not None and part in queue.children:
        return queue.children[part].branch
    if part not in policy.children:
        broker.refuse_more(1 if queue is not None else 2)
    if queue is None:
        queue = broker.create(parent, now_ms)
        if part in queue.children:
            return queue.children[part].branch
    if queue.log.failure is not None:
        queue.raise_failed()
    if queue.log.is_full if may_wait else queue.log.no_room:
        raise ServerError(queue.log.no_room)
    if queue.readers_named >= READERS_MAX:
        raise ServerError(f"too many children were made of {parent.decode('ascii')}")
    begins = _beginning(queue, begin) if begin is not None else None
    number, floor = queue.readers_named + 1, queue.last_number
    queue.catch_up()
    child = name_child(queue, number, part, floor if begins is None else max(begin or 0, 1) - 1)
    if begins is not None:
        _begin_with(child, queue, begins)
    wall_ms = now_ms + queue.wall.offset_ms
    draft = named(number, part, child.floor, TAKES, wall_ms, begins)
    if begins is None:  # nothing is needed that was not
        child.named_lsn = queue.log.write(draft)
    else:
        child.named_lsn = queue.log.write_recounted(draft, queue.kept_now)
    queue.log.wait_durable(child.named_lsn)
    assert child.branch is not None
    enroll(broker, child.branch, now_ms)
    broker.counters.queue_creates += 1
    return child.branch


def name_child(queue: Queue, number: int, part: bytes, floor: int) -> Child:
    """There is this child from now on."""
    if queue.missed is None:
        queue.missed = Missed()
        queue.reader.delays.shared = queue.missed.due
    child = Child(queue, number, part, floor)
    child.branch = Branch(queue, child)
    if not queue.children:
        queue.reader.log = SharedLog(queue.log, 0, queue)
        queue.missed.forget(queue.last_number)
    queue.children[part] = child
    queue.readers_named = max(queue.readers_named, number)
    return child


def enroll(broker: Broker, branch: Branch, now_ms: int) -> None:
    """Into the books, with whoever waits for it."""
    branch.name = branch.child.name = branch.parent.name + b"+" + branch.child.part
    if branch.name in broker.queues:
        return  # this one, or that of a remnant: then it comes when that has gone
    broker.queues[branch.name] = branch
    branch.child.asked_ms = now_ms
    resume(branch.child, now_ms)
    branch.set_policy(broker.policy_of(branch.name, branch.declared), now_ms)
    waiting = broker.take_absent(branch.name)
    if waiting is not None:
        branch.child.waiters = waiting
    send_on(branch.child, branch.child.dead.deaths)
    branch.watch()
    if branch.child.ready.beyond or branch.child.delays.count:
        branch.parent.idle.know_nothing()


def enroll_all(broker: Broker, queue: Queue, now_ms: int) -> None:
    """The children of a queue that is in the books now, and those that are due to it: named in its
    settings, or waited for since before it was there."""
    for child in queue.children.values():
        assert child.branch is not None
        enroll(broker, child.branch, now_ms)
    make_wanted(broker, queue, now_ms)


def make_wanted(broker: Broker, queue: Queue, now_ms: int) -> None:
    """The children that its settings name, or that somebody waits for, and that are not there."""
    for name in wanted(broker, queue):
        mention_wanted(broker, queue, name, now_ms)


def wanted(broker: Broker, queue: Queue) -> list[bytes]:
    """The full names of these children."""
    named = [queue.name + b"+" + part for part in queue.policy.children]
    names = named + broker.absent_children(queue.name)
    return [name for name in names if name not in broker.queues]


def mention_wanted(broker: Broker, queue: Queue, name: bytes, now_ms: int) -> None:
    """Make one of them, if that may be."""
    if name in broker.queues or broker.queues.get(queue.name) is not queue:
        return
    is_named = name[len(queue.name) + 1 :] in queue.policy.children
    may_be = is_named or (not broker.is_full and broker.is_awaited(name))
    if not may_be or queue.log.failure is not None:
        return
    if queue.log.is_full:
        broker.later.add(queue, now_ms)
    else:
        mention(broker, name, now_ms, may_wait=True)


class Later:
    """Queues with wanted children that found a full disk: tried again until there is room."""

    def __init__(self, timers: Timers[Any]) -> None:
        self._queues: dict[Queue, None] = {}
        self._alarm: Alarm[Any] = Alarm(timers, self)

    def add(self, queue: Queue, now_ms: int) -> None:
        """Try again for this one."""
        self._queues[queue] = None
        self._alarm.need(now_ms + LATER_MS)

    def make(self, broker: Broker, now_ms: int) -> None:
        """Try it for some of them; who finds none again comes last."""
        self._alarm.silence()
        for queue in list(islice(self._queues, LATER_MAX)):
            del self._queues[queue]
            if broker.queues.get(queue.name) is queue:
                make_wanted(broker, queue, now_ms)
        if self._queues:
            self._alarm.need(now_ms + LATER_MS)


def remove(broker: Broker, branch: Branch, now_ms: int) -> int:
    """This child is gone with all it held; returns the record to wait for."""
    queue, child = branch.parent, branch.child
    drop(broker, branch)
    del queue.children[child.part]
    if not queue.children:
        queue.reader.log = queue.log
    wall_ms = now_ms + queue.wall.offset_ms
    lsn = queue.log.write_recounted(
        named(child.number, child.part, child.floor, STOPS, wall_ms), queue.kept_now
    )
    if queue.is_remnant:
        queue.alarm.need(AT_ONCE_MS)  # with its last child it goes
        free_name(broker, branch, now_ms)
    return lsn


def free_name(broker: Broker, branch: Branch, now_ms: int) -> None:
    """This child of a remnant is gone: that of the next queue of its name may be there, be it a
    remnant too."""
    name, part = branch.parent.name, branch.child.part
    following = [queue for queue in broker.remnants if queue.name == name]
    if name in broker.queues:
        following.append(broker.queues[name])
    for queue in following:
        child = queue.children.get(part)
        if child is not None and child.branch is not None:
            enroll(broker, child.branch, now_ms)
            return
    if name in broker.queues:
        make_wanted(broker, broker.queues[name], now_ms)


def drop(broker: Broker, branch: Branch) -> None:
    """Out of the books: its leases end, its waiters are answered."""
    child = branch.child
    branch.deleted = True
    if broker.queues.get(branch.name) is branch:
        del broker.queues[branch.name]
    if child in branch.parent.eager:
        branch.parent.eager.remove(child)
    child.stop()
    broker.empty(child)


# -- what a child begins with ---------------------------------------------------------------------


def offered(queue: Queue) -> IdSet:
    """The items that a child may begin with: what some reader still needs, or what is retained.

    Of what is just being rewritten it is only the former: the rest is left out there.
    """
    needed, log = queue.kept_now(), on_disk(queue.log)
    if queue.retained is None or log is None:
        return needed
    ids = queue.kept.copy()
    for segment in log.journal.segment_list.busy:
        first, last = segment.item_first, segment.item_last
        stays = needed.between(first, last).both(ids.between(first, last))
        ids.discard_range(first, last, stays)
    return ids


def _beginning(queue: Queue, first: int) -> Beginning:
    """What is there with a marker from `first` on, or without one yet."""
    placed, delayed = dict[int, PlacedEntry](), dict[int, DelayedEntry]()
    ids = offered(queue)
    hidden = IdSet.union([reader.marks.hidden for reader in queue.readers]).copy()
    for reader in queue.readers:
        for marker, id_ in reader.marks:
            if marker >= first and id_ in ids and id_ in reader.marks.hidden:
                placed[id_] = PlacedEntry(id_, marker, marker, 0)
        for entry in reader.delays.entries(queue.wall.offset_ms):
            if reader.marks.is_new(entry.item) and entry.item in ids:
                delayed[entry.item] = entry._replace(key=b"")
    live = ids.without(hidden).between(max(first, 1), max(ids.last, first, 1))
    for id_ in sorted({*placed, *delayed}):
        live.add(id_)
    return Beginning(live, _known_bytes(queue, live), [*placed.values()], [*delayed.values()])


def _known_bytes(queue: Queue, live: IdSet) -> int:
    """Of the bodies of these, as far as they are in memory: a child that only seems to be full
    would drop what comes, so this is never too much."""
    ready = queue.reader.ready
    if ready.resident > _WEIGHED_MAX:
        return 0
    return sum(item.size for item in ready if item.id in live)


def _begin_with(child: Child, queue: Queue, begins: Beginning) -> None:
    """Its line, from now on; in memory with the very items."""
    child.live, child.live_bytes = begins.live.copy(), begins.live_bytes
    child.total_items = len(begins.live)
    apart = Apart(child)
    apart.restore(begins.delayed, begins.placed)
    assert queue.missed is not None
    new = {entry.item for entry in begins.delayed}
    queue.reader.delays.share(new.__contains__, queue.missed.due)
    child.line.begin(*apart.settle(queue.missed.due.__contains__))
    if child.log.backlog is not None:
        return
    places = {each.item: each.place for each in begins.placed}
    views = [Kept(queue, reader) for reader in queue.readers]
    found = [(id_, view.item(id_)) for id_ in begins.live for view in views]
    items = {id_: item for id_, item in found if item is not None}
    child.ready.clear(child.residency.trash)
    child.live_bytes = sum(item.size for item in items.values())
    for id_, item in items.items():
        if id_ in child.delays:
            child.delays.items[id_] = item
        else:
            child.line.take_back(item, places.get(id_, id_))
