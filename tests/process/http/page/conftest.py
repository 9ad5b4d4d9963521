"""One browser for the tests of a module: Debian's chromium, by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.daemon import DaemonProcess

WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 375, "height": 720}
PATIENCE_MS = 20_000


@pytest.fixture(scope="module")  # while it lives, no other test of its thread can run a loop
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed (Debian package chromium): no page is opened")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=arguments)
        yield found
        found.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", http_port="0") as running:
        yield running


@pytest.fixture
def page(browser: Browser, daemon: DaemonProcess) -> Iterator[Page]:
    """A page that complains of nothing, and asks nobody but the daemon."""
    home = f"http://127.0.0.1:{daemon.http_port}/"
    context = browser.new_context(viewport=WIDE, base_url=home)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    found, errors, asked = context.new_page(), list[str](), list[str]()
    found.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.on("request", lambda request: asked.append(request.url))
    yield found
    context.close()
    # The browser's own line when the daemon is killed.
    assert not [each for each in errors if "net::ERR_" not in each]
    assert all(url.startswith((home, "data:")) for url in asked), asked
