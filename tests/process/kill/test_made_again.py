"""A queue with a child is deleted and made again over each protocol, with `kill -9` in between.

Promise: made-again.
"""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

V2 = {"Client-ID": "30387f00-39a0-11e2-be4b-a8d15f34bae2", "X-Project-ID": "acme"}


def test_a_child_goes_on_after_its_queue_was_deleted_over_each_protocol(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as daemon:
        for kills in (False, True):
            for door, queue in (("wire", "a"), ("http", "b"), ("v2", "acme:c")):
                _go_on(daemon, door, f"{queue}{int(kills)}", kills)


def _go_on(daemon: DaemonProcess, wire: str, queue: str, kills: bool) -> None:
    def pause() -> None:
        if kills:
            daemon.kill()
            daemon.start()

    def ask(line: str, body: str = "") -> bytes:
        with Raw(("127.0.0.1", daemon.port)) as raw:
            said = [line, body, "quit", ""] if body else [line, "quit", ""]
            raw.send("\r\n".join(said).encode())
            return raw.rest()

    ask(f"get {queue}+audit/peek")
    ask(f"set {queue} 0 0 1", "1")
    url = f"http://127.0.0.1:{daemon.http_port}"
    if wire == "wire":
        assert ask(f"delete {queue}") == b"DELETED\r\n"
    elif wire == "http":
        assert httpx.delete(f"{url}/admin/queues/{queue}").status_code in (200, 204)
    else:
        name = queue.partition(":")[2]
        assert httpx.delete(f"{url}/v2/queues/{name}", headers=V2).status_code == 204
    pause()
    url = f"http://127.0.0.1:{daemon.http_port}"
    if wire == "wire":
        assert ask(f"set {queue} 0 0 3", '"x"') == b"STORED\r\n"
    elif wire == "http":
        done = httpx.post(f"{url}/queues/{queue}/items", content=b'"x"')
        assert done.status_code == 201
    else:
        name = queue.partition(":")[2]
        messages = {"messages": [{"body": "x", "ttl": 600}]}
        done = httpx.post(f"{url}/v2/queues/{name}/messages", headers=V2, json=messages)
        assert done.status_code == 201
    pause()
    assert ask(f"get {queue}+audit").split(b"\r\n")[1] == b"1"
    assert ask(f"get {queue}+audit").split(b"\r\n")[1] == b'"x"'
    assert ask(f"get {queue}").split(b"\r\n")[1] == b'"x"'
    assert ask(f"get {queue}") == b"END\r\n"
