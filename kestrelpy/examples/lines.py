"""The main job on real input, with accidents: `python -m kestrelpy.examples.lines`.

    producer ──every line──▶ daemon ──close/open──▶ four workers ──▶ a file of results each
                               ✕ kill -9               ✕ kill -9, two of them

A run has a daemon of its own, the example producer on Python's own sources, and four example
workers. Two workers and the daemon are killed at random moments (`--seed`) and started again. At
the end every line must have been handled, with the checksum of the file's own line, and every line
that was handled more than once must have been leased when its worker or the daemon was killed. Exit
code 0: all of that holds; 1: not.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from kestrelpy.examples.results import Results, expected_checksums, verdict

LINES: Final = 120_000
WORKERS: Final = 4
QUEUE: Final = "lines"
# At which share of the handled lines each is killed: a worker, the daemon, another worker.
_ACCIDENTS: Final = ((0.10, 0.30), (0.40, 0.60), (0.70, 0.90))
_LOOK_SECONDS: Final = 0.02
_TELL_SECONDS: Final = 1.0
_START_SECONDS: Final = 60.0
_STALL_SECONDS: Final = 60.0
_END_SECONDS: Final = 30.0


class Failed(Exception):
    """The run cannot go on; the text says why."""


class Run:
    """The processes of one run, and their results."""

    def __init__(self, folder: Path, lines: int, seed: int) -> None:
        self.folder, self.lines = folder, lines
        self.servers: list[tuple[str, int]] = []
        self.queues = [QUEUE]  # each has every so many-th line, and the workers in turn
        self.began = time.monotonic()
        self.results = Results([folder / f"worker-{number}" for number in range(1, WORKERS + 1)])
        # Reasons why a line may be handled again, by its number.
        self.reasons: dict[int, list[str]] = defaultdict(list)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        rng = random.Random(seed)
        first, second = rng.sample(range(1, WORKERS + 1), 2)
        at = [int(lines * rng.uniform(*bounds)) for bounds in _ACCIDENTS]
        victims = [f"worker {first}", "daemon", f"worker {second}"]
        self.accidents = list(zip(at, victims, strict=True))

    def run(self) -> None:
        """Run from the first line to the last confirm. Raises Failed."""
        self.start_servers()
        for number in range(1, WORKERS + 1):
            self.start(f"worker {number}")
        for number in range(1, len(self.queues) + 1):
            self.start(f"producer {number}")
        reported = moved = time.monotonic()
        while not self.is_finished():
            time.sleep(_LOOK_SECONDS)
            self.look_after_servers()
            if self.results.read():
                moved = time.monotonic()
            if self.accidents and self.results.handled >= self.accidents[0][0]:
                self.kill_and_start_again(self.accidents.pop(0)[1])
            if time.monotonic() - reported > _TELL_SECONDS:
                reported = time.monotonic()
                self.say(f"{self.results.handled:>9,} of {self.lines:,} lines handled")
            if time.monotonic() - moved > _STALL_SECONDS:
                raise Failed(f"nothing was handled for {_STALL_SECONDS:.0f} seconds")
        self.end()

    def start_servers(self) -> None:
        """Start what the workers and the producer ask."""
        self.start("daemon")

    def look_after_servers(self) -> None:
        """Mend what is there for the workers; a daemon needs nothing."""

    def start(self, name: str) -> None:
        """Start a process, for the first time or again."""
        kind, _, number = name.partition(" ")
        command = [sys.executable, "-m"]
        server = ["--server", ",".join(f"{host}:{port}" for host, port in self.servers)]
        if kind == "daemon":
            port = self.servers[0][1] if self.servers else 0
            command += ["kestrelpy", "serve", "--config", str(self.config_file())]
            command += ["--data-dir", str(self.folder / "data"), "--port", str(port)]
            command += ["--http-port", "off"]
        elif kind == "worker":
            results = str(self.folder / f"worker-{number}")
            queue = self.queues[int(number) % len(self.queues)]
            command += ["kestrelpy.examples.worker", queue, results, *server]
        else:
            queue = self.queues[int(number) - 1]
            command += ["kestrelpy.examples.producer", queue, "--lines", str(self.lines), *server]
            command += ["--share", f"{number}/{len(self.queues)}"]
        out, log = self.folder / f"{kind}.out", self.folder / f"{kind}.log"
        if kind == "daemon":
            out.write_text("")  # without the output of an earlier one
        with out.open("a") as stdout, log.open("a") as stderr:
            self.children[name] = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        if kind == "daemon":
            self.wait_until_ready(out)

    def wait_until_ready(self, out: Path) -> None:
        """Wait for the daemon's first lines, and take its port from them."""
        deadline = time.monotonic() + _START_SECONDS
        while "ready" not in (said := out.read_text()):
            if self.children["daemon"].poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "daemon.log").read_text()
                raise Failed(f"the daemon did not start:\n{log}")
            time.sleep(_LOOK_SECONDS)
        for line in said.splitlines():
            if line.startswith("listening: memcache"):
                self.servers = [("127.0.0.1", int(line.rpartition(":")[2]))]
            else:
                self.say(line)

    def config_file(self) -> Path:
        """Return an empty file: defaults only, whatever is in the working directory."""
        path = self.folder / "kestrelpy.toml"
        path.touch()
        return path

    def kill_and_start_again(self, name: str) -> None:
        """Kill a process with `kill -9`, note its leased line, and start it again."""
        child = self.children[name]
        child.kill()
        child.wait()
        self.results.read()
        self.say(f"{self.results.handled:>9,} handled: kill -9 {name}, and start it again")
        if name != "daemon":
            last = self.results.last_done(int(name.partition(" ")[2]) - 1)
            if last is not None:
                self.reasons[last].append(f"leased when {name} was killed")
        self.start(name)

    def is_finished(self) -> bool:
        """True if the producers have ended, and their queues have no item, ready or leased."""
        for name, child in self.children.items():
            is_producer = name.startswith("producer")
            if child.poll() is not None and not (is_producer and child.returncode == 0):
                log = (self.folder / f"{name.partition(' ')[0]}.log").read_text()
                raise Failed(f"{name} ended with exit code {child.returncode}:\n{log}")
        producers = [child for name, child in self.children.items() if name.startswith("producer")]
        if any(each.returncode is None for each in producers) or self.accidents:
            return False
        return all(map(self.is_empty, self.queues))

    def is_empty(self, queue: str) -> bool:
        """True if a queue has no item, ready or leased, according to the server that serves."""
        for server in self.servers:
            client = Client(server, connect_timeout=5, timeout=30)
            try:
                stats = client.stats(queue)
                return all(
                    stats[f"queue_{queue}_{key}".encode()] == 0
                    for key in ("items", "open_transactions")
                )
            except (OSError, MemcacheError, KeyError):
                continue  # a member of a fleet that does not serve
            finally:
                client.close()
        return False

    def end(self) -> None:
        """Stop the workers, then the daemon: each must end cleanly."""
        workers = [name for name in self.children if name.startswith("worker")]
        for names in (workers, [name for name in self.children if name == "daemon"]):
            for name in names:
                self.children[name].terminate()
            for name in names:
                if code := self.children[name].wait(_END_SECONDS):
                    raise Failed(f"{name} ended with exit code {code}")
        self.results.read()
        for number in self.results.unsure:
            self.reasons[number].append("leased when the daemon was killed")
        for line in (self.folder / "producer.out").read_text().splitlines():
            word, _, number_text = line.partition(" ")
            if word == "resent":
                self.reasons[int(number_text)].append(
                    "sent again, its STORED was lost when the daemon was killed"
                )

    def kill_all(self) -> None:
        """Leave no process running."""
        for child in self.children.values():
            child.kill()
            child.wait()

    def say(self, text: str) -> None:
        """Print one line of progress."""
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)


