"""Replay: pass a log's records to the apply methods that made them; no clock, and no step can fail.

    a snapshot, if there is one ──▶ the records after it ──▶ the state; bodies stay in the log

Leases by connection are not in the log, since no connection survives a restart. So a record that
ends a delivery finds its item at its place before the open, which it implies. Leases by token are
in the log. A lease by token without an end goes on when the queue is registered: the registry knows
the time.

One rule: replay skips a record about an item that is missing (its put was in a segment that is
gone, or damaged).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from journal.errors import NewerFormat
from journal.format import (
    AGAIN,
    GONE,
    PLACING,
    STOPS,
    TOKENS_SKIPPED,
    WITH_METADATA,
    Beginning,
    Checkpoint,
    DelayedEntry,
    ItemHeader,
    Kind,
    Origin,
    Record,
    Tag,
    declared_by,
    decode_meta,
    heard_ms,
    item_header_of,
    said_of_put,
    says_only_expiry,
    settled_by,
    watermark_of_ids,
    watermark_of_put,
)
from journal.sets import IdSet
from journal.store import Segment, Snapshot
from kestrelpy.core.fanout import Child
from kestrelpy.core.index import MarkerIndex
from kestrelpy.core.log import records
from kestrelpy.core.queue import ChildQueue, Queue, found
from kestrelpy.core.replay.subscription_replay import PutSizes, SubscriptionReplay


class Replay:
    """Fills one new queue from its journal."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        queue.reader.markers.retains = True  # the policy is known at the end
        self._snapshot: Snapshot | None = None
        self._sizes = PutSizes()
        self._opening = Checkpoint(b"")  # the latest one known
        self._numbered = IdSet()  # items with a put among the records so far
        self._released_ids: list[int] = []  # numbers given to no item of the queue itself
        self._own = own = SubscriptionReplay(queue.reader, self._sizes, queue._apply_settled)
        self._replays: dict[int, SubscriptionReplay] = {0: own}
        self._apply: dict[int, Callable[[Record], None]] = own.apply | {
            Kind.PUT: self._put,
            Kind.SETTLED: self._settled,
            Kind.TOKENS: self._tokens,
            Kind.DECLARED: self._declared,
            Kind.IDS: self._ids,
            Kind.RELEASED: self._released,
            Kind.REDRIVEN: self._redriven,
            Kind.READER: self._named,
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with the state of a snapshot; the records after it follow."""
        queue = self._queue
        queue.next_number = snapshot.checkpoint.next_item
        self._opening = snapshot.checkpoint
        self._snapshot = snapshot
        snapshot.retained = snapshot.retained or snapshot.live.copy()
        queue.reader._apply_tokens(snapshot.checkpoint.tokens)
        for draft in snapshot.standing:
            self._apply[draft[0]](Record(*draft[:8], snapshot.lsn, 0, 0, 0))
        queue.watermarks = snapshot.watermarks
        queue.passes_on, queue.is_tombstone = snapshot.passes_on, snapshot.is_tombstone
        queue.floor = snapshot.floor
        self._own.restore(snapshot)
        queue.origins.update(snapshot.origins)
        for state in snapshot.readers:
            child = ChildQueue.named(queue, state.number, state.name, state.floor).child
            child.total_items = state.total
            replay = self._replay_of(child)
            replay.restore(state)
            child.paused = state.paused
        queue.dedupe.expect(snapshot.chunks, snapshot.scopes)

    def _replay_of(self, child: Child) -> SubscriptionReplay:
        """Begin the replay of a child that is named."""
        replay = SubscriptionReplay(child, self._sizes, self._queue._apply_settled)
        self._replays[child.number] = replay
        return replay

    def run(self, records: Iterable[Record]) -> None:
        """Apply every record, in order."""
        apply = self._apply
        for record in records:
            method = apply.get(record.kind)
            if method is None:
                raise NewerFormat(
                    f"segment {record.segment}, byte {record.offset}: records of kind "
                    f"{record.kind} are not known to this version of kestrelpy"
                )
            if record.reader:
                self._of_child(record, method)
            else:
                method(record)

    def _of_child(self, record: Record, method: Callable[[Record], None]) -> None:
        """Apply a record of a child; if the child was removed, only the numbers it gave count."""
        replay = self._replays.get(record.reader)
        if replay is None:
            if record.kind in PLACING or record.kind == Kind.READER:
                method(record)
            return
        self._queue.catch_up()
        replay.apply.get(record.kind, method)(record)

    def finish(
        self, checkpoint: Checkpoint | None, lsn_last: int, item_lost: int = 0,
        lost: Mapping[int, IdSet] | None = None,
    ) -> None:  # fmt: skip
        """End the replay; `checkpoint` is the one at the start of the last segment.

        `item_lost` is the last item with a put that may be among the damaged records: its number is
        not given again. `lost` are such items by the number of the subscription that may need them:
        they are there, and cannot be read, until an operator gives them up.
        """
        queue, reader = self._queue, self._queue.reader
        queue.heard_ms = max(replay.out_of_order.heard_ms for replay in self._replays.values())
        if checkpoint is not None:
            self._pass_up_to(checkpoint.next_item - 1)
            if checkpoint.next_item > self._opening.next_item:
                self._opening = checkpoint
            reader._apply_tokens(checkpoint.tokens)
        self._pass_up_to(item_lost)
        queue.total_items = self._count(item_lost)
        reader.tokens_lsn = lsn_last
        queue.catch_up()
        for number, ids in (lost or {}).items():
            if number in self._replays:
                self._replays[number].lose(ids)
        shared = dict[int, DelayedEntry]()
        if queue.unseen is not None:
            for replay in self._replays.values():
                replay.out_of_order.take_new(shared)
            queue.unseen.due.restore(shared.values())
        for replay in self._replays.values():
            replay.reader.tokens_lsn = lsn_last
            replay.finish(shared.__contains__)

    def _pass_up_to(self, number: int) -> None:
        """Count the numbers up to this one as given, to unknown items or places."""
        queue = self._queue
        if number >= queue.next_number:
            self._pass_number(number)
            queue.next_number = number + 1

    def _pass_number(self, number: int) -> None:
        """Tell the children that this number is of no item that is at once available to all."""
        for child in self._queue.children.values():
            child.pass_number(number)

    def readable(self, segments: Sequence[Segment]) -> IdSet:
        """Return all items in these segments, done or not; to be called once, after `finish`."""
        ids = found(self._snapshot, self._numbered, self._queue.needed_now(), segments)
        if self._queue.floor:
            ids.discard_range(1, self._queue.floor)  # of the queue that was deleted
        return ids

    def _count(self, item_lost: int) -> int:
        """Return the number of items ever put: counted by a checkpoint, met since then, or lost."""
        since, met = self._opening.next_item, self._numbered
        found = self._opening.total_items + met.count_between(since, met.last)
        if item_lost >= since:
            places = sum(since <= number <= item_lost for number in self._released_ids)
            found += item_lost + 1 - since - places - met.count_between(since, item_lost)
        return found

    def close(self) -> None:
        """Break the reference cycles of the replay, which applies no more records."""
        for replay in (self._own, *self._replays.values()):
            replay.apply.clear()
        self._apply.clear()

    def skip_tokens(self) -> None:
        """Skip the tokens that a lost record may have reserved, so that none is issued again."""
        reader = self._queue.reader
        reader._apply_tokens(reader.tokens_below + TOKENS_SKIPPED)

    def _put(self, record: Record) -> None:
        queue, id_, size = self._queue, record.item, len(record.body)
        self._sizes.add(id_, size)
        if queue.children or record.reader or queue.passes_on:
            self._put_for_some(record, size)
        else:
            self._numbered.add(id_)
            queue._apply_put(id_, size)
            if not record.number:
                self._own.out_of_order.put(record, size)
        if not says_only_expiry(record.meta):
            self._stamped(record, size)

    def _stamped(self, record: Record, size: int) -> None:
        """Apply the rest of a put's meta, besides its expiry and due time.

        Facts that a chunk has about a later item stay: a live item's put may be older than those.
        """
        queue, header = self._queue, item_header_of(record.meta, size)
        if (nominal := watermark_of_put(record.meta)) is not None:
            queue._apply_nominal(nominal)
        key = said_of_put(record.meta).key
        if key and not record.reader and (header is None or not header.version):
            # Older versions of kestrelpy did not record the version.
            version = queue.dedupe.versions.last(key).version + 1
            header = (header or ItemHeader())._replace(version=version)
        if header is None:
            return
        if not record.reader:
            ids, versions, item = queue.dedupe.ids, queue.dedupe.versions, record.item
            if header.id and ids.is_newer(header, item, key):
                ids._apply_seen(header, item, record.time_ms, key, record.body)
            if key and versions.is_newer(key, item):
                versions._apply_written(key, header.version, item, record.time_ms)
        if header.origin is not None and header.origin.is_of(queue.name):
            self._hand_on(record.item, header.origin)
        elif header.origin is not None:
            queue._apply_opened(record.item, header.origin)

    def _hand_on(self, copy: int, origin: Origin) -> None:
        """End an item of this log that the put of `copy` ended; its MOVED record follows."""
        _, child, part = origin.queue.partition(b"+")
        replay: SubscriptionReplay | None = self._own
        if child:
            self._queue.catch_up()
            reader = self._queue.children.get(part)
            replay = self._replays.get(reader.number) if reader is not None else None
        if replay is not None and replay.hand_on(copy, origin):
            self._queue._apply_opened(copy, origin)

    def _put_for_some(self, record: Record, size: int) -> None:
        """Apply a put into a queue that has children, or a put for a child alone."""
        queue, id_ = self._queue, record.item
        self._pass_up_to(id_ - 1)
        if record.reader:
            self._released_ids.append(id_)
            self._pass_number(id_)
            for child in queue.children.values():
                if child.number == record.reader:
                    self._put_for_child(child, record, size)
        else:
            self._numbered.add(id_)
            queue.total_items += 1
            if not queue.passes_on:
                self._own.put(record, size)
            elif not record.number:
                queue.reader.markers.hide(id_)
            if record.number:
                queue.put_bytes += size
            else:
                self._pass_number(id_)
                for child in queue.children.values():
                    self._put_for_child(child, record, size)
        queue.next_number = id_ + 1

    def _put_for_child(self, child: Child, record: Record, size: int) -> None:
        child.total_items += 1
        self._replays[child.number].put(record, size)

    def _settled(self, record: Record) -> None:
        for id_ in settled_by(record):
            self._queue._apply_settled(id_)

    def _released(self, record: Record) -> None:
        """Release an item: a new one in all subscriptions that have it, a nacked one in its own."""
        self._give_place(record)
        item = record.item
        new = [each for each in self._replays.values() if each.out_of_order.is_new(item)]
        if record.reader:
            new = [self._replays[record.reader]] if record.reader in self._replays else []
        for replay in new or ([] if record.reader else [self._own]):
            replay.release(record)
        if new and self._own not in new and not record.reader:
            self._own.out_of_order.mark(record.item, record.number)

    def _redriven(self, record: Record) -> None:
        self._give_place(record)
        replay = self._replays.get(record.reader)
        if replay is not None:
            replay.redrive(record)

    def _give_place(self, record: Record) -> None:
        self._released_ids.append(record.number)
        self._pass_up_to(record.number)

    def _named(self, record: Record) -> None:
        """Add or remove a child; number 0: the queue is deleted, or stores for children alone."""
        queue = self._queue
        if not record.reader and record.small == GONE:
            queue.is_tombstone = True
            self._own.leave_all()
            return
        if not record.reader and record.small == AGAIN:
            queue._apply_again(record.number)
            queue.reader.markers = MarkerIndex()
            queue.reader.markers.retains = True
            return
        if not record.reader:
            queue.passes_on = record.small == STOPS
            return
        if record.small == STOPS:
            gone = self._replays.pop(record.reader, None)
            queue.children = {
                part: child for part, child in queue.children.items()
                if gone is None or child is not gone.reader
            }  # fmt: skip
            return
        name = decode_meta(record.meta).get(Tag.NAME)
        if record.reader in self._replays or not isinstance(name, bytes):
            return
        queue.catch_up()
        child = ChildQueue.named(queue, record.reader, name, record.number).child
        child.named_lsn = record.lsn
        replay = self._replay_of(child)
        begins = Beginning.decode(record)
        if begins is not None:
            child.live, child.live_bytes = begins.live, begins.live_bytes
            child.total_items = len(begins.live)
            child.ageless = queue.reader.ageless.both(begins.live)
            replay.out_of_order.restore(begins.delayed, begins.placed)
            for _, due_ms, _, _, runs_ms in begins.delayed:
                replay.out_of_order.hear(heard_ms(record.time_ms, due_ms, runs_ms))

    def _tokens(self, record: Record) -> None:
        self._queue.reader._apply_tokens(record.number)

    def _declared(self, record: Record) -> None:
        if record.small > WITH_METADATA:
            raise NewerFormat(
                f"segment {record.segment}, byte {record.offset}: declarations of kind "
                f"{record.small} are not known to this version of kestrelpy"
            )
        self._queue._apply_declared(*declared_by(record))

    def _ids(self, record: Record) -> None:
        scope = decode_meta(record.meta).get(Tag.SCOPE)
        if record.small == records.FORGOTTEN and isinstance(scope, bytes):
            self._queue.dedupe.ids._apply_forgotten(scope)
            return
        nominal = watermark_of_ids(record)
        if nominal is not None:
            self._queue._apply_nominal(nominal)
