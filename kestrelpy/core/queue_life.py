"""A queue as it was found, to be looked at again after a wait.

    found ──▶ wait ──▶ still there? ── yes ──▶ go on
                            └── deleted, or deleted and made again since ──▶ it is another queue

A queue with children that is deleted and made again is the same object, and not deleted any more:
its children go on in the same log. It has a new subscription of its own then.

One rule: facts found in one life of a queue are no answer for the next one.
"""

from __future__ import annotations

from typing import NamedTuple

from kestrelpy.core.queue import AnyQueue
from kestrelpy.core.subscription import Subscription


class QueueLife(NamedTuple):
    """A queue, and its subscription when it was found."""

    queue: AnyQueue
    reader: Subscription

    @classmethod
    def of(cls, queue: AnyQueue) -> QueueLife:
        """Return the present life of this queue."""
        return cls(queue, queue.reader)

    @property
    def is_over(self) -> bool:
        """True if the queue was deleted since, even if there is one of its name again."""
        return self.queue.deleted or self.queue.reader is not self.reader
