"""A schedule beside everything else that goes on in a run: each second of it is put once.

Nobody fetches from its queue, so at the end every item is there, and says in its own record for
which second it was put.

One rule: which seconds there must be follows from the first that is there and from the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from journal.files import Files
from journal.format.folder import parse_folder_name
from journal.format.kinds import Kind
from journal.format.schedule import watermark_of_put
from journal.tools.view import JournalView

QUEUE: Final = "ticks"
SETTINGS: Final[dict[str, Any]] = {
    "tick": {"cron": "* * * * * *", "queue": QUEUE, "body": "tick", "catch_up": "all"}
}
# The server looks once a second at the least, and what it puts then is in its file soon after.
_LATE_S: Final = 2


def wrong_with_ticks(files: Files, unix_s: int) -> Iterator[str]:
    """What is wrong with the puts that are on disk at this time."""
    seconds = sorted(_put(files))
    twice = [second for second, times in Counter(seconds).items() if times > 1]
    if twice:
        yield f"put twice by the schedule: {twice}"
    if not seconds or seconds[-1] < unix_s - _LATE_S:
        yield f"the schedule put nothing since {seconds[-1:]}, and it is {unix_s}"
        return
    missing = set(range(seconds[0], seconds[-1])) - set(seconds)
    if missing:
        yield f"not put by the schedule: {sorted(missing)}"


def _put(files: Files) -> Iterator[int]:
    for folder in files.names("/data"):
        name, generation = parse_folder_name(folder)
        if name == QUEUE.encode() and generation:
            for record in JournalView(files, f"/data/{folder}", True).records():
                nominal = watermark_of_put(record.meta) if record.kind == Kind.PUT else None
                if nominal is not None:
                    yield nominal.epoch
