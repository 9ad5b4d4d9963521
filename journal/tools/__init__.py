"""The tools of an operator, beside a daemon: verify, repair, dump, backup."""

from journal.tools.backup import copy_journal
from journal.tools.backup_all import copy_journals
from journal.tools.dump import WantedRecords, dumped, utc
from journal.tools.repair import Repair, opening_behind, owned, repair_of
from journal.tools.verify import (
    Progress,
    Report,
    StartView,
    check_journal,
    is_running,
    owning_folder,
)
from journal.tools.view import RESTARTS_MAX, live_files, read_journal

__all__ = [
    "RESTARTS_MAX", "Progress", "Repair", "Report", "StartView", "WantedRecords", "check_journal",
    "copy_journal", "copy_journals", "dumped", "is_running", "live_files", "opening_behind",
    "owned", "owning_folder", "read_journal", "repair_of", "utc",
]  # fmt: skip