@contextmanager
def a_folder() -> Iterator[Path]:
    """Give a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="kestrelpy-lines-") as name:
        yield Path(name)


def main(
    argv: list[str] | None = None,
    make: Callable[[Path, int, argparse.Namespace], Run] = lambda folder, lines, options: Run(
        folder, lines, options.seed
    ),
    folder_of_run: Callable[[], AbstractContextManager[Path]] = a_folder,
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> int:
    """Run it from the command line; return the exit code. `make` gets how many lines there are, and
    the options, with a seed."""
    parser = argparse.ArgumentParser(description="The main job on real input, with accidents.")
    add_options(parser)
    parser.add_argument("--lines", type=int, default=LINES, metavar="N")
    parser.add_argument("--seed", type=int, default=None, help="of the random kills")
    options = parser.parse_args(argv)
    if options.seed is None:
        options.seed = random.randrange(1_000_000)
    expected = expected_checksums(options.lines)
    print(f"{len(expected):,} lines of Python's own sources; --seed {options.seed}", flush=True)
    with folder_of_run() as folder:
        run = make(folder, len(expected), options)
        try:
            run.run()
        except Failed as error:
            print(f"FAILED: {error}")
            return 1
        finally:
            run.kill_all()
        seconds = time.monotonic() - run.began
    sentences, ok = verdict(expected, run.results, run.reasons)
    print("\n".join(sentences))
    print(f"{len(expected) / seconds:,.0f} lines a second, accidents included")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
