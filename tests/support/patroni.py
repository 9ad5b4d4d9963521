"""Three PostgreSQL servers that Patroni keeps, with etcd: real ones, under one folder.

    etcd ◀── who leads ── Patroni n1, n2, n3 ──▶ PostgreSQL n1, n2, n3

Patroni is installed into an environment of its own, which the user that runs servers can reach.

One rule: however it ends, no process is left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.cluster import Cluster
from kestrelpy.examples.fleet.postgres_server import SECONDS, USER, PostgresServer
from tests.support.fleet_load import until

WANTED = "patroni[psycopg3,etcd3]>=4,<5"
TTL_SECONDS = 20  # the shortest that Patroni takes
# What docs/fleet.md recommends, and the shortest times.
CONFIG = """\
scope: kestrelpy
name: {name}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{host: "127.0.0.1:{etcd}"}}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters:
        synchronous_commit: "on"
        wal_retrieve_retry_interval: 100ms
  initdb: [{{encoding: UTF8}}, {{locale: C}}]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: "{data}"
  bin_dir: "{programs}"
  pgpass: "{folder}/pgpass"
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
  authentication:
    superuser: {{username: kestrel, password: none}}
    replication: {{username: kestrel, password: none}}
  parameters: {{unix_socket_directories: "", lc_messages: C, shared_buffers: 32MB}}
"""


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def why_no_patroni() -> str:
    """Return why Patroni cannot run here; "": it can."""
    if shutil.which("etcd") is None:
        return "etcd is not installed (Debian: apt-get install etcd-server)"
    if not _python():
        return f"no Python that the user {USER} can run is here"
    return ""


class PatroniNode(PostgresServer):
    """A Patroni and its server."""

    def __init__(self, folder: Path, name: str, etcd_port: int, patroni: Path) -> None:
        super().__init__(folder, name)
        self.rest = free_port()
        self._etcd_port = etcd_port
        self._patroni = patroni
        self._keeper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Patroni, which makes and starts the server."""
        self._own_folder()
        config = self.folder / "patroni.yml"
        config.write_text(CONFIG.format(
            name=self.name, rest=self.rest, etcd=self._etcd_port, ttl=TTL_SECONDS, port=self.port,
            data=self.data, programs=self.program("postgres").parent, folder=self.folder,
        ))  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                [str(self._patroni), str(config)], stdout=log, stderr=log, cwd=self.folder,
                user=USER if os.getuid() == 0 else None, process_group=0,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self.folder)},
            )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """Return what Patroni says of this server; {}: it does not answer."""
        with contextlib.suppress(OSError, ValueError):
            url = f"http://127.0.0.1:{self.rest}/patroni"
            with urllib.request.urlopen(url, timeout=5) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        return {}

    def ask_patroni(self, path: str, facts: dict[str, str]) -> str:
        """Ask Patroni to do something; return what it says."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.rest}{path}", json.dumps(facts).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.read().decode())

    def signal_patroni(self, number: int) -> None:
        """Send Patroni this signal; its server is another process."""
        assert self._keeper is not None
        os.kill(self._keeper.pid, number)
        if number == signal.SIGKILL:
            self._keeper.wait(SECONDS)

    def stop(self) -> None:
        """End both at once: nothing of them is needed any more."""
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait(SECONDS)
        self.kill()


class PatroniCluster(Cluster):
    """Three of them, with one etcd."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ())
        self._etcd: subprocess.Popen[bytes] | None = None
        self._etcd_port = free_port()
        patroni = _installed(folder)
        self.nodes = [
            PatroniNode(folder, name, self._etcd_port, patroni) for name in ("n1", "n2", "n3")
        ]
        self.servers += self.nodes

    def start(self) -> None:
        """Start all of it; return when one leads, with a standby that each commit waits for."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, free_port()))
        with (self.folder / "etcd.log").open("ab") as log:
            self._etcd = subprocess.Popen([
                "etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", client,
                "--advertise-client-urls", client, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
            ], stdout=log, stderr=log, process_group=0)  # fmt: skip
        for node in self.nodes:
            node.start()
        self.wait_until_whole()
        make_tables(self.leader.address)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait(SECONDS)

    @property
    def leader(self) -> PatroniNode:
        """The node that leads, as Patroni says."""
        (found,) = self._leaders()
        return found

    def wait_until_whole(self) -> None:
        """Wait until one leads, two follow, and each commit waits for one that is named."""
        try:
            until(self._is_whole, "the servers of Patroni are whole", 180.0)
        except AssertionError as error:
            logs = "\n".join(f"{each.name}: {each.logs()[-1500:]}" for each in self.nodes)
            raise AssertionError(f"{error}\n{logs}") from None

    def _is_whole(self) -> bool:
        time.sleep(0.2)
        facts = [node.facts() for node in self.nodes]
        roles = sorted(str(each.get("role")) for each in facts)
        states = {each.get("state") for each in facts}
        if roles != ["primary", "replica", "replica"] or states - {"running", "streaming"}:
            return False
        replicas = self.leader.facts().get("replication", [])
        return len(replicas) == 2 and "sync" in {each["sync_state"] for each in replicas}

    def _leaders(self) -> list[PatroniNode]:
        return [node for node in self.nodes if node.facts().get("role") == "primary"]


def _installed(folder: Path) -> Path:
    """Install Patroni under this folder; return its program."""
    home = folder / "patroni"
    subprocess.run([_python(), "-m", "venv", home], check=True, capture_output=True)
    subprocess.run(
        [home / "bin" / "pip", "install", "--quiet", WANTED], check=True, capture_output=True
    )
    return home / "bin" / "patroni"


def _python() -> str:
    """Return a Python that the user of the servers can run; "": there is none."""
    for each in (sys.executable, "/usr/bin/python3"):
        real = Path(os.path.realpath(each))
        if real.exists() and all(folder.stat().st_mode & 0o001 for folder in real.parents):
            return str(real)
    return ""
