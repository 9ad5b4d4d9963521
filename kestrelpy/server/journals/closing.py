"""The end of the journals of a server.

One rule: a journal that failed is named, and not closed as if it had not.
"""

from __future__ import annotations

import logging
from typing import Final

from journal.errors import JournalError
from journal.patience import pause
from kestrelpy.core import Broker, JournalLog
from kestrelpy.server import clock
from kestrelpy.server.directory import Heart

log = logging.getLogger("kestrelpy")

_NAMED_MAX: Final = 10  # queues whose journals have failed, in the last line of the log


def failed_journals(broker: Broker) -> str:
    """Return the queues whose journal failed before the stop, in words."""
    failed = [
        queue.name.decode("ascii") for queue in broker.logged if queue.log.failure is not None
    ]
    if not failed:
        return ""
    more = f" and {len(failed) - _NAMED_MAX} more" if len(failed) > _NAMED_MAX else ""
    return f", after the journals of these failed: {', '.join(failed[:_NAMED_MAX])}{more}"


def close_journals(broker: Broker, heart: Heart) -> None:
    """Close every journal that has no sync in flight, and write the last beat. Blocks."""
    unix_ms = clock.now_ms() + broker.clock.offset_ms
    for queue in broker.logged:
        if isinstance(queue.log, JournalLog) and not queue.log.journal.commit.lsn_in_flight:
            try:
                queue.log.journal.close(unix_ms, pause)
            except JournalError as error:
                if str(error) != broker.refusal:  # said before, for all queues
                    log.error("%s", error)
    heart.try_to_save()
