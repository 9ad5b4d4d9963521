"""Three nodes of RabbitMQ; their quorum queues are on all of them.

A confirm of a publishing, and the end of a lease, are on the disks of two nodes: a quorum queue
syncs its log before it answers, and has no setting that says otherwise.

One rule: the nodes have their own folder, loopback ports, cookie and name server (epmd). All are
gone when the `with` block ends, however it ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.servers import POLL_S, ServerFailed, free_port

NODES = 3
START_LIMIT_S = 120.0
_PROGRAMS = Path("/usr/lib/rabbitmq/bin")  # those in the path run as the system's user alone
_CONFIG = """\
cluster_formation.peer_discovery_backend = classic_config
{nodes}
listeners.tcp.1 = 127.0.0.1:{port}
"""
_ERLANG = "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"


def program(name: str) -> str | None:
    """Return the path of one of its programs."""
    return shutil.which(name, path=str(_PROGRAMS))


def missing() -> str | None:
    """Return one sentence if it is not installed."""
    if program("rabbitmq-server") and shutil.which("epmd"):
        return None
    return "rabbitmq-server is not installed (Debian package rabbitmq-server); left out."


def version() -> str:
    """Return the version from the name of its folder; asking the server would start a daemon."""
    found = sorted((_PROGRAMS.parent / "lib").glob("rabbitmq_server-*"))
    return found[-1].name.partition("-")[2] if found else "?"


@contextlib.contextmanager
def cluster(parent: Path) -> Iterator[int]:
    """Run three nodes that know each other; yield the port of the first one, which leads the queues
    that are declared there."""
    folder = parent / "rabbitmq"
    names = [f"n{number}@localhost" for number in range(1, NODES + 1)]
    ports = [free_port() for _ in names]
    around = _environment(folder, free_port())
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(_begin(["epmd", "-address", "127.0.0.1"], around, folder))
        for name, port in zip(names, ports, strict=True):
            own = around | _of_node(folder, name, port, names)
            processes.append(_begin([program("rabbitmq-server") or ""], own, folder))
        _await_nodes(names[0], around)
        yield ports[0]
    finally:
        for process in reversed(processes):
            # Erlang's helper processes are in the same group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path, epmd: int) -> dict[str, str]:
    """Return the environment of all its programs; make the folder and the cookie."""
    folder.mkdir()
    cookie = folder / ".erlang.cookie"
    cookie.write_text(os.urandom(16).hex())
    cookie.chmod(0o400)
    plugins = folder / "plugins"
    plugins.write_text("[].")
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder), "ERL_EPMD_PORT": str(epmd),
        "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins), "LANG": "C.UTF-8",
    }  # fmt: skip


def _of_node(folder: Path, name: str, port: int, names: list[str]) -> dict[str, str]:
    own = folder / name
    nodes = "\n".join(
        f"cluster_formation.classic_config.nodes.{number} = {each}"
        for number, each in enumerate(names, start=1)
    )
    own.with_suffix(".conf").write_text(_CONFIG.format(nodes=nodes, port=port))
    return {
        "RABBITMQ_NODENAME": name, "RABBITMQ_CONFIG_FILE": str(own.with_suffix(".conf")),
        "RABBITMQ_MNESIA_BASE": str(own / "data"), "RABBITMQ_LOG_BASE": str(own / "log"),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
    }  # fmt: skip


def _begin(command: list[str], around: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(
            command, env=around, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip


def _await_nodes(name: str, around: dict[str, str]) -> None:
    """Return when all nodes are there, and the first one serves."""
    deadline = time.monotonic() + START_LIMIT_S
    for words in (["await_online_nodes", str(NODES)], ["await_startup"]):
        while (said := _control(name, words, around)).returncode:
            if time.monotonic() > deadline:
                raise ServerFailed(f"rabbitmq-server: {said.stderr.strip()[:500]}")
            time.sleep(POLL_S)


def _control(
    name: str, words: list[str], around: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    command = [program("rabbitmqctl") or "", "-n", name, *words, "--timeout", "30"]
    return subprocess.run(
        command, env=around, capture_output=True, text=True, timeout=START_LIMIT_S, check=False
    )
