"""Mistakes where a start meets a full disk or a torn end, a sync meets a flood, and `retain` meets
compaction.

One rule: as `planted_faults` has it.
"""

from __future__ import annotations

from tests.faults.planted_faults import Fault

STARTS = (
    "tests/unit/journal/recovery/test_reopen.py", "tests/unit/journal/read/test_readahead.py",
    "tests/unit/journal/recovery/test_recovery.py",
    "tests/unit/journal/recovery/test_segment_order.py", "tests/model/test_journal_machine.py",
)  # fmt: skip
TORN = ("tests/unit/journal/read/test_readahead.py", *STARTS)
LATER = ("tests/unit/server/journals/test_later_syncs.py", "tests/unit/server/test_turn.py")
HURRY = (
    "tests/unit/server/test_commit_delay.py", "tests/process/test_process.py",
    "tests/unit/server/test_shares.py",
    "tests/unit/server/test_turn.py",
)  # fmt: skip
COMPACTION = (
    "tests/unit/core/queue/test_retention.py",
    "tests/unit/journal/compaction/test_maintenance.py",
    "tests/unit/journal/compaction/test_picker.py",
    "tests/unit/journal/write/test_retention.py",
)  # fmt: skip

SYNCS_CROSSED: tuple[Fault, ...] = (
    Fault(
        "full disk: a fresh segment whose folder was not synced keeps its name",
        "journal/recovery/reopen.py",
        "            files.remove(segment_path(folder, journal.preallocation.number))\n",
        "",
        STARTS,
    ),
    Fault(
        "full disk: after a start the log goes on behind a torn end that is still there",
        "journal/recovery/reopen.py",
        "                _clear(files, handle, end, segment.capacity)\n",
        "                pass\n",
        STARTS,
    ),
    Fault(
        "full disk: what a start kept is not synced before the first answer",
        "journal/recovery/reopen.py",
        "            handle.sync()\n",
        "            pass\n",
        STARTS,
    ),
    Fault(
        "what a start cut is counted to the segment that it was cut from",
        "journal/recovery/recovery.py",
        "        cut = self._lsn if self.torn else 0\n",
        "        cut = 0\n",
        TORN,
    ),
    Fault(
        "a segment counts what was torn behind a number that a release gave",
        "journal/recovery/segment_order.py",
        "        limit = min(filter(None, (self.lsn_limit, lsn_cut)), default=0)\n"
        "        tally = found.tally_below(limit, before)\n"
        "        self.note(tally)\n"
        "        if found.records and found.records[-1].lsn > lsn_synced:\n",
        "        limit = self.lsn_limit\n"
        "        tally = found.tally_below(limit, before)\n"
        "        self.note(tally)\n"
        "        if limit:\n",
        TORN,
    ),
    Fault(
        "what a fresh segment says again is counted to the one before as well",
        "journal/recovery/reopen.py",
        "    if synced is not None:\n",
        "    if synced is None:\n",
        TORN,
    ),
    Fault(
        "the records of a segment after the last known sync count as synced",
        "journal/recovery/segment_order.py",
        "min(limit or ITEM_MAX, lsn_synced + 1)",
        "limit or ITEM_MAX",
        TORN,
    ),
    Fault(
        "a set that came during a sync has its own as late as if no client waited",
        "kestrelpy/server/journals/later_syncs.py",
        "        self._arm(target, SOON_SECONDS)\n",
        "        self._arm(target, LAZY_SECONDS)\n",
        LATER,
    ),
    Fault(
        "a sync that is hastened comes once more when it was put off to",
        "kestrelpy/server/journals/later_syncs.py",
        "            self._timers.pop(target).cancel()\n",
        "            self._timers.pop(target)\n",
        LATER,
    ),
    Fault(
        "a queue whose sets wait for no sync is synced all the time",
        "kestrelpy/core/log/log.py",
        "        return self.sync_ms == 0 and bool(waiting)\n",
        "        return bool(waiting)\n",
        ("tests/unit/core/log/test_log.py",),
    ),
    Fault(
        "a connection that waits does not hasten a sync that was put off",
        "kestrelpy/server/turn.py",
        "            else:\n"
        "                self._later.hasten(target)\n",
        "",
        LATER,
    ),
    Fault(
        "the interpreter is hurried where no connection uses up its share",
        "kestrelpy/server/commit_delay.py",
        "(is_crowded and syncs > 0 and",
        "(syncs > 0 and",
        HURRY,
    ),
    Fault(
        "the interpreter is hurried though no sync is under way",
        "kestrelpy/server/commit_delay.py",
        "(is_crowded and syncs > 0 and",
        "(is_crowded and",
        HURRY,
    ),
    Fault(
        "the interpreter is hurried for all the time in which a connection uses up its share",
        "kestrelpy/server/commit_delay.py",
        " and now_ms < self._hurry_until_ms):",
        "):",
        HURRY,
    ),
    Fault(
        "the interpreter stays hurried",
        "kestrelpy/server/commit_delay.py",
        "SWITCH_SECONDS_HURRIED if self.is_hurried else SWITCH_SECONDS)",
        "SWITCH_SECONDS_HURRIED)",
        HURRY,
    ),
    Fault(
        "a sync thread waits for the interpreter for Python's own interval",
        "kestrelpy/server/process.py",
        "    sys.setswitchinterval(SWITCH_SECONDS)\n",
        "",
        HURRY,
    ),
    Fault(
        "retained: a segment that is still kept is rewritten along with older ones",
        "journal/compaction/maintenance.py",
        "journal.segments[:over]",
        "journal.segments[: over + 1]",
        COMPACTION,
    ),
)
