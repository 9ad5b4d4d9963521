"""The page at /docs in a real browser: it shows the routes within its own policy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess

_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(_CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_shows_the_routes_and_reports_no_violation(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as server:
        assert _CHROMIUM is not None
        done = subprocess.run(
            [
                _CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                "--enable-logging=stderr", "--virtual-time-budget=20000",
                f"--user-data-dir={tmp_path / 'browser'}",
                f"http://127.0.0.1:{server.http_port}/docs",
            ],
            capture_output=True, text=True, timeout=50, check=True,
        )  # fmt: skip
    assert "Queues, searched and sorted" in done.stdout
    violations = [line for line in done.stderr.splitlines() if "Content Security Policy" in line]
    assert violations == []
