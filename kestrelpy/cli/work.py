"""`kestrelpy work QUEUE -- CMD`: a command per item, confirmed when it ends well.

    body on standard input ──▶ CMD ── exit 0 ────────▶ confirmed, in one trip with the next fetch
                                   ├─ exit 75 ───────▶ put off for --delay, no attempt counted
                                   ├─ one of --bury ─▶ to the dead line, its last words the reason
                                   └─ else ──────────▶ given back: an attempt is counted
    lease lost, or --defer-after ──▶ SIGTERM to CMD; when the lease is lost nothing is confirmed

75 is EX_TEMPFAIL of sysexits.h: "try again later".

One rule: told to stop, a running command is waited for, and nothing new is begun; told twice, it
is told, too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Final

from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.logs import log_to_stderr
from kestrelpy.cli.remote import parse_address, parse_wait_ms, refusals
from kestrelpy.client import Item, Worker
from kestrelpy.client.item import LeaseLost

log = logging.getLogger("kestrelpy.work")

PUT_OFF: Final = 75
_CODE_MAX: Final = 255
# A command that always fails must not use up an item's attempts in a moment.
_FAILURE_PAUSE_SECONDS_MIN: Final = 0.05
_FAILURE_PAUSE_SECONDS_MAX: Final = 2.0
_NAP_SECONDS: Final = 0.05
_SIGNAL_SECONDS: Final = 0.5
# A process that CMD leaves behind may hold its standard error open for ever.
_LAST_WORDS_SECONDS: Final = 1.0
_LOST: Final = "its lease was lost, so the item is not confirmed and comes again"


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
    defer_after: str | None
    delay: str
    bury: frozenset[int]


def parse_codes(text: str) -> frozenset[int]:
    """Exit codes, separated by commas; raises CommandError."""
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() and 0 < int(word) <= _CODE_MAX for word in words):
        raise CommandError(
            f"--bury: {text!r} is not a list of exit codes: it must be numbers from 1 to "
            f"{_CODE_MAX}, separated by commas, like 65,66"
        )
    if str(PUT_OFF) in words:
        raise CommandError(f"--bury: exit code {PUT_OFF} puts an item off, it cannot bury it, too")
    return frozenset(map(int, words))


def work(order: Order) -> None:
    """Run the command per item until told to stop; raises CommandError.

    With a number of items to do, one that was not confirmed makes the exit code 1.
    """
    log_to_stderr("text", "info")
    if shutil.which(order.command[0]) is None:
        raise CommandError(f"{order.command[0]}: there is no such command")
    crew = _Crew(order)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: crew.hear_signal())
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
        self._running: set[_Running] = set()
        self.begun = self.failed = 0
        self.failure: CommandError | None = None
        self._stopping = False
        self._signals = 0
        parse_wait_ms(order.wait, "--wait")
        parse_wait_ms(order.lease, "--lease")
        parse_wait_ms(order.delay, "--delay")
        if order.defer_after is not None and parse_wait_ms(order.defer_after, "--defer-after") < 1:
            raise CommandError("--defer-after must be at least 1s")
        address = parse_address(order.server)
        try:
            self._workers = [
                Worker(
                    order.queue, address, wait=order.wait, lease=order.lease,
                    work_limit=order.defer_after,
                )
                for _ in range(order.jobs)
            ]  # fmt: skip
        except ValueError as error:
            raise CommandError(str(error).replace("work_limit", "--defer-after")) from None

    def run(self) -> None:
        """Returns when every worker has ended."""
        threads = [threading.Thread(target=self._run_one, args=(each,)) for each in self._workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            # A signal that comes just before this waits is heard when the wait is over.
            while thread.is_alive():
                thread.join(_SIGNAL_SECONDS)

    def hear_signal(self) -> None:
        """Stop; the second time pass it on to what runs."""
        self._signals += 1
        if self._signals > 1:
            for each in list(self._running):
                each.tell_to_end()
        self.stop()

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
            self._fail(error)
        except Exception as error:
            log.exception("this worker ended")
            self._fail(CommandError(f"a bug: {error!r}"))

    def _fail(self, error: CommandError) -> None:
        self.failure = self.failure or error
        self.stop()

    def _handle_one(self, worker: Worker) -> None:
        with worker:
            item = worker.fetch()
            if item is not None and self._begin() and self._handle(item):
                try:
                    item.confirm()
                except LeaseLost:
                    self.failed += 1
                    log.warning("%s: %s", self._order.queue, _LOST)

    def _handle_all(self, worker: Worker) -> None:
        pause = _FAILURE_PAUSE_SECONDS_MIN
        ended_well: Item | None = None  # it is confirmed at the next turn
        for item in worker:
            self._look_back(ended_well)
            ended_well = None
            if not self._begin():
                item.defer()
            elif self._handle(item):
                ended_well = item
                pause = _FAILURE_PAUSE_SECONDS_MIN
            else:
                self._sleep(pause)
                pause = min(2 * pause, _FAILURE_PAUSE_SECONDS_MAX)
        self._look_back(ended_well)

    def _look_back(self, item: Item | None) -> None:
        """Was its confirm too late? The worker said so."""
        if item is not None and item.is_lost:
            self.failed += 1

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
        """Run the command; True: it ended well. Else its item is ended here."""
        order = self._order
        try:
            running = _Running(order.command, hears=bool(order.bury))
        except OSError as error:
            item.abort()
            raise CommandError(f"{order.command[0]} cannot be run: {error.strerror}") from None
        self._running.add(running)
        item.when_stop(running.tell_to_end)
        if self._signals > 1:
            running.tell_to_end()
        code = running.finish(item.body)
        self._running.discard(running)
        if code == 0 and not item.is_lost:
            return True
        self.failed += 1
        log.warning("%s: `%s` %s; %s", order.queue, shlex.join(order.command), _ended(code),
                    self._end(item, code, running.last_words))  # fmt: skip
        return False

    def _end(self, item: Item, code: int, last_words: str) -> str:
        """End an item that is not confirmed; says what became of it."""
        if item.is_lost:
            return _LOST
        if code in self._order.bury:
            try:
                item.bury(last_words or _ended(code))
            except LeaseLost:
                return _LOST
            return "the item was buried"
        if code == PUT_OFF or item.should_stop:
            item.defer(self._order.delay)
            return f"the item was put off for {self._order.delay}"
        item.abort()
        return "the item was given back"

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))


class _Running:
    """One command that runs, in a process group of its own: it is told to end with all its own."""

    def __init__(self, command: Sequence[str], hears: bool) -> None:
        """Raises OSError; with `hears` its standard error passes through here."""
        self.last_words = ""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE if hears else None,
            process_group=0,
        )  # fmt: skip
        self._ear: threading.Thread | None = None
        if self._process.stderr is not None:
            self._ear = threading.Thread(
                target=self._hear, args=(self._process.stderr,), daemon=True
            )
            self._ear.start()

    def finish(self, body: bytes) -> int:
        """Give it its body and wait for its end; the exit code, or minus a signal's number."""
        assert self._process.stdin is not None
        # It need not read its input.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(body)
        code = self._process.wait()
        if self._ear is not None:
            self._ear.join(_LAST_WORDS_SECONDS)
        return code

    def tell_to_end(self) -> None:
        """SIGTERM, to it and what it started; from any thread."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def _hear(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
                if line.strip():
                    self.last_words = line.decode(errors="replace").strip()


def _ended(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
