"""The drivers of each language: found, built and started."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DRIVERS: Final = Path(__file__).parent / "drivers"
ROOT: Final = Path(__file__).parents[3]
# Where `make test-clients` has npm install its libraries.
NODE_MODULES: Final = ROOT / ".venv" / "clients" / "node_modules"
SPYMEMCACHED: Final = Path("/usr/share/java/spymemcached.jar")
GO_PATH: Final = Path("/usr/share/gocode")
GOMEMCACHE: Final = GO_PATH / "src/github.com/bradfitz/gomemcache"


@dataclass(frozen=True)
class Program:
    """The program of a driver. `version` returns "" if the library is not there."""

    package: str  # what to install, and from where
    version: Callable[[], str]
    command: Callable[[Path], Sequence[str]]  # given a folder for what it builds
    environment: dict[str, str] = field(default_factory=dict)


def said(*command: str, environment: dict[str, str] | None = None) -> str:
    """Return what a command prints, or "" if it fails or is not there."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def debian_version(package: str) -> str:
    """Return the version of an installed Debian package, or ""."""
    return said("dpkg-query", "-W", "-f", "${Version}", package)


def python(package: str, library: str) -> Program:
    """A library from PyPI, in this virtual environment."""

    def version() -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return ""

    driver = str(DRIVERS / "python.py")
    return Program(
        f"PyPI {package}", version, lambda _: [sys.executable, driver, library],
        {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def php() -> Program:
    """PHP's extension."""
    return Program(
        "Debian php-cli php-memcached",
        lambda: said("php", "-r", 'echo phpversion("memcached");'),
        lambda _: ["php", str(DRIVERS / "memcached.php"), "memcached"],
    )


def perl(module: str, package: str) -> Program:
    """A Perl module."""
    return Program(
        f"Debian {package}",
        lambda: said("perl", f"-M{module}", "-e", f"print ${module}::VERSION"),
        lambda _: ["perl", str(DRIVERS / "cache_memcached.pl"), module],
    )


def ruby() -> Program:
    """Ruby's dalli."""
    return Program(
        "Debian ruby-dalli",
        lambda: said("ruby", "-e", 'require "dalli"; print Dalli::VERSION'),
        lambda _: ["ruby", str(DRIVERS / "dalli.rb"), "dalli"],
    )


def node(library: str) -> Program:
    """A library from npm."""
    environment = {"NODE_PATH": os.environ.get("KESTRELPY_NODE_PATH", str(NODE_MODULES))}
    return Program(
        f"npm {library}",
        lambda: said(
            "node", "-p", f'require("{library}/package.json").version', environment=environment
        ),
        lambda _: ["node", str(DRIVERS / "node.js"), library],
        environment,
    )


def go() -> Program:
    """Go's gomemcache, built from Debian's sources."""

    def version() -> str:
        if not GOMEMCACHE.exists() or not shutil.which("go"):
            return ""
        return debian_version("golang-github-bradfitz-gomemcache-dev")

    return Program("Debian golang-go golang-github-bradfitz-gomemcache-dev", version, built_with_go)


@functools.cache
def built_with_go(folder: Path, source: Path = DRIVERS / "gomemcache.go") -> list[str]:
    """Return the command of a Go program, once it is built."""
    program = folder / source.stem
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GO_PATH)}
    subprocess.run(
        ["go", "build", "-o", str(program), str(source)], env=environment, check=True, timeout=280
    )
    return [str(program), "gomemcache"]


def java() -> Program:
    """Java's spymemcached."""

    def version() -> str:
        if not SPYMEMCACHED.exists() or not shutil.which("javac"):
            return ""
        return debian_version("libspymemcached-java")

    return Program("Debian libspymemcached-java default-jdk-headless", version, built_with_java)


@functools.cache
def built_with_java(folder: Path, source: Path = DRIVERS / "Spymemcached.java") -> list[str]:
    """Return the command of a Java program, once it is compiled."""
    subprocess.run(
        ["javac", "-cp", str(SPYMEMCACHED), "-d", str(folder), str(source)], check=True,
        timeout=280,
    )  # fmt: skip
    path = os.pathsep.join([str(folder), str(SPYMEMCACHED)])
    return ["java", "-cp", path, source.stem, "spymemcached"]


def bash() -> Program:
    """Bash's own /dev/tcp."""
    return Program(
        "Debian bash",
        lambda: said("bash", "-c", "echo ${BASH_VERSION%%(*}"),
        lambda _: ["bash", str(DRIVERS / "wire.sh"), "bash"],
    )


def tools() -> Program:
    """The programs of libmemcached, each run by its own name."""
    return Program(
        "Debian libmemcached-tools", lambda: debian_version("libmemcached-tools"), lambda _: []
    )


def nc() -> Program:
    """Netcat below a bash script."""
    return Program(
        "Debian netcat-openbsd",
        lambda: debian_version("netcat-openbsd") or ("unknown" if shutil.which("nc") else ""),
        lambda _: ["bash", str(DRIVERS / "wire.sh"), "nc"],
    )
