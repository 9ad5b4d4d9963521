"""Starts `kestrelpy ...` by a fork of a process that has imported it.

    a test  --- words, environment, folder, files --->  the fork server  --- fork --->  the command
            <--- its pid, later its exit code -------

A fork takes some milliseconds, an interpreter with these imports half a second of a processor. The
command is a process as a user's: its own pid, signals, files, exit code, and end of interpreter.

One rule: what an interpreter reads when it starts (PYTHON..., the language), and what a process
gets from the thread that starts it (its network, its umask), is not a fork's to change. `start`
makes a process of its own where one of these differs; a test of the start itself uses `subprocess`.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[2]
_REQUEST_BYTES_MAX = 1 << 18
_FILES_MAX = 32
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL_", "SSLKEYLOGFILE", "TZ")
_IS_LINUX = sys.platform == "linux"
_OPTIONS = frozenset({"cwd", "env", "stderr", "stdin", "stdout", "text"})
_NOT_IMPORTED = ("examples", "kombu", "spark")  # Arrow starts threads


def start(
    words: Sequence[str], prefix: Sequence[str] = (), **options: Any
) -> subprocess.Popen[Any]:
    """Start `kestrelpy` with these words, behind `prefix` (strace, for instance).

    `options` are those of `subprocess.Popen`.
    """
    environment = options.get("env") or os.environ
    is_ours = options.keys() <= _OPTIONS and _at_start(environment) == _at_start(os.environ)
    if prefix or not _IS_LINUX or not is_ours or _inherited() != _server().inherited:
        command = [*prefix, sys.executable, "-m", "kestrelpy", *words]
        return subprocess.Popen(command, **options)
    return _Forked([*words], **options)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an interpreter reads of it when it starts."""
    found = {k: v for k, v in environment.items() if k.startswith(_READ_AT_START)}
    if found.get("PYTHONPATH") == str(ROOT):
        del found["PYTHONPATH"]  # the fork server has this one
    found.pop("PYTHONUNBUFFERED", None)  # _text does as it says
    return found


def _inherited() -> list[str]:
    """Return what a process gets from the thread that starts it: its namespaces, umask and ignored
    signals; not its limits, since a daemon raises its own.
    """
    here = Path("/proc/thread-self")
    status = (here / "status").read_text().splitlines()
    namespaces = [os.readlink(here / "ns" / each) for each in ("mnt", "net", "pid", "user")]
    return namespaces + [line for line in status if line.startswith(("Umask", "SigIgn"))]


class _Forked(subprocess.Popen[Any]):
    """A command that the fork server started: its parent is the fork server, which says the end."""

    def _execute_child(
        self, args: list[str], executable: object, preexec_fn: object, close_fds: object,
        pass_fds: Sequence[int], cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None, startupinfo: object,
        creationflags: object, shell: object, p2cread: int, p2cwrite: int, c2pread: int,
        c2pwrite: int, errread: int, errwrite: int, *rest: Any,
    ) -> None:  # fmt: skip
        files = [
            ours if theirs == -1 else theirs
            for ours, theirs in enumerate((p2cread, c2pwrite, errwrite))
        ]
        request = {
            "words": list(args),
            "folder": os.fspath(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
        }
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            _server().ask(json.dumps(request).encode(), [*files, theirs.fileno()])
        self.pid = int(self._end.recv(64))
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def poll(self) -> int | None:
        """Return the exit code; None: it runs."""
        return self._internal_poll()

    def _internal_poll(self, _deadstate: object = None) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end."""
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and _readable([self._end], seconds):
            text = self._end.recv(64)
            assert text, "the fork server has ended"
            self.returncode = os.waitstatus_to_exitcode(int(text))
            self._end.close()
        return self.returncode


def _readable(waits: Sequence[socket.socket | int], seconds: float | None) -> set[int]:
    """Return the descriptors that can be read, after this time at most. A process with more than
    1,023 descriptors cannot ask `select`."""
    poll = select.poll()
    for each in waits:
        poll.register(each, select.POLLIN)
    return {number for number, _ in poll.poll(None if seconds is None else seconds * 1000)}


class _Server:
    """The fork server of this process, and the way to it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self.inherited = _inherited()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()], cwd=ROOT, start_new_session=True,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def ask(self, request: bytes, files: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._socket, [request], files)


@cache
def _server() -> _Server:
    return _Server()


# What follows runs in the fork server, and then in the command.


def _import_all() -> None:
    """Import what a command may need; one thread is left, as a fork wants it."""
    for path in sorted((ROOT / "kestrelpy").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[1] not in _NOT_IMPORTED and parts[-1] not in ("__init__", "__main__"):
            with suppress(ImportError):  # it needs what is not installed here
                importlib.import_module(".".join(parts))
    assert len(os.listdir("/proc/self/task")) == 1, "an import started a thread"
    gc.freeze()


def _serve(asked: socket.socket) -> list[str]:
    """Fork a command for each request; return, in the command, its words."""
    ends: dict[int, socket.socket] = {}
    wake, woken = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = _readable([asked, wake], None)
        if wake in ready:
            os.read(wake, 4096)
            _say_ends(ends)
        if asked.fileno() in ready:
            request, files, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAX, _FILES_MAX)
            if not request:  # the tests have ended
                os._exit(0)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (asked, *ends.values()):
                    each.close()
                return _become(json.loads(request), files)
            *standard, end = files
            for each in standard:
                os.close(each)
            ends[pid] = socket.socket(fileno=end)
            with suppress(BrokenPipeError):
                ends[pid].send(str(pid).encode())


def _say_ends(ends: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG):
            pid, status = ended
            if not pid:
                return
            with ends.pop(pid) as end, suppress(BrokenPipeError):
                end.send(str(status).encode())


def _become(request: dict[str, Any], files: list[int]) -> list[str]:
    """Take over the files, the environment and the folder of a request."""
    for at, each in enumerate(files[:3]):
        os.dup2(each, at)
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    sys.stdin, sys.stdout, sys.stderr = _text(0, "r"), _text(1, "w"), _text(2, "w")
    return request["words"]


def _text(number: int, mode: str) -> Any:
    """Return a standard stream as an interpreter makes it."""
    raw: IO[Any] = open(number, f"{mode}b", closefd=False)  # noqa: SIM115
    errors = "backslashreplace" if number == 2 else "strict"
    by_line = number == 2 or raw.isatty()
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    return io.TextIOWrapper(raw, errors=errors, line_buffering=by_line, write_through=at_once)


def _main() -> NoReturn:
    _import_all()
    words = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = [str(ROOT / "kestrelpy" / "__main__.py"), *words]
    runpy.run_module("kestrelpy", run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _main()
