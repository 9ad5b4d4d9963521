"""The objects that may exist when no work is under way, by class and attribute, with the reasons.

    STAYS       lives with a server or a queue: an attribute that does not stand here must be 0,
                false, empty or None at rest
    NONE_LEFT   ends with a request, an item, a job: no instance may be found at rest
    VALUES      says something and holds nothing: its attributes are not looked at

Names of classes are those of their modules, without the package `kestrelpy`. The rows of workers
and of Celery's transport are in `rest_clients`.

One rule: what only grows, or is bounded by nothing, has no place here without saying why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from kestrelpy.core.index.ready_list import NO_FRONTIER
from tests.support import rest_clients

TOTAL: Final = "a total since the start"
NUMBER: Final = "the latest number that was given, or reached"
SETTING: Final = "a setting, or said by one"
NAME: Final = "a name: of what it is, or what it is told apart by"
CLOCK: Final = "a moment, when something was done last or is looked at next"
INSIDE: Final = "belongs to what is there; each is looked at for itself"
LAST: Final = "one thing that was asked for last, kept in case it is asked for again"
BUFFER: Final = "a piece that was read last, replaced by the next"
ON_DISK: Final = "what lies on the disk"
CACHE: Final = "a cache with a bound"
WORKS: Final = "runs until the process ends"
ELSEWHERE: Final = "its records are kept elsewhere"
COUNTED: Final = "some of them stay; a test counts those that do not"
UNFOLLOWED: Final = (CACHE, ELSEWHERE, COUNTED)

# By class: attributes that may hold something, with the reason.
_STAYS: Final[dict[str, dict[str, str]]] = {
    # -- journal ------------------------------------------------------------------------------
    "journal.read.readahead.ReadAhead": {
        "_life": TOTAL,
        "_number _limit _seen _is_over": BUFFER,
    },
    "journal.read.cursor.Cursor": {
        "at base data lacking stop": BUFFER,
        "journal number": NAME,
        "piece_bytes": SETTING,
    },
    "journal.write.group_commit.GroupCommit": {
        "lsn_appended lsn_written lsn_durable item_written item_durable item_in_flight": NUMBER,
    },
    "journal.sets.id_counts.IdCounts": {},
    "journal.snapshot.dedupe_pending.PendingEntries": {},
    "journal.snapshot.dedupe_pending.Fresh": {"keeps": SETTING},
    "journal.sets.id_set.IdSet": {"_first _last": "bounds of a run that may be empty"},
    "journal.store.LogStore": {},
    "journal.engine.cache.Cache": {"folder": NAME, "_bytes_max": SETTING, "_uses": TOTAL,
                                   "_grown_bytes": CACHE, "_files": INSIDE},
    "journal.engine.cache.CachedFile": {"number local": NAME, "size": ON_DISK, "present": CACHE,
                                        "ticket used": NUMBER},
    "journal.engine.commits.Commits": {"_beat_s": SETTING, "_claim": NUMBER, "_committed": NUMBER,
                                       "_asked": NUMBER, "sure_since_s": CLOCK, "commits": TOTAL,
                                       "_thread": WORKS},
    "journal.engine.commits.WaitingGroups": {"added": NUMBER},
    "journal.engine.engine_files.EngineFiles": {"_root _prefix": NAME, "_last": NUMBER,
                                                "_locked": WORKS},
    "journal.engine.names.Names": {"root": NAME, "_folders": ON_DISK},
    "journal.engine.object_store.members.Members": {
        "_takeovers _seats _noted": "what was read of each member last",
    },
    "journal.engine.object_store.object_store_engine.ObjectStoreEngine": {
        "_keep_s _looks_s _is_threaded": SETTING, "_is_made": "asked once",
        "_logs _tails _slices _asked _swept": "what is known of each slice",
        "_leaving": "objects that are deleted an hour later", "_packing": WORKS,
        "_packs_next_s": CLOCK,
    },
    "journal.engine.object_store.slice_files.SliceFiles": {
        "files packs": ON_DISK, "recent_bytes": NUMBER,
    },
    "journal.engine.object_store.slice_log.SliceLog": {
        "number base row": NUMBER, "files claims": ON_DISK, "is_own": "said once, at the claim",
        "next_snapshot leaving left": "what the next entry says, and what may be deleted after it",
        "_is_unsure": "until the outcome of the last write is known",
    },
    "journal.engine.postgres.postgres_engine.PostgresEngine": {"_conninfo": NAME, "_name": NAME,
                                                               "_is_single": SETTING},
    "journal.engine.postgres.watched.WatchedConnection": {"connect_again": NAME},
    "journal.engine.postgres.postgres_engine._Line": {
        "_connection": WORKS, "_known": "the statements that it has prepared: there are few",
    },
    "journal.engine.ranges.Ranges": {"_starts _ends bytes": CACHE},
    "journal.write.writer.Journal": {
        "has_rotated": "a segment was sealed: the next snapshot comes with the next write",
        "folder identity short_identity": NAME,
        "_to_sync _retired": "handles of files written after the last sync: by a rest, or by a "
        "queue that never syncs, until its next snapshot",
    },
    "journal.write.segment_list.SegmentList": {
        "segments": INSIDE,
        "_standing": "one record for each kind, reader and schedule",
        "revived_lsn _held_below covered_lsn": NUMBER,
    },
    "journal.write.retention.Retention": {
        "ms bytes_most": SETTING,
        "_reported _count _counted": LAST,
    },
    "journal.write.segment_file.Segment": {
        "number path rank capacity": NAME,
        "lsn_first lsn_last at item_first item_last time_last emptied_lsn": NUMBER,
        "puts extra_bytes recycled is_open damaged unread": ON_DISK,
        "measured": "which snapshot it was looked at for last",
    },
    "journal.sets.hash_table.Table": {
        "width _shift _row _room _hash_tops": "its shape: buckets, empty or not",
        "_next _swept": "its shape, while it grows or shrinks",
    },
    "journal.format.segment.Tally": {
        "counts item_first item_last place_first place_last time_min time_max": ON_DISK,
    },
    "journal.write.preallocation.Preallocation": {
        "number _failed _failed_bytes prepared": NUMBER, "_has_folder": ON_DISK,
        "_holds _spread": "if segments waited, or items were late, when the room was counted",
        "waiting recycled": ON_DISK,
        "_need_most _need_more": "what the segment before needed, counted at each rotation",
        "shrinks": "the journal was idle: until its next segment is prepared",
    },
    "journal.write.room.Room": {
        "free tail _ahead _first put_bytes": NUMBER,
        "_waiting": ON_DISK,
        "asked asked_most _asked_least": "what a client that is gone wanted of the next segment",
    },
    "journal.compaction.maintenance.Maintenance": {
        "snapshots chunks lost_chunks _forgotten": ON_DISK,
        "_tried_lsn _begun_at _refused_at _snapshot_bytes": NUMBER,
        "goes_on": "where the newest snapshot's records end",
        "is_asked": "something may go: the next snapshot comes with the next write",
        "_leased": LAST,
    },
    "journal.compaction.reclaim.Reclaim": {
        "_number _at _steps _gave_up": "where the log was when it was looked at last",
    },
    # -- core ---------------------------------------------------------------------------------
    "core.queue.child_queue.ChildQueue": {},
    "core.broker.Broker": {},
    "core.broker.GoneHolders": {},
    "core.registry.registry.Registry": {
        "queues tombstones": INSIDE,
        "_stand_in": WORKS,
        "queues_max aliases server_id elsewhere": SETTING,
        "generation_deleted": NUMBER,
    },
    "core.fanout.child.Child": {
        "part": NAME,
        "floor taken named_lsn": NUMBER,
        "total_items seen_bytes": TOTAL,
        "asked_ms": CLOCK,
    },
    "core.registry.lifecycle.Later": {},
    "core.registry.lifecycle.Lifecycle": {},
    "core.counters.QueueCounters": {
        "expired discarded opened cancelled confirmed dead flushes redelivered lease_expired "
        "duplicates closes_without_open gaps waiting_ms service_ms": TOTAL,
    },
    "core.counters.Histogram": {"counts": TOTAL},
    "core.counters.WireCounters": {"commands client_errors server_errors": TOTAL},
    "core.counters.ServerCounters": {
        "bytes_read bytes_written cmd_get cmd_peek cmd_set connections_total get_hits get_misses "
        "queue_creates queue_deletes queue_expires refused_quietly http_statuses "
        "wires sync_us batch_records loop_lag_us": TOTAL,
    },
    "core.index.dead_letters.DeadLetters": {"_latest_place": NUMBER},
    "core.index.delayed.Delays": {},
    "core.index.sorted_table.DueTimes": {"_tidied": "where the next look begins"},
    "core.queue.recount.Recount": {"due_ms": CLOCK},
    "core.queue.age_round.AgeRound": {"due_ms": CLOCK, "_looks": LAST},
    "core.queue.lazy_sweep.LazySweep": {
        "_looked_ms due_ms": CLOCK, "age_ms": SETTING, "unsure": NUMBER,
    },
    "core.subscription.key_gate.KeyGate": {},
    "core.subscription.outbox.Outbox": {},
    "core.subscription.token_leases.TokenLeases": {},
    "core.index.key_locks.KeyLocks": {"matches_any": SETTING, "_copies": NUMBER},
    "core.index.leases.Holder": {
        "name": NAME,
        "overdue": "where a lease ended, until this connection's next word about that queue",
    },
    "core.index.leases._ByDeadline": {"latest_ms": NUMBER},
    "core.index.leases.Leases": {},
    "core.subscription.ready_items.ReadyItems": {},
    "core.log.log.JournalLog": {
        "archive_to sync_ms sync_in_turn is_local": SETTING,
        "lsn_appended lsn_written lsn_stored lsn_durable lsn_notified": NUMBER,
        "item_stored awaited_lsn": NUMBER,
    },
    "core.index.markers.MarkerIndex": {
        "latest": NUMBER, "_compacted": "where the next look begins",
    },
    "core.fanout.unseen.Unseen": {
        "_numbers _events _passed": "what some child may not have seen yet (UNSEEN_MAX)",
        "_known _digests": LAST,
    },
    "core.transfer.transfers.Transfers": {},
    "core.transfer.arrivals.RemoteArrivals": {"_permit _permits": NUMBER},
    "core.transfer.remote.RemoteTransfers": {"arrivals peers": INSIDE},
    "core.transfer.remote.Peer": {
        "number server": NAME, "is_open is_connecting why": "how it is connected to",
    },
    "server.mail.pulse.Pulse": {"_looked_s _silent_s": "since the last look or beat"},
    "server.mail.router_watch.RouterWatch": {
        "_path _silent_s": SETTING, "_pulse _transport": WORKS,
    },
    "server.mail.couriers.Couriers": {"_links _tasks": WORKS},
    "server.mail.couriers.Link": {"_permit": NUMBER, "_transport": WORKS, "why": NAME},
    "core.log.memory_log.MemoryLog": {
        "lsn_written lsn_stored lsn_durable item_stored lsn_appended": NUMBER,
        "archive_to sync_in_turn": SETTING,
        "identity": NAME,
        "is_full": NUMBER,
    },
    "core.index.dedupe.SeenIds": {"_asked _hash _bucket": LAST},
    "core.index.dedupe.Scope": {
        "epoch since last used_ms ids": "a scope, until its window is over",
    },
    "core.transfer.in_flight.InFlight": {},
    "core.queue.dedupe_window.DedupeWindow": {"due_ms": CLOCK, "_secret": NAME},
    "core.queue.due_items.DueItems": {},
    "core.queue.fanout.FanOut": {},
    "core.queue.retention.QueueRetention": {},
    "core.queue.queue.Queue": {},
    "core.queue.state.QueueState": {
        "name server_id generation": NAME,
        "declared passes_on is_tombstone is_replaced": SETTING,
        "children eager lagging": INSIDE,
        "watermarks": "one time for each schedule",
        "readers_named next_number floor": NUMBER,
        "put_bytes total_items": TOTAL,
        "created_ms": CLOCK,
    },
    "core.index.expiry_watch.ExpiryWatch": {},
    "core.index.expiry_watch.LoggedExpiries": {},
    "core.subscription.expiry_sweep.ExpirySweep": {},
    "core.subscription.subscription.Subscription": {},
    "core.subscription.state.SubscriptionState": {
        "name number": NAME,
        "_complained_ms": CLOCK,
        "paused": SETTING,
        "tokens_lsn _next_token _tokens_below": NUMBER,
    },
    "core.index.ready_list.Ready": {},
    "core.index.ready_list.ByPlace": {},
    "core.index.memory_budget.MemoryBudget": {"limit": SETTING},
    "core.index.memory_budget.MemoryShare": {"most allowed": SETTING},
    "core.index.retained_ids.RetainedIds": {"_seen": NUMBER, "look_ms": CLOCK},
    "core.schedules.Running": {
        "done_s looked_s _next_s _sought_s since_s complained_ms": CLOCK,
        "is_known": "its queue was looked at",
    },
    "core.schedules.Timetable": {
        "running": INSIDE,
        "_looked_ms _next_unix_ms _is_due": CLOCK,
    },
    "core.index.disk_refs.DiskRefs": {},
    "core.timers.Alarm": {"at_ms": CLOCK},
    "core.timers.PartAlarm": {},
    "core.timers.Entry": {"due_ms number": CLOCK},
    "core.timers.Timers": {
        "_number": NUMBER,
        "_heap": "alarms of what is there; each entry is looked at for itself",
    },
    "core.queue.record_reserve.RecordReserve": {
        "_is_known _lsn _number _count": LAST,
        "_at_work": "children that somebody took from",
    },
    "core.registry.stand_in.StandIn": {"_queue": WORKS},
    "core.registry.token_floor.TokenFloor": {"on_disk _in_memory": NUMBER, "lowest_of": WORKS},
    "protocol.routing.sliced_queues.SlicedQueues": {
        "_turns": CACHE, "_producers": TOTAL, "_port placement": WORKS,
    },
    "core.index.token_range.TokenRange": {"below": NUMBER},
    "core.trash.Trash": {},
    "core.index.versions.Versions": {
        "lost_ms lost_item": "what was found to be damaged at the start",
        "_asked _hash _bucket _at _highest _is_first": LAST,
    },
    "core.index.waiters.Waiters": {},
    "core.clock.ClockOffset": {"offset_ms running_ms last_ms": CLOCK},
    # -- protocol -----------------------------------------------------------------------------
    "protocol.conversation.Conversation": {
        "last_command_ms suggests_ms": CLOCK,
        "has_overrun": "how the last share of a turn ended",
        "closing": "it says no more",
    },
    "protocol.login.LoginGate": {"_grant": "of the user who logged in"},
    "protocol.verbs.get.GetHandler": {"at_end": "its client says no more"},
    "protocol.log_limit.LogLimit": {"_logged": "lines of the last minute, bounded"},
    "protocol.log_limit._Logged": {"at_ms left": CLOCK},
    "protocol.parse.parser.Parser": {
        "_lines": CACHE,
        "_data _at _searched": BUFFER,
        "_line _known": LAST,
    },
    "protocol.text.parser.TextParser": {"_data _at _searched": BUFFER},
    "protocol.verbs.browse.Browser": {"at_end": "its client says no more"},
    "operations.reading.LogReader": {
        "_positions": "where this client read last, bounded",
    },
    "server.http_side.HttpSide": {"new_number port": SETTING},
    "protocol.replies.Replies": {"counters": INSIDE},
    "server.exposure.Tls": {"context": SETTING},
    "server.connections.logins.WaitingLogins": {"_free": SETTING},
    "server.connections.logins.Logins": {
        "users _key": SETTING,
        "_line": INSIDE,
        "failed": TOTAL,
        "_known": CACHE,
        "_threads": WORKS,
    },
    "protocol.verbs.set.SetHandler": {"stored_bytes _noreply_bytes": "of the current turn"},
    # -- server -------------------------------------------------------------------------------
    "server.journals.journal_jobs.JournalJobs": {},
    "server.journals.idle_journals.IdleJournals": {
        "_watched": "journals at rest that may have something to free",
        "_rounds": "those that free it now, for some seconds, a few at a time",
        "_timer": CLOCK,
    },
    "server.journals.committer.Committer": {
        "reserve_bytes": SETTING,
    },
    "server.journals.syncs.Syncs": {
        "_threads": "sync threads stay until the process ends", "took_us": INSIDE,
        "_on_threads_until": CLOCK,
    },
    "server.journals.gathering.Gathering": {},
    "server.connections.connection.Connection": {
        "number": NAME,
        "_reading is_local": SETTING,
        "heavy_until_ms moved_ms heard_ms": CLOCK,
        "_at_end": "its client says no more",
        "_moved_bytes": "that came since it moved last",
    },
    "server.connections.memory.ConnectionMemory": {"limit": SETTING, "peak": TOTAL},
    "server.assembly.ServerParts": {},
    "server.daemon.Daemon": {
        "mode server_id _lowered": SETTING,
        "lines": CACHE,
        "started_ms recovery_seconds": CLOCK,
        "_connections": INSIDE,
        "_tasks": WORKS,
    },
    "server.directory.data_directory.DataDirectory": {
        "path server_id _damaged_id": NAME,
        "_tombstones": INSIDE,
        "unread": "folders that the start could not read",
    },
    "server.commit_delay.CommitDelay": {
        "_has_input _since_ms _hurry_until_ms is_hurried": "of the last turns with a write",
    },
    "server.journals.later_syncs.LaterSyncs": {},
    "server.slices.router.SliceRouter": {
        "_config _config_file _connections_max _members_max": SETTING, "lines": CACHE,
        "_slices _listeners _http _mail": WORKS, "_mails": COUNTED,
        "read_buffer": "what was read last into memory that all sockets share",
    },
    "server.slices.doors.Waiting": {"_now_s": SETTING},
    "server.connections.channels.Trunk": {
        "_last": NUMBER,
        "_channels _line": COUNTED,
        "_begun _lost _make": SETTING,
        "_transport": "the socket, open until one of its processes ends",
    },
    "server.slices.slice_set.SliceSet": {
        "_trunks _connecting": "one for each slice",
        "_config _config_file _sockets": SETTING, "_runs processes": WORKS, "_why": "it ends",
    },
    "server.slices.member_slices.MemberSlices": {
        "_engine _member key _tls _takeover_s _moved": SETTING,
        "_seen _trouble _looked_s": "of the last look",
        "_noted_s _blind_s": "when it looked last", "_noted _waiting": "of the last look",
        "_idle_s": "what may be needed again",
        "_silent_s": "what nobody serves now",
        "_takeovers _takeovers_s": "as they were read last", "_reading": "for a moment",
    },
    "server.slices.doors.Key": {"_layout _secret": SETTING},
    "server.slices.slice_process.SliceProcess": {
        "number socket_path http_path channels_path _folder _words _notes_path": NAME,
        "status": "what it said last",
        "is_serving has_served _process _pulse heard_s": WORKS, "began_s": "when it began last",
        "restarts restarts_total _ended": "what is told of it; the last ones",
    },
    "server.supervisor.Supervisor": {
        "_address _watchdog_usec _names": SETTING, "_has_failed": "the log has said so",
    },
    "server.connections.listeners.Listeners": {
        "_trunks": "of the router",
        "_servers _socket address": WORKS, "_backlog _tls": SETTING,
    },
    "server.journals.open_journals.OpenJournals": {
        "most": SETTING,
        "_open": "journals that were written a moment ago and have not rested yet",
    },
    "server.policies.Policies": {
        "owners": "one for each queue that sends items on, and some of those that are deleted",
    },
    "server.journals.read_back.ReadBack": {},
    "server.queue_deletion.QueueDeletions": {},
    "server.schedules.Schedules": {},
    "server.journals.read_cache.ReadCache": {},
    "server.shares.Shares": {"_direct_until": CLOCK},
    "server.journals.shortage.Shortage": {
        "_most _began": "of the latest shortage",
        "_is_named": LAST,
    },
    "server.directory.token_file.TokenFile": {
        "_held _wanted": NUMBER,
        "_is_there _is_old _is_lost": ON_DISK,
    },
    "server.directory.beat.Beat": {"_is_whole _place": ON_DISK},
    "server.directory.beat.Heart": {"_failed": "the reason that was logged last"},
    "server.turn.Turn": {
        "_timer _timer_ms _offset_checked_ms": CLOCK,
    },
    "server.directory.word_file.WordFile": {"path": NAME},
}

# Where a queue keeps what is done.
_RETAINED: Final[dict[str, dict[str, str]]] = {
    "journal.sets.id_set.IdSet": {"_bits _counts count": "what is kept"},
    "core.index.markers.MarkerIndex": {"_markers _ids _retained retains": "retained markers"},
}
# Until their windows are over.
_REMEMBERED: Final[dict[str, dict[str, str]]] = {
    "journal.sets.hash_table.Table": {"count": "ids or versions"},
    "journal.snapshot.dedupe_pending.PendingEntries": {
        "ids scoped keys": "of these: what no file has yet",
    },
    "core.index.dedupe.SeenIds": {"scopes": "of these"},
}

# Of a journal in a test that writes nothing.
_UNWRITTEN: Final[dict[str, dict[str, str]]] = {
    "core.log.log.JournalLog": {
        "_dirty _is_dirty": "it has something to write, and no turn writes it"
    },
    "journal.write.group_commit.GroupCommit": {"lsn_appended": ELSEWHERE},
    "journal.write.writer.Journal": {"_flushed _pending": ELSEWHERE},
}

_JOB: Final = "a job, or what it reads: it ends with it"
_OF_AN_ITEM: Final = "an item, or what is known of one"
_OF_A_REQUEST: Final = "a request, or a part of one"
_DECLARED: Final = "a row of a table in the source"
_AT_START: Final = "of a start, or of a tool that reads a folder"

_NONE_LEFT: Final[dict[str, str]] = {
    _JOB: """
        journal.engine.batch.Batch journal.engine.engine.Create journal.engine.engine.DeleteFile
        journal.engine.engine.Rename journal.engine.engine.Write journal.engine.engine.FileFacts
        journal.engine.engine.Piece journal.engine.object_store.packing._Packs
        server.queue_deletion._Removal server.directory.removed.Removed
        journal.read.segment_read.SegmentRead journal.read.lookup.ReadOne
        journal.read.lookup.FoundRecords
        journal.read.lookup.ReadSome
        journal.compaction.compaction.CompactionJob journal.compaction.compaction.SegmentInput
        journal.compaction.compaction._Compacted
        journal.compaction.compaction._Walk journal.write.group_commit.SyncJob
        server.journals.gathering._Hold
        journal.read.range_scan.Scanned journal.read.range_scan.RangeScan
        journal.read.range_scan.PutPlace journal.read.range_scan.TimeSearch
        journal.read.range_scan._Walk journal.snapshot.dedupe_merge.MergeJob
        journal.read.history.ItemHistory journal.read.history.HistoryPart operations.item_life._Read
        journal.snapshot.dedupe_merge._Prefixes journal.write.segment_file.PreallocationJob
        journal.format.segment.SegmentHeader journal.read.seek.Extent
        journal.snapshot.snapshot.SegmentState journal.snapshot.snapshot.Snapshot
        journal.snapshot.job.RememberedIds journal.snapshot.job.SnapshotJob
        journal.snapshot.job.QueueCopy journal.snapshot.dedupe_file.EntriesPart
        journal.snapshot.dedupe_file.Summary journal.snapshot.dedupe_file.ScopeState
        journal.format.subscription_state.ReaderState journal.format.checkpoint.Checkpoint
        core.index.delayed._Entries server.journals.journal_jobs.Pause
        server.reloading.Enforcement server.reloading.Reload server.reloading._Known
        server.connections.revocation.Revocation
        server.journals.syncs.Sync
    """,
    _OF_AN_ITEM: """
        journal.format.out_of_order.DelayedEntry journal.format.out_of_order.PlacedEntry
        journal.format.lease.LeaseEntry journal.format.subscription_state.DeadEntry
        journal.format.transfer.Origin journal.format.record.Record
        journal.format.item_header.ItemHeader journal.format.meta.PutMeta
        journal.read.range_scan.Put
        core.item.Item core.index.key_locks.KeyLine
        core.index.key_locks._Before
        core.index.leases.Lease core.index.markers.Release core.transfer.request.TransferRequest
        core.transfer.transfer.Transfer core.transfer.remote_transfer.RemoteTransfer
        core.transfer.remote_transfer.Letter core.transfer.remote_transfer.LetterAnswer
        core.transfer.remote_transfer.HandOff core.index.leases.Former
        core.subscription.placed.Placed
        core.queue.ack_up_to.AckUpTo core.queue.admin.Admin core.queue.child_start.ChildStart
        core.queue_life.QueueLife
        core.transfer.steps.TransferSource core.transfer.steps.TransferTarget
        core.index.waiters.Waiter core.index.versions.Written core.queue.browse.Browse
    """,
    _OF_A_REQUEST: """
        protocol.parse.commands.Command protocol.parse.commands.Bad
        protocol.parse.commands.Delete protocol.parse.commands.Fetch
        protocol.parse.commands.Plain protocol.parse.commands.Remove protocol.parse.commands.Store
        protocol.parse.commands.Touch protocol.parse.commands.Upto
        protocol.parse.commands.Withdraw protocol.verbs.handoff.Given
        journal.write.disk_use.DiskUse
        operations.stats_facts.LeaseFacts operations.stats_facts.MarkerFacts
        operations.stats_facts.QueueFacts operations.stats_facts.ScheduleFacts
        operations.stats_facts.ServerFacts operations.item_facts.DeathFacts
        operations.item_facts.GoneFacts operations.item_facts.Inspection
        operations.stats_facts.Totals operations.lists.connections.ConnectionFacts
        operations.lists.connections.Listening
        operations.lists.deaths.DeathFilter operations.lists.deaths.Deaths
        operations.lists.deaths.ListedDeath operations.lists.delays.DelayedFacts
        operations.lists.finding.FoundItems
        operations.lists.finding.Hit operations.lists.items.ItemList
        operations.lists.items.ItemPage operations.lists.items.ListedItem
        operations.lists.journals.JournalFacts operations.lists.keys.KeyFacts
        operations.lists.keys.KeyPage operations.lists.queues.QueueOrder
        operations.lists.queues.QueuePage
        operations.item_facts.ItemFacts operations.item_life.ItemLife
        operations.lists.connections.HeldItem operations.lists.journals.SegmentBucket
        operations.lists.journals.SegmentTotals operations.damage.DamageFacts
        operations.preview.Preview operations.lists.deaths.DeathGroup
        operations.item_life.LifeEvent operations.item_life.LifePart operations.item_life.LostPlace
        operations.reading.ItemRead operations.reading.NoShape operations.reading.Page
        operations.displaced_read.DisplacedRead operations.rests.Gate
        operations.children.Children operations.leasing.Leasing operations.storing.Storing
        operations.storing.Terms operations.streams.Appended operations.streams.StreamStore
        operations.streams.StreamWalk operations.streams.WrittenStream
        server.connections.logins.Attempt server.exposure.Exposed server.exposure.Unservable
        operations.queue_admin.Declared operations.queue_admin.QueueAdmin
        operations.lease_end.LeaseEnd operations.moving.Moving
        core.transfer.arrivals.Arrival core.transfer.arrivals.Permit
        operations.receiving.Received operations.receiving.Receiving operations.rests.Durable
        protocol.mail.HandOffTerms protocol.mail.HandOffHeader protocol.mail.MailBegin
        protocol.mail.MailBegun
        protocol.mail.MailGone protocol.mail.MailHeard protocol.mail.MailSend
        protocol.mail.MailSent protocol.parse.commands.Mail
        operations.removal.Removal operations.rests.Rests operations.claiming.Claiming
        operations.observing.Look operations.observing.Observing operations.observing.SeenItem
        operations.observing.Sight
        protocol.replies.JointReply protocol.verbs.get.PendingGet
        protocol.routing.answer_ends.AnswerEnds protocol.routing.asking.AskSlice
        protocol.routing.asking.AskAtOnce protocol.routing.sliced.SlicedSeat
        protocol.routing.sliced.Opened
        protocol.routing.routed_wire.Awaited protocol.routing.routed.RoutedConversation
        protocol.routing.routed_login.RoutedLogin
        server.slices.connections._Reader
        server.slices.connections.ClientConnection server.slices.connections.SliceConnection
        server.connections.channels.ClientChannel
        server.slices.doors.Entrance server.slices.doors.Side server.slices.doors._Asking
        protocol.parse.commands.Confirm protocol.parse.commands.Monitor
        protocol.parse.commands.Formed protocol.parse.meta.MetaForm
        protocol.text.form.ItemForm protocol.text.form.PutForm protocol.text.requests.OpenBatch
        protocol.text.requests.Next protocol.text.requests.PutBegin
        protocol.text.requests.PutEnd protocol.text.requests.Shutdown
        protocol.text.routed.LineEnds protocol.text.routed.WholePut
        protocol.text.routed.WholePutParser
    """,
    _DECLARED: "operations.stats_facts.MetricSeries",
    _AT_START: """
        journal.recovery.live_set.LiveSet journal.recovery.live_set.ReaderItems
        journal.recovery.segment_order.SegmentOrder journal.recovery.segment_order.SegmentFile
        journal.tools.verify.Past journal.tools.verify.Report
        journal.tools.verify.StartView journal.tools.verify._Lost
        journal.snapshot.dedupe_load.Chunks journal.tools.backup.Copied
        journal.tools.backup.JournalCopy journal.tools.backup_all._Backup
        journal.tools.cut.BatchFacts journal.tools.cut.Tail
        journal.tools.dump.WantedRecords journal.read.frames.Frames journal.read.frames.Hole
        journal.format.subscription_state.Beginning journal.tools.patch.Patch
        journal.tools.patch.Nothing journal.recovery.lost_segments.LostSegments
        journal.recovery.bodies.BodyCheck journal.recovery.bodies._Hole
        journal.tools.view.JournalView journal.tools.view._LiveFiles
        journal.recovery.recovery.Recovery journal.tools.repair.Repair journal.tools.repair._Round
        journal.read.scan.Gap journal.read.scan.Scan core.subscription.restore.OutOfOrder
        core.replay.replay.Replay core.replay.subscription_replay.SubscriptionReplay
        core.replay.subscription_replay.PutSizes server.restart.adoption.RecoveredDirectory
        server.restart.adoption.Adoption server.restart.recovery._Folder
        server.restart.recovery._Recovery server.restart.replayed.Replayed
        server.reslice.reslice.Resliced server.reslice.reslice._Note
        server.reslice.slice_state.SliceState server.directory.word_file.Copies
        journal.__main__._OneLine
    """,
}
_VALUES: Final[dict[str, str]] = {
    "totals since the start": "protocol.routing.merging.RouterCounts",
    "a statement, as a server takes it": """
        journal.engine.postgres.round_trip._Statement
    """,
    "why a server does not serve now": """
        protocol.login.ClosedGate
    """,
    "who owns a slice, and by which right": """
        journal.engine.engine.Claim journal.engine.engine.Member journal.engine.engine.Owner
        journal.engine.engine_files.EngineHandle journal.engine.engine_files.EngineLock
        journal.engine.engine.Engine journal.engine.engine.EngineMoment
        journal.engine.engines.NeedsExtra journal.engine.one_moment.NothingToRead
        journal.engine.one_moment.OneMoment journal.engine.commits_nothing.CommitsNothing
        journal.engine.facts.Facts journal.engine.facts.Replica journal.engine.facts.Made
        journal.engine.object_store.bucket.ObjectBucket journal.engine.object_store.bucket.Found
        journal.engine.object_store.bucket.ListedObject journal.engine.object_store.s3.S3Bucket
        journal.engine.object_store.entry.LogEntry journal.engine.object_store.entry.SliceRow
        journal.engine.object_store.moment.ObjectStoreMoment
        journal.engine.object_store.object_store_engine._Tail
        journal.engine.object_store.reading.Wanted
        journal.engine.object_store.slice_files.PackedPart
        journal.engine.object_store.slice_files.Recent
        journal.engine.object_store.slice_files.FilesSnapshot
        journal.engine.object_store.slice_files.StoredFile
        journal.engine.object_store.slice_log.SlicePlace
        journal.engine.engine.Seat journal.engine.engine.Takeover journal.engine.engine.Layout
        journal.engine.postgres.snapshot.PostgresSnapshot
    """,
    "where a copy ends, and what left it": """
        journal.tools.cut.End journal.tools.cut.Move
    """,
    "an error": """
        journal.engine.engine.EngineAway journal.engine.engine.EngineFull
        journal.engine.engine.Fenced journal.errors.Unreachable
        journal.engine.postgres.settings.OtherTables
        journal.engine.postgres.settings.UnsafeSettings
        journal.engine.object_store.entry.Damaged
    """,
    "stands in for a journal that is not used any more": """
        journal.write.preallocation._Ended
    """,
    "what a client may say, or was said": """
        journal.format.key.Type journal.format.kinds.Effect journal.format.kinds.Kind
        journal.format.kinds.KindRow journal.format.kinds.Says journal.format.kinds.Tag
        journal.format.kinds.TextRow
        journal.format.record.Draft journal.format.schedule.Watermark core.index.delayed.Delay
        core.index.waiters.Want core.subscription.where.Where core.transfer.transfer.TransferState
        core.transfer.remote_transfer.RemoteState
        core.transfer.transfer.Event core.transfer.transfer.TransferEffect
        protocol.parse.commands.Ending
        protocol.parse.set_conditions.Handoff protocol.parse.set_conditions.Once
        protocol.parse.option_values.Tokens protocol.parse.option_values.ChildBegin
        protocol.parse.option_values.BrowseView protocol.parse.options.Option
        protocol.verbs.value_line.Shape protocol.parse.commands.Target
        protocol.parse.commands.StoreLine protocol.parse.commands.Form
        protocol.parse.meta._Silent protocol.text.form.TextForm protocol.text.wire.TextWire
        protocol.wire.Memcache protocol.verbs.table.Row
        protocol.routing.routed_wire.RoutedMemcache protocol.routing.routed_wire.RoutedMail
        protocol.wire.Routed protocol.text.routed.RoutedText
        protocol.routing.merging.Listed protocol.routing.asking.CheckHere
    """,
    "settings": """
        journal.write.segment_file.Sizes core.key_rule.KeySettings core.policy.Policy
        core.schedules.CatchUp core.schedules.Schedule server.descriptors.DescriptorShares
        server.descriptors.RouterShares
        server.directory.token_file._Numbers server.exposure.TlsFiles
    """,
    "an error, or a sentence about the disk": """
        journal.compaction.compaction.DamagedInput journal.snapshot.dedupe_load.ChunkDamaged
        journal.errors.Damage journal.errors.DirectoryLocked journal.errors.JournalError
        journal.errors.JournalFailed journal.errors.NewerFormat
        journal.snapshot.snapshot.SnapshotDamaged protocol.parse.options.UnknownOption
        server.daemon.StartError server.connections.listeners.CannotListen
        server.supervisor.BadInheritance journal.held_folder.FolderChanged
        protocol.routing.answer_ends.Unreadable
        server.slices.doors.NotThere server.slices.member_slices.Seen
        server.slices.slice_process.Restart server.slices.doors.WantedSlice
    """,
    "a file, or what is known of one": """
        journal.snapshot.dedupe_file.Chunk journal.files.Disk journal.files.DiskHandle
        journal.patience._Patient journal.held_folder.HeldFolder
    """,
    "what a child asked for last, kept for the next one that asks the same (UNSEEN_MAX)": """
        core.fanout.unseen.Arrivals core.fanout.unseen.Digest
    """,
    "only methods, or what others fill in": """
        journal.recovery.live_set.ReadableJournal journal.write.preallocation.Log
        journal.sets.id_counts.IdPages
        journal.files.Files journal.files.Handle journal.files.Lock journal.snapshot.job.Pilable
        core.key_rule.KeyRule core.schedules.Times
        core.fanout.child.Parent core.log.memory_log.Reserve core.subscription.state.Needs
        core.subscription.ready_items.KeyGatePort
        core.trash.Passing
        operations.ports.Site operations.ports.ItemReader
        protocol.ports.Host protocol.ports.ConnectionRoom
        protocol.ports.Talk protocol.ports.Shell
        operations.ports.Caller operations.ports.Client operations.ports.ItemWording
        operations.ports.Work
        protocol.login.Login protocol.login.LoginPort
        protocol.parse.requests.Requests protocol.wire.Wire
        protocol.routing.routed_wire.Answers protocol.routing.routed_wire.RoutedWire
        server.mail.couriers.Turns
        server.connections.connection.DaemonPort server.connections.memory.MemoryHolder
        server.connections.revocation.Revocable
        protocol.routing.routed_login.Waking protocol.routing.sliced_queues.SlicedQueuesPort
        protocol.routing.routed.RouterHost server.slices.connections.RouterPort
        server.slices.doors.DoorPort
        server.slices.doors.EnteringClient
        server.journals.read_back.OnThread server.shares.Sharer server.turn.TurnSharer
    """,
    "what people did last, bounded; an entry lets go what it rested on": """
        operations.actions.Actions operations.actions.Action operations.actions._Entry
        operations.damage.DamageFound
    """,
    "held by its task alone; it keeps the names that it found at its last look": """
        server.connections.sweep.ConnectionSweep server.directory.watch.DirectoryWatch
    """,
}

# Another value than 0 is rest.
_OTHERWISE: Final[dict[str, dict[str, tuple[object, ...]]]] = {
    "core.index.ready_list.Ready": {"frontier": (NO_FRONTIER,)},
    "journal.read.readahead.ReadAhead": {"_hole_at": (0, -1)},
}
# An entry that is cancelled in the middle is removed later: so a few of them may be left.
_AT_MOST: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "core.timers.Timers": {"_cancelled": (64, "cleared with the next of them")},
}


def _split(table: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return the table with one key for each attribute."""
    return {
        name: {each: why for names, why in entries.items() for each in names.split()}
        for name, entries in table.items()
    }


