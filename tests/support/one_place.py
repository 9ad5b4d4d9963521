"""Every item of a subscription has one place, and no list names an item that is gone.

    misplaced(broker)      one sentence for each thing that is wrong, of all its subscriptions

The live items are the measure: each is ready, delayed, leased or dead, and only one of these. What
a list, set or table says of an item ends with the item, or when the item leaves that place; the
counts are those of what is there.

One rule: it only looks. A test asks after each step, at rest, so that whatever is not taken out is
seen in the step that forgot it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from journal.sets import hash_of
from kestrelpy.core.broker import Broker
from kestrelpy.core.index.key_locks import KeyLocks
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.subscription import Subscription


def misplaced(broker: Broker) -> list[str]:
    """Return what is wrong in the subscriptions of all queues and children."""
    found = []
    for queue in broker.queues.values():
        reader = queue.reader
        name = queue.name.decode("ascii")
        found += [f"{name}: {each}" for each in _wrong(reader)]
        if reader.needs_read != any(each is reader for each in broker.to_read):
            found.append(f"{name}: it needs a read and is not among those to read, or the reverse")
        if not isinstance(queue, ChildQueue):
            found += [f"{name}: {each}" for each in _looked_up(queue)]
            found += [f"{name}: {each}" for each in _unseen(queue)]
    return [*found, *_absent(broker)]


def _wrong(reader: Subscription) -> Iterator[str]:
    yield from _by_place(reader)
    yield from _counts(reader)
    yield from _known(reader)
    yield from _dead(reader)
    yield from _leases(reader)
    yield from _keys(reader)
    yield from _delays(reader)


def _absent(broker: Broker) -> Iterator[str]:
    """Check that a queue has absent children while clients wait for them, and no longer."""
    known = {parent: sorted(names) for parent, names in broker._absent_children.items()}
    waited = dict[bytes, list[bytes]]()
    for name in sorted(broker._absent):
        parent, plus, _ = name.partition(b"+")
        if plus:
            waited.setdefault(parent, []).append(name)
    yield from _same("the absent children", known, waited)


def _among(what: str, ids: Iterable[int], allowed: Iterable[int]) -> Iterator[str]:
    """Check that all of these are among those."""
    extra = {*ids} - {*allowed}
    if extra:
        yield f"{what} names {sorted(extra)}"


def _same(what: str, is_: object, should: object) -> Iterator[str]:
    if is_ != should:
        yield f"{what} is {is_}, and should be {should}"


def items_by_place(reader: Subscription) -> dict[str, list[int]]:
    """Return the items by their place; those beyond the frontier are in none."""
    leases = reader.leases.all()
    away = [lease.item.id for lease in leases if lease.dead]
    return {
        "in memory": [item.id for item in reader.ready],
        "on disk": [id_ for _, id_, _ in reader.ready.disk_refs],
        "blocked": [*reader.key_gate.keys.blocked],
        "delayed": [*reader.delays.ids],
        "leased": [lease.item.id for lease in leases if not lease.dead],
        "dead": [id_ for id_ in reader.dead.deaths if id_ not in away],
        "dead and leased": away,
    }


def _by_place(reader: Subscription) -> Iterator[str]:
    ready, at = reader.ready, items_by_place(reader)
    counted = Counter(id_ for ids in at.values() for id_ in ids)
    yield from _same("an item with two places", [i for i, n in counted.items() if n > 1], [])
    yield from _among("a place", counted, reader.live)
    beyond = [i for i in reader.live if i not in counted]
    yield from _same("items beyond the frontier", ready.beyond, len(beyond))
    yield from _same("what is beyond the frontier", [i for i in beyond if i < ready.frontier], [])
    out = {*at["delayed"], *at["blocked"], *at["on disk"]}
    yield from _among("no set of out-of-order items", out, reader.out_of_order)
    yield from _among("out_of_order", reader.out_of_order, out | ready._back.keys())


def _counts(reader: Subscription) -> Iterator[str]:
    ready, leases = reader.ready, reader.leases.all()
    here = [*ready]
    yield from _same("resident", ready.resident, len(here))
    yield from _same("resident_bytes", ready.resident_bytes, sum(each.size for each in here))
    refs = ready.disk_refs
    yield from _same("ids on disk", sorted(i for _, i, _ in refs), [*refs.ids])
    yield from _same("bytes on disk", refs.bytes, sum(size for _, _, size in refs))
    yield from _among("a fetch", refs._fetching, refs.ids)
    yield from _same("_back", sorted(ready._back), sorted(i.id for _, i in ready._returned))
    lines = [*ready._swept, *ready._line]
    yield from _among("_removed", ready._removed, (each.id for each in lines))
    gone = sum(each.size for each in lines if each.id in ready._removed)
    yield from _same("_removed_bytes", ready._removed_bytes, gone)
    held = sum(lease.item.size for lease in leases if not lease.dead)
    sizes = ready.bytes + reader.delays.bytes + held + reader.dead.bytes
    yield from _same("live_bytes", reader.live_bytes, sizes)
    bodies = sum(len(lease.item.body) for lease in leases)
    yield from _same("leased_bytes", reader.leased_bytes, bodies)
    if not reader.live:
        yield from _same("placings", [*reader.placings], [])


def _known(reader: Subscription) -> Iterator[str]:
    """Check that the facts about an item end with it, or once they are of no use any more."""
    live, dead, at = {*reader.live}, reader.dead.deaths, items_by_place(reader)
    waits, whole = live - dead.keys(), reader.key_gate.whole
    here = {*at["in memory"], *whole}
    ending = [i.id for i in [*reader.ready, *whole.values()] if i.expires_ms]
    yield from _among("watch", reader.watch.watched, here | {*at["leased"]})
    yield from _among("no watch", ending, reader.watch.watched)
    stale = [i for i, entry in reader.watch.watched.items() if entry.thing is None]
    yield from _same("watch over what was cancelled", stale, [])
    yield from _same("entries of watch", len(reader.watch._expiries), len(reader.watch.watched))
    yield from _among("ends", reader.ends.ids, waits)
    entries = {id_ for _, id_, _ in reader.ends._expiries}
    yield from _among("ends without an entry", reader.ends.ids, entries)
    yield from _among("ageless and expiries", {*reader.expiries} & {*reader.ageless}, ())
    yield from _among("sought_keys", reader.sought_keys, {*at["blocked"]} - whole.keys())
    yield from _among("restored", reader.restored, at["delayed"])
    for name in ("ageless", "unreadable", "expiries"):
        yield from _among(name, getattr(reader, name), live)
    yield from _among("attempts", (i for i, _ in reader.attempts.items()), waits)
    yield from _among("held_keys", reader.held_keys, waits)
    yield from _among("unsure", reader.ready.disk_refs.unsure, live)
    markers = reader.markers
    if not markers.retains:
        yield from _among("hidden", markers.hidden, live)
        if not markers.hidden.count:
            yield from _same("markers", [*markers], [])
    yield from _among("a kept marker", markers._retained, {*markers.hidden} & live)
    for name in ("notes", "outgoing"):
        yield from _same(name, getattr(reader, name), [])
    yield from _same("_serving", reader._serving, False)


def _dead(reader: Subscription) -> Iterator[str]:
    dead, leases = reader.dead, reader.leases.all()
    away = [lease.item.id for lease in leases if lease.dead]
    yield from _same("ids of the dead", [*dead.ids], sorted(dead.deaths))
    yield from _among("the dead", dead.deaths, reader.live)
    for name in ("_items", "unlogged", "_away", "_hidden"):
        yield from _among(f"{name} of the dead", getattr(dead, name), dead.deaths)
    yield from _among("bodies of the dead", dead._items, dead.deaths.keys() - {*away})
    yield from _among("_away", dead._away, away)
    wanted = [dead.wanted] if dead.wanted else []
    yield from _among("wanted", wanted, dead.deaths.keys() - dead._items.keys() - {*away})
    yield from _same("count", dead.count, len(dead.deaths) - len(away) - len(dead._hidden))
    yield from _same("bytes", dead.bytes, sum(each.body_bytes for each in dead.deaths.values()))
    yield from _same("_held_bytes", dead._held_bytes, sum(i.size for i in dead._items.values()))
    if not dead.deaths:
        yield from _same("the line of the dead", dead._line, [])


def _leases(reader: Subscription) -> Iterator[str]:
    leases = reader.leases
    every = leases.all()
    named = [lease for lease in every if lease.by_token]
    waits = [lease.item.id for lease in named if not lease.dead]
    moving = [lease.item.id for lease in every if lease.is_moving and not lease.dead]
    yield from _same("entries", sorted(leases.entries), sorted(each.item.id for each in named))
    yield from _same("token_ids", [*leases.token_ids], sorted(waits))
    bodies = sum(leases.entries[id_].body_bytes for id_ in waits if id_ in leases.entries)
    yield from _same("token_bytes", leases.token_bytes, bodies)
    yield from _same("moving", [*leases.moving], sorted(moving))
    yield from _among(
        "_by_token", (each.item.id for each in leases._by_token.values()),
        (each.item.id for each in every if not each.is_moving),
    )  # fmt: skip
    timed = [lease for lease in leases._others.values() if lease.timer is not None]
    yield from _same("timers of leases", len(leases._timers), len(timed))
    yield from _same("places", [*leases.places], [])
    for lease in every:
        if not lease.is_moving and lease not in lease.holder.leases:
            yield f"the holder of {lease.item.id} does not have it"
        if lease.timer is not None and lease.timer.thing is not lease:
            yield f"the timer of {lease.item.id} is over"
    mine = [each.item.id for each in reader.token_holder.leases]
    yield from _same("those of the token holder", sorted(mine), sorted(
        each.item.id for each in named if not each.is_moving
    ))  # fmt: skip


def _keys(reader: Subscription) -> Iterator[str]:
    gate = reader.key_gate
    keys, whole = gate.keys, gate.whole
    waits = {*reader.live} - reader.dead.deaths.keys()
    yield from _among("whole", whole, keys.blocked)
    yield from _same("whole_bytes", gate.whole_bytes, sum(i.size for i in whole.values()))
    leased = [lease.item for lease in reader.leases if lease.item.key and not lease.dead]
    count = sum(len(keys.values(item.key)) if keys.matches_any else 1 for item in leased)
    yield from _same("in_flight", gate.in_flight, count)
    ready = reader.ready
    yield from _same("blocked", (ready.blocked, ready.blocked_bytes, ready.blocked_cost), (
        keys.blocked.count, keys.blocked_bytes, gate.cost
    ))  # fmt: skip
    yield from _locks(keys, waits)


def _locks(keys: KeyLocks, waits: set[int]) -> Iterator[str]:
    rows = keys._rows
    holders = {value: row if isinstance(row, int) else row.holder for value, row in rows.items()}
    if not keys._before:
        yield from _among("a value's first", holders.values(), waits)
        said = {
            value: id_
            for id_, values in keys._held.items()
            for value in ((values,) if isinstance(values, bytes) else values)
        }
        yield from _same("_held", said, holders)
    standing = Counter[int]()
    sizes: dict[int, int] = {}
    numbers = []
    for value, row in rows.items():
        if isinstance(row, int):
            continue
        numbers.append(row.number)
        yield from _same("the name of a row", keys._named[row.number], value)
        yield from _same("a row's length", len(row), len([*row]))
        for id_, _, size in row:
            standing[id_] += 1
            sizes[id_] = size
    yield from _same("those in rows", sorted(standing), [*keys.blocked])
    yield from _same("blocked_bytes", keys.blocked_bytes, sum(sizes.values()))
    more = {id_: n for id_, n in standing.items() if n > 1}
    yield from _same("_more", keys._more, more)
    in_line = Counter(id_ for _, id_, _ in keys._line)
    yield from _same("the line of rows", in_line, standing)
    elsewhere = {id_ for place, id_, _ in keys._line if place != id_}
    yield from _same("_placed", {id_ for id_, _, _ in keys._placed}, elsewhere)
    free = [n for n in range(len(keys._named)) if n not in numbers]
    yield from _same("_free", sorted(keys._free), free)
    empty = [before for before in keys._before if not before.value_count]
    yield from _same("rows from before a flush that has none left", empty, [])


def _delays(reader: Subscription) -> Iterator[str]:
    delays = reader.delays
    own = [(id_, size) for times in (delays._dates, delays._durations) for _, id_, size in times]
    shared = delays.shared
    if shared is not None:
        own += [(i, s) for each in (shared._dates, shared._durations) for _, i, s in each]
    here = [(id_, size) for id_, size in own if id_ in delays.ids]
    yield from _same("delayed, by their entries", sorted(id_ for id_, _ in here), [*delays.ids])
    yield from _same("bytes delayed", delays.bytes, sum(size for _, size in here))
    yield from _among("items of delays", delays.items, delays.ids)
    yield from _among("unlogged delays", delays.unlogged, delays.ids)


def _looked_up(queue: Queue) -> Iterator[str]:
    """Check that the remembered bucket of the last look-up is still that of its id or key."""
    ids, versions = queue.dedupe.ids, queue.dedupe.versions
    if ids._bucket is not None and ids.table.seek(ids._hash)[0] is not ids._bucket:
        yield "the last id would be looked up at another place"
    if versions._bucket is not None:
        hash_ = hash_of(versions._base, versions._asked)
        yield from _same("the hash of the last key", versions._hash, hash_)
        bucket, at = versions.table.seek(hash_)
        if bucket is not versions._bucket or at != versions._at:
            yield "the last key would be looked up at another place"


def _unseen(queue: Queue) -> Iterator[str]:
    """Check that some child may not have seen each of the noted numbers."""
    unseen = queue.unseen
    if unseen is not None:
        yield from _among("numbers passed", unseen._passed, unseen._numbers)
        yield from _same("notes", len(unseen._events), len(unseen._numbers))
