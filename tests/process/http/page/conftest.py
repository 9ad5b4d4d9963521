"""One browser for the tests of a module: Debian's chromium, by Playwright."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.support.daemon import DaemonProcess

WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 375, "height": 720}
PATIENCE_MS = 20_000
CONFIG = """
[queues.pay]
key_match = "any"
"""
expect.set_options(timeout=PATIENCE_MS)


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


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("page")
    with DaemonProcess(folder / "data", config=CONFIG, http_port="0") as running:
        yield running


@pytest.fixture
def daemon(running: DaemonProcess) -> DaemonProcess:
    """The daemon of the module, without a queue."""
    url = f"http://127.0.0.1:{running.http_port}/admin/queues?limit=500"
    with urlopen(url, timeout=10) as answer:
        names = [each["name"] for each in json.load(answer)["queues"]]
    client = running.client()
    for name in names:
        client.delete(name)
    client.close()
    return running


@pytest.fixture
def page(browser: Browser, daemon: DaemonProcess) -> Iterator[Page]:
    """A page that reports no error and sends requests to the daemon alone."""
    yield from watched_page(browser, f"http://127.0.0.1:{daemon.http_port}/")


def watched_page(browser: Browser, home: str) -> Iterator[Page]:
    """A page of a new context, which complains of nothing."""
    context = browser.new_context(viewport=WIDE, base_url=home, ignore_https_errors=True)
    context.set_default_timeout(PATIENCE_MS)
    found, errors, asked = context.new_page(), list[str](), list[str]()
    found.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.on("request", lambda request: asked.append(request.url))
    yield found
    context.close()
    # The browser's own lines when the daemon is killed, or refuses something.
    own = ("net::ERR_", "the server responded with a status of 4")
    assert not [each for each in errors if not any(part in each for part in own)]
    assert all(url.startswith((home, "data:", f"blob:{home}")) for url in asked), asked


def show(page: Page, name: str) -> None:
    """Open a page, and wait for its first view."""
    page.goto(f"/#/{name}")
    expect(page.locator(".page")).to_have_count(1)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator("#verdict")).not_to_be_empty()


def figure(page: Page, label: str) -> str:
    """Return the figure under this label."""
    return page.locator(".figures > div", has_text=label).first.locator("dd").inner_text()


def act(page: Page, button: str, label: str, typed: str = "") -> None:
    """Press a button that asks, type the name if it wants one, and say yes."""
    page.get_by_role("button", name=button).first.click()
    dialog = page.get_by_role("dialog")
    if typed:
        expect(dialog.get_by_role("button", name=label, exact=True)).to_be_disabled()
        dialog.get_by_label("Type ").fill(typed)
    dialog.get_by_role("button", name=label, exact=True).click()
    expect(dialog).to_have_count(0)
