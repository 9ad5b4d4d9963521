"""`kestrelpy work QUEUE -- CMD`: a command per item, confirmed when it ends well.

    body on standard input ──▶ CMD ── exit 0 ──▶ confirmed, in one trip with the next fetch
                                   └─ else ────▶ given back: an attempt is counted

One rule: told to stop, a running command is waited for, and nothing new is begun.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.logs import log_to_stderr
from kestrelpy.cli.remote import parse_address, parse_wait_ms, refusals
from kestrelpy.client import Item, Worker

log = logging.getLogger("kestrelpy.work")

# A command that always fails must not use up an item's attempts in a moment.
_FAILURE_PAUSE_SECONDS_MIN: Final = 0.05
_FAILURE_PAUSE_SECONDS_MAX: Final = 2.0
_NAP_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Order:
    """What to do: `items_max` None is for ever, `once` is one item that must come at once."""

    server: str
    queue: str
    command: Sequence[str]
    wait: str
    lease: str
    jobs: int
    items_max: int | None
    once: bool


def work(order: Order) -> None:
    """Run the command per item until told to stop; raises CommandError.

    With a number of items to do, a failed one makes the exit code 1.
    """
    log_to_stderr("text", "info")
    if shutil.which(order.command[0]) is None:
        raise CommandError(f"{order.command[0]}: there is no such command")
    crew = _Crew(order)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: crew.stop())
    crew.run()
    if crew.failure is not None:
        raise crew.failure
    if order.once and not crew.begun:
        raise CommandError(f"{order.queue}: no item is ready", NOTHING)
    if (order.once or order.items_max is not None) and crew.failed:
        raise SystemExit(NOTHING)


class _Crew:
    """The workers of one command, each a thread with a connection of its own."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._items_left = 1 if order.once else order.items_max
        self.begun = self.failed = 0
        self.failure: CommandError | None = None
        self._stopping = False
        parse_wait_ms(order.wait, "--wait")
        parse_wait_ms(order.lease, "--lease")
        address = parse_address(order.server)
        try:
            self._workers = [
                Worker(order.queue, address, wait=order.wait, lease=order.lease)
                for _ in range(order.jobs)
            ]
        except ValueError as error:
            raise CommandError(str(error)) from None

    def run(self) -> None:
        """Returns when every worker has ended."""
        threads = [threading.Thread(target=self._run_one, args=(each,)) for each in self._workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stop(self) -> None:
        """Begin nothing new; safe in a signal handler."""
        self._stopping = True
        for worker in self._workers:
            worker.stop()

    def _run_one(self, worker: Worker) -> None:
        try:
            # With --once a server that is not there is the answer; else it is waited for.
            with refusals(self._order.server):
                if self._order.once:
                    self._handle_one(worker)
                else:
                    self._handle_all(worker)
        except CommandError as error:
            self.failure = self.failure or error
            self.stop()
        except Exception as error:
            log.exception("this worker ended")
            self.failure = self.failure or CommandError(f"a bug: {error!r}")
            self.stop()

    def _handle_one(self, worker: Worker) -> None:
        with worker:
            item = worker.fetch()
            if item is not None and self._begin() and self._handle(item):
                item.confirm()

    def _handle_all(self, worker: Worker) -> None:
        pause = _FAILURE_PAUSE_SECONDS_MIN
        for item in worker:
            if not self._begin():
                item.defer()
            elif self._handle(item):
                pause = _FAILURE_PAUSE_SECONDS_MIN
            else:
                self._sleep(pause)
                pause = min(2 * pause, _FAILURE_PAUSE_SECONDS_MAX)

    def _begin(self) -> bool:
        """May one more item be begun?"""
        with self._lock:
            if self._items_left is not None:
                if self._items_left == 0:
                    return False
                self._items_left -= 1
                if self._items_left == 0:
                    self.stop()
            self.begun += 1
            return True

    def _handle(self, item: Item) -> bool:
        """Run the command; True: it ended well. Else the item is given back."""
        command = self._order.command
        try:
            code = subprocess.run(command, input=item.body, check=False).returncode
        except OSError as error:
            item.abort()
            raise CommandError(f"{command[0]} cannot be run: {error.strerror}") from None
        if code == 0:
            return True
        item.abort()
        self.failed += 1
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        log.warning("%s: `%s` %s; the item was given back", self._order.queue,
                    shlex.join(command), ended)  # fmt: skip
        return False

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))


