"""What may be there when nothing is under way, by class and attribute, each with its reason.

    STAYS       lives as long as a server or a queue: an attribute that does not stand here must be
                0, false, empty or None at rest
    NONE_LEFT   lives as long as a request, an item, a job: no instance may be found at rest
    VALUES      says something and holds nothing: its attributes are not looked at

Names of classes are those of their modules, without the package `kestrelpy`.

One rule: what only grows, or is bounded by nothing, has no place here without saying why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from kestrelpy.core.ready import NO_FRONTIER

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
WORKS: Final = "runs as long as the process does"
ELSEWHERE: Final = "its records are kept elsewhere"
UNFOLLOWED: Final = (CACHE, ELSEWHERE)

# By class: attributes that may hold something, with the reason.
_STAYS: Final[dict[str, dict[str, str]]] = {
    # -- journal ------------------------------------------------------------------------------
    "journal.backlog.Backlog": {
        "_life": TOTAL,
        "_number _limit _base _data _at _needed _seen _is_over": BUFFER,
    },
    "journal.commit.GroupCommit": {
        "lsn_appended lsn_written lsn_durable item_written item_durable item_in_flight": NUMBER,
    },
    "journal.counts.IdCounts": {},
    "journal.fresh.Batch": {},
    "journal.fresh.Fresh": {"keeps": SETTING},
    "journal.ids.IdSet": {"_first _last": "bounds of a run that may be empty"},
    "journal.journal.Journal": {
        "folder identity short_identity": NAME,
        "_to_sync _retired": "handles of what was written behind the last sync: by a rest, or by a "
        "queue that never syncs, until its next snapshot",
    },
    "journal.ledger.Ledger": {
        "segments": INSIDE,
        "_standing": "one record for each kind, reader and schedule",
        "revived_lsn _held_below": NUMBER,
    },
    "journal.retention.Retention": {
        "ms bytes_most": SETTING,
        "_told _count _counted": LAST,
    },
    "journal.rotation.Segment": {
        "number path rank capacity": NAME,
        "lsn_first lsn_last at item_first item_last time_last emptied_lsn": NUMBER,
        "puts extra_bytes recycled is_open damaged unread": ON_DISK,
        "weighed": "which snapshot it was looked at for last",
    },
    "journal.seen.Table": {
        "width _shift _row _room _marks": "its shape: buckets, empty or not",
        "_next _swept": "its shape, while it grows or shrinks",
    },
    "journal.segment.Tally": {
        "counts item_first item_last place_first place_last time_min time_max": ON_DISK,
    },
    "journal.spares.Spares": {
        "number _failed": NUMBER,
        "waiting recycled": ON_DISK,
        "_need_most _need_more": "what the segment before needed, counted at each rotation",
    },
    "journal.upkeep.Upkeep": {
        "snapshots chunks lost_chunks _forgotten": ON_DISK,
        "has_rotated": "a segment was sealed: the next snapshot comes with the next write",
        "is_asked": "something may go: the next snapshot comes with the next write",
        "_leased": LAST,
    },
    # -- core ---------------------------------------------------------------------------------
    "core.branch.Branch": {},
    "core.broker.Broker": {
        "queues remnants": INSIDE,
        "queues_max aliases server_id": SETTING,
        "generation_deleted": NUMBER,
    },
    "core.child.Child": {
        "part": NAME,
        "floor taken named_lsn": NUMBER,
        "total_items seen_bytes": TOTAL,
        "asked_ms": CLOCK,
    },
    "core.children.Later": {},
    "core.counters.QueueCounters": {
        "expired discarded opened cancelled flushes redelivered lease_expired duplicates "
        "closes_without_open gaps": TOTAL,
    },
    "core.counters.ServerCounters": {
        "bytes_read bytes_written cmd_get cmd_peek cmd_set connections_total get_hits get_misses "
        "queue_creates queue_deletes queue_expires refused_quietly": TOTAL,
    },
    "core.dead.DeadLine": {"_order": NUMBER},
    "core.delays.Delays": {},
    "core.due.DueTimes": {"_tidied": "where the next look begins"},
    "core.idle.Idle": {"_looked_ms due_ms": CLOCK, "age_ms": SETTING, "unsure": NUMBER},
    "core.keyed.Keyed": {},
    "core.keys.Keys": {"matches_any": SETTING},
    "core.leases.Holder": {
        "name": NAME,
        "overdue": "where a lease ended, until this connection's next word about that queue",
    },
    "core.leases._InOrder": {"latest_ms": NUMBER},
    "core.leases.Leases": {},
    "core.line.Line": {},
    "core.log.JournalLog": {
        "archive_to sync_ms": SETTING,
        "lsn_appended lsn_written lsn_stored lsn_durable item_stored lsn_told awaited_lsn": NUMBER,
    },
    "core.marks.Marks": {"latest": NUMBER, "_compacted": "where the next look begins"},
    "core.missed.Missed": {
        "_numbers _events _passed": "what some child may not have seen yet (MISSED_MAX)",
        "_known": LAST,
    },
    "core.moves.Moves": {},
    "core.null_log.NullLog": {
        "lsn_written lsn_stored lsn_durable item_stored lsn_appended": NUMBER,
        "archive_to": SETTING,
    },
    "core.once.Ids": {"_asked _hash _bucket": LAST},
    "core.once.Scope": {
        "epoch since last used_ms ids": "a scope, until its window is over",
    },
    "core.passages.Passages": {},
    "core.queue.Queue": {
        "name server_id generation own_number": NAME,
        "declared passes_on is_remnant": SETTING,
        "children eager": INSIDE,
        "epochs": "one time for each schedule",
        "readers_named next_number": NUMBER,
        "put_bytes total_items": TOTAL,
        "created_ms _complained_ms tended_ms": CLOCK,
    },
    "core.reader.Reader": {
        "name number": NAME,
        "paused": SETTING,
        "tokens_lsn _next_token _tokens_below": NUMBER,
    },
    "core.ready.Ready": {},
    "core.residency.Memory": {"limit": SETTING},
    "core.residency.Residency": {"most allowed": SETTING},
    "core.retained.Retained": {"_seen": NUMBER, "look_ms": CLOCK},
    "core.schedules.Running": {
        "done_s looked_s next_s complained_ms": CLOCK,
        "is_known": "its queue was looked at",
    },
    "core.schedules.Timetable": {
        "running": INSIDE,
        "_looked_ms _next_wall_ms _is_due": CLOCK,
    },
    "core.shared_log.SharedLog": {"number": NAME},
    "core.stubs.Stubs": {},
    "core.timers.Alarm": {"at_ms": CLOCK},
    "core.timers.Entry": {"due_ms number": CLOCK},
    "core.timers.Timers": {
        "_number": NUMBER,
        "_heap": "alarms of what is there; each entry is looked at for itself",
    },
    "core.to_come.ToCome": {
        "_is_known _lsn _number _count": LAST,
        "_at_work": "children that somebody took from",
    },
    "core.tokens.TokenFloor": {"on_disk _in_memory": NUMBER},
    "core.tokens.TokenRange": {"below": NUMBER},
    "core.trash.Trash": {},
    "core.versions.Versions": {
        "lost_ms lost_item": "what was found to be damaged at the start",
        "_asked _hash _bucket _at _highest _is_first": LAST,
    },
    "core.waiters.Waiters": {},
    "core.wall.Wall": {"offset_ms": CLOCK},
    # -- protocol -----------------------------------------------------------------------------
    "protocol.conversation.Conversation": {
        "last_command_ms _suggests_ms": CLOCK,
        "has_overrun": "how the last share of a turn ended",
        "closing": "it says no more",
    },
    "protocol.fetching.Fetching": {"at_end": "its client says no more"},
    "protocol.log_limit.LogLimit": {"_said": "lines of the last minute, bounded"},
    "protocol.log_limit._Said": {"at_ms left": CLOCK},
    "protocol.memcache.Parser": {"_lines": CACHE, "_data _at _searched": BUFFER},
    "protocol.observing.Observing": {
        "at_end": "its client says no more",
        "_places": "where this connection read last, bounded",
    },
    "protocol.replies.Replies": {},
    "protocol.storing.Storing": {"stored_bytes _quiet_bytes": "of the current turn"},
    # -- server -------------------------------------------------------------------------------
    "server.background.Background": {},
    "server.committer.Committer": {
        "_threads _idle": "sync threads stay until the process ends",
        "reserve_bytes": SETTING,
    },
    "server.connection.Connection": {
        "_reading is_local": SETTING,
        "heavy_until_ms moved_ms heard_ms": CLOCK,
        "_at_end": "its client says no more",
        "_moved_bytes": "that came since it moved last",
    },
    "server.connection_memory.ConnectionMemory": {"limit": SETTING, "peak": TOTAL},
    "server.daemon.Daemon": {
        "mode server_id _lowered": SETTING,
        "lines": CACHE,
        "started_ms": CLOCK,
        "_connections": INSIDE,
        "_tasks": WORKS,
    },
    "server.data_directory.DataDirectory": {
        "path server_id _damaged_id": NAME,
        "_remnants": INSIDE,
    },
    "server.gathering.Gathering": {
        "_fed _since_ms _hurry_until_ms is_hurried": "of the last turns with a write",
    },
    "server.later_syncs.LaterSyncs": {},
    "server.listeners.Listeners": {"_servers _socket": WORKS, "_backlog": SETTING},
    "server.open_journals.OpenJournals": {
        "most": SETTING,
        "_holding": "journals that were written a moment ago and have not rested yet",
    },
    "server.policies.Policies": {},
    "server.read_back.ReadBack": {},
    "server.removals.Removals": {},
    "server.schedules.Schedules": {},
    "server.shared_reads.SharedReads": {},
    "server.shares.Shares": {"_direct_until": CLOCK},
    "server.shortage.Shortage": {"_most _began": "of the latest shortage", "_is_named": LAST},
    "server.token_file.TokenFile": {
        "_held _wanted": NUMBER,
        "_is_there _is_old _is_lost": ON_DISK,
    },
    "server.turn.Turn": {
        "_timer _timer_ms _wall_checked_ms": CLOCK,
    },
    "server.word_file.WordFile": {"path": NAME},
}

# Where a queue keeps what is done.
_RETAINED: Final[dict[str, dict[str, str]]] = {
    "journal.ids.IdSet": {"_bits _counts count": "what is kept"},
    "core.marks.Marks": {"_markers _ids _kept retains": "markers of what is kept"},
}
# Until their windows are over.
_REMEMBERED: Final[dict[str, dict[str, str]]] = {
    "journal.seen.Table": {"count": "ids or versions"},
    "journal.fresh.Batch": {"ids scoped keys": "of these: what no file has yet"},
    "core.once.Ids": {"scopes": "of these"},
}

# Of a journal in a test that writes nothing.
_UNWRITTEN: Final[dict[str, dict[str, str]]] = {
    "core.log.JournalLog": {"_dirty _is_dirty": "it has something to write, and nobody writes it"},
    "journal.commit.GroupCommit": {"lsn_appended": ELSEWHERE},
    "journal.journal.Journal": {"_flushed": ELSEWHERE},
}

_JOB: Final = "a job, or what it reads: it ends with it"
_OF_AN_ITEM: Final = "an item, or what is known of one"
_OF_A_REQUEST: Final = "a request, or a part of one"
_AT_START: Final = "of a start, or of a tool that reads a folder"

_NONE_LEFT: Final[dict[str, str]] = {
    _JOB: """
        journal.backlog.ReadOrder journal.backlog.ReadOne journal.by_id.Found
        journal.by_id.ReadSome journal.by_id._Walk journal.carry.CarryJob journal.carry.Victim
        journal.carry._Put journal.carry._Survivors journal.carry._Walk journal.commit.SyncJob
        journal.gather.Gathered journal.gather.Gathering journal.gather.Place
        journal.gather.TimeSearch journal.gather._Walk journal.merging.MergeJob
        journal.merging._Prefixes journal.rotation.SpareOrder journal.segment.SegmentHeader
        journal.seeking.Extent journal.snapshot.SegmentState journal.snapshot.Snapshot
        journal.upkeep.Memory journal.upkeep.SnapshotJob journal.upkeep.State journal.chunks.Part
        journal.chunks.Summary journal.chunks.ScopeState journal.lines.ReaderState
        journal.checkpoint.Checkpoint core.delays._Entries server.background.Pause
        server.reloading.Enforcement server.reloading.Reload server.reloading._Known
    """,
    _OF_AN_ITEM: """
        journal.apart.DelayedEntry journal.apart.PlacedEntry journal.lending.LeaseEntry
        journal.lines.DeadEntry journal.moving.Origin journal.record.Record journal.stamp.Stamp
        core.item.Item core.keys.Row core.leases.Lease core.missed.Release core.orders.Order
        core.passages._Leaving core.placed.Placed core.upto.UpTo core.waiters.Waiter
        core.versions.Written core.kept.Kept
    """,
    _OF_A_REQUEST: """
        protocol.commands.Bad protocol.commands.Delete protocol.commands.Fetch
        protocol.commands.Plain protocol.commands.Remove protocol.commands.Store
        protocol.commands.Touch protocol.commands.Upto protocol.commands.Withdraw
        protocol.handing.Given protocol.looking._Stored protocol.observing.Answer
        protocol.observing.Reading protocol.released.Released protocol.replies.Gate
        protocol.replies.Together protocol.waiting.Waiting
    """,
    _AT_START: """
        journal.account.Account journal.account.Line journal.chain.Chain journal.chain.SegmentFile
        journal.check.Past journal.check.Report journal.check.StartView journal.check._Lost
        journal.chunk_files.Chunks journal.copying.Copied journal.copying._Copy
        journal.dump.Wanted journal.frames.Frames journal.frames.Hole journal.lines.Beginning
        journal.mend.Mending journal.mend.Nothing journal.missing.Missing
        journal.reader.JournalView journal.reader._LiveFiles journal.recovery.Recovery
        journal.repair.Repair journal.repair._Round journal.scan.Gap journal.scan.Scan
        core.apart.Apart core.replay.Replay core.replay_line.ReplayLine core.replay_line.Sizes
        server.data_directory.Found server.word_file.Copies journal.__main__._OneLine
    """,
}
_VALUES: Final[dict[str, str]] = {
    "what a client may say, or was said": """
        journal.canonical.Type journal.record.Kind journal.record.Tag journal.record.Draft
        journal.epochs.Nominal core.delays.Delay core.waiters.Want core.operating.Waiting
        protocol.commands.Ending protocol.once.Handoff protocol.once.Once protocol.tokens.Tokens
        protocol.markers.Begin protocol.markers.View protocol.shape.Shape
        protocol.commands.Target protocol.commands.StoreLine
    """,
    "settings": """
        journal.rotation.Sizes core.key_rule.KeySettings core.policy.Policy core.schedules.CatchUp
        core.schedules.Schedule server.descriptors.Shares server.token_file._Numbers
    """,
    "an error, or a sentence about the disk": """
        journal.carry.DamagedVictim journal.chunk_files.ChunkDamaged journal.errors.Damage
        journal.errors.DirectoryLocked journal.errors.JournalError journal.errors.JournalFailed
        journal.errors.NewerFormat journal.snapshot.SnapshotDamaged
        protocol.targets.UnknownOption server.daemon.StartError server.listeners.CannotListen
    """,
    "a file, or what is known of one": """
        journal.chunks.Chunk journal.files.Disk journal.files.DiskHandle
        journal.patience._Patient
    """,
    "what a child asked for last, kept for the next one that asks the same (MISSED_MAX)": """
        core.missed.Digest
    """,
    "only methods, or what others fill in": """
        journal.account.Source journal.files.Files journal.files.Handle core.key_rule.KeyRule
        core.log.Log core.records.Records core.schedules.Times core.shared_log.Needs
        protocol.host.Host protocol.host.Room protocol.host.Talk protocol.host.Work
        protocol.replies.Awaited server.connection.Door server.connection_memory.Holder
        server.read_back.OnThread server.shares.Sharer server.turn.Speaker
    """,
    "held by its task alone; it keeps the names that it found at its last look": """
        server.connection_sweep.ConnectionSweep
    """,
}

# Another value than 0 is rest.
_OTHERWISE: Final[dict[str, dict[str, tuple[object, ...]]]] = {
    "core.ready.Ready": {"frontier": (NO_FRONTIER,)},
    "journal.backlog.Backlog": {"_hole_at": (0, -1)},
}
# What is taken out of the middle is passed over later: so many such entries may lie there.
_AT_MOST: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "core.timers.Timers": {"_cancelled": (64, "cleared with the next of them")},
}


def _split(table: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The same with one key for each attribute."""
    return {
        name: {each: why for names, why in entries.items() for each in names.split()}
        for name, entries in table.items()
    }


def _listed(table: Mapping[str, str]) -> dict[str, str]:
    return {each: why for why, names in table.items() for each in names.split()}


MAY_HOLD: Final = _split(_STAYS)
STAYS: Final[Collection[str]] = MAY_HOLD.keys()
RETAINED: Final = _split(_RETAINED)
REMEMBERED: Final = _split(_REMEMBERED)
UNWRITTEN: Final = _split(_UNWRITTEN)
NONE_LEFT: Final = _listed(_NONE_LEFT)
VALUES: Final = _listed(_VALUES)
OTHERWISE: Final = {
    name: {each: (values,) for each, values in entries.items()}
    for name, entries in _OTHERWISE.items()
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
    "journal.commit.GroupCommit": (_commit_is_over,),
    "server.connection_memory.ConnectionMemory": (_memory_adds_up,),
}
