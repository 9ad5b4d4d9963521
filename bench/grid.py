"""What is measured: the jobs, sizes and shapes of load, the goals, and how long each turn takes.

The one rule: one list of lines, `LINES`; whatever runs or reports walks it and adds none.
"""

from dataclasses import dataclass
from typing import Literal

Job = Literal["durable set", "reliable consume"]
SET: Job = "durable set"
CONSUME: Job = "reliable consume"

SIZES = (100, 1024)


@dataclass(frozen=True)
class Shape:
    """How a load presses: connections, and items under way on each of them."""

    connections: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.connections} × {self.in_flight}"


SHAPES = (Shape(1, 1), Shape(50, 1), Shape(200, 1), Shape(50, 16))


@dataclass(frozen=True)
class Cell:
    """One server's turn: it stores for a while, then what was stored is consumed."""

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
    """At least so many times the peer's rate."""

    peer: str
    at_least: float


def goals(line: Line) -> tuple[Goal, ...]:
    """Issue 2: sets at 50 connections (pipelined or not); consuming everywhere, against Redis."""
    if line.job == CONSUME:
        return (Goal("redis", 1.3),)
    if line.cell.shape.connections == 50:
        return (Goal("redis", 0.6), Goal("beanstalkd", 3.0))
    return ()


@dataclass(frozen=True)
class Mode:
    """How long a run takes: rounds over the whole grid, seconds for each job of a turn."""

    name: str
    rounds: int
    seconds: float
    warm_up_seconds: float


QUICK = Mode("quick", rounds=3, seconds=0.3, warm_up_seconds=0.05)
FULL = Mode("full", rounds=5, seconds=1.2, warm_up_seconds=0.2)
