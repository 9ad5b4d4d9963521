"""The main job on a fleet, with accidents: `python -m kestrelpy.examples.fleet.lines`.

    producer ──every line──▶ owner ──close/open──▶ four workers ──▶ a file of results each
                               ✕ kill -9, twice
                             PostgreSQL: n1 ▶ n2, n3
                               ✕ kill -9, once

With `--slices 4 --members 3` three members share the slices. Each queue has a producer, and a
member is killed with its slices, twice, and one is drained.

It is `kestrelpy.examples.lines` with a fleet in place of the daemon: the same producer, the same
workers, the same verdict.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Final

from kestrelpy.examples import lines
from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from kestrelpy.examples.fleet.trial import Trial
from kestrelpy.examples.fleet.width import add_width, queues_of

_VICTIMS: Final = ("owner", "primary", "owner")
_QUEUES_MAX: Final = lines.WORKERS  # each needs a worker
# The same on slices: after which share of the lines, and between these it waits for even shares.
_ON_SLICES: Final = (
    ((0.05, 0.15), "member"), ((0.30, 0.40), "drain"), ((0.50, 0.60), "primary"),
    ((0.75, 0.85), "member"),
)  # fmt: skip


class FleetRun(lines.Run):
    """A run on the members of a fleet, and three PostgreSQL servers."""

    def __init__(self, folder: Path, lines_max: int, options: argparse.Namespace) -> None:
        super().__init__(folder, lines_max, options.seed)
        self.trial = Trial(folder, self.say, slices=options.slices, members=options.members)
        self.queues = queues_of(options.slices, _QUEUES_MAX)
        self._chance = random.Random(options.seed)
        if options.slices == 1:
            self.accidents = [
                (at, victim) for (at, _), victim in zip(self.accidents, _VICTIMS, strict=True)
            ]
        else:
            self.accidents = [
                (int(lines_max * self._chance.uniform(*bounds)), victim)
                for bounds, victim in _ON_SLICES
            ]

    def start_servers(self) -> None:
        """Start the fleet."""
        self.trial.start()
        self.servers = self.trial.addresses

    def look_after_servers(self) -> None:
        """Start again what has died."""
        self.trial.look()

    def kill_and_start_again(self, name: str) -> None:
        """Kill the owner, a member or the primary with `kill -9`, or drain a member; the trial sees
        what has died."""
        if self.trial.slices > 1 and not self.trial.is_shared:
            self.accidents.insert(0, (self.results.handled, name))  # later: one at a time
            return
        self.results.read()
        victim = ""
        if name in ("member", "drain"):
            victim = self._chance.choice(sorted(set(self.trial.owners.values())))
        doing = f"drain {victim}" if name == "drain" else f"kill -9 the {name} {victim}".rstrip()
        self.say(f"{self.results.handled:>9,} handled: {doing}")
        if name == "primary":
            self.trial.drain("")
            self.trial.cluster.primary.kill()
        elif name == "drain":
            self.trial.drain(victim)
        elif name == "member":
            self.trial.kill(victim)
        elif (owner := self.trial.owner_process()) is not None:
            owner.kill()

    def kill_all(self) -> None:
        """Leave no process running."""
        super().kill_all()
        self.trial.end()


def main(argv: list[str] | None = None) -> int:
    """Run it from the command line; return the exit code."""
    return lines.main(argv, FleetRun, folder_of_servers, add_width)


if __name__ == "__main__":
    sys.exit(main())
