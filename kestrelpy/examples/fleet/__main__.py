"""A fleet on this machine, to try: `python -m kestrelpy.examples.fleet`, or `make fleet`.

    producer ──▶ member a, the owner ──▶ two workers ──▶ every line once or more, none lost
                 member b, the standby
                     └── PostgreSQL: n1 ▶ n2, n3

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
from pathlib import Path
from typing import Final

from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from kestrelpy.examples.fleet.trial import Trial, in_url
from kestrelpy.examples.producer import Producer, numbered_lines, standard_library_files
from kestrelpy.examples.results import Results
from kestrelpy.examples.worker import Worker

QUEUE: Final = "lines"
WORKERS: Final = 2
LINES_A_SECOND: Final = 200
_LOOK_SECONDS: Final = 0.1
_TELL_SECONDS: Final = 2.0
_END_SECONDS: Final = 20.0


class Load:
    """A producer and two workers, in threads of this process."""

    def __init__(self, servers: list[tuple[str, int]], folder: Path) -> None:
        files = [folder / f"worker-{number}" for number in range(1, WORKERS + 1)]
        self.results = Results(files)
        self._ending = threading.Event()
        self.producer = _QuietProducer(servers, QUEUE, self._lines())
        self._workers = [Worker(servers, QUEUE, str(file)) for file in files]
        self._producing = threading.Thread(target=self.producer.run, daemon=True)
        self._working = [
            threading.Thread(target=worker.run, daemon=True) for worker in self._workers
        ]

    def start(self) -> None:
        """Begin to store and to handle."""
        for thread in (self._producing, *self._working):
            thread.start()

    def end(self, trial: Trial) -> bool:
        """Store no more, handle what is there; return True if nothing was lost."""
        self._ending.set()
        deadline = time.monotonic() + _END_SECONDS
        while self._producing.is_alive() or self.results.handled < self.producer.stored:
            trial.look()
            self.results.read()
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        for worker in self._workers:
            worker.stop()
        return self.results.handled >= self.producer.stored

    def says(self) -> str:
        """Return what was stored and handled so far."""
        self.results.read()
        again = self.results.numbers.total() - self.results.handled
        twice = f", {again:,} of them twice" if again else ""
        return f"{self.producer.stored:,} stored, {self.results.handled:,} handled{twice}"

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of Python's own source, LINES_A_SECOND of them, until the end."""
        began = time.monotonic()
        for number, line in enumerate(_text()):
            due = began + number / LINES_A_SECOND
            if self._ending.wait(max(due - time.monotonic(), 0)):
                return
            yield number, line


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
    options = parser.parse_args(argv)
    began = time.monotonic()
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    say("starting three PostgreSQL servers and two members")
    with folder_of_servers() as folder, Trial(folder, say, options.takeover) as trial:
        print(_what_to_try(trial), flush=True)
        load = Load(trial.addresses, folder)
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
        lost = load.producer.stored - load.results.handled
        say(f"{load.says()}, {max(lost, 0):,} lost")
    return 0 if is_whole else 1


def _what_to_try(trial: Trial) -> str:
    """Return who runs where, and what one may do to them."""
    owner, primary = trial.owner_process(), trial.cluster.primary
    assert owner is not None and owner.process is not None
    lines = []
    for name, member in trial.members.items():
        assert member.process is not None
        host = in_url(member.address[0])
        lines.append(
            f"  member {name}      pid {member.process.pid:<8} memcache {host}:"
            f"{member.address[1]}   http://{host}:{member.http_port}/"
        )
    for server in trial.cluster.servers:
        lines.append(f"  PostgreSQL {server.name} pid {server.pid:<8} 127.0.0.1:{server.port}")
    pid = owner.process.pid
    return "\n".join([
        "", *lines, "",
        "Try this from another shell; nothing that was stored is lost:",
        f"  kill -9 {pid:<10} the owner: the other member takes over after {trial.takeover}",
        f"  kill {pid:<13} the owner, asked to stop: the other one takes over at once",
        f"  kill -STOP {pid:<7} the owner sleeps; kill -CONT {pid}: it serves nobody any more",
        f"  kill -9 {primary.pid:<10} the primary: {trial.cluster.standby.name} is promoted",
        "Ctrl-C ends it.", "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
