"""TLS on both ports of a real daemon, and what it refuses at its start.

Promise: users.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from kestrelpy.access import hash_secret, is_secret
from tests.support.daemon import DaemonProcess
from tests.support.guarded import certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")


def trusting(folder: Path, name: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / f"{name}.pem"))


def settings(folder: Path, name: str, more: str = "") -> str:
    return (
        f'[server]\ntls_cert = "{folder / name}.pem"\ntls_key = "{folder / name}.key"\n{more}\n'
    )


def get(daemon: DaemonProcess, context: ssl.SSLContext) -> int:
    with httpx.Client(verify=context, timeout=10) as client:
        return client.get(f"https://127.0.0.1:{daemon.http_port}/").status_code


def memcache(daemon: DaemonProcess, context: ssl.SSLContext) -> Client:
    return Client(
        ("127.0.0.1", daemon.port), tls_context=context, default_noreply=False, timeout=10
    )


def test_both_ports_answer_tls_and_nothing_else(tmp_path: Path) -> None:
    certificate(tmp_path, "one")
    context = trusting(tmp_path, "one")
    config = settings(tmp_path, "one")
    with DaemonProcess(tmp_path / "data", config=config, http_port="0") as daemon:
        client, body = memcache(daemon, context), b"x" * (1 << 20)
        assert client.set("jobs", body)
        assert client.get("jobs") == body
        assert get(daemon, context) == 200
        with httpx.Client(verify=context, timeout=10) as web:
            base = f"https://127.0.0.1:{daemon.http_port}"
            origin = {"Origin": base}
            said = web.post(f"{base}/queues/jobs/items", content=body, headers=origin)
            assert said.status_code == 201
        assert client.get("jobs") == body
        for port in (daemon.port, int(daemon.http_port)):
            with socket.create_connection(("127.0.0.1", port), 20) as sock:
                sock.sendall(b"version\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    assert b"VERSION" not in sock.recv(100)
        with pytest.raises(ssl.SSLError):
            memcache(daemon, ssl.create_default_context()).get("jobs")
        assert "Traceback" not in "".join(daemon.lines)


def test_a_reload_takes_a_new_certificate(tmp_path: Path) -> None:
    for name in ("one", "two"):
        certificate(tmp_path, name)
    first, second = trusting(tmp_path, "one"), trusting(tmp_path, "two")
    config = settings(tmp_path, "one")
    with DaemonProcess(tmp_path / "data", config=config, http_port="0") as daemon:
        client = memcache(daemon, first)
        assert client.set("jobs", "x")
        daemon.config_file.write_text(settings(tmp_path, "missing"))
        with pytest.raises(MemcacheError, match="configuration not reloaded"):
            client.raw_command(b"reload")
        assert get(daemon, first) == 200
        daemon.config_file.write_text(settings(tmp_path, "two"))
        assert client.raw_command(b"reload").startswith(b"Reloaded")
        assert get(daemon, second) == 200
        assert memcache(daemon, second).get("jobs") == b"x"
        with pytest.raises(httpx.ConnectError):
            get(daemon, first)
        assert client.get("jobs") is None  # the connection from before goes on


def test_a_client_certificate_is_needed_where_an_authority_is_named(tmp_path: Path) -> None:
    for name in ("one", "client"):
        certificate(tmp_path, name)
    more = f'tls_client_ca = "{tmp_path / "client.pem"}"'
    config = settings(tmp_path, "one", more)
    with DaemonProcess(tmp_path / "data", config=config, http_port="0") as daemon:
        without, having = trusting(tmp_path, "one"), trusting(tmp_path, "one")
        having.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
        assert get(daemon, having) == 200
        assert memcache(daemon, having).set("jobs", "x")
        with pytest.raises((httpx.HTTPError, ssl.SSLError)):
            get(daemon, without)
        with pytest.raises((OSError, MemcacheError)):
            memcache(daemon, without).get("jobs")
        assert memcache(daemon, having).get("jobs") == b"x"


@pytest.mark.parametrize(
    "config", ['host = "0.0.0.0"', 'http_host = "0.0.0.0"', 'host = "0.0.0.0"\ntext_port = 0']
)
def test_a_daemon_that_others_reach_does_not_start_without_users(
    tmp_path: Path, config: str
) -> None:
    file = tmp_path / "kestrelpy.toml"
    file.write_text(f'[server]\nport = 0\nhttp_port = 0\ndata_dir = "data"\n{config}\n')
    done = subprocess.run(
        [sys.executable, "-m", "kestrelpy", "serve", "--config", str(file)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "is reached from other machines" in done.stderr
    assert "listening" not in done.stdout


def test_a_reload_does_not_open_a_daemon_that_others_reach(tmp_path: Path) -> None:
    user = f'[auth.root]\nsecret = "{hash_secret(b"letmein")}"\nrole = "admin"\n'
    # without a port for HTTP: the daemon of the test listens on loopback alone
    with DaemonProcess(tmp_path / "data", config='[server]\nhost = "0.0.0.0"\n' + user) as daemon:
        line = next(line for line in daemon.lines if "memcache on 0.0.0.0:" in line)
        daemon.port = int(line.rpartition(":")[2])
        client = daemon.client()
        assert client.set("any", "root letmein")
        daemon.config_file.write_text('[server]\nhost = "0.0.0.0"\n')
        with pytest.raises(MemcacheError, match="is reached from other machines"):
            client.raw_command(b"reload")
        with pytest.raises(MemcacheError, match="unauthenticated"):
            daemon.client().get("jobs")
        daemon.config_file.write_text('[server]\nhost = "0.0.0.0"\ninsecure = true\n')
        assert client.set("any", "root letmein")  # it has connected again
        assert client.raw_command(b"reload").startswith(b"Reloaded")
        assert daemon.client().get("jobs") is None


def test_hash_secret_prints_the_form_of_the_configuration() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kestrelpy", "hash-secret"],
        input=b"letmein\n", capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    assert is_secret(b"letmein", done.stdout.decode().strip())
