"""The parts of a server between its listeners and its files, built and wired in one place.

    policies, broker ── turn ── committer, journal jobs, schedules, deletions ── data directory

Some parts call each other: the turn starts the syncs, and their end schedules a turn. One of two
such parts is made first, and gets the other here.

One rule: nothing is opened, read or started here; the daemon does that.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final, NamedTuple

from journal.errors import Damage
from journal.files import Files
from kestrelpy.core import Broker, ClockOffset, JournalLog, Log, MemoryLog, Queue
from kestrelpy.errors import ServerError
from kestrelpy.placement import Placement
from kestrelpy.server import clock
from kestrelpy.server.directory import DataDirectory, Heart, directory_of
from kestrelpy.server.journals import Committer, JournalJobs
from kestrelpy.server.policies import Policies
from kestrelpy.server.queue_deletion import QueueDeletions
from kestrelpy.server.schedules import Schedules
from kestrelpy.server.turn import Turn

_PERMIT_BITS: Final = 60  # no process gives the numbers of another one


class ServerParts(NamedTuple):
    """The parts of one server. `dirty` are the journals that the next turn writes."""

    broker: Broker
    dirty: list[JournalLog]
    directory: DataDirectory
    heart: Heart
    deletions: QueueDeletions
    turn: Turn
    committer: Committer
    schedules: Schedules
    journal_jobs: JournalJobs


def assemble(
    policies: Policies, files: Files, *,
    start_task: Callable[[Coroutine[object, object, None]], None],
    mode: Callable[[], str],
    note_damage: Callable[[list[Damage]], None],
    may_answer: Callable[[], bool] | None,
) -> ServerParts:  # fmt: skip
    """Return the parts of a server with these policies and files, on the loop that runs now.

    `start_task` runs a task of the process, `mode` returns up, readonly or quiescent, `note_damage`
    gets the damage that reads find, and `may_answer` is asked before replies are sent; None: no
    other process can own the data.
    """
    config, loop = policies.config, asyncio.get_running_loop()
    dirty = list[JournalLog]()

    number, placement = config.fleet.slice, config.placement

    def make_log(queue: Queue) -> Log:
        is_here = number is None or policies.config.queue(queue.name).sliced
        if not is_here and (there := placement.slice_of(queue.name)) != number:
            raise ServerError(f"queue {queue.name.decode('ascii')} is of slice {there}, not here")
        return log_of(queue, parts)

    offset = ClockOffset(clock.wall_clock_offset_ms())
    broker = Broker(policies.of, make_log, offset, config.server.max_queues)
    if number is not None:
        broker.elsewhere = partial(_elsewhere, policies, placement, number)
        broker.tokens.lowest_of = partial(_lowest_token, placement, number)
        broker.moves.remote.arrivals.number_from(secrets.randbits(_PERMIT_BITS))
    directory = directory_of(config, files)
    deletions = QueueDeletions(broker, directory, start_task)
    turn = deletions.turn = Turn(broker, loop, dirty, deletions.begin)
    turn.may_answer = may_answer
    committer = turn.committer = Committer(
        files, loop, turn.synced, turn.segment_ready, turn.shortage
    )
    schedules = turn.schedules = Schedules(broker, mode)
    journal_jobs = turn.journal_jobs = JournalJobs(
        files, loop, turn.read_back, turn.retire_segments, committer.remove, turn.browse_read,
        turn.shortage, note_damage, turn.unix_ms,
    )  # fmt: skip
    policies.belong_to(broker)
    heart = Heart(directory.beat, broker, clock.now_ms)
    parts = ServerParts(
        broker, dirty, directory, heart, deletions, turn, committer, schedules, journal_jobs
    )
    return parts


def _elsewhere(
    policies: Policies, placement: Placement, number: int, name: bytes, word: bytes
) -> int:
    """Return the slice where an item of a queue belongs; 0: in this one, `number`."""
    if not policies.config.queue(name).sliced:
        there = placement.slice_of(name)
    else:
        there = placement.slice_of_item(name, word) if word else number
    return 0 if there == number else there


def _lowest_token(placement: Placement, number: int, name: bytes) -> int:
    return placement.first_token(name, number)


def log_of(queue: Queue, parts: ServerParts) -> Log:
    """Return the log of a new queue; raise ServerError if none can be made now."""
    broker = parts.broker
    if broker.refusal:
        raise ServerError(broker.refusal)
    if not queue.policy.durable:
        return MemoryLog()
    full = (each.no_room for each in parts.committer.without_room if not each.is_reported)
    if why := next(full, broker.no_new_queue):  # a queue without room: no new one has any
        raise ServerError(why)
    return parts.directory.new_log(queue, parts.dirty)