def _listed(table: Mapping[str, str]) -> dict[str, str]:
    return {each: why for why, names in table.items() for each in names.split()}


MAY_HOLD: Final = _split({**_STAYS, **rest_clients.STAYS})
STAYS: Final[Collection[str]] = MAY_HOLD.keys()
RETAINED: Final = _split(_RETAINED)
REMEMBERED: Final = _split(_REMEMBERED)
UNWRITTEN: Final = _split(_UNWRITTEN)
NONE_LEFT: Final = _listed(_NONE_LEFT) | _listed(rest_clients.NONE_LEFT)
VALUES: Final = _listed(_VALUES) | _listed(rest_clients.VALUES)
OTHERWISE: Final = {
    name: {each: (values,) for each, values in entries.items()}
    for name, entries in {**_OTHERWISE, **rest_clients.OTHERWISE}.items()
}
AT_MOST: Final = _AT_MOST


def _commit_is_over(commit: Any) -> str:
    if commit.failure is not None or commit.lsn_appended == commit.lsn_written:
        return ""
    return f"{commit.lsn_appended - commit.lsn_written} records are not written"


def _memory_adds_up(memory: Any) -> str:
    held = sum(holder.held_bytes for holder in memory.holders)
    return "" if memory.used == held else f"{memory.used} bytes are counted, {held} are held"


RELATIONS: Final[dict[str, tuple[Callable[[Any], str], ...]]] = {
    "journal.write.group_commit.GroupCommit": (_commit_is_over,),
    "server.connections.memory.ConnectionMemory": (_memory_adds_up,),
}
