"""Packaging: the wheel in a fresh environment, the unit files, the container's files."""

from __future__ import annotations

import email
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pymemcache.client.base import Client

import kestrelpy
from tests.process.cli.command import eventually
from tests.support.daemon import DaemonProcess
from tests.support.guarded import KINDS, Guarded

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
SECONDS = 240
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "kestrelpy", "journal", "pyspark_kestrel")


def run(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=SECONDS,
        check=False, **more,
    )  # fmt: skip


def need(tool: str) -> str:
    found = shutil.which(tool) or shutil.which(tool, path=str(Path(sys.executable).parent))
    if found is None:
        print(f"{tool} is not installed")
        pytest.skip(f"{tool} is not installed")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `python -m build` makes, by way of the source archive."""
    if find_spec("build") is None or find_spec("hatchling") is None:
        pytest.skip("build or hatchling is not installed")
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, source / name)
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((folder / "dist").glob("*.tar.gz"))) == 1
    return next((folder / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that does not see the sources of this tree."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True, symlinks=True)
    # Only the dependencies come from here: a path file in a folder that a path file names is not
    # read, so an editable install of the sources is not found.
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "zz_here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done = run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    assert done.returncode == 0, done.stderr
    return folder / "bin" / "kestrelpy"


@pytest.mark.slow
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel)
    (name,) = (n for n in packed.namelist() if n.endswith(".dist-info/METADATA"))
    meta = email.message_from_bytes(packed.read(name))

    assert (meta["Name"], meta["Version"]) == ("kestrelpy", kestrelpy.__version__)
    assert meta["Description-Content-Type"] == "text/markdown"
    assert meta.get_payload().startswith("# kestrelpy")
    assert meta["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in meta.get_all("Classifier", [])


@pytest.mark.slow
def test_each_package_of_the_wheel_is_typed_and_nothing_else_is_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}

    assert tops == {"journal", "kestrelpy", "pyspark_kestrel"}
    assert all(f"{top}/py.typed" in names for top in tops)


@pytest.mark.slow
def test_the_installed_command_serves_puts_and_gets(installed: Path, tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("KESTRELPY_", "PYTHON"))}
    said = f"kestrelpy {kestrelpy.__version__} (pure Python)\n"
    assert run(installed, "--version").stdout == said
    daemon = subprocess.Popen(
        [installed, "serve", "--data-dir", "data", "--port", "0", "--http-port", "off"],
        cwd=tmp_path, env=clean,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert daemon.stdout is not None
    port = daemon.stdout.readline().strip().rpartition(":")[2]
    assert daemon.stdout.readline().startswith("ready: ")
    env = clean | {"KESTRELPY_SERVER": f"127.0.0.1:{port}"}

    assert run(installed, "put", "jobs", "hello", env=env, cwd=tmp_path).returncode == 0
    assert run(installed, "get", "jobs", env=env, cwd=tmp_path).stdout == "hello"
    assert run(installed, "status", env=env, cwd=tmp_path).returncode == 0  # the health check

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    daemon.stdout.close()
    assert run(installed, "status", env=env, cwd=tmp_path).returncode == 2


# -- systemd ------------------------------------------------------------------------------------


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The unit files, with a command that is there."""
    made = []
    for path in sorted((PACKAGING / "systemd").iterdir()):
        text = path.read_text().replace("/opt/kestrelpy/bin/kestrelpy", "/bin/true")
        (tmp_path / path.name).write_text(text)
        made.append(tmp_path / path.name)
    return made


def test_systemd_finds_no_fault_in_the_units(units: list[Path]) -> None:
    done = run(need("systemd-analyze"), "verify", *units)

    if "Failed to initialize manager" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_is_hardened(units: list[Path]) -> None:
    (service,) = (path for path in units if path.suffix == ".service")
    done = run(need("systemd-analyze"), "security", "--offline=true", service)

    exposure = re.search(r"Overall exposure level for kestrelpy.service: ([0-9.]+)", done.stdout)
    if exposure is None:
        pytest.skip(f"systemd-analyze knows no --offline: {done.stderr.strip()}")
    assert float(exposure[1]) < 2.0


