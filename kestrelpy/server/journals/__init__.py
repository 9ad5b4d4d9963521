"""Work for the journals off the loop: syncs, reads, snapshots, and their descriptors."""

from kestrelpy.server.journals.closing import close_journals, failed_journals
from kestrelpy.server.journals.committer import Committer
from kestrelpy.server.journals.gathering import Gathering
from kestrelpy.server.journals.journal_jobs import JournalJobs
from kestrelpy.server.journals.later_syncs import LaterSyncs
from kestrelpy.server.journals.open_journals import DESCRIPTORS_EACH, OpenJournals
from kestrelpy.server.journals.shortage import Shortage

__all__ = [
    "DESCRIPTORS_EACH", "Committer", "Gathering", "JournalJobs", "LaterSyncs", "OpenJournals",
    "Shortage", "close_journals", "failed_journals",
]  # fmt: skip
