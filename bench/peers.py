"""The run: every server has its turn at every cell, round after round, in one process.

One rule: only figures taken within seconds of each other are compared. In a round, for each cell,
the servers follow one another. Every other round goes through them backwards, so that no server
always follows the same neighbour.

    round 1:  cell 1  A B C M   cell 2  A B C M   …
    round 2:  cell 1  M C B A   cell 2  M C B A   …
    a turn:   start in an empty folder · warm up · store · consume what was stored · stop
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import loadgen
from bench.grid import CELLS, CONSUME, SET, Cell, Job, Line, Mode
from bench.loadgen import Load, LoadFailed, Result
from bench.servers import Server, ServerFailed, running

MAX_FAILURES = 3  # of one server; then it is left out, so that a broken one does not take the time


@dataclass
class Run:
    """The results of one run. Failures are sentences; a failed turn has no figures."""

    figures: dict[tuple[Line, str], dict[int, Result]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, line: Line, server: str) -> dict[int, Result]:
        """Return the results by round; empty when there are none."""
        return self.figures.get((line, server), {})


def turn(
    binary: Path, server: Server, cell: Cell, mode: Mode, *, parent: Path, seed: int
) -> dict[Job, Result]:
    """Run one server's turn. Raises ServerFailed or LoadFailed."""

    def load(dialect: str, queue: str, seconds: float, ops: int | None = None) -> Result:
        user_s, system_s = daemon.processor_s()
        found = loadgen.run(
            binary,
            Load(
                dialect=dialect,
                port=daemon.port,
                connections=cell.shape.connections,
                in_flight=cell.shape.in_flight,
                body_bytes=cell.body_bytes,
                seconds=seconds,
                ops=ops,
                seed=seed,
                queue=queue,
            ),
        )
        user_end_s, system_end_s = daemon.processor_s()
        return replace(found, user_s=user_end_s - user_s, system_s=system_end_s - system_s)

    ceiling = server.consume == "memcache-get"  # one key, which no get uses up
    with running(server, parent) as daemon:
        for queue, seconds in (("warm", mode.warm_up_seconds), ("bench", mode.seconds)):
            stored = load(server.store, queue, seconds)
            taken = load(server.consume, queue, seconds, None if ceiling else stored.ops)
            if taken.empty:
                raise LoadFailed(
                    f"{server.name} was empty after {taken.ops} of {stored.ops} stored items"
                )
    return {SET: stored, CONSUME: taken}


def run(
    binary: Path,
    servers: Sequence[Server],
    mode: Mode,
    *,
    parent: Path,
    say: Callable[[str], None],
    cells: Sequence[Cell] = CELLS,
) -> Run:
    """Run all rounds of a mode; `say` gets one line of progress per turn."""
    found, began = Run(), time.monotonic()
    failures = {server.name: 0 for server in servers}
    turns, total = 0, mode.rounds * len(cells) * len(servers)
    for round_ in range(mode.rounds):
        for cell in cells:
            for server in servers if round_ % 2 == 0 else reversed(servers):
                turns += 1
                if failures[server.name] >= MAX_FAILURES:
                    continue
                where = f"{server.name}, {cell.shape}, {cell.body_bytes} B, round {round_ + 1}"
                try:
                    results = turn(binary, server, cell, mode, parent=parent, seed=turns)
                except (ServerFailed, LoadFailed) as failure:
                    failures[server.name] += 1
                    found.failures.append(f"{where}: {failure}")
                    say(f"{where}: FAILED: {failure}")
                    continue
                for job, result in results.items():
                    found.figures.setdefault((Line(job, cell), server.name), {})[round_] = result
                say(_progress(where, turns, total, time.monotonic() - began, results))
    found.seconds = time.monotonic() - began
    return found


def _progress(
    where: str, turns: int, total: int, elapsed_s: float, results: dict[Job, Result]
) -> str:
    left_s = elapsed_s / turns * (total - turns)
    rates = " · ".join(f"{job} {result.ops_per_s:,.0f}/s" for job, result in results.items())
    return f"[{100 * turns // total:3d} %, {left_s:4.0f} s left] {where}: {rates}"
