"""Plots: throughput and latency over connections, and growth over a backlog.

One rule: a plot shows only figures that the JSON file has as well. Without matplotlib one sentence
takes its place.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.grid import CONSUME, LINES, SET, SHAPES, Job
from bench.loadgen import Result
from bench.peers import Run
from bench.report import SERVERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BODY_BYTES = 100  # of the lines that are drawn
CONNECTIONS = sorted({shape.connections for shape in SHAPES})
TITLES = {SET: "durable set", CONSUME: "fetch and confirm"}


@dataclass(frozen=True)
class Step:
    """One tenth of a backlog: the number of items so far, and the cost of the last tenth."""

    items: int
    sets_per_s: float
    memory_mib: float
    disk_over_bodies: float


def missing() -> str | None:
    """Return why nothing can be drawn here; None: it can."""
    if importlib.util.find_spec("matplotlib"):
        return None
    return "matplotlib is not installed (the extra `bench` has it): no pictures."


def of_peers(run: Run, about: str, out: Path) -> list[Path]:
    """Draw throughput and latency of every server over the connections; return the files."""
    throughput, latency = out / "throughput.png", out / "latency.png"
    _side_by_side(
        throughput, about, "items a second",
        lambda axes, job: _lines(axes, run, job, {"": lambda each: each.ops_per_s}),
    )  # fmt: skip
    percentiles = {
        " p50": lambda each: each.p50_us / 1000,
        " p99": lambda each: each.p99_us / 1000,
    }
    _side_by_side(
        latency, about, "milliseconds: p50, and p99 dashed",
        lambda axes, job: _lines(axes, run, job, percentiles),
    )  # fmt: skip
    return [throughput, latency]


def of_growth(steps: Sequence[Step], about: str, out: Path) -> Path:
    """Draw what a backlog costs while it grows; return the file."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - it may be missing

    figure = Figure(figsize=(12, 4), layout="constrained")
    figure.suptitle(about, fontsize=9)
    items = [step.items for step in steps]
    for axes, (label, values) in zip(
        figure.subplots(1, 3),
        {
            "sets a second": [step.sets_per_s for step in steps],
            "memory above the empty daemon, MiB": [step.memory_mib for step in steps],
            "disk over the bytes of bodies": [step.disk_over_bodies for step in steps],
        }.items(),
        strict=True,
    ):
        axes.plot(items, values, marker="o")
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("items in the backlog")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    path = out / "growth.png"
    figure.savefig(path, dpi=110)
    return path


def _side_by_side(path: Path, about: str, label: str, draw: Callable[[Axes, Job], None]) -> None:
    """Draw both jobs with one scale."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - it may be missing

    figure = Figure(figsize=(12, 5), layout="constrained")
    figure.suptitle(about, fontsize=9)
    both = figure.subplots(1, 2, sharey=True)
    for axes, (job, title) in zip(both, TITLES.items(), strict=True):
        draw(axes, job)
        axes.set_title(title)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(CONNECTIONS, [str(count) for count in CONNECTIONS])
        axes.minorticks_off()
        axes.set_xlabel(f"connections, one request in flight each, {BODY_BYTES} B")
        axes.grid(alpha=0.3)
    both[0].set_ylabel(label)
    both[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _lines(axes: Axes, run: Run, job: Job, of: dict[str, Callable[[Result], float]]) -> None:
    """Draw one curve for each server and each of these figures: the medians over the rounds."""
    drawn = [
        line for line in LINES
        if (line.job, line.cell.body_bytes, line.cell.shape.in_flight) == (job, BODY_BYTES, 1)
    ]  # fmt: skip
    for number, server in enumerate(SERVERS):
        for style, (name, figure) in zip(("-", "--"), of.items(), strict=False):
            points = {
                line.cell.shape.connections: median(map(figure, found))
                for line in drawn if (found := list(run.of(line, server).values()))
            }  # fmt: skip
            if points:
                axes.plot(
                    list(points), list(points.values()), style, marker="o", color=f"C{number}",
                    label=server + name,
                )  # fmt: skip
