"""`kestrelpy serve` and `check-config`: from flags, environment and file to a running daemon.

One rule: every reason not to start is one sentence and exit code 2. With `log_format = "json"`
every line from the first one on is JSON: the listeners and `ready` on standard output, the rest on
standard error. Only a configuration that cannot be read is refused in plain words, because its
log format is not known.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from getpass import getpass
from pathlib import Path
from typing import Final, NoReturn

import uvloop

from kestrelpy.access import SECRET_BYTES_MAX
from kestrelpy.access import hash_secret as form_of
from kestrelpy.cli.errors import NOTHING, UNUSABLE, CommandError
from kestrelpy.cli.logs import JsonLines, LineWriter, log_to_stderr
from kestrelpy.config import Config, ConfigError, find_config_file, load_config, make_archives
from kestrelpy.server import (
    HEEDED,
    MAIL,
    PARENT,
    Daemon,
    SliceRouter,
    StartError,
    Supervisor,
    Unservable,
    end_with_parent,
    refuse_unservable,
)

log = logging.getLogger("kestrelpy")

# All is closed: from here on only threads are waited for.
_EXIT_SECONDS: Final = 5.0
# By default each ends a process at once.
_UNUSED_SIGNALS: Final = (
    "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR",
    "SIGSTKFLT",
)  # fmt: skip
_WHAT_ENDS: Final = "SIGTERM and SIGINT end the daemon, SIGHUP reloads; the log is standard error"

Flags = Mapping[tuple[str, str], object]


class ConfigSource:
    """The sources of the configuration: the same file, environment and flags at each reload."""

    def __init__(self, config_file: Path | None, flags: Flags) -> None:
        self.path = find_config_file(config_file, _working_directory())
        self._flags = flags

    def load(self) -> Config:
        """Read it now; raise ConfigError."""
        config = load_config(self.path, environ=os.environ, overrides=self._flags)
        return config.of_slice()

    def load_and_prepare(self) -> Config:
        """Read it now, and make its archives; raise ConfigError."""
        config = self.load()
        make_archives(config)
        return config


def serve(config_file: Path | None, flags: Flags) -> None:
    """Run the daemon until it is told to end; raise CommandError."""
    source = ConfigSource(config_file, flags)
    try:
        config = source.load_and_prepare()
    except ConfigError as error:
        raise CommandError(str(error)) from None
    _log_as_it_says(config)
    logging.captureWarnings(True)
    if config.is_router:
        _route(config, source)
        return
    if (parent := os.environ.pop(PARENT, "")).isdecimal():
        end_with_parent(int(parent))
    mail = os.environ.pop(MAIL, "")

    supervisor = Supervisor(os.environ)

    between = _BetweenDaemons()

    async def live() -> bool:
        """Run one daemon; return whether another is to begin in its place."""
        nonlocal config
        _name_signals()
        daemon = Daemon(
            config, source.load_and_prepare, _say, taken=_log_as_it_says, supervisor=supervisor,
            mail=mail,
        )  # fmt: skip
        between.end(daemon)
        gc.freeze()  # objects of the start-up stay: the collector need not examine them again
        try:
            await daemon.run()
        except StartError:
            _end_in_any_case()
            raise
        if daemon.membership.begins_again:
            await between.begin()
            config = daemon.config  # with the reloads: a revoked user stays revoked
        if daemon.membership.begins_again:
            return True
        _ignore_signals()
        _end_in_any_case()
        return False

    try:
        while uvloop.run(live()):
            log.warning("this process does not own the data: it is a standby from here on")
    except (StartError, Unservable) as error:
        _end_of_start(error)
    except Exception:  # nothing above this catches: the traceback belongs in the log, as it is set
        log.critical("the server ended because of a bug", exc_info=True)
        raise SystemExit(NOTHING) from None


def _route(config: Config, source: ConfigSource) -> None:
    """Run the router, which starts a daemon for each slice."""
    async def live() -> None:
        _name_signals()
        supervisor = Supervisor(os.environ)
        router = SliceRouter(
            config, source.path, source.load, _say, _log_as_it_says, supervisor
        )
        await router.run()
        _ignore_signals()

    try:
        uvloop.run(live())
    except StartError as error:
        _end_of_start(error)


def _end_of_start(error: Exception) -> NoReturn:
    """End with the reason why the server does not start, as the log's format is."""
    if not _is_json():
        raise CommandError(str(error)) from None
    log.error("%s", error)
    raise SystemExit(UNUSABLE) from None