def test_the_command_of_the_unit_is_one_of_ours() -> None:
    text = (PACKAGING / "systemd" / "kestrelpy.service").read_text()
    (command,) = re.findall(r"^ExecStart=\S+/kestrelpy (\S+) --data-dir \S+$", text, re.MULTILINE)

    assert command == "serve"
    assert "Type=notify" in text and "WatchdogSec=" in text


# -- container ----------------------------------------------------------------------------------


def test_the_containerfile_passes_its_linter() -> None:
    done = run(need("hadolint"), PACKAGING / "container" / "Containerfile")

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("kind", KINDS)
def test_the_health_check_of_the_container_needs_no_login_and_no_tls(
    tmp_path: Path, kind: str
) -> None:
    text = (PACKAGING / "container" / "Containerfile").read_text()
    (path,) = re.findall(r"KESTRELPY_SERVER_SOCKET=(\S+)", text)
    (words,) = re.findall(r"HEALTHCHECK (?:--\S+ )+\\\n +CMD \[(.+)\]", text)
    command = [word.strip('" ') for word in words.split(",")]
    assert command[0] == "kestrelpy" and path in command
    local = f"{tmp_path}/kestrelpy.sock"
    check = [local if word == path else word for word in command[1:]]
    made = Guarded(tmp_path, kind, f'socket = "{local}"')
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KESTRELPY_")}
    with made.daemon:
        done = run(sys.executable, "-m", "kestrelpy", *check, env=clean, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        over_tcp = f"127.0.0.1:{made.daemon.port}"
        check = [over_tcp if word == local else word for word in check]
        assert run(sys.executable, "-m", "kestrelpy", *check, env=clean).returncode != 0
        mode = Path(local).stat().st_mode
        assert not mode & 0o022, "no other user may write to it"
    assert run(sys.executable, "-m", "kestrelpy", *check, env=clean, cwd=tmp_path).returncode == 2


def haproxy_config(folder: Path, port: int, daemons: list[int]) -> Path:
    """The configuration that ships, on loopback and with these ports."""
    text = (PACKAGING / "container" / "haproxy.cfg").read_text()
    text = text.replace("bind :22133", f"bind 127.0.0.1:{port}")
    for number, each in enumerate(daemons, 1):
        text = text.replace(f" kestrelpy-{number}:22133", f" 127.0.0.1:{each}")
    assert "kestrelpy-1:" not in text
    (folder / "haproxy.cfg").write_text(text)
    return folder / "haproxy.cfg"


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[int, list[DaemonProcess]]]:
    """The port of HAProxy before three daemons."""
    haproxy = need("haproxy")
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(DaemonProcess(tmp_path / f"data-{number}")) for number in range(3)
        ]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = haproxy_config(tmp_path, port, [each.port for each in daemons])
        process = subprocess.Popen([haproxy, "-db", "-f", config], stderr=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        eventually(lambda: answers(port))
        yield port, daemons


def test_behind_haproxy_a_queue_is_on_one_daemon_with_its_children(
    three: tuple[int, list[DaemonProcess]],
) -> None:
    port, daemons = three
    queues = [f"jobs-{number}" for number in range(12)]
    for queue in queues:
        for key in (f"{queue}+audit/peek", f"{queue}/peek", queue):
            client = Client(("127.0.0.1", port), timeout=30, default_noreply=False)
            if key == queue:
                assert client.set(queue, queue)
            else:
                assert client.get(key) is None
            client.close()
    found = [set(daemon.client().stats()) for daemon in daemons]

    homes = {q: [n for n, keys in enumerate(found) if f"queue_{q}_items".encode() in keys]
             for q in queues}  # fmt: skip
    children = {q: [n for n, keys in enumerate(found) if f"queue_{q}+audit_items".encode() in keys]
                for q in queues}  # fmt: skip
    assert homes == children
    assert all(len(each) == 1 for each in homes.values())
    assert len({each[0] for each in homes.values()}) > 1

    for queue in queues:  # another connection, in upper case, finds the item
        with socket.create_connection(("127.0.0.1", port), 30) as raw:
            raw.sendall(f"GET {queue}/open\r\n".encode())
            assert raw.recv(100).startswith(f"VALUE {queue}/open 0 ".encode())
