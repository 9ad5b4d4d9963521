"""How far a query has read: the offset that Spark writes to its checkpoint, in JSON.

    {"lost": 0,
     "places": {"<server id>": {"<queue>": [<generation>, <marker>]}},
     "slices": [[["<server id>", "<queue>", <generation>, <after>, <upto>, <bytes>], ...], ...],
     "version": 1}

The next batch begins at the positions in `places`. The slices are the batch that ends here,
partition by partition, so that a repeated batch is planned alike, whatever has come or gone since.
`lost` counts the markers that could not be read so far (failOnDataLoss=false).

`admitted` says how much goes into one batch: `maxItemsPerTrigger`, `maxBytesPerTrigger`.

    there      a: 900    b: 90    c: 10        limit 100
    admitted   a:  90    b:  9    c:  1        in proportion, and at least one of each

A limit is never a reason to stand still: each batch reads something of every queue.

One rule: equal positions are equal texts; keys are sorted, and a position that has not moved is
handed back as it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kestrelpy.spark.errors import KestrelError

VERSION: Final = 1


class ReadPosition(NamedTuple):
    """How far one queue was read: every marker up to `marker`, in this generation."""

    generation: int
    marker: int


class Planned(NamedTuple):
    """A range of markers of one queue, after `after`, up to and with `upto`."""

    server: str
    queue: str
    generation: int
    after: int
    upto: int
    size: int


Positions = Mapping[str, Mapping[str, ReadPosition]]


@dataclass(frozen=True, slots=True)
class Position:
    """The positions by server and queue, and the batch that ends here."""

    positions: Positions
    slices: tuple[tuple[Planned, ...], ...] = ()
    lost: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    def of(self, server: str, queue: str) -> ReadPosition | None:
        """Return how far a queue was read; None: it is new."""
        return self.positions.get(server, {}).get(queue)

    def as_json(self) -> dict[str, Any]:
        """Return the offset."""
        return {
            **{name: self.extra[name] for name in sorted(self.extra)},
            "lost": self.lost,
            "places": {
                server: {queue: list(positions[queue]) for queue in sorted(positions)}
                for server, positions in sorted(self.positions.items())
            },
            "slices": [[list(each) for each in part] for part in self.slices],
            "version": VERSION,
        }


def parse_position(said: Mapping[str, Any]) -> Position:
    """Return the position of an offset. Raises KestrelError."""
    version = said.get("version")
    if isinstance(version, int) and version > VERSION:
        raise KestrelError(
            f"The checkpoint is of version {version}, and this version of kestrelpy knows "
            f"{VERSION}. Install the newer one, or start with a new checkpoint."
        )
    try:
        if version != VERSION:
            raise ValueError
        positions = {
            str(server): {
                str(queue): ReadPosition(*map(int, reached)) for queue, reached in queues.items()
            }
            for server, queues in said["places"].items()
        }
        slices = tuple(
            tuple(Planned(str(a), str(b), *map(int, rest)) for a, b, *rest in part)
            for part in said["slices"]
        )
        return Position(positions, slices, int(said["lost"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KestrelError(
            "The checkpoint holds an offset that is not one of a stream of queues. Name the "
            "checkpoint of this query, or start with a new one."
        ) from None


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most items and bytes of a batch; None: no limit."""

    items: int | None = None
    size: int | None = None


def admitted(there: Sequence[Planned], limits: BatchLimits) -> list[Planned]:
    """Return the front of each range, within the limits; a marker counts as an item."""
    items = sum(each.upto - each.after for each in there)
    size = sum(each.size for each in there)
    share = 1.0
    if limits.items is not None and items > limits.items:
        share = limits.items / items
    if limits.size is not None and size > limits.size:
        share = min(share, limits.size / size)
    if share == 1.0:
        return list(there)
    return [_front(each, share) for each in there]


def _front(whole: Planned, share: float) -> Planned:
    count = whole.upto - whole.after
    kept = max(int(count * share), min(count, 1))
    return whole._replace(upto=whole.after + kept, size=int(whole.size * kept / max(count, 1)))
