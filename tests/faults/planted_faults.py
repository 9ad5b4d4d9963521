"""The faults that are planted: each a small change to the source, and the tests that must find it.

One rule: a fault breaks one promise, compiles, and looks like a mistake somebody could make.
"""

from __future__ import annotations

from dataclasses import dataclass

COMMIT = "journal/write/group_commit.py"
JOURNAL = "journal/write/writer.py"
FILES = "journal/files.py"
REPLIES = "kestrelpy/protocol/replies.py"
FETCHING = "kestrelpy/protocol/verbs/get.py"
LEASING = "kestrelpy/operations/leasing.py"
READER = "kestrelpy/core/subscription/subscription.py"
UPKEEP = "journal/compaction/maintenance.py"
KEYS = "kestrelpy/core/index/key_locks.py"
MANIFEST = "kestrelpy/cli/journals/manifest.py"

TESTS_OF_THE_JOURNAL = (
    "tests/unit/journal/write/test_group_commit.py",
    "tests/unit/journal/write/test_writer.py",
)
TESTS_OF_FILES = (
    "tests/unit/journal/test_files.py", "tests/unit/journal/test_files_system_calls.py",
    "tests/model/test_journal_machine.py",
)  # fmt: skip
TESTS_OF_FORMAT = (
    "tests/unit/journal/format/test_record.py", "tests/unit/journal/format/test_segment.py",
    "tests/unit/journal/tools/test_every_damage.py",
)  # fmt: skip
TESTS_OF_THE_WIRE = (
    "tests/unit/protocol/test_replies.py", "tests/unit/protocol/test_conversation.py",
    "tests/unit/protocol/test_runs.py",
    "tests/unit/protocol/verbs/test_get.py", "tests/scenario/test_transcripts.py",
)  # fmt: skip
TESTS_OF_THE_SERVER = (
    "tests/unit/server/journals/test_syncs.py", "tests/unit/server/journals/test_committer.py",
    "tests/unit/server/test_turn.py", "tests/unit/server/test_daemon.py",
)  # fmt: skip
TESTS_OF_THE_CORE = ("tests/unit/core", "tests/model")
TESTS_OF_UPKEEP = (
    "tests/unit/journal/compaction/test_maintenance.py",
    "tests/unit/server/journals/test_journal_jobs.py", "tests/model/test_memory_machine.py",
)  # fmt: skip
TESTS_OF_KEYS = (
    "tests/unit/core/index/test_key_locks.py",
    "tests/unit/core/subscription/test_key_gate.py",
)
TESTS_OF_SCHEDULES = (
    "tests/unit/core/test_schedules.py",
    "tests/unit/core/test_schedules_crash.py",
)
TESTS_OF_THE_WORKER = (
    "tests/process/client/test_client.py", "tests/process/client/test_client_lost.py",
    "tests/process/client/test_renewal.py",
)  # fmt: skip
TESTS_OF_A_SHORTAGE = (
    "tests/unit/journal/test_shortage.py", "tests/unit/journal/test_files.py",
    "tests/unit/server/journals/test_read_back.py",
    "tests/unit/server/journals/test_open_journals.py",
    "tests/unit/protocol/verbs/test_get_wait.py", "tests/unit/server/test_daemon.py",
)  # fmt: skip
TESTS_OF_RELOADS = ("tests/unit/server/test_reloading.py",)
TESTS_OF_SHARES = (
    "tests/unit/server/test_shares.py", "tests/unit/server/connections/test_memory.py",
    "tests/unit/server/connections/test_connection.py", "tests/unit/protocol/test_conversation.py",
)  # fmt: skip
TESTS_OF_THE_TEXT_PORT = ("tests/unit/protocol/text", "tests/scenario/test_transcripts.py")
TESTS_OF_DAMAGE = (
    "tests/unit/journal/tools/test_damaged_files.py",
    "tests/unit/journal/tools/test_damaged_blocks.py",
)
SIMULATION = ("tests/simulation/test_simulation.py",)


