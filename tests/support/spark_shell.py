"""`kestrelpy spark ...` in a shell, run by this process: its jobs share the Spark that is here.

    bash ──▶ kestrelpy spark audit data ──▶ a Unix socket ──▶ this process ──▶ cli.main()
                  ▲ output and exit code ◀──────────────────────────┘

A command of its own starts a virtual machine, in ten seconds and more; `test_spark.py` does so.

One rule: the words reach `main` as the shell has them, but local paths are absolute: the folder of
Spark's virtual machine is another one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from unittest import mock

from kestrelpy.cli import main

_SECONDS: Final = 280.0
_LOOK_SECONDS: Final = 0.05
# The other side: it needs nothing of the sources, and so starts at once.
_CLIENT: Final = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    line.sendall(json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    out, err, code = json.loads(line.makefile().readline())
sys.stdout.write(out)
sys.stdout.flush()
sys.stderr.write(err)
sys.exit(code)
"""


class SparkShell:
    """Runs lines of bash in a folder; `environment` has a PATH with the plain command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        place = folder / "shared"
        place.mkdir()
        (place / "client.py").write_text(_CLIENT)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(place / "s"))
        self._socket.listen()
        self._socket.settimeout(_LOOK_SECONDS)
        plain = f'exec "{environment["PATH"].partition(":")[0]}/kestrelpy" "$@"'
        client = f'exec "{sys.executable}" -S -E "{place}/client.py" "{place}/s" "$@"'
        command = place / "kestrelpy"
        command.write_text(f'#!/bin/sh\n[ "$1" = spark ] || {plain}\n{client}\n')
        command.chmod(0o755)
        self._environment = {**environment, "PATH": f"{place}:{environment['PATH']}"}

    def close(self) -> None:
        """Take no more commands."""
        self._socket.close()

    def run(self, line: str) -> str:
        """Return what a line of bash prints."""
        process = subprocess.Popen(
            ["bash", "--norc", "-c", f"exec 2>&1\n{line}"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, env=self._environment, cwd=self._environment["PWD"], text=True,
        )  # fmt: skip
        while process.poll() is None:
            with contextlib.suppress(TimeoutError):
                self._serve()
        out, _ = process.communicate(timeout=_SECONDS)
        return out

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rw") as lines:
            words, folder, environment = json.loads(lines.readline())
            lines.write(json.dumps(executed(words, folder, environment)) + "\n")


def executed(words: list[str], folder: str, environment: Mapping[str, str]) -> tuple[str, str, int]:
    """Run one command here; return its output, its errors and its exit code."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    ours = {name: value for name, value in environment.items() if name.startswith("KESTRELPY_")}
    before = os.getcwd()
    os.chdir(folder)
    try:
        with (
            mock.patch.object(sys, "argv", ["kestrelpy", *absolute(words)]),
            mock.patch.dict(os.environ, ours),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os.chdir(before)
    return out.getvalue(), err.getvalue(), code


def absolute(words: list[str]) -> list[str]:
    """Return the words, with what names a file or a folder to be made as an absolute path."""
    return [
        os.path.abspath(word) if os.path.exists(word) or before == "--out" else word
        for before, word in zip(["", *words], words, strict=False)
    ]
