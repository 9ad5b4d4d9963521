"""The main job on a fleet, with accidents: `python -m kestrelpy.examples.fleet.lines`.

    producer ──every line──▶ owner ──close/open──▶ four workers ──▶ a file of results each
                               ✕ kill -9, twice
                             PostgreSQL: n1 ▶ n2, n3
                               ✕ kill -9, once

It is `kestrelpy.examples.lines` with a fleet in place of the daemon: the same producer, the same
workers, the same verdict.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from kestrelpy.examples import lines
from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from kestrelpy.examples.fleet.trial import Trial

_VICTIMS: Final = ("owner", "primary", "owner")


class FleetRun(lines.Run):
    """A run on two members of a fleet, and three PostgreSQL servers."""

    def __init__(self, folder: Path, lines_max: int, seed: int) -> None:
        super().__init__(folder, lines_max, seed)
        self.trial = Trial(folder, self.say)
        self.accidents = [
            (at, victim) for (at, _), victim in zip(self.accidents, _VICTIMS, strict=True)
        ]

    def start_servers(self) -> None:
        """Start the fleet."""
        self.trial.start()
        self.servers = self.trial.addresses

    def look_after_servers(self) -> None:
        """Start again what has died."""
        self.trial.look()

    def kill_and_start_again(self, name: str) -> None:
        """Kill the owner or the primary with `kill -9`; the trial sees it die."""
        self.results.read()
        self.say(f"{self.results.handled:>9,} handled: kill -9 the {name}")
        if name == "primary":
            self.trial.cluster.primary.kill()
        elif (owner := self.trial.owner_process()) is not None:
            owner.kill()

    def kill_all(self) -> None:
        """Leave no process running."""
        super().kill_all()
        self.trial.end()


def main(argv: list[str] | None = None) -> int:
    """Run it from the command line; return the exit code."""
    return lines.main(argv, FleetRun, folder_of_servers)


if __name__ == "__main__":
    sys.exit(main())
