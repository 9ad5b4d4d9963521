"""The names and markers of a read's options, against the servers and queues that are there.

    queues             a name of no queue                      refused, with the nearest
                       a wildcard that fits no queue           a warning: one may come
    startingMarkers,   a server or a queue that is not read    refused, with the nearest
    endingMarkers      a marker beyond the latest              refused, or with
                                                               failOnDataLoss=false a warning

Servers that were skipped (skipUnreachable) may have what is missing: then it is a warning as well.

One rule: batches and streams, over servers and over journals, ask here and get the same answer.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import MarkerRange, Offset, range_of
from kestrelpy.spark.options import Options

log = logging.getLogger("kestrelpy.spark")
_WILDCARDS: Final = "*?["
_EVERY: Final = "*"  # all queues of a server, in an option of markers


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server by the names that options may have for it, and its queues."""

    names: tuple[str, ...]
    queues: Collection[str]


def refuse_unknown_queues(
    options: Options, there: Collection[str], where: str, remedy: str, *, is_whole: bool = True
) -> None:
    """Raise KestrelError if a name is that of no queue; warn of a wildcard that fits none.

    `where` says where the queues were looked for. `is_whole`: no server was skipped.
    """
    for name in options.queues:
        if any(sign in name for sign in _WILDCARDS):
            if name != _EVERY and not any(options.fits(queue, (name,)) for queue in there):
                log.warning("No queue fits %s %s.%s", name, where, _hint(name, there, ""))
        elif name not in there:
            _refuse(f"There is no queue {name} {where}.{_hint(name, there, remedy)}", is_whole)


def refuse_unknown_markers(
    options: Options, sources: Sequence[NamedServer], *, is_whole: bool = True
) -> None:
    """Raise KestrelError if an option of markers names a server or queue that is not read.

    `is_whole`: no server was skipped.
    """
    servers = list(dict.fromkeys(name for source in sources for name in source.names))
    read = [str(address) for address in options.servers]
    remedy = "Leave it out, or read it as well."
    for option, offsets in options.markers.items():
        for server, by_queue in offsets.named.items():
            if server not in servers and server not in read:
                _refuse(
                    f"Option {option} names a server {server}, which is not among those that are "
                    f"read.{_hint(server, [*read, *servers], remedy)}", is_whole,
                )  # fmt: skip
                continue
            found = [source for source in sources if server in source.names]
            there = {queue for source in found for queue in source.queues if options.fits(queue)}
            for queue in by_queue if found else ():
                if queue != _EVERY and queue not in there:
                    _refuse(
                        f"Option {option} names a queue {queue} of {server}, which is not among "
                        f"those that are read.{_hint(queue, there, remedy)}", is_whole,
                    )  # fmt: skip


def range_in(
    options: Options, names: tuple[str, ...], queue: str, earliest: int, latest: int
) -> MarkerRange:
    """Return the range of a queue that is asked for. Raises KestrelError if it ends before that.

    A starting marker below the earliest means the earliest: confirmed items are no loss.
    """
    starting, ending = offsets_in(options, names, queue, latest)
    return range_of(starting, ending, earliest, latest)


def offsets_in(
    options: Options, names: tuple[str, ...], queue: str, latest: int | None
) -> tuple[Offset, Offset]:
    """Return where the read of a queue begins and ends; `latest` None: it is not known.

    Raises KestrelError for a marker beyond the latest, and for an end before the begin.
    """
    found = {option: offsets.of(names, queue) for option, offsets in options.markers.items()}
    for option, offset in found.items():
        if isinstance(offset, int) and latest is not None and offset > latest:
            text = (
                f"Option {option} says {offset} for the queue {queue} of {names[0]}, and its "
                f"latest marker is {latest}: it has an older state, or the number is another "
                f"queue's."
            )
            if options.fail_on_data_loss:
                raise KestrelError(
                    f"{text} Say at most {latest}, earliest or latest; or say failOnDataLoss=false "
                    "to read up to the latest."
                )
            log.warning("%s It is read as latest (failOnDataLoss=false).", text)
            found[option] = latest
    starting, ending = found["startingMarkers"], found["endingMarkers"]
    if isinstance(starting, int) and isinstance(ending, int) and ending < starting:
        raise KestrelError(
            f"Option endingMarkers says {ending} for the queue {queue} of {names[0]}, which is "
            f"before its startingMarkers {starting}. Say a later one."
        )
    return starting, ending


def _hint(name: str, there: Iterable[str], remedy: str) -> str:
    near = get_close_matches(name, list(dict.fromkeys(there)), 1)
    return f" Did you mean {near[0]}?" if near else f" {remedy}" if remedy else ""


def _refuse(text: str, is_whole: bool) -> None:
    if is_whole:
        raise KestrelError(text)
    log.warning("%s A server that was skipped may have it.", text)
