"""The servers of a write by their ids, and the note that each keeps of the batch it is in.

    kestrelpy.sinks   one item per scope, key = scope:  {"version": 1, "epoch": 7, "servers": [...]}

A row goes to a server that its id and the fleet choose. If a batch is repeated with another fleet,
its rows go to other servers, which do not know their ids and would store them twice. So before the
first row of a batch, each server notes its epoch and its fleet, and a task compares.

    the note      this task      what follows
    ----------------------------------------------------------------
    epoch < ours                 a new batch: note it, then write
    epoch = ours, same fleet     go on, in a repeated batch as well
    epoch = ours, another fleet  refused: the remedy names the fleet
    epoch > ours                 refused: this task is left over from an older attempt
    none on any server           the first batch; else refused: these servers never saw the query

One rule: no row is sent before all servers of the fleet have the note.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import LiveConnection
from kestrelpy.spark.options import NOTES_QUEUE
from kestrelpy.spark.write.lane import Lane
from kestrelpy.spark.write.write_options import WriteOptions
from kestrelpy.wire.refusals import ServerRefusal

_VERSION: Final = 1
_EXPIRY_SECONDS: Final = 30 * 86_400  # `scope_window`: after it, ids are forgotten as well
_ASKED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Run:
    """What one write is part of: the batch `epoch` of the writer `scope`.

    `is_later`: the writer has written batches before this one.
    """

    scope: str
    epoch: int
    is_later: bool = False

    @property
    def suffix(self) -> bytes:
        """The options of a request that name scope and epoch."""
        return b"/scope=%b/epoch=%d" % (self.scope.encode(), self.epoch)


class Fleet:
    """The servers of a write, a lane to each, in the order of their ids."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = sorted(lanes, key=lambda lane: lane.server)
        self.servers = [lane.server for lane in self.lanes]

    def close(self) -> None:
        """Close all connections."""
        for lane in self.lanes:
            lane.close()


@dataclass(frozen=True, slots=True)
class _Note:
    epoch: int
    servers: list[str]


def find_fleet(options: WriteOptions) -> Fleet:
    """Return the fleet, with the id of each server. Raises KestrelError."""
    lanes = [Lane(address, options) for address in options.servers]
    with ThreadPoolExecutor(min(_ASKED_AT_ONCE, len(lanes))) as pool:
        list(pool.map(Lane.know, lanes))
    fleet = Fleet(lanes)
    for one, other in zip(fleet.lanes, fleet.lanes[1:], strict=False):
        if one.server == other.server:
            raise KestrelError(
                f"The addresses {one.address} and {other.address} are one server: its id is "
                f"{one.server}. Name it once in the option servers."
            )
    return fleet


def begun(fleet: Fleet, run: Run, new_fleet: bool) -> None:
    """Note on each server that this batch has begun. Raises KestrelError if it must not."""
    notes = [_read(lane, run) for lane in fleet.lanes]
    for note in notes:
        if note is not None and note.epoch > run.epoch:
            raise _left_over(run, note)
    if not new_fleet:
        _refuse_another(fleet, run, notes)
    for lane, note in zip(fleet.lanes, notes, strict=True):
        if note is not None and note.epoch == run.epoch and note.servers == fleet.servers:
            continue
        _write(lane, run, fleet.servers)
        if note is not None:
            _cancel(lane, run, note)
        now = _read(lane, run)
        if now is None:
            raise KestrelError(
                f"The server {lane.address} has no note of the batch {run.epoch} in the queue "
                f"{NOTES_QUEUE}: that queue is full, or something consumes it. Leave it to "
                "the sink."
            )
        if now.epoch != run.epoch or now.servers != fleet.servers:
            raise _left_over(run, now)


def _refuse_another(fleet: Fleet, run: Run, notes: Sequence[_Note | None]) -> None:
    if run.is_later and not any(notes):
        raise KestrelError(
            f"The servers {', '.join(fleet.servers)} have seen no batch of the writer {run.scope}, "
            f"and this is its batch {run.epoch}: what other servers hold of it is not known here. "
            "Write to the servers it had before; or say newFleet=true once, if no batch is half "
            "written there."
        )
    for note in notes:
        if note is not None and note.epoch == run.epoch and note.servers != fleet.servers:
            raise KestrelError(
                f"The batch {run.epoch} of the writer {run.scope} was begun on the servers "
                f"{', '.join(note.servers)}, and is repeated on {', '.join(fleet.servers)}: rows "
                "would be doubled. Name the servers of before until this batch is done, then "
                "change them; newFleet=true takes the risk."
            )


def _left_over(run: Run, note: _Note) -> KestrelError:
    return KestrelError(
        f"The batch {run.epoch} of the writer {run.scope} is over: batch {note.epoch} has begun. "
        "This task is left over from an earlier run, or two queries run with one scope. Stop one "
        "of them; it stored no row in this attempt."
    )


def _read(lane: Lane, run: Run) -> _Note | None:
    body = lane.ask(f"gets {NOTES_QUEUE}/key={run.scope}/peek\r\n".encode(), _value)
    if body is None:
        return None
    try:
        said = json.loads(body)
        if said["version"] > _VERSION:
            raise KestrelError(
                f"The note of the writer {run.scope} on {lane.address} is of version "
                f"{said['version']}, and this version of kestrelpy knows {_VERSION}. Install the "
                "newer one."
            )
        return _Note(int(said["epoch"]), [str(each) for each in said["servers"]])
    except (ValueError, KeyError, TypeError):
        raise KestrelError(
            f"The item of the queue {NOTES_QUEUE} with the key {run.scope} on {lane.address} is "
            "no note of the sink. Remove it, and leave that queue to the sink."
        ) from None


def _value(connection: LiveConnection) -> bytes | None:
    answer = connection.answer()
    if answer.line != b"END":
        raise _refusal(answer.line)
    return answer.bodies[0] if answer.bodies else None


def _write(lane: Lane, run: Run, servers: Sequence[str]) -> None:
    body = json.dumps({"version": _VERSION, "epoch": run.epoch, "servers": servers}).encode()
    head = f"set {_name(run.scope, run.epoch, servers)}/key={run.scope} 0 {_EXPIRY_SECONDS} "
    lane.ask(head.encode() + b"%d\r\n%b\r\n" % (len(body), body), _done)


def _cancel(lane: Lane, run: Run, note: _Note) -> None:
    """Remove the note of an earlier batch; it is the same if it has gone."""
    lane.ask(f"delete {_name(run.scope, note.epoch, note.servers)}\r\n".encode(), _done)


def _name(scope: str, epoch: int, servers: Sequence[str]) -> str:
    fleet = blake2b(",".join(servers).encode(), digest_size=6).hexdigest()
    return f"{NOTES_QUEUE}/id={scope}:{epoch}:{fleet}"


def _done(connection: LiveConnection) -> None:
    line = connection.answer().line
    if line not in (b"STORED", b"NOT_STORED", b"DELETED", b"NOT_FOUND"):
        raise _refusal(line)


def _refusal(line: bytes) -> Exception:
    text = line.decode("ascii", "backslashreplace")
    if line.startswith(b"SERVER_ERROR "):
        return ServerRefusal(line)
    return KestrelError(
        f"A server refused to note the batch in the queue {NOTES_QUEUE}: {text[:200]}. Run "
        "servers of this version, and let the user write to that queue."
    )
