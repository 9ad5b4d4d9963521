"""`kestrelpy work QUEUE -- CMD`: run a command per item, and confirm the item when it succeeds.

    body on standard input ──▶ CMD ── exit 0 ────────▶ confirmed, in one trip with the next fetch
                                   ├─ exit 75 ───────▶ deferred for --delay, no attempt counted
                                   ├─ one of --bury ─▶ a dead letter, the last line the reason
                                   └─ else ──────────▶ given back, tried again after --retry-delay
                                                       a dead letter after --max-attempts
    lease lost, or --defer-after ──▶ SIGTERM to CMD; when the lease is lost nothing is confirmed

75 is EX_TEMPFAIL of sysexits.h: "try again later".

CMD finds in its environment KESTREL_QUEUE, KESTREL_ITEM (the number), KESTREL_ATTEMPTS (before this
one), KESTREL_KEY (as `key=` was written) and KESTREL_DEADLINE (when it gets SIGTERM because of
--defer-after, in Unix seconds); the last two are empty where there is none.

One rule: after a first signal the worker waits for running commands and begins no new one; it
passes a second signal on to them.
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

from kestrelpy.cli.at import DEFAULT_TIMEOUT, access, at
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.logs import log_to_stderr
from kestrelpy.cli.remote import (
    connected,
    nothing_to_lease,
    parse_address,
    parse_wait_ms,
    refusals,
)
from kestrelpy.client import ItemState, LeaseLost, Worker, WorkerItem

log = logging.getLogger("kestrelpy.work")

DEFER_CODE: Final = 75
_CODE_MAX: Final = 255
# A command that always fails must not use up an item's attempts in a moment.
_FAILURE_PAUSE_SECONDS_MIN: Final = 0.05
_FAILURE_PAUSE_SECONDS_MAX: Final = 2.0
_NAP_SECONDS: Final = 0.05
_SIGNAL_SECONDS: Final = 0.5
# A process that CMD leaves running may hold its standard error open for ever.
_STDERR_SECONDS: Final = 1.0
_LOST: Final = "its lease was lost, so the item is not confirmed and comes again"


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """The options: `items_max` None means no limit; with `once`, one item must be there at once."""

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
    retry_delay: str
    max_attempts: int | None


def parse_codes(text: str) -> frozenset[int]:
    """Return the exit codes, separated by commas; raise CommandError."""
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() and 0 < int(word) <= _CODE_MAX for word in words):
        raise CommandError(
            f"--bury: {text!r} is not a list of exit codes: it must be numbers from 1 to "
            f"{_CODE_MAX}, separated by commas, like 65,66"
        )
    if str(DEFER_CODE) in words:
        raise CommandError(f"--bury: exit code {DEFER_CODE} defers an item, so it cannot be here")
    return frozenset(map(int, words))


def work(options: WorkOptions) -> None:
    """Run the command per item until told to stop; raise CommandError.

    With a number of items, an item that was not confirmed makes the exit code 1.
    """
    log_to_stderr("text", "info")
    if shutil.which(options.command[0]) is None:
        raise CommandError(f"{options.command[0]}: there is no such command")
    crew = _Crew(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: crew.note_signal())
    crew.run()
    if crew.failure is not None:
        raise crew.failure
    if options.once and not crew.begun:
        with connected(at(options.server, DEFAULT_TIMEOUT)) as client:
            raise nothing_to_lease(client, options.queue)
    if (options.once or options.items_max is not None) and crew.failed:
        raise SystemExit(NOTHING)


class _Crew:
    """The workers of one command, each a thread with a connection of its own."""

    def __init__(self, options: WorkOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._items_left = 1 if options.once else options.items_max
        self._running: set[_Running] = set()
        self.begun = self.failed = 0
        self.failure: CommandError | None = None
        self._stopping = False
        self._signals = 0
        # The reason of a dead letter is the last line of standard error.
        self._reads_stderr = bool(options.bury) or options.max_attempts is not None
        parse_wait_ms(options.wait, "--wait")
        parse_wait_ms(options.lease, "--lease")
        parse_wait_ms(options.delay, "--delay")
        parse_wait_ms(options.retry_delay, "--retry-delay")
        self._defer_after_ms = 0
        if options.defer_after is not None:
            self._defer_after_ms = parse_wait_ms(options.defer_after, "--defer-after")
            if self._defer_after_ms < 1:
                raise CommandError("--defer-after must be at least 1s")
        address = parse_address(options.server)
        try:
            self._workers = [
                Worker(
                    options.queue, address, wait=options.wait, lease=options.lease,
                    work_limit=options.defer_after, retry_delay=options.retry_delay,
                    max_attempts=options.max_attempts, access=access(),
                )
                for _ in range(options.jobs)
            ]  # fmt: skip
        except ValueError as error:
            raise CommandError(str(error).replace("work_limit", "--defer-after")) from None

    def run(self) -> None:
        """Return when every worker has ended."""
        threads = [threading.Thread(target=self._run_one, args=(each,)) for each in self._workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            # A signal just before this wait is handled when the wait is over.
            while thread.is_alive():
                thread.join(_SIGNAL_SECONDS)

    def note_signal(self) -> None:
        """Stop; pass a second signal on to the running commands."""
        self._signals += 1
        if self._signals > 1:
            for each in list(self._running):
                each.terminate()
        self.stop()

    def stop(self) -> None:
        """Begin nothing new; safe in a signal handler."""
        self._stopping = True
        for worker in self._workers:
            worker.stop()

    def _run_one(self, worker: Worker) -> None:
        try:
            # With --once an unreachable server is an error; otherwise the worker waits for it.
            with refusals(self._options.server):
                if self._options.once:
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
            if item is not None and self._begin() and self._handle(worker, item):
                try:
                    item.confirm()
                except LeaseLost:
                    self.failed += 1
                    log.warning("%s: %s", self._options.queue, _LOST)

    def _handle_all(self, worker: Worker) -> None:
        pause = _FAILURE_PAUSE_SECONDS_MIN
        ended_well: WorkerItem | None = None  # confirmed with the next fetch
        for item in worker:
            self._count_lost(ended_well)
            ended_well = None
            if not self._begin():
                item.defer()
            elif self._handle(worker, item):
                ended_well = item
                pause = _FAILURE_PAUSE_SECONDS_MIN
            else:
                self._sleep(pause)
                pause = min(2 * pause, _FAILURE_PAUSE_SECONDS_MAX)
        self._count_lost(ended_well)

    def _count_lost(self, item: WorkerItem | None) -> None:
        """Count an item whose confirm came too late; the worker has logged it."""
        if item is not None and item.is_lost:
            self.failed += 1

    def _begin(self) -> bool:
        """Return whether one more item may be begun."""
        with self._lock:
            if self._items_left is not None:
                if self._items_left == 0:
                    return False
                self._items_left -= 1
                if self._items_left == 0:
                    self.stop()
            self.begun += 1
            return True

    def _handle(self, worker: Worker, item: WorkerItem) -> bool:
        """Run the command; return True if it succeeded. Otherwise end its item here."""
        options = self._options
        try:
            environment = self._environment(item)
        except LeaseLost:
            self.failed += 1
            log.warning("%s: %s", options.queue, _LOST)
            return False
        try:
            running = _Running(options.command, environment, self._reads_stderr)
        except OSError as error:
            item.abort()
            raise CommandError(f"{options.command[0]} cannot be run: {error.strerror}") from None
        self._running.add(running)
        item.when_stop(running.terminate)
        if self._signals > 1:
            running.terminate()
        code = running.finish(item.body)
        self._running.discard(running)
        if code == 0 and not item.is_lost:
            return True
        self.failed += 1
        log.warning("%s: `%s` %s; %s", options.queue, shlex.join(options.command), _ended(code),
                    self._end(worker, item, code, running.last_line))  # fmt: skip
        return False

    def _end(self, worker: Worker, item: WorkerItem, code: int, last_line: str) -> str:
        """End an item that is not confirmed; return its end in words."""
        if item.is_lost:
            return _LOST
        if code in self._options.bury:
            try:
                item.bury(last_line or _ended(code))
            except LeaseLost:
                return _LOST
            return "the item is a dead letter now"
        if code == DEFER_CODE or item.should_stop:
            item.defer(self._options.delay)
            return f"the item was deferred for {self._options.delay}"
        try:
            state = worker.fail(item, last_line or _ended(code))
        except LeaseLost:
            return _LOST
        if state is ItemState.BURIED:
            many = item.attempts + 1
            return f"the item is a dead letter after {many} attempt{'s' if many > 1 else ''}"
        if state is ItemState.LOST:
            return _LOST
        return "the item was given back"

    def _environment(self, item: WorkerItem) -> dict[str, str]:
        deadline = int(time.time() + self._defer_after_ms / 1000) if self._defer_after_ms else ""
        return {
            "KESTREL_QUEUE": item.queue,
            "KESTREL_ITEM": str(item.number),
            "KESTREL_ATTEMPTS": str(item.attempts),
            "KESTREL_KEY": item.key,
            "KESTREL_DEADLINE": str(deadline),
        }

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))


class _Running:
    """One running command, in a process group of its own, so that a signal reaches all of its
    processes."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], reads_stderr: bool
    ) -> None:
        """Start the command with these variables added; raise OSError.

        With `reads_stderr` its standard error passes through here.
        """
        self.last_line = ""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE if reads_stderr else None,
            process_group=0, env={**os.environ, **environment},
        )  # fmt: skip
        self._stderr_thread: threading.Thread | None = None
        if self._process.stderr is not None:
            self._stderr_thread = threading.Thread(
                target=self._copy_stderr, args=(self._process.stderr,), daemon=True
            )
            self._stderr_thread.start()

    def finish(self, body: bytes) -> int:
        """Send the body and wait for the end; return the exit code, or minus a signal's number."""
        assert self._process.stdin is not None
        # It need not read its input.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(body)
        code = self._process.wait()
        if self._stderr_thread is not None:
            self._stderr_thread.join(_STDERR_SECONDS)
        return code

    def terminate(self) -> None:
        """Send SIGTERM to it and the processes it started; from any thread."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def _copy_stderr(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
                if line.strip():
                    self.last_line = line.decode(errors="replace").strip()


def _ended(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
