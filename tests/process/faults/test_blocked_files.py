"""Files of the configuration that block: a reload ends, a later one works, and so does the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.http.test_tls import memcache, settings, trusting
from tests.support.daemon import DaemonProcess
from tests.support.guarded import certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")


@pytest.mark.parametrize("name", ["one.key", "one.pem", "data.toml"])
def test_a_pipe_in_the_place_of_a_file_is_refused_by_a_reload(tmp_path: Path, name: str) -> None:
    certificate(tmp_path, "one")
    path = tmp_path / name
    with DaemonProcess(tmp_path / "data", config=settings(tmp_path, "one")) as daemon:
        client = memcache(daemon, trusting(tmp_path, "one"))
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        for _ in range(2):
            with pytest.raises(Exception, match=r"it is a pipe, not a regular file"):
                client.raw_command(b"reload", b"\r\n")
        path.unlink()
        path.write_bytes(content)
        assert client.raw_command(b"reload", b"\r\n") == b"Reloaded config."
        path.unlink()
        os.mkfifo(path)
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.stop() == 0


@pytest.mark.parametrize("name", ["one.key", "one.pem", "data.toml"])
def test_a_start_refuses_a_pipe(tmp_path: Path, name: str) -> None:
    certificate(tmp_path, "one")
    (tmp_path / "data.toml").write_text(settings(tmp_path, "one"))
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-m", "kestrelpy", "serve", "--config", str(tmp_path / "data.toml"),
         "--data-dir", str(tmp_path / "data"), "--port", "0", "--http-port", "off"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "it is a pipe, not a regular file" in done.stderr
