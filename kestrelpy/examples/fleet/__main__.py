"""A fleet on this machine, to try: `python -m kestrelpy.examples.fleet`, or `make fleet`.

    producer ──▶ member a, the owner ──▶ two workers ──▶ every line once or more, none lost
                 member b, the standby
                     └── PostgreSQL: n1 ▶ n2, n3

With `--slices 16 --members 4`, or `make fleet SLICES=16 MEMBERS=4`, four members share sixteen
slices, and several queues have a producer and a worker each, who ask any of the members.

Kill what you like from another shell, and see what happens. Ctrl-C ends it: then what was stored is
compared with what was handled. Exit code 0: nothing was lost; 1: something was.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from kestrelpy.examples.fleet.trial import Trial, in_url
from kestrelpy.examples.fleet.width import add_width, queues_of
from kestrelpy.examples.producer import Producer, numbered_lines, standard_library_files
from kestrelpy.examples.results import Results
from kestrelpy.examples.worker import Worker

QUEUE: Final = "lines"
WORKERS: Final = 2  # on one queue
QUEUES_MAX: Final = 4  # in slices of their own
LINES_A_SECOND: Final = 200
_LOOK_SECONDS: Final = 0.1
_TELL_SECONDS: Final = 2.0
_END_SECONDS: Final = 20.0


class Load:
    """Producers and workers, in threads of this process: one and two of the only queue, or one of
    each kind for each queue."""

    def __init__(self, servers: list[tuple[str, int]], folder: Path, slices: int) -> None:
        self._queues = queues_of(slices, QUEUES_MAX)
        workers = max(len(self._queues), WORKERS)
        files = [folder / f"worker-{number}" for number in range(1, workers + 1)]
        self.results = Results(files)
        self._ending = threading.Event()
        self._producers = [
            _QuietProducer(_from(servers, nth), queue, self._lines(nth))
            for nth, queue in enumerate(self._queues)
        ]
        self._workers = [
            Worker(_from(servers, nth + 1), self._queues[nth % len(self._queues)], str(file))
            for nth, file in enumerate(files)
        ]
        self._producing = [
            threading.Thread(target=producer.run, daemon=True) for producer in self._producers
        ]
        self._working = [
            threading.Thread(target=worker.run, daemon=True) for worker in self._workers
        ]

    @property
    def stored(self) -> int:
        """How many lines were stored."""
        return sum(each.stored for each in self._producers)

    def start(self) -> None:
        """Begin to store and to handle."""
        for thread in (*self._producing, *self._working):
            thread.start()

    def end(self, trial: Trial) -> bool:
        """Store no more, handle what is there; return True if nothing was lost."""
        self._ending.set()
        deadline = time.monotonic() + _END_SECONDS
        while self._is_producing() or self.results.handled < self.stored:
            trial.look()
            self.results.read()
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        for worker in self._workers:
            worker.stop()
        return self.results.handled >= self.stored

    def _is_producing(self) -> bool:
        return any(each.is_alive() for each in self._producing)

    def says(self) -> str:
        """Return what was stored and handled so far."""
        self.results.read()
        again = self.results.numbers.total() - self.results.handled
        twice = f", {again:,} of them twice" if again else ""
        return f"{self.stored:,} stored, {self.results.handled:,} handled{twice}"

    def _lines(self, nth: int) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of the nth queue until the end: of those of Python's own source, of which
        there are LINES_A_SECOND, its share."""
        began = time.monotonic()
        for number, line in islice(enumerate(_text()), nth, None, len(self._queues)):
            due = began + number / LINES_A_SECOND
            if self._ending.wait(max(due - time.monotonic(), 0)):
                return
            yield number, line


def _from(servers: list[tuple[str, int]], nth: int) -> list[tuple[str, int]]:
    """Return the servers, the nth one first: clients begin at different ones."""
    at = nth % len(servers)
    return servers[at:] + servers[:at]


class _QuietProducer(Producer):
    def resent(self, number: int) -> None:
        """Say nothing of a line that is sent again."""


def _text() -> Iterator[bytes]:
    while True:
        for _, line in numbered_lines(standard_library_files(), None):
            yield line


def main(argv: list[str] | None = None) -> int:
    """Run it from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="A fleet on this machine, to try.")
    parser.add_argument("--seconds", type=float, help="end after so long; default: at Ctrl-C")
    parser.add_argument("--takeover", default="3s", help="how long an owner may say nothing")
    add_width(parser)
    options = parser.parse_args(argv)
    began = time.monotonic()
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    say(f"starting three PostgreSQL servers and {options.members} members")
    with (
        folder_of_servers() as folder,
        Trial(folder, say, options.takeover, options.slices, options.members) as trial,
    ):
        print(_what_to_try(trial), flush=True)
        load = Load(trial.addresses, folder, options.slices)
        load.start()
        told = time.monotonic()
        while not ending.wait(_LOOK_SECONDS):
            trial.look()
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                say(load.says())
            if options.seconds is not None and time.monotonic() - began > options.seconds:
                break
        say("ending: what is stored is handled first")
        is_whole = load.end(trial)
        lost = load.stored - load.results.handled
        say(f"{load.says()}, {max(lost, 0):,} lost")
    return 0 if is_whole else 1


def _what_to_try(trial: Trial) -> str:
    """Return who runs where, and what one may do to them."""
    primary = trial.cluster.primary
    lines = []
    for name, member in trial.members.items():
        assert member.process is not None
        host = in_url(member.address[0])
        page = f"   http://{host}:{member.http_port}/" if member.http_port != "off" else ""
        lines.append(
            f"  member {name}      pid {member.process.pid:<8} memcache {host}:"
            f"{member.address[1]}{page}"
        )
    for server in trial.cluster.servers:
        lines.append(f"  PostgreSQL {server.name} pid {server.pid:<8} 127.0.0.1:{server.port}")
    return "\n".join([
        "", *lines, "",
        "Try this from another shell; nothing that was stored is lost:",
        *(_for_the_owner(trial) if trial.slices == 1 else _for_a_member(trial)),
        f"  kill -9 {primary.pid:<10} the primary: {trial.cluster.standby.name} is promoted",
        "Ctrl-C ends it.", "",
    ])  # fmt: skip


def _for_the_owner(trial: Trial) -> list[str]:
    """Return what one may do to the owner of the only slice."""
    owner = trial.owner_process()
    assert owner is not None and owner.process is not None
    pid = owner.process.pid
    return [
        f"  kill -9 {pid:<10} the owner: the other member takes over after {trial.takeover}",
        f"  kill {pid:<13} the owner, asked to stop: the other one takes over at once",
        f"  kill -STOP {pid:<7} the owner sleeps; kill -CONT {pid}: it serves nobody any more",
    ]


def _for_a_member(trial: Trial) -> list[str]:
    """Return what one may do to a member that owns some of the slices."""
    name, member = next(iter(trial.members.items()))
    assert member.process is not None
    pid, engine = member.process.pid, trial.cluster.address
    tool = f'{sys.executable} -m kestrelpy fleet'
    return [
        f"  kill -9 {pid:<10} member {name}, with its slices: the others take them over after "
        f"{trial.takeover}",
        f"  kill {pid:<13} the same, asked to stop: the others take them over at once",
        f"  pkill -STOP -g {pid:<3} all of member {name} sleeps; pkill -CONT -g {pid}: it wakes",
        f"  {tool} members '{engine}'",
        f"  {tool} drain {name} '{engine}', and later with --undo",
    ]


if __name__ == "__main__":
    sys.exit(main())
