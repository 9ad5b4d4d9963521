"""The plan of a run: the jobs, sizes and shapes of load, the goals, and the time of each turn.

One rule: `LINES` is the only list of lines; the run and the report walk it and add none.
"""

from dataclasses import dataclass
from typing import Literal

Job = Literal["durable set", "reliable consume"]
SET: Job = "durable set"
CONSUME: Job = "reliable consume"

SIZES = (100, 1024)


@dataclass(frozen=True)
class Shape:
    """The pressure of a load: connections, and items under way on each of them."""

    connections: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.connections} × {self.in_flight}"


SHAPES = (Shape(1, 1), Shape(50, 1), Shape(200, 1), Shape(50, 16))


@dataclass(frozen=True)
class Cell:
    """One server's turn: it stores for a while, then its items are consumed."""

    shape: Shape
    body_bytes: int


CELLS = tuple(Cell(shape, size) for shape in SHAPES for size in SIZES)


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    job: Job
    cell: Cell


LINES = tuple(Line(job, cell) for job in (SET, CONSUME) for cell in CELLS)


@dataclass(frozen=True)
class Goal:
    """The least ratio to the peer's rate; `ours` is plain Python or the compiled daemon."""

    peer: str
    at_least: float
    ours: str = "kestrelpy"


# For bodies of 100 B.
GOALS: dict[tuple[Job, Shape], tuple[Goal, ...]] = {
    (SET, Shape(1, 1)): (Goal("redis", 0.7, "compiled"),),
    (SET, Shape(50, 1)): (
        Goal("redis", 0.55), Goal("redis", 0.95, "compiled"), Goal("beanstalkd", 3.0),
    ),
    (SET, Shape(200, 1)): (Goal("redis", 0.45), Goal("redis", 0.9, "compiled")),
    (SET, Shape(50, 16)): (Goal("redis", 0.55), Goal("redis", 1.3, "compiled")),
    (CONSUME, Shape(50, 1)): (Goal("redis", 1.9, "compiled"),),
    (CONSUME, Shape(200, 1)): (Goal("redis", 1.5, "compiled"),),
}  # fmt: skip


def goals(line: Line) -> tuple[Goal, ...]:
    """Return the goals of a line; none: it only informs."""
    return GOALS.get((line.job, line.cell.shape), ()) if line.cell.body_bytes == 100 else ()


@dataclass(frozen=True)
class Mode:
    """The length of a run: rounds over the whole grid, seconds for each job of a turn."""

    name: str
    rounds: int
    seconds: float
    warm_up_seconds: float


QUICK = Mode("quick", rounds=3, seconds=0.3, warm_up_seconds=0.05)
FULL = Mode("full", rounds=7, seconds=0.7, warm_up_seconds=0.1)
