"""A queue as the spec has it, without a thought of speed: a dict of items and plain sorting.

Written from the spec, not from the code. An item is READY, DELAYED, LEASED or DEAD (or dead
and leased); its place is its number, or the one it took when it was released. Where the spec is
silent it says so here: of leases found over in one tick the earlier deadline ends first, then the
earlier place; of items due together the one that was put first. A delayed item ends at its expiry,
if that comes first. A restart knows no expiry (`known`) until a body is read (`unread`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.policy import Policy


@dataclass
class Thing:
    """An item. `expires_ms` is wall clock, 0: never; `died` its place among the dead, 0: alive."""

    id: int
    body: bytes
    expires_ms: int
    attempts: int = 0
    died: int = 0
    reason: str = ""
    holder: str = ""
    deadline_ms: int | None = None
    since_ms: int = -1  # wall clock; of a lease by token, which a restart goes on with
    length_ms: int = 0
    key: str = ""  # as on the wire
    held: bool = False  # it was given back for later, and is first for its key until it ends
    place: int = 0
    marker: int = 0  # its first place; 0: it was never available
    due_ms: int = -1  # wall clock, as the log knows it; of a delayed item
    runs_ms: int = -1  # running clock, the end of a duration: its delay or its lease by token
    known: bool = True  # its expiry is in memory
    ageless: bool = False  # redriven, and so without an expiry

    @property
    def is_delayed(self) -> bool:
        return self.due_ms >= 0

    @property
    def by_token(self) -> bool:
        return self.since_ms >= 0


@dataclass
class Wait:
    """A waiting client, by number."""

    number: int
    want: Want
    who: str
    dead: bool
    due_ms: int
    by_token_ms: int = 0


@dataclass
class QueueModel:
    """One queue and its clients. `now_ms` never steps; with `offset_ms` it is the wall clock, and
    with `running_ms` the running clock."""

    policy: Policy
    now_ms: int = 0
    offset_ms: int = 0
    running_ms: int = 0
    exists: bool = False
    next_id: int = 1
    total: int = 0
    paused: bool = False
    deaths: int = 0
    things: dict[int, Thing] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    answers: list[tuple[int, bytes | None]] = field(default_factory=list)
    overdue: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    unread: set[int] = field(default_factory=set)  # only the log has their bodies

    # -- what is there ----------------------------------------------------------------------

    @property
    def unix_ms(self) -> int:
        return self.now_ms + self.offset_ms

    def is_expired(self, thing: Thing) -> bool:
        return not thing.ageless and 0 < thing.expires_ms <= self.unix_ms

    @property
    def unlent(self) -> list[Thing]:
        """READY by place, expired or not."""
        found = [t for t in self.things.values() if not (t.holder or t.died or t.is_delayed)]
        return sorted(found, key=lambda t: t.place)

    @property
    def delayed(self) -> list[Thing]:
        return [t for t in self.things.values() if t.is_delayed]

    @property
    def mortal(self) -> list[Thing]:
        """The delayed ones with an expiry that is known."""
        return [t for t in self.delayed if t.known and t.expires_ms and not t.ageless]

    def due_of(self, thing: Thing) -> int:
        """Return when a delayed item is due, on the clock that never steps."""
        is_date = thing.runs_ms < 0
        return thing.due_ms - self.offset_ms if is_date else thing.runs_ms - self.running_ms

    @property
    def ready(self) -> list[Thing]:
        return [t for t in self.unlent if not self.is_expired(t)]

    @property
    def leased(self) -> list[Thing]:
        return [t for _, t in sorted(self.things.items()) if t.holder]

    @property
    def dead(self) -> list[Thing]:
        """Return the dead letters that are not leased, in the order in which they died."""
        found = [t for t in self.things.values() if t.died and not t.holder]
        return sorted(found, key=lambda t: t.died)

    def values(self, thing: Thing) -> set[str]:
        """Return the values that two items of one key share; none for an item without a key."""
        parts = thing.key.split(",")
        if not thing.key or self.policy.keys.matches_any:
            return set(parts) - {""}
        return {",".join(sorted(parts) if self.policy.keys.unordered else parts)}

    @property
    def possible(self) -> list[Thing]:
        """The first that may be leased, if there is one: a skipped item holds all its values."""
        first = [t for t in self.things.values() if (t.holder or t.held) and not t.died]
        taken: set[str] = set().union(*(self.values(t) for t in first))
        for thing in self.ready:
            if thing.held or not taken & self.values(thing):
                return [thing]
            taken |= self.values(thing)
        return []

    def next_due(self) -> int | None:
        """When something happens by itself."""
        due = [w.due_ms for w in self.waits]
        due += [t.deadline_ms for t in self.leased if t.deadline_ms is not None]
        due += [
            t.expires_ms - self.offset_ms
            for t in self.unlent
            if t.expires_ms and not t.ageless and not (t.id in self.unread and self.is_expired(t))
        ]
        due += [self.due_of(t) for t in self.delayed]
        due += [t.expires_ms - self.offset_ms for t in self.mortal]
        return min(due, default=None)

    # -- storing ----------------------------------------------------------------------------

    def expires(self, expires_ms: int) -> int:
        if self.policy.max_age_ms is None:
            return expires_ms
        return min(expires_ms or 1 << 60, self.unix_ms + self.policy.max_age_ms)

    def refuses(self, expires_ms: int, delay: Delay | None) -> bool:
        """Would it expire before it is due?"""
        expires_ms = self.expires(expires_ms)
        return delay is not None and 0 < expires_ms <= max(self.due(delay), self.unix_ms)

    def due(self, delay: Delay) -> int:
        return delay.ms if delay.is_date else self.unix_ms + delay.ms

    def put(
        self, body: bytes, expires_ms: int, delay: Delay | None = None, key: str = ""
    ) -> bool:
        self.exists = True
        policy = self.policy
        items_max = policy.max_items if policy.max_items is not None else 1 << 60
        bytes_max = policy.max_bytes if policy.max_bytes is not None else 1 << 60
        if policy.bounded and self.delayed:
            self.sweep()
        stays = self.delayed  # what is dropped to make room is ready
        if (
            len(stays) + 1 > items_max
            or sum(len(t.body) for t in stays) + len(body) > bytes_max
        ):
            return False
        while (
            len(self.ready + self.delayed) + 1 > items_max
            or sum(len(t.body) for t in self.ready + self.delayed) + len(body) > bytes_max
        ):
            if not policy.discard_old_when_full or not self.ready:
                return False
            del self.things[self.ready[0].id]
            self.counts["discarded"] += 1
        thing = self.things[self.next_id] = Thing(
            self.next_id, body, self.expires(expires_ms), key=key
        )
        self.total += 1
        if delay is not None and self.due(delay) > self.unix_ms:
            self.put_off(thing, delay)
            self.next_id += 1
        else:
            self.release(thing)
        self.serve()
        return True

    def put_off(self, thing: Thing, delay: Delay) -> None:
        thing.due_ms, thing.runs_ms = self.due(delay), -1
        if not delay.is_date:
            thing.runs_ms = self.now_ms + delay.ms + self.running_ms

    def release(self, thing: Thing) -> None:
        """Make an item available: the next number is its place, and the first one its marker."""
        thing.due_ms = thing.runs_ms = -1
        thing.place = self.next_id
        thing.marker = thing.marker or thing.place
        self.next_id += 1

    def add(self, body: bytes, expires_ms: int, delay: Delay | None = None) -> bool:
        self.exists = True
        self.sweep()
        if self.ready or self.leased or self.delayed:
            return False
        return self.put(body, expires_ms, delay)

    # -- fetching ---------------------------------------------------------------------------

    def open(self, who: str, dead: bool, by_token_ms: int = 0) -> Thing | None:
        if any(w.dead == dead for w in self.waits):
            return None
        return self.lend(who, dead, by_token_ms)

    def lend(self, who: str, dead: bool, by_token_ms: int = 0) -> Thing | None:
        line = self.dead if dead else self.possible
        limit = self.policy.max_leased
        if self.paused or not line or (limit is not None and len(self.leased) >= limit):
            return None
        thing = line[0]
        thing.holder, thing.known = "token" if by_token_ms else who, True
        thing.since_ms, thing.length_ms = self.unix_ms if by_token_ms else -1, by_token_ms
        lease_ms = by_token_ms or self.policy.lease_ms
        thing.deadline_ms = None if lease_ms is None else self.now_ms + lease_ms
        if by_token_ms:
            thing.runs_ms = self.now_ms + by_token_ms + self.running_ms
        self.counts["opened"] += 1
        if thing.attempts and not thing.died:
            self.counts["redelivered"] += 1
        return thing

    def take(self, who: str, dead: bool) -> Thing | None:
        thing = self.open(who, dead)
        if thing is not None:
            self.confirm(thing)
        return thing

    def peek(self, dead: bool) -> Thing | None:
        line = self.dead if dead else self.possible
        return line[0] if line else None

    def confirm(self, thing: Thing) -> None:
        del self.things[thing.id]
        self.serve()

    def give_back(self, thing: Thing, reason: str, delay: Delay | None = None) -> None:
        self.take_back(thing, reason, delay)
        self.serve()

    def renew(self, thing: Thing, lease_ms: int) -> None:
        thing.deadline_ms = self.now_ms + lease_ms
        if thing.by_token:
            thing.since_ms, thing.length_ms = self.unix_ms, lease_ms
            thing.runs_ms = self.now_ms + lease_ms + self.running_ms

    def take_back(self, thing: Thing, reason: str, delay: Delay | None = None) -> None:
        thing.holder, thing.deadline_ms, thing.since_ms = "", None, -1
        self.counts["cancelled"] += 1
        if thing.died:
            return
        if reason != "defer":
            thing.attempts += 1
            most = self.policy.max_attempts
            if reason == "why" or (most is not None and thing.attempts >= most):
                self.deaths += 1
                thing.died, thing.reason = self.deaths, reason
                return
            delay = delay or self.retry_delay(thing.attempts)
        ends = thing.expires_ms if thing.known and not thing.ageless else 0
        if delay is not None and 0 < ends < self.due(delay):
            delay = Delay(thing.expires_ms, True)
        thing.known = True
        if delay is not None and self.due(delay) > self.unix_ms:
            self.put_off(thing, delay)
            thing.held = True

    def retry_delay(self, attempts: int) -> Delay:
        policy = self.policy
        wait_ms = policy.retry_delay_ms * policy.retry_backoff ** (attempts - 1)
        return Delay(int(min(wait_ms, policy.retry_delay_max_ms)))

    def hang_up(self, who: str, opened: list[int]) -> None:
        """End the waits and leases of a client; `opened` are its items, first opened first."""
        self.waits = [w for w in self.waits if w.who != who]
        for item in opened:
            self.take_back(self.things[item], "hangup")
        self.serve()

    # -- waiting ----------------------------------------------------------------------------

    def serve(self) -> None:
        """Serve strictly in the order of arrival: if the first cannot be served, no other is."""
        for dead in (False, True):
            while any(w.dead == dead for w in self.waits):
                wait = next(w for w in self.waits if w.dead == dead)
                if wait.want is Want.PEEK:
                    thing = self.peek(dead)
                else:
                    thing = self.lend(wait.who, dead, wait.by_token_ms)
                if thing is None:
                    break
                self.waits.remove(wait)
                self.answers.append((wait.number, thing.body))
                if wait.want is Want.TAKE:
                    del self.things[thing.id]

    # -- what an operator does --------------------------------------------------------------

    def pause(self, paused: bool) -> None:
        self.paused = paused
        self.serve()

    def cancel(self, id_: int) -> bool:
        """Only what waits."""
        found = any(thing.id == id_ for thing in self.ready + self.delayed)
        if found:
            del self.things[id_]
            self.serve()
        return found

    def retry(self, id_: int) -> bool:
        """Only what is delayed."""
        found = [thing for thing in self.delayed if thing.id == id_]
        for thing in found:
            self.release(thing)
        self.serve()
        return bool(found)

    def redrive(self, id_: int) -> bool:
        """Redrive a dead letter that is not leased: a new arrival, with its marker."""
        found = [thing for thing in self.dead if thing.id == id_]
        for thing in found:
            thing.died, thing.reason, thing.attempts = 0, "", 0
            thing.ageless = True
            self.release(thing)
        self.serve()
        return bool(found)

    def purge(self, id_: int) -> bool:
        """Purge a dead letter that is not leased."""
        found = any(thing.id == id_ for thing in self.dead)
        if found:
            del self.things[id_]
        return found

    # -- the whole queue --------------------------------------------------------------------

    def flush(self) -> None:
        for thing in self.unlent + self.delayed:
            del self.things[thing.id]
        self.counts["flushes"] += 1

    def delete(self) -> None:
        if self.exists:
            self.answers += [(w.number, None) for w in self.waits if not w.dead]
            self.answers += [(w.number, None) for w in self.waits if w.dead]
            self.waits = []
            running_ms = self.running_ms  # of the server, which goes on
            self.restart({}, 1, False, 0)
            self.running_ms = running_ms
            self.exists = False
            self.counts.clear()

    def restart(
        self, things: dict[int, Thing], next_id: int, paused: bool, total: int
    ) -> None:
        """Put each item with a lease by connection back at its place; a restart counts no attempt.

        A lease by token lasts until its deadline by the running clock, at most its full length
        longer; a delayed item follows its own clock. The running clock goes on from the last beat,
        or from the wall clock, if that is later.
        """
        self.things = {}
        self.running_ms = max(self.running_ms, self.offset_ms)
        for item, thing in things.items():
            if thing.by_token:
                left_ms = thing.runs_ms - (self.now_ms + self.running_ms)
                left_ms = max(0, min(left_ms, thing.length_ms))
                self.things[item] = replace(
                    thing, deadline_ms=self.now_ms + left_ms, known=False
                )
            else:
                self.things[item] = replace(thing, holder="", deadline_ms=None, known=False)
        self.next_id, self.paused, self.total = next_id, paused, total
        self.deaths = max((t.died for t in self.things.values()), default=0)

    # -- time -------------------------------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while (due := self.next_due()) is not None and due <= until_ms:
            self.now_ms = max(self.now_ms, due)
            self.tick()
        self.now_ms = until_ms

    def sweep(self) -> None:
        """End the delayed ones that are past an expiry that is known."""
        for thing in self.delayed:
            if thing.known and self.is_expired(thing):
                del self.things[thing.id]
                self.counts["expired"] += 1

    def tick(self) -> None:
        self.sweep()
        due = [t for t in self.delayed if self.due_of(t) <= self.now_ms]
        for thing in sorted(due, key=lambda t: (self.due_of(t), t.id)):
            self.release(thing)
        over = [
            t for t in self.leased if t.deadline_ms is not None and t.deadline_ms <= self.now_ms
        ]
        for thing in sorted(over, key=lambda t: (t.deadline_ms, t.died or t.place)):
            if not thing.by_token:
                self.overdue[thing.holder] += 1
            self.counts["lease_expired"] += 1
            self.take_back(thing, "lease")
        for thing in self.unlent:
            if self.is_expired(thing) and thing.id not in self.unread:
                del self.things[thing.id]
                self.counts["expired"] += 1
        self.serve()
        for wait in [w for w in self.waits if w.due_ms <= self.now_ms]:
            if wait in self.waits:
                self.waits.remove(wait)
                seen = self.peek(wait.dead) if wait.want is Want.PEEK else None
                self.answers.append((wait.number, seen.body if seen is not None else None))
                self.serve()
