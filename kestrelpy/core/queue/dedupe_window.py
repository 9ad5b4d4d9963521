"""What a queue remembers of stored items: ids and versions, for how long, and when it sweeps them.

    put ──▶ remembered ──▶ swept when its window is over, a part of the tables at a time
                 └──snapshot──▶ dedupe files ──start──▶ remembered

One rule: an entry that is too old counts as forgotten from that moment on, swept or not.
"""

from __future__ import annotations

from typing import Any, Final

from journal.format import ItemHeader, Kind, Record
from journal.sets import ID, KEY, Table
from journal.store import Chunk, Fresh, RememberedIds, ScopeState, epoch_of
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index import Scope, SeenIds, Versions
from kestrelpy.core.log import Log, records
from kestrelpy.core.policy import Policy
from kestrelpy.core.timers import Alarm

# Scopes forgotten in one step: each takes a record.
_FORGOTTEN_AT_ONCE: Final = 64
# Buckets swept in one step, at about 2 us each, and the least time between two steps.
_BUCKETS_MIN: Final = 40
_BUCKETS_MAX: Final = 640
_SWEEP_MS_MIN: Final = 20
NOT_DUE: Final = 1 << 62


class DedupeWindow:
    """The ids and the versions of one queue, and of its children together.

    `fresh` are the entries that no file has yet; `due_ms` is when the next part is swept.
    """

    __slots__ = ("_alarm", "_clock", "_secret", "due_ms", "fresh", "ids", "versions")

    def __init__(self, alarm: Alarm[Any], clock: ClockOffset) -> None:
        self._alarm = alarm
        self._clock = clock
        self._secret = b""
        self.due_ms = NOT_DUE
        self.fresh = Fresh()
        self.ids = SeenIds(self.fresh)
        self.versions = Versions(self.fresh)

    def holds(self) -> bool:
        """Return True if any id or version is remembered."""
        return not self.is_empty

    @property
    def is_empty(self) -> bool:
        """True if nothing is remembered."""
        return self.ids.is_empty and self.versions.is_empty

    def set_secret(self, secret: bytes, floor: int = 0) -> None:
        """Hash ids and keys with this secret, and with the `floor` of a queue that was made again.

        Set it before any is remembered, or to the secret that those were hashed with.
        """
        self._secret = secret
        hashed_with = secret + floor.to_bytes(8, "little") if floor else secret
        self.ids.set_secret(hashed_with)
        self.versions.set_secret(hashed_with)

    def begin_anew(self, floor: int) -> None:
        """Forget every id, scope and version: the queue was made again after the item `floor`.

        Entries of before have other hashes from now on, so none is found; they go when their window
        is over.
        """
        for scope in [*self.ids.scopes]:
            self.ids._apply_forgotten(scope)
        self.set_secret(self._secret, floor)

    def renew(self, header: ItemHeader, policy: Policy, log: Log, unix_ms: int) -> None:
        """Begin the scope anew if its time is over, before an id of it is stored."""
        if self.ids.is_outdated(header.scope, policy, unix_ms):
            self._forget(header.scope, log, unix_ms)

    def _forget(self, scope: bytes, log: Log, unix_ms: int) -> None:
        """Forget all that is remembered of this scope."""
        self.ids._apply_forgotten(scope)
        log.append(records.forgotten(scope, unix_ms))

    # -- time -------------------------------------------------------------------------------

    def sweep(self, policy: Policy, log: Log, now_ms: int) -> None:
        """Drop some of the entries that are too old, if a sweep is due."""
        if now_ms < self.due_ms:
            return
        unix_ms = now_ms + self._clock.offset_ms
        _, buckets = self._pace(policy)
        self.ids.sweep(policy, unix_ms, buckets)
        if policy.scope_window_ms is not None and self.ids.scopes and not log.no_room:
            for scope in self.ids.oldest_scopes(_FORGOTTEN_AT_ONCE):
                if not self.ids.is_outdated(scope, policy, unix_ms):
                    break
                self._forget(scope, log, unix_ms)
        self.versions.sweep(policy, unix_ms, buckets)
        self.due_ms = NOT_DUE
        self.begin_sweeping(policy, now_ms)

    def begin_sweeping(self, policy: Policy, now_ms: int) -> None:
        """Set the time of the next sweep, if any remembered entry is ever too old."""
        if self.due_ms == NOT_DUE:
            interval_ms, _ = self._pace(policy)
            if interval_ms:
                self.due_ms = now_ms + interval_ms
                self._alarm.need(self.due_ms)

    def _pace(self, policy: Policy) -> tuple[int, int]:
        """Return the ms between two steps, and the buckets that each step sweeps.

        All buckets are swept in a quarter of the window. 0 ms: no entry is ever too old.
        """
        ids, versions = self.ids, self.versions
        window_ms = policy.dedupe_window_ms
        buckets = ids.table.buckets if ids.table.count else 0
        if versions.table.count and not policy.retains:
            buckets = max(buckets, versions.table.buckets)
        if window_ms is None or not buckets:
            window_ms, buckets = policy.scope_window_ms, 1
            if window_ms is None or not ids.scopes:
                return 0, 0
        quarter_ms = max(window_ms // 4, _SWEEP_MS_MIN)
        visits = quarter_ms // _SWEEP_MS_MIN
        each = min(max(-(-buckets // visits), _BUCKETS_MIN), _BUCKETS_MAX)
        return max(quarter_ms * each // max(buckets, each), _SWEEP_MS_MIN), each

    # -- snapshots --------------------------------------------------------------------------

    def remembered(self, policy: Policy) -> RememberedIds:
        """Return the part of the window that a snapshot stores outside the dedupe files."""
        scopes = [
            ScopeState(name, scope.epoch, scope.since, scope.used_ms)
            for name, scope in self.ids.scopes.items()
        ]
        keys_ms = None if policy.retains else policy.dedupe_window_ms
        count = self.versions.table.count
        return RememberedIds(self.fresh, scopes, count, policy.dedupe_window_ms, keys_ms)

    def expect(self, chunks: list[Chunk], scopes: list[ScopeState]) -> None:
        """Make room for the dedupe files that a snapshot names: `take_in` reads them next."""
        ids, versions = self.ids, self.versions
        ids.table = Table(ID, sum(chunk.ids for chunk in chunks))
        versions.table = Table(KEY, sum(chunk.keys for chunk in chunks))
        for state in scopes:
            scope = ids.scopes[state.scope] = Scope(state.epoch, state.since)
            scope.used_ms = state.used_ms

    def take_in(self, frame: Record, has_snapshot: bool) -> None:
        """Take in entries of a dedupe file; the caller reads older files first."""
        epoch = epoch_of(frame)
        if frame.kind == Kind.KEYS:
            self.versions.load(frame.body)
        elif epoch is None:
            self.ids.table.load(frame.body)
        else:
            self.ids.load(epoch, frame.body, frame.time_ms, has_snapshot)