def check_config(config_file: Path | None) -> None:
    """Print "ok" and the name of the file; raise CommandError with every problem."""
    source = ConfigSource(config_file, {})
    try:
        asyncio.run(refuse_unservable(source.load(), []))
    except (ConfigError, Unservable) as error:
        raise CommandError(str(error)) from None
    print(f"ok: {source.path or 'no configuration file, so every setting has its default'}")


def hash_secret() -> None:
    """Print the stored form of the secret on standard input; raise CommandError."""
    if sys.stdin.isatty():
        secret = getpass("secret: ").encode()
    else:
        secret = sys.stdin.buffer.read(SECRET_BYTES_MAX + 2).removesuffix(b"\n").removesuffix(b"\r")
    if not 0 < len(secret) <= SECRET_BYTES_MAX:
        raise CommandError(f"a secret has 1 to {SECRET_BYTES_MAX} bytes")
    print(form_of(secret))


class _BetweenDaemons:
    """The signals that come after the end of one daemon and before the start of the next."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._heed: Callable[[int], object] = self._came.append

    async def begin(self) -> None:
        """Note signals from now on. On return the daemon has executed those that came before."""
        loop = asyncio.get_running_loop()
        self._heed = self._came.append
        self._take()
        for _ in range(2):  # the loop reads the signals that came before, and executes them
            await asyncio.sleep(0)
        for number in (*HEEDED, *(number for _, number in _unused_signals())):
            loop.remove_signal_handler(number)  # it would do so at its end: the default kills
            self._take_one(number)  # at once, because the default holds in between

    def end(self, daemon: Daemon) -> None:
        """Let this daemon execute the signals that came, and others until it takes them itself."""
        loop = asyncio.get_running_loop()
        self._heed = lambda number: loop.call_soon_threadsafe(daemon.heed, number)
        while self._came:
            self._heed(self._came.pop(0))

    def _take(self) -> None:
        for number in (*HEEDED, *(number for _, number in _unused_signals())):
            self._take_one(number)

    def _take_one(self, number: int) -> None:
        if number in HEEDED:
            signal.signal(number, lambda number, _: self._heed(number))
        else:
            signal.signal(number, signal.SIG_IGN)


def _ignore_signals() -> None:
    """Ignore one more request to end: everything is closed, and the exit code stays 0."""
    loop = asyncio.get_running_loop()
    for number in HEEDED:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _end_in_any_case() -> None:
    """End the process even if a thread waits for a disk that does not answer."""

    def end() -> None:
        log.error("a disk does not answer: the process ends without its answer")
        logging.shutdown()
        os._exit(NOTHING)

    timer = threading.Timer(_EXIT_SECONDS, end)
    timer.daemon = True
    timer.start()


def _is_json() -> bool:
    """True if the lines of the log are JSON now: a reload may have changed that."""
    handlers = logging.getLogger().handlers
    return any(isinstance(each.formatter, JsonLines) for each in handlers)


def _log_as_it_says(config: Config) -> None:
    log_to_stderr(config.server.log_format, config.server.log_level)


def _name_signals() -> None:
    """Log signals that would end the process without a line, and go on."""
    loop = asyncio.get_running_loop()
    for name, number in _unused_signals():
        loop.add_signal_handler(number, log.warning, "%s ignored: %s", name, _WHAT_ENDS)


def _unused_signals() -> Iterator[tuple[str, int]]:
    """Yield those that this system has, the real-time signals among them."""
    for name in _UNUSED_SIGNALS:
        if (number := getattr(signal, name, None)) is not None:
            yield name, number
    first = getattr(signal, "SIGRTMIN", 0)
    for number in range(first, getattr(signal, "SIGRTMAX", -1) + 1):
        yield f"SIGRTMIN+{number - first}", number


def _say(line: str) -> None:
    """Print a line after those of the log, in the same format. If nothing reads it, the
    process neither ends nor waits."""
    if _is_json():
        record = logging.LogRecord(log.name, logging.INFO, "", 0, line, (), None)
        line = JsonLines().format(record)
    for handler in logging.getLogger().handlers:
        handler.flush()
    writer = _standard_output()
    writer.say(line)
    writer.flush()


@cache
def _standard_output() -> LineWriter:
    return LineWriter(1, _give_up_output)


def _give_up_output(error: OSError) -> None:
    log.warning("standard output cannot be written: %s", error.strerror)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise CommandError(f"the working directory cannot be used: {error.strerror}") from None