@dataclass(frozen=True)
class Fault:
    """`old` stands exactly once in `path` and becomes `new`; one of `tests` has to notice."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS: tuple[Fault, ...] = (
    # -- shortages -------------------------------------------------------------------------
    Fault(
        "out of files: an EMFILE fails a journal",
        JOURNAL,
        "            if is_shortage(error):\n                self.shortage = error\n",
        "            if not error:\n                self.shortage = error\n",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: a segment is sealed before the next one is open",
        JOURNAL,
        "        if not self._open(prepared) or (self.active",
        "        if (self.active",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: an EMFILE while reading back counts as damage",
        "journal/read/readahead.py",
        "        if not is_shortage(error):\n            self._lose",
        "        if error:\n            self._lose",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: what cannot be read by its number now is hidden",
        "journal/read/lookup.py",
        "                    if is_shortage(error):\n",
        "                    if not error:\n",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: a dead item that cannot be read now is hidden",
        "kestrelpy/server/journals/read_back.py",
        "            if is_shortage(error):\n                self._reviving.discard(reader)\n",
        "            if not error:\n                self._reviving.discard(reader)\n",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: a get answers END for what cannot be read now",
        FETCHING,
        "            if unread and pending.rests is None:\n",
        "            if unread and not pending.target:\n",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: an observer is told that there is nothing",
        "kestrelpy/operations/reading.py",
        "        if error is not None and is_shortage(error):\n",
        "        if error is not None and not error:\n",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: a write that failed for want of memory passes for one not begun",
        FILES,
        "    number = errno.EIO if is_shortage(error) else error.errno\n",
        "    number = error.errno\n",
        TESTS_OF_A_SHORTAGE,
    ),
    Fault(
        "out of files: more journals than their share keep their files open",
        "kestrelpy/server/journals/open_journals.py",
        "        if len(self._open) < self.most or target in self._open:\n",
        "        if self.most or target in self._open:\n",
        TESTS_OF_A_SHORTAGE,
    ),
    # -- syncs -----------------------------------------------------------------------------
    Fault(
        "a record counts as synced when the sync begins",
        COMMIT,
        "        self.lsn_in_flight = self.lsn_written\n",
        "        self.lsn_in_flight = self.lsn_durable = self.lsn_written\n",
        TESTS_OF_THE_JOURNAL,
    ),
    Fault(
        "a sync covers what was written while it ran",
        COMMIT,
        "            self.lsn_durable = self.lsn_in_flight\n",
        "            self.lsn_durable = self.lsn_written\n",
        TESTS_OF_THE_JOURNAL,
    ),
    Fault(
        "a journal that failed syncs again",
        COMMIT,
        "        if self.failure or self.lsn_in_flight or",
        "        if self.lsn_in_flight or",
        TESTS_OF_THE_JOURNAL,
    ),
    Fault(
        "only the first of several files is synced",
        COMMIT,
        "            for handle in self.handles:\n",
        "            for handle in self.handles[:1]:\n",
        TESTS_OF_THE_JOURNAL,
    ),
    Fault(
        "a sync's error is ignored by the journal",
        JOURNAL,
        '            self.fail("syncing", self.folder, error)\n',
        "            self.commit.finish_sync()\n",
        TESTS_OF_THE_JOURNAL,
    ),
    Fault(
        "a write's error is ignored by the journal",
        JOURNAL,
        '            self.fail("writing", segment.path, error)\n            return False\n',
        "            pass\n",
        TESTS_OF_THE_JOURNAL,
    ),
    Fault(
        "a sync's error is lost on its way from the thread",
        "kestrelpy/server/journals/syncs.py",
        "            self.error = failed\n",
        "            self.error = None\n",
        TESTS_OF_THE_SERVER,
    ),
    Fault(
        "STORED is said when the item is written",
        "kestrelpy/core/log/log.py",
        "commit.lsn_durable if waits else commit.lsn_written",
        "commit.lsn_written",
        (*TESTS_OF_THE_WIRE, "tests/unit/core/log/test_log.py", *TESTS_OF_THE_SERVER),
    ),
    # -- files -----------------------------------------------------------------------------
    Fault(
        "a new file has its name before its bytes are on disk",
        FILES,
        "                handle.sync()\n                at += piece\n",
        "                at += piece\n",
        TESTS_OF_FILES,
    ),
    Fault(
        "the folder of a new file is not synced",
        FILES,
        "        with self._changing(os.path.dirname(new)):\n            self._change(",
        "        if True:\n            self._change(",
        TESTS_OF_FILES,
    ),
    Fault(
        "the folder of many files with new names is not synced",
        FILES,
        "        with self._changing(folder):\n            for",
        "        if names:\n            for",
        TESTS_OF_FILES,
    ),
    Fault(
        "removals are not synced, so they may lose their order",
        FILES,
        "(FileNotFoundError), self._changing(folder):\n",
        "(FileNotFoundError):\n",
        TESTS_OF_FILES,
    ),
    Fault(
        "another folder at the path of the data directory is taken for it",
        "journal/held_folder.py",
        "        if has_moved(self.folder, self.identity):\n"
        '            raise FolderChanged(self.folder, "it was removed,',
        '        if False:\n            raise FolderChanged(self.folder, "it was removed,',
        ("tests/unit/journal/test_held_folder.py",),
    ),
    Fault(
        "only the lock file is locked",
        "journal/held_folder.py",
        "            self._is_locked = _lock_folder(self.descriptor)\n",
        "            self._is_locked = True\n",
        ("tests/unit/journal/test_held_folder.py",),
    ),
    Fault(
        "a short write counts as a whole one",
        FILES,
        "        if written == len(data):\n",
        "        if written <= len(data):\n",
        TESTS_OF_FILES,
    ),
    Fault(
        "two daemons may own one directory",
        "journal/held_folder.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
        (*TESTS_OF_FILES, "tests/unit/journal/test_held_folder.py"),
    ),
    # -- bytes -----------------------------------------------------------------------------
    Fault(
        "a record's checksum is not looked at",
        "journal/format/record.py",
        "    if crc32(data[offset + CRC_BYTES : end]) != crc:\n",
        "    if crc32(data[offset + CRC_BYTES : end]) < 0:\n",
        TESTS_OF_FORMAT,
    ),
    Fault(
        "a record of an earlier segment parses, where a file was used again",
        "journal/format/record.py",
        "        number_of_segment != segment\n",
        "        number_of_segment < 0\n",
        TESTS_OF_FORMAT,
    ),
    Fault(
        "a record of another journal parses",
        "journal/format/record.py",
        "        or (journal and owner != journal)\n",
        "",
        TESTS_OF_FORMAT,
    ),
    Fault(
        "a file header's checksum is not looked at",
        "journal/format/segment.py",
        "        if crc32(data[: FILE_HEADER_BYTES - 4]) != crc:\n",
        "        if crc32(data[: FILE_HEADER_BYTES - 4]) < 0:\n",
        TESTS_OF_FORMAT,
    ),
    # -- replies ---------------------------------------------------------------------------
    Fault(
        "a reply leaves without waiting for its record",
        REPLIES,
        "log.lsn_written < written:\n            held.append",
        "log.lsn_written < written and held:\n            held.append",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "a reply that is true overtakes one that is held",
        REPLIES,
        "            self.held.append((data, log, 0, 0, 1))\n",
        "            self.out.append(data)\n",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "a run of sets is answered when the first of them is stored",
        REPLIES,
        "(data, log, last, 0, count)",
        "(data, log, last - count + 1, 0, count)",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "when the log fails within a run of sets, those that are stored are told otherwise",
        REPLIES,
        "true = max(log.lsn_stored - (stored - count), 0)",
        "true = 0",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "a run of sets passes a queue's limits",
        "kestrelpy/core/queue/queue.py",
        "            or policy.bounded\n            or policy.keys",
        "            or policy.keys",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "when the log fails, a held reply is sent as if it were true",
        REPLIES,
        'data = self._failed(log.failure, count) if data or data is SILENT else b""',
        "pass",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "an item is handed out before it is synced",
        LEASING,
        "        stored, written = lease.item.lsn, 0\n",
        "        stored, written = 0, 0\n",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "a peek shows an item before it is synced",
        FETCHING,
        "    to.hold(data, reader.log, item.lsn)\n",
        "    to.say(data)\n",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "a token is shown before its range is reserved on disk",
        LEASING,
        "            stored = max(stored, reader.tokens_lsn)\n",
        "            pass\n",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "a failed queue still hands out",
        FETCHING,
        "        elif not target.peeks and queue.log.failure is not None:\n"
        "            queue.raise_failed()\n"
        "        if token:\n",
        "        if token:\n",
        TESTS_OF_THE_WIRE,
    ),
    # -- leases and order ------------------------------------------------------------------
    Fault(
        "a close after the lease has ended is taken for one with nothing open",
        READER,
        "            lease.holder.overdue.append(self)\n",
        "",
        (*TESTS_OF_THE_WIRE, *TESTS_OF_THE_CORE),
    ),
    Fault(
        "what is given back goes to the end of the line",
        "kestrelpy/core/index/ready_list.py",
        "        self._back[item.id] = self._returned.add(place, item)\n",
        "        self._line.append(item)\n",
        TESTS_OF_THE_CORE,
    ),
    Fault(
        "an item is delivered once more than max_attempts says",
        "kestrelpy/core/subscription/subscription.py",
        "attempts >= most and counts",
        "attempts > most and counts",
        TESTS_OF_THE_CORE,
    ),
    Fault(
        "a deferred item counts an attempt",
        "kestrelpy/core/subscription/subscription.py",
        "        counts = buries or reason != DEFERRED\n",
        "        counts = True\n",
        TESTS_OF_THE_CORE,
    ),
    Fault(
        "a token is good until a tick has ended its lease",
        "kestrelpy/core/subscription/token_leases.py",
        "lease.deadline_ms <= now_ms):\n",
        "lease.deadline_ms < 0):\n",
        ("tests/unit/core/subscription/test_token_leases.py", "tests/model/test_queue_machine.py"),
    ),
    Fault(
        "a restart goes on with a lease that was given back",
        "kestrelpy/core/replay/subscription_replay.py",
        "        self._leases.pop(id_, None)\n        if id_ in reader.live and",
        "        if id_ in reader.live and",
        (
            "tests/unit/core/subscription/test_token_leases.py",
            "tests/unit/core/replay/test_replay.py",
        ),
    ),
    Fault(
        "on a full disk a lease by token ends without a record",
        "kestrelpy/core/subscription/subscription.py",
        "        if self.log.is_full and not lease.by_token:\n",
        "        if self.log.is_full:\n",
        ("tests/unit/core/subscription/test_token_leases.py",),
    ),
    Fault(
        "a deleted queue takes the knowledge of its tokens with it",
        "kestrelpy/server/directory/data_directory.py",
        "        self.tokens.save(below, max(queue.generation for queue in queues))\n",
        "",
        ("tests/unit/server/directory/test_token_file.py",),
    ),
    Fault(
        "a lease by token is shown before it is written",
        LEASING,
        "            written = lease.lsn\n",
        "            written = 0\n",
        TESTS_OF_THE_WIRE,
    ),
    Fault(
        "tokens are issued again after a restart",
        "kestrelpy/core/subscription/state.py",
        "        self.tokens.below = max(below, self.tokens.below)\n",
        "        self.tokens.below = max(below - TOKENS_RESERVED, 1)\n",
        TESTS_OF_THE_CORE,
    ),
    Fault(
        "the last to wait is served first",
        "kestrelpy/core/index/waiters.py",
        "        self._lines[waiter.dead].append(waiter)\n",
        "        self._lines[waiter.dead].appendleft(waiter)\n",
        TESTS_OF_THE_CORE,
    ),
    # -- what waits in the log only ----------------------------------------------------------
    Fault(
        "memory has no bound",
        "kestrelpy/core/subscription/ready_items.py",
        "            cost >= state.residency.allowed\n",
        "            cost >= 1 << 60\n",
        TESTS_OF_THE_CORE,
    ),
    Fault(
        "an item without its body comes back into memory",
        "kestrelpy/core/subscription/ready_items.py",
        "        if not item.is_whole and (is_out_of_order or place < ready.frontier):\n",
        "        if item.id < 0:\n",
        TESTS_OF_THE_CORE,
    ),
    Fault(
        "what is let go does not move the frontier back",
        "kestrelpy/core/index/ready_list.py",
        "        self.frontier = min(self.frontier, id_)\n",
        "        self.frontier = self.frontier if self.beyond else id_\n",
        TESTS_OF_THE_CORE,
    ),
    Fault(
        "what is read back is not checked",
        "journal/read/readahead.py",
        "            if record is None:\n",
        "            if record is None and cursor.at < 0:\n",
        ("tests/unit/journal/read/test_readahead.py", "tests/model/test_memory_machine.py"),
    ),
    Fault(
        "what stands apart is met again in the log",
        "kestrelpy/core/subscription/ready_items.py",
        " or id_ in state.out_of_order)\n",
        ")\n",
        TESTS_OF_THE_CORE,
    ),
    # -- snapshots, rewriting, removal -------------------------------------------------------
    Fault(
        "a snapshot claims one record more than it includes",
        UPKEEP,
        "            journal.commit.lsn_written, active.number,",
        "            journal.commit.lsn_written + 1, active.number,",
        TESTS_OF_UPKEEP,
    ),
    Fault(
        "a snapshot is written before its log is durable",
        "kestrelpy/server/journals/journal_jobs.py",
        "target.journal.commit.lsn_durable >= job.snapshot.lsn",
        "target.journal.commit.lsn_written >= job.snapshot.lsn",
        TESTS_OF_UPKEEP,
    ),
    Fault(
        "a survivor is dropped when segments are rewritten",
        "journal/compaction/compaction.py",
        "if kind == _PUT and item in live and lsn <= source.lsn_last:",
        "if kind == _PUT and item in live and lsn < source.lsn_last:",
        ("tests/unit/journal/compaction/test_compaction.py", "tests/model/test_memory_machine.py"),
    ),
    Fault(
        "what is rewritten is what is alive now, though a power cut may take a confirm away",
        "kestrelpy/server/journals/journal_jobs.py",
        "                chosen, snapshot.snapshot.needed(), ",
        "                chosen, target.state().live, ",
        SIMULATION,
    ),
    Fault(
        "a segment is removed before the records that emptied it are durable",
        "journal/write/segment_list.py",
        "if may_go and not segment.live and segment.emptied_lsn <= lsn_durable:",
        "if may_go and not segment.live:",
        ("tests/unit/journal/write/test_segment_list.py", *SIMULATION),
    ),
    Fault(
        "a segment is removed that the older snapshot needs",
        "journal/write/segment_list.py",
        "may_go = 0 < segment.lsn_last <= snapshots[0] and",
        "may_go = 0 < segment.lsn_last <= snapshots[-1] and",
        ("tests/unit/journal/write/test_segment_list.py", *SIMULATION),
    ),
    Fault(
        "a segment takes with it what was declared for the queue",
        "journal/write/segment_list.py",
        "if any(lsn < following.lsn_first for lsn in standing):",
        "if any(lsn < segment.lsn_first for lsn in standing):",
        ("tests/unit/journal/write/test_segment_list.py", "tests/unit/core/queue/test_declared.py"),
    ),
    Fault(
        "how far a schedule has got goes with the segment of its item",
        "kestrelpy/core/queue/queue.py",
        "            log.stand(nominal.draft(unix_ms), item.lsn)\n",
        "            pass\n",
        TESTS_OF_SCHEDULES,
    ),
    Fault(
        "of several schedules a segment holds back the last that put",
        "journal/write/segment_list.py",
        "        self._standing[kind, reader, decode_meta(meta).get(Tag.SCOPE)] = ",
        "        self._standing[kind, reader, None] = ",
        TESTS_OF_SCHEDULES,
    ),
    Fault(
        "a start forgets that a schedule's last time was in a segment",
        "kestrelpy/core/queue/queue.py",
        "        return [*drafts, *watermark_drafts(self.watermarks, unix_ms)]\n",
        "        return drafts\n",
        TESTS_OF_SCHEDULES,
    ),
    Fault(
        "a snapshot does not say how far schedules have got",
        "journal/snapshot/snapshot.py",
        "        yield from watermark_drafts(self.watermarks, time_ms)\n",
        "",
        TESTS_OF_SCHEDULES,
    ),
    Fault(
        "a put does not say for which time of a schedule it is",
        "kestrelpy/core/log/records.py",
        'item.said(due_ms, b"" if nominal is None else nominal.meta)\n',
        "item.said(due_ms)\n",
        TESTS_OF_SCHEDULES,
    ),
    Fault(
        "a clock that is set back and forward brings times again",
        "kestrelpy/core/schedules.py",
        "        since_s = max(since_s, self._come_s)\n",
        "",
        TESTS_OF_SCHEDULES,
    ),
    Fault(
        "a paused queue leases an item to a waiting client",
        READER,
        "        if self.paused or (policy",
        "        if (policy",
        ("tests/unit/core/queue/test_admin.py", "tests/scenario/test_transcripts.py"),
    ),
    Fault(
        "a restart lends from a paused queue",
        "kestrelpy/core/replay/subscription_replay.py",
        "        self.reader.paused = record.small == 1\n",
        "        pass\n",
        ("tests/unit/core/queue/test_admin.py", "tests/scenario/test_transcripts.py"),
    ),
    Fault(
        "a renewal is not remembered over a restart",
        "kestrelpy/core/replay/subscription_replay.py",
        "                self._leases[record.item] = renewed = lease.renewed(record)\n",
        "                renewed = lease.renewed(record)\n",
        ("tests/unit/core/subscription/test_token_leases.py", "tests/scenario/test_transcripts.py"),
    ),
    Fault(
        "a reload forgets what was declared",
        "kestrelpy/server/reloading.py",
        "policy_in(config, queue.name, declared, owners)",
        'policy_in(config, queue.name, b"", owners)',
        ("tests/scenario/test_transcripts.py", "tests/process/wire/test_declaring.py"),
    ),
    Fault(
        "a file is used again though a backup shares it",
        "journal/compaction/retire.py",
        "        if files.links(reuse_path) == 1:\n",
        "        if files.links(reuse_path) >= 1:\n",
        ("tests/unit/journal/compaction/test_retire.py",),
    ),
    # -- keys --------------------------------------------------------------------------------
    Fault(
        "a key stays taken when its item is confirmed",
        READER,
        "        elif item.key:\n            self.key_gate.end(item)\n",
        "        elif not item.key:\n            self.key_gate.end(item)\n",
        TESTS_OF_KEYS,
    ),
    Fault(
        "a give-back frees the key",
        READER,
        "            self.key_gate.unlease(item)\n",
        "            self.key_gate.unlease(item)\n            self.key_gate.end(item)\n",
        TESTS_OF_KEYS,
    ),
    Fault(
        "with any, a skipped item keeps its place on the values that others have alone",
        KEYS,
        "        row = rows.setdefault(value, id_)\n",
        "        row = rows.get(value, id_)\n",
        TESTS_OF_KEYS,
    ),
    Fault(
        "an item that waits for two values goes when the first is free",
        KEYS,
        "        return waits == 0\n",
        "        return waits >= 0\n",
        TESTS_OF_KEYS,
    ),
    Fault(
        "after a restart the key of what is lent by token is free",
        "journal/format/lease.py",
        "        if key:\n",
        "        if not self.key:\n",
        TESTS_OF_KEYS,
    ),
    Fault(
        "a comma in a value splits it",
        "kestrelpy/protocol/parse/option_values.py",
        'return tuple(text_of(unquote_to_bytes(value)) for value in named.split(b","))',
        'return tuple(map(text_of, unquote_to_bytes(named).split(b",")))',
        ("tests/scenario/test_transcripts.py",),
    ),
    Fault(
        "1 is the same key as the text 1",
        "journal/format/key.py",
        'return _value(Type.INTEGER, b"%d" % value)',
        'return _value(Type.TEXT, b"%d" % value)',
        ("tests/unit/journal/format/test_key.py",),
    ),
    # -- starts ------------------------------------------------------------------------------
    Fault(
        "the page cache is trusted after an unclean end",
        "journal/recovery/recovery.py",
        "        if self.tail or self.torn:\n",
        "        if self.torn:\n",
        ("tests/unit/journal/recovery/test_recovery.py", "tests/model/test_journal_machine.py"),
    ),
    Fault(
        "the log is cut after the first record that may be torn",
        "journal/recovery/recovery.py",
        "if is_lost and first > self.lsn_synced and",
        "if is_lost and first > self.lsn_synced + 1 and",
        (
            "tests/unit/journal/recovery/test_recovery.py",
            "tests/unit/journal/tools/test_every_damage.py",
        ),
    ),
    Fault(
        "an item is accepted without room for its confirm",
        "journal/write/preallocation.py",
        "        return self.is_short or active is None or ",
        "        return True or active is None or ",
        ("tests/unit/journal/write/test_preallocation.py",
         "tests/process/faults/test_full_disk.py"),
    ),
    Fault(
        "a deleted queue leaves an earlier one of its name behind",
        "kestrelpy/server/directory/data_directory.py",
        "            if made <= generation and made not in stay",
        "            if made == generation and made not in stay",
        ("tests/unit/server/directory/test_data_directory.py",),
    ),
    # -- the worker ----------------------------------------------------------------------------
    Fault(
        "a worker's confirm that was cut off is not said again",
        "kestrelpy/client/worker.py",
        "            else:\n                self._confirm_again(leased)\n            return None\n",
        "            return None\n",
        TESTS_OF_THE_WORKER,
    ),
    Fault(
        "a worker's lease that ended is not told",
        "kestrelpy/client/renewal.py",
        "        else:\n            self._lose(item, why)\n",
        "        else:\n            self._forget(item)\n",
        TESTS_OF_THE_WORKER,
    ),
    Fault(
        "a worker is put off only when its lease is over",
        "kestrelpy/client/lease_times.py",
        "            return item._lease_ends - self.lease_seconds / 4\n",
        "            return item._lease_ends + 1\n",
        TESTS_OF_THE_WORKER,
    ),
    Fault(
        "what was put since the living were counted is taken for dead",
        UPKEEP,
        "covered_lsn = min(self.snapshots[0], live_lsn)",
        "covered_lsn = self.snapshots[0]",
        ("tests/unit/journal/compaction/test_maintenance.py",),
    ),
    # -- what stands apart, moves, the dead ---------------------------------------------------
    Fault(
        "what waits for its key stands in no snapshot at its place",
        "kestrelpy/core/subscription/placed.py",
        "self._blocked = reader.key_gate.keys.rows()",
        "self._blocked = []",
        ("tests/unit/core/subscription/test_placed.py",),
    ),
    Fault(
        "what was given back for later is there at once after a restart",
        "kestrelpy/core/replay/subscription_replay.py",
        "            self.out_of_order.delay(record)\n",
        "            pass\n",
        ("tests/unit/core/index/test_delayed.py",),
    ),
    Fault(
        "an original ends before its copy is on disk",
        "kestrelpy/core/transfer/in_flight.py",
        "log.lsn_durable, log.failure is not None, 0\n",
        "log.lsn_appended, log.failure is not None, 0\n",
        (
            "tests/unit/core/transfer/test_transfers.py",
            "tests/unit/core/transfer/test_handoff_crash.py",
        ),
    ),
    Fault(
        "another slice lists no copies of items that are in doubt",
        "kestrelpy/core/transfer/arrivals.py",
        "                arrivals.append(Arrival(origin, there, is_sure))\n",
        "                pass\n",
        ("tests/unit/core/transfer/test_remote.py",),
    ),
    Fault(
        "a slice says that it has a copy before that is on disk",
        "kestrelpy/protocol/routing/mail.py",
        "    talk.replies.hold(reply_bytes(MailSent(received.copy)), rest, received.lsn)\n",
        "    talk.replies.say(reply_bytes(MailSent(received.copy)))\n",
        ("tests/unit/core/transfer/test_remote.py",),
    ),
    Fault(
        "a slice lists copies before they are on disk",
        "kestrelpy/protocol/routing/mail.py",
        "    talk.replies.hold(reply_bytes(reply), rests, 1)\n",
        "    talk.replies.say(reply_bytes(reply))\n",
        ("tests/unit/core/transfer/test_remote.py",),
    ),
    Fault(
        "another slice hears that an original is gone before that is on disk",
        "kestrelpy/core/transfer/remote.py",
        "        transfer.state = RemoteState.LEFT\n",
        "        transfer.state = RemoteState.LEFT\n"
        "        peer.gone.append(transfer.origin)\n",
        ("tests/unit/core/transfer/test_remote.py",),
    ),
    Fault(
        "a slice takes a letter that comes late",
        "kestrelpy/core/transfer/arrivals.py",
        "        return self._permits.get(server) == permit\n",
        "        return True\n",
        ("tests/unit/core/transfer/test_remote.py",),
    ),
    Fault(
        "an item is sent to another slice before the record that it leaves is on disk",
        "kestrelpy/core/transfer/remote.py",
        "        self._wait(transfer)\n"
        "\n"
        "    def _wait(",
        "        transfer.state = RemoteState.SENT\n"
        "        peer.letters.append(transfer)\n"
        "\n"
        "    def _wait(",
        ("tests/unit/core/transfer/test_remote.py",),
    ),
    Fault(
        "a start lends a dead item that somebody has by token",
        "kestrelpy/core/subscription/token_leases.py",
        "                state.dead.lease(entry.item)\n",
        "",
        ("tests/unit/core/subscription/test_token_leases.py",),
    ),
    # -- restore, tokens, files ------------------------------------------------------------------
    Fault(
        "a backup's manifest is trusted",
        MANIFEST,
        "    if queue.folder != allowed:\n",
        "    if not queue.folder:\n",
        ("tests/process/cli/test_manifest.py",),
    ),
    Fault(
        "a backup's manifest may have an unknown key",
        MANIFEST,
        "        if key not in keys:\n",
        "        if not key:\n",
        ("tests/process/cli/test_manifest.py",),
    ),
    Fault(
        "a link in a backup is followed",
        MANIFEST,
        "        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):\n",
        "        if stat.S_ISCHR(mode):\n",
        ("tests/process/cli/test_manifest.py",),
    ),
    Fault(
        "the checksum of a token file is not looked at",
        "kestrelpy/server/directory/word_file.py",
        "    return word if word and copy == _encoded(word) else None\n",
        "    return word or None\n",
        ("tests/unit/server/directory/test_token_file.py",),
    ),
    Fault(
        "where a token file is damaged tokens begin at 1",
        "kestrelpy/server/directory/token_file.py",
        "            below = max(unix_ms * TOKENS_PER_MS, TOKENS_SKIPPED)\n",
        "            below = 1\n",
        ("tests/unit/server/directory/test_token_file.py",),
    ),
    Fault(
        "a token file is damaged and no start names it",
        "kestrelpy/server/directory/data_directory.py",
        "        return [each for each in damaged if each]\n",
        "        return []\n",
        ("tests/unit/server/directory/test_server_id.py",),
    ),
    Fault(
        "a server whose id is damaged is another one",
        "kestrelpy/server/directory/server_id.py",
        "        taken = said or new_id()\n        source",
        "        taken = new_id()\n        source",
        ("tests/unit/server/directory/test_server_id.py",),
    ),
    Fault(
        "a generation comes twice over a restart",
        "kestrelpy/server/restart/recovery.py",
        "max(broker.generation_deleted, directory.tokens.generation)\n",
        "broker.generation_deleted\n",
        ("tests/unit/server/directory/test_token_file.py",),
    ),
    Fault(
        "the umask decides what the owner of a file may do",
        FILES,
        "            _set_mode(descriptor, FILE_MODE)\n            handle.write",
        "            handle.write",
        ("tests/unit/server/directory/test_owner_only.py",),
    ),
    Fault(
        "the owner's group may read every item",
        FILES,
        "FILE_MODE: Final = 0o600",
        "FILE_MODE: Final = 0o640",
        ("tests/unit/server/directory/test_owner_only.py",),
    ),
    Fault(
        "a data directory that others may open is not named",
        "kestrelpy/server/directory/owner_only.py",
        "        if mode & _OTHERS and (",
        "        if not mode and (",
        ("tests/unit/server/directory/test_owner_only.py",),
    ),
    Fault(
        "files with a copy go before those with the original",
        "kestrelpy/server/queue_deletion.py",
        "            or self._broker.moves.in_flight.follows(queue)\n",
        "",
        ("tests/unit/server/test_queue_deletion.py",),
    ),
    Fault(
        "two deleted queues wait for each other's files for good",
        "kestrelpy/core/transfer/in_flight.py",
        "            if queue not in before:\n",
        "            if before:\n",
        ("tests/unit/core/registry/test_lifecycle.py",),
    ),
    Fault(
        "each connection with a wrong protocol has a line in the log",
        "kestrelpy/protocol/log_limit.py",
        "            said.left += 1\n            return None\n",
        "            return \"\"\n",
        ("tests/unit/protocol/test_log_limit.py",),
    ),
    Fault(
        "one client with many addresses fills the log",
        "kestrelpy/protocol/log_limit.py",
        "                key = MANY\n",
        "                pass\n",
        ("tests/unit/protocol/test_log_limit.py",),
    ),
    Fault(
        "flush_all with a delay flushes at once",
        "kestrelpy/protocol/verbs/admin.py",
        "    if command.words and command.words != [b\"0\"]:\n",
        "    if not command:\n",
        ("tests/scenario/test_transcripts.py",),
    ),
    Fault(
        "a name is a formula in a report's CSV files",
        "kestrelpy/spark/jobs/report/figures.py",
        "cell.startswith(_FORMULA_BEGINS)\n",
        "not cell\n",
        ("tests/unit/spark/jobs/report/test_figures.py",),
    ),
    # -- slices --------------------------------------------------------------------------------
    Fault(
        "an item that comes before the turn of its queue has its key by the old settings",
        "kestrelpy/server/reloading.py",
        "            each.queue.set_keys(each.policy.keys)\n",
        "            pass\n",
        TESTS_OF_RELOADS,
    ),
    Fault(
        "a reload goes on with a queue that was deleted meanwhile",
        "kestrelpy/server/reloading.py",
        "if broker.queues.get(name) is not queue:",
        "if name not in broker.queues:",
        TESTS_OF_RELOADS,
    ),
    Fault(
        "a reload does not check what was declared during its check",
        "kestrelpy/server/reloading.py",
        "self.queue is queue and self.declared == queue.declared and self.owner == owner",
        "self.queue is queue and self.owner == owner",
        TESTS_OF_RELOADS,
    ),
    Fault(
        "a reload takes a queue that was made again for the one that it checked",
        "kestrelpy/server/reloading.py",
        "self.queue is queue and self.declared == queue.declared and self.owner == owner",
        "self.declared == queue.declared and self.owner == owner",
        TESTS_OF_RELOADS,
    ),
    Fault(
        "a reload goes by the rights of the user who declared a target before",
        "kestrelpy/server/reloading.py",
        "self.queue is queue and self.declared == queue.declared and self.owner == owner",
        "self.queue is queue and self.declared == queue.declared",
        TESTS_OF_RELOADS,
    ),
    Fault(
        "a reload is put in force for all queues in one turn",
        "kestrelpy/server/reloading.py",
        "self._enforcement.go_on(now_ms, STEPS_MAX)",
        "self._enforcement.go_on(now_ms, 1 << 30)",
        TESTS_OF_RELOADS,
    ),
    Fault(
        "the confirms of a child that begins its work have no room",
        "kestrelpy/core/fanout/child.py",
        "            self.parent.count_anew()  # it is at work from now on\n",
        "            pass\n",
        ("tests/unit/core/queue/test_record_reserve.py",),
    ),
    # -- what would hold up the loop -----------------------------------------------------------
    Fault(
        "a flush looks at one lease by token after the other",
        "kestrelpy/core/subscription/subscription.py",
        "leases.token_bytes + sum",
        "sum(each.item.size for each in leases if each.by_token and not each.dead) + sum",
        ("tests/unit/core/subscription/test_flush.py",),
    ),
    Fault(
        "a lease by token that has ended is still spared by a flush",
        "kestrelpy/core/index/leases.py",
        "                self.token_ids.discard(lease.item.id)\n",
        "",
        ("tests/unit/core/subscription/test_flush.py",),
    ),
    Fault(
        "what a flush leaves behind is freed at once",
        "kestrelpy/core/trash.py",
        "        left = FREED_MAX\n",
        "        left = len(self)\n",
        ("tests/unit/core/test_trash.py",),
    ),
    Fault(
        "a long upto goes in one step",
        "kestrelpy/core/queue/ack_up_to.py",
        "return min(first - 1 + most, self._marker)",
        "return self._marker",
        ("tests/unit/core/queue/test_ack_up_to.py",),
    ),
    Fault(
        "a step of an upto takes what is released to a higher marker",
        "kestrelpy/core/queue/ack_up_to.py",
        "        if hidden.count:\n            stay",
        "        if not hidden:\n            stay",
        ("tests/unit/core/queue/test_ack_up_to.py",),
    ),
    Fault(
        "a step of an upto forgets those whose markers earlier steps passed",
        "kestrelpy/core/queue/ack_up_to.py",
        "        for _, id_ in queue.reader.markers.between(self._at + 1, marker):\n",
        "        self._passed = IdSet()\n"
        "        for _, id_ in queue.reader.markers.between(self._at + 1, marker):\n",
        ("tests/unit/core/queue/test_ack_up_to.py",),
    ),
    Fault(
        "one set tells all observers in one turn",
        "kestrelpy/core/subscription/subscription.py",
        "        most = RESUMED_OBSERVERS_MAX - len(to_resume)\n",
        "        most = latest\n",
        ("tests/unit/core/index/test_waiters.py",),
    ),
    Fault(
        "an observer whose time is over before its turn is told that there is nothing",
        "kestrelpy/core/broker.py",
        "                waiter.owner = queue.reader"
        "  # there are items: a later turn would have served it\n",
        "                pass\n",
        ("tests/unit/core/index/test_waiters.py",),
    ),
    Fault(
        "an item that came back is not found in its row when only the log has its key",
        KEYS,
        "self._line.of(self._place_of(id_)) if other == id_]",
        "self._line.of(id_) if other == id_]",
        TESTS_OF_KEYS,
    ),
    Fault(
        "upto leaves the key of an item that came back and is in the log alone",
        "kestrelpy/core/queue/ack_up_to.py",
        "            keyed.drop_unread(id_, 0)  # of an item that went to the log alone\n",
        "            pass\n",
        ("tests/unit/core/queue/test_ack_up_to.py",),
    ),
    # -- shares and memory of connections --------------------------------------------------------
    Fault(
        "a share has no bound in commands",
        "kestrelpy/protocol/conversation.py",
        "(not left or self._elapsed() >= until)",
        "self._elapsed() >= until",
        TESTS_OF_SHARES,
    ),
    Fault(
        "a share has no bound in time",
        "kestrelpy/protocol/conversation.py",
        "(not left or self._elapsed() >= until)",
        "not left",
        TESTS_OF_SHARES,
    ),
    Fault(
        "a connection that has sent more than its share is read from",
        "kestrelpy/server/connections/connection.py",
        "if self._reading and self._is_ahead(conversation):",
        "if not self._reading:",
        TESTS_OF_SHARES,
    ),
    Fault(
        "those who flood have all of a turn",
        "kestrelpy/server/shares.py",
        "            if self._elapsed() >= until:\n                return\n",
        "",
        TESTS_OF_SHARES,
    ),
    Fault(
        "the nearest option is looked for each time",
        "kestrelpy/protocol/verbs/bad.py",
        "talk.suggests_ms = now_ms + SUGGESTION_MS",
        "talk.suggests_ms = now_ms",
        ("tests/unit/protocol/verbs/test_bad.py",),
    ),
    Fault(
        "a stalled client keeps what it holds",
        "kestrelpy/server/connections/memory.py",
        "                holder.shed()\n                shed += 1\n",
        "                shed += 1\n",
        TESTS_OF_SHARES,
    ),
    Fault(
        "unread answers do not count",
        "kestrelpy/server/connections/connection.py",
        "max(made, self._reserved_bytes)",
        "0",
        TESTS_OF_SHARES,
    ),
    Fault(
        "one that goes on beyond the limit keeps the others waiting for good",
        "kestrelpy/server/connections/memory.py",
        "            if self._favoured is holder:\n                self._favoured = None\n"
        "        if freed",
        "        if freed",
        TESTS_OF_SHARES,
    ),
    Fault(
        "a client that is gone leaves its body in memory",
        "kestrelpy/protocol/conversation.py",
        "        self.parser.clear()  # breaks a reference cycle\n",
        "",
        TESTS_OF_SHARES,
    ),
    # -- shortages that pass ---------------------------------------------------------------
    Fault(
        "out of files: a snapshot that is tried again forgets delays",
        "kestrelpy/core/index/delayed.py",
        "        return _Entries(parts)\n",
        "        return iter([*_Entries(parts)])\n",
        ("tests/unit/server/test_snapshot_again.py",),
    ),
    Fault(
        "out of files: a deleted queue leaves before what was handed off to it is over",
        "kestrelpy/server/queue_deletion.py",
        "is_held = not target.is_full and",
        "is_held = not target.no_room and",
        ("tests/unit/server/test_queue_deletion.py",),
    ),
    Fault(
        "out of files: an item that is returned meanwhile is not recorded",
        "kestrelpy/core/subscription/subscription.py",
        "        if self.log.is_full and not lease.by_token:\n",
        "        if self.log.no_room and not lease.by_token:\n",
        ("tests/unit/core/test_shortage.py",),
    ),
    Fault(
        "full disk: a deleted queue waits until its next segment can be made",
        "kestrelpy/server/queue_deletion.py",
        "turn.committer.is_preparing(target)",
        "target.journal.preallocation.is_under_way",
        ("tests/unit/server/test_queue_deletion.py",),
    ),
    Fault(
        "the text port: the reply to a put does not wait for its items",
        "kestrelpy/protocol/text/requests.py",
        "replies.hold(command.form.total(), joint, 1)",
        "replies.say(command.form.total())",
        TESTS_OF_THE_TEXT_PORT,
    ),
    Fault(
        "the text port: a put that fails on the way to the disk is counted as stored",
        REPLIES,
        "            self.joint.hold(data, log, stored, written)\n            return\n",
        "            self.joint.say(data)\n            return\n",
        TESTS_OF_THE_TEXT_PORT,
    ),
    Fault(
        "the text port: an item with a line end stays leased to a client that never saw it",
        "kestrelpy/protocol/text/requests.py",
        "    if form.is_unfit and not peeks:\n",
        "    if form.is_unfit and peeks:\n",
        TESTS_OF_THE_TEXT_PORT,
    ),
    Fault(
        "the text port: the items after a refused one are stored",
        "kestrelpy/protocol/text/parser.py",
        "        if form.refusal is not None:\n",
        "        if form.refusal is not None and not form.stored:\n",
        TESTS_OF_THE_TEXT_PORT,
    ),
    Fault(
        "http: an item stays leased to a client that was gone before the answer",
        "kestrelpy/http/lease_taker.py",
        "            if lease in lease.holder.leases:\n",
        "            if lease not in lease.holder.leases:\n",
        ("tests/unit/http/test_gone.py",),
    ),
    # -- damage, and items that others wait for --------------------------------------------
    Fault(
        "damage: the items of a segment that was not read count as readable",
        "journal/recovery/bodies.py",
        "            if one.is_read and one.item_last:\n",
        "            if one.item_last:\n",
        TESTS_OF_DAMAGE,
    ),
    Fault(
        "damage: verify meets the puts of a file in another one's place",
        "journal/tools/verify.py",
        "        if header is None or not self._is_here(header, frames.path):\n",
        "        if header is None:\n",
        TESTS_OF_DAMAGE,
    ),
    Fault(
        "damage: a compacted segment without a header hides those after it",
        "journal/recovery/segment_order.py",
        "                and (s.lsn_first <= covered or first <= s.lsn_stated)\n",
        "                and s.lsn_first <= covered\n",
        TESTS_OF_DAMAGE,
    ),
    Fault(
        "damage: lost puts count as unreadable only where a snapshot knows them",
        "kestrelpy/server/restart/adoption.py",
        "            reader.know_unreadable(lost.get(reader.number, IdSet()))\n",
        "            reader.know_unreadable(IdSet())\n",
        ("tests/unit/server/journals/test_lost_puts.py", *TESTS_OF_DAMAGE),
    ),
    Fault(
        "damage: a loss that is acknowledged is in no record",
        "kestrelpy/core/queue/admin.py",
        "        reader.append(records.cancelled(id_, size, now_ms + self._queue.clock",
        "        (records.cancelled(id_, size, now_ms + self._queue.clock",
        ("tests/unit/server/journals/test_read_back.py",),
    ),
    Fault(
        "made again: no record says that the queue was",
        "kestrelpy/core/queue/queue.py",
        "        log.append(named(0, b\"\", self.floor, AGAIN, unix_ms))\n",
        "        log.wait_durable(log.lsn_appended)\n",
        ("tests/unit/core/registry/test_made_again.py",),
    ),
    Fault(
        "an item that is delayed past its expiry waits until it is due",
        "kestrelpy/core/subscription/expiry_sweep.py",
        "            state.delays.leave(id_, size)\n",
        "            return\n",
        ("tests/unit/core/subscription/test_expiry_sweep.py",),
    ),
    Fault(
        "a redriven item ends at the expiry of its put",
        "kestrelpy/core/queue/admin.py",
        "        reader._apply_ageless(id_)\n",
        "",
        ("tests/unit/core/transfer/test_redriven.py",),
    ),
    Fault(
        "an id with another body counts as a repetition",
        "kestrelpy/core/index/dedupe.py",
        "        return seen != 0 and seen != self._fingerprint(key, body)\n",
        "        return seen == 0 and seen != self._fingerprint(key, body)\n",
        ("tests/unit/core/index/test_same_body.py",),
    ),
    # -- checked once, left never, right in one of several variants ---------------------------
    Fault(
        "a redrive in batches goes on when the server is read-only",
        "kestrelpy/operations/queue_admin.py",
        "            if not self._is_up:\n                break\n            for _ in range(min(",
        "            for _ in range(min(",
        ("tests/unit/operations/test_modes.py",),
    ),
    Fault(
        "a purge in batches goes on when the server is read-only",
        "kestrelpy/http/admin/moving.py",
        (
            "        for ids in chosen.batches():\n"
            "            Removal.check(call.broker, call.host, queue.name)\n"
        ),
        (
            "        Removal.check(call.broker, call.host, queue.name)\n"
            "        for ids in chosen.batches():\n"
        ),
        ("tests/unit/http/admin/test_changes_in_a_job.py",),
    ),
    Fault(
        "a claim shows a message that went while it was read",
        "kestrelpy/http/zaqar/claims.py",
        " for put in puts if put.id in held]",
        " for put in puts]",
        ("tests/unit/http/zaqar/test_claims.py",),
    ),
    Fault(
        "a claim that ended while it was read is shown",
        "kestrelpy/http/zaqar/claims.py",
        (
            "    now_ms = call.now_ms()\n"
            "    leases, unix_ms = claiming.leases(now_ms), now_ms + call.broker.clock.offset_ms\n"
            "    if not leases:\n"
        ),
        "    unix_ms = call.now_ms() + call.broker.clock.offset_ms\n    if not leases:\n",
        ("tests/unit/http/zaqar/test_claims.py",),
    ),
    Fault(
        "a worker that met a full disk leases by connection for ever",
        "kestrelpy/client/worker.py",
        "        self._is_full = False\n        try:\n",
        "        try:\n",
        ("tests/unit/client/test_full_disk.py",),
    ),
    Fault(
        "a repeated action forgets what the first rests on",
        "kestrelpy/operations/actions.py",
        "            self._rests = rests or self._rests\n",
        "            self._rests = rests\n",
        ("tests/unit/operations/test_actions.py",),
    ),
    Fault(
        "what expires has the age of dead letters in its queue",
        "kestrelpy/core/transfer/transfers.py",
        "is_death = request.by_itself and request.target == policy.dead_letter_to",
        "is_death = request.by_itself",
        ("tests/unit/core/transfer/test_transfers.py",),
    ),
    Fault(
        "only of a stored event it is waited that it is on disk",
        "kestrelpy/http/streams.py",
        "    if done.rests is not None:\n        await call.until(done.rests)\n",
        (
            "    if done.rests is not None and done.lsn >= 0:\n"
            "        await call.until(done.rests)\n"
        ),
        ("tests/unit/http/test_streams.py",),
    ),
    Fault(
        "the figures of schedules need a right in a queue of that name",
        "kestrelpy/protocol/rights.py",
        "_LISTS_OF_ALL: Final = frozenset({b\"markers\", b\"schedules\"})",
        "_LISTS_OF_ALL: Final = frozenset({b\"markers\"})",
        ("tests/unit/protocol/test_rights.py",),
    ),
    Fault(
        "a schedule with another queue forgets its times over a restart",
        "kestrelpy/core/schedules.py",
        "                running = self._begun(schedule, unix_s, known)",
        (
            "                own = self._broker.queues.get(schedule.queue)\n"
            "                marks = own.files.watermarks if own is not None else {}\n"
            "                running = self._begun(schedule, unix_s, marks)"
        ),
        ("tests/unit/core/test_schedules.py",),
    ),
    Fault(
        "of two queues any says how far a schedule has got",
        "kestrelpy/core/schedules.py",
        "found[scope] = max(value, found.get(scope, value))",
        "found[scope] = value",
        ("tests/unit/core/test_schedules.py",),
    ),
    Fault(
        "a segment whose last confirm is not durable is rewritten as empty",
        "journal/compaction/maintenance.py",
        (
            "        if any(not s.live and s.emptied_lsn > durable for s in chosen):\n"
            "            return []  # a power cut may still bring back items of one of them\n"
        ),
        "",
        ("tests/unit/journal/compaction/test_maintenance.py",),
    ),
    Fault(
        "a hand-off that waited says of an open item that its token is over",
        "kestrelpy/protocol/verbs/handoff.py",
        "            if handoff is not None and handoff.token:\n",
        "            if handoff is not None:\n",
        ("tests/unit/protocol/verbs/test_handoff.py",),
    ),
    Fault(
        "a hand-off that waited looks at no lease",
        "kestrelpy/protocol/verbs/handoff.py",
        "        if found.lease not in found.lease.holder.leases:\n",
        "        if found.lease is None:\n",
        ("tests/unit/protocol/verbs/test_handoff.py",),
    ),
    Fault(
        "the expiry of a set with conditions counts from another clock",
        "kestrelpy/protocol/verbs/set.py",
        "        unix_ms = now_ms + self.broker.clock.offset_ms\n        return _new(\n",
        "        unix_ms = now_ms\n        return _new(\n",
        ("tests/unit/protocol/verbs/test_set_life.py",),
    ),
    Fault(
        "the record of a loss that was given up has the time of another clock",
        "kestrelpy/core/queue/admin.py",
        (
            "        reader.append(records.cancelled(id_, size, now_ms + "
            "self._queue.clock.offset_ms))\n"
            "        files"
        ),
        "        reader.append(records.cancelled(id_, size, now_ms))\n        files",
        ("tests/unit/server/journals/test_read_back.py",),
    ),
    Fault(
        "a client that hangs up in its body is a mistake of the server",
        "kestrelpy/http/guard.py",
        (
            "            if message[\"type\"] == \"http.disconnect\":\n"
            "                raise Gone\n"
            "            if part"
        ),
        "            if part",
        ("tests/unit/http/test_guard.py",),
    ),
    Fault(
        "a connection that was woken and needs nothing stays the favoured one",
        "kestrelpy/server/connections/memory.py",
        "                self._favoured = None  # it needed nothing any more\n",
        "                pass\n",
        ("tests/unit/server/connections/test_memory.py",),
    ),
    Fault(
        "an idle journal is tidied beside a compaction of it",
        "journal/compaction/reclaim.py",
        "            and not self._journal.segment_list.busy\n        )",
        "        )",
        ("tests/unit/journal/compaction/test_reclaim.py",),
    ),
    Fault(
        "a prepared segment gets its name before the tail in it is on disk",
        "journal/recovery/reopen.py",
        (
            "    handle.write(0, b\"\".join(chunks))\n"
            "    handle.sync()\n"
            "    handle.close()\n"
            "    files.rename(fresh"
        ),
        (
            "    handle.sync()\n"
            "    handle.write(0, b\"\".join(chunks))\n"
            "    handle.close()\n"
            "    files.rename(fresh"
        ),
        ("tests/unit/journal/recovery/test_reopen.py",),
    ),
    Fault(
        "an end that is refused for good is asked for until its lease is over",
        "kestrelpy/client/end_attempts.py",
        "        if not may_pass and not is_lease_over:\n            raise error\n",
        "",
        ("tests/unit/client/test_async_end.py",),
    ),
    Fault(
        "beside a daemon a tool goes on from an older snapshot than it reads on from",
        "journal/tools/view.py",
        "        if not self.beginnings or since >= self.lsn_next:\n",
        "        if not self.beginnings:\n",
        ("tests/unit/journal/tools/test_snapshots_meanwhile.py",),
    ),
    Fault(
        "what is needed again is compacted away",
        "journal/compaction/maintenance.py",
        "        if live_lsn < segments.revived_lsn:\n",
        "        if live_lsn < 0:\n",
        ("tests/unit/journal/compaction/test_maintenance.py",),
    ),
    Fault(
        "a dead letter holds the key that it had",
        "kestrelpy/core/subscription/state.py",
        "        self.ends.forget(id_)\n        self.held_keys.pop(id_, None)\n",
        "        self.ends.forget(id_)\n",
        ("tests/unit/core/replay/test_snapshot_and_records.py",),
    ),
    Fault(
        "the length of a file that is written over another is not synced",
        "journal/files.py",
        "            os.ftruncate(descriptor, len(data))\n            handle.sync()  # the new",
        "            handle.sync()\n            os.ftruncate(descriptor, len(data))  # the new",
        ("tests/unit/journal/test_files_system_calls.py",),
    ),
    Fault(
        "with two snapshots a segment goes whose last confirm is not durable",
        "journal/write/segment_list.py",
        "if may_go and not segment.live and segment.emptied_lsn <= lsn_durable:\n",
        "if may_go and not segment.live:\n",
        ("tests/unit/journal/write/test_segment_list.py",),
    ),
    Fault(
        "an item of a sliced queue is put by another hash than before",
        "kestrelpy/placement.py",
        'return self._slice_by(b"%b\\0%b" % (self.group_of(name), word))\n',
        'return self._slice_by(b"%b\\0%b" % (word, self.group_of(name)))\n',
        ("tests/unit/protocol/routing/test_sliced_queues.py",),
    ),
    Fault(
        "the items of one key of a sliced queue are in several slices",
        "kestrelpy/protocol/routing/sliced_queues.py",
        "        word = word or id_\n",
        "        word = id_ or word\n",
        ("tests/unit/protocol/routing/test_sliced_queues.py",),
    ),
    Fault(
        "what a second slice gives to a waiter is not given back",
        "kestrelpy/protocol/routing/sliced.py",
        "    for each, answer in found:\n",
        "    for each, answer in found[1:]:\n",
        ("tests/unit/protocol/routing/test_sliced.py",),
    ),
    Fault(
        "a wait in all slices ends with END although one has given an item",
        "kestrelpy/protocol/routing/sliced.py",
        "    if not found:\n        refusals",
        "    if END in race.answers.values():\n        refusals",
        ("tests/unit/protocol/routing/test_sliced.py",),
    ),
    Fault(
        "an item of a sliced queue is closed in the home of the queue",
        "kestrelpy/protocol/routing/sliced.py",
        "return seat.oldest(name) or queues.placement.slice_of(name)\n",
        "return queues.placement.slice_of(name)\n",
        ("tests/unit/protocol/routing/test_sliced.py",),
    ),
)

# Faults that no test finds, each with its reason; "no test yet" is work to be done.
KNOWN: dict[str, str] = {}
KNOWN_COMPILED: dict[str, str] = {
    "a flush looks at one lease by token after the other": (
        "it costs time alone; the test counts calls, and compiled functions report none"
    ),
}
