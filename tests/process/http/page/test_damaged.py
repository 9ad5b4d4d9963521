"""A queue with unreadable items, on the page: it names them, and an operator gives them up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.process.http.page.conftest import NARROW, act, figure, show, watched_page
from tests.support.daemon import DaemonProcess

CONFIG = """
[queue_defaults]
max_memory = "16KiB"
[journal]
segment_min = "64KiB"
segment_max = "64KiB"
"""
HALF = 32 << 10


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Half of a segment in the middle is zero, and the queue has come to it."""
    with DaemonProcess(tmp_path / "data", config=CONFIG, http_port="0") as daemon:
        client = daemon.client()
        for number in range(200):
            assert client.set("q", b"%01000d" % number)
        segments = sorted(daemon.data_dir.glob("q.*/*.segment"))
        with segments[1].open("r+b") as file:
            file.seek(HALF)
            file.write(bytes(HALF))
        for _ in range(130):
            assert client.get("q/close/open") is not None
        client.close()
        yield daemon


@pytest.fixture
def page(browser: Browser, damaged: DaemonProcess) -> Iterator[Page]:
    yield from watched_page(browser, f"http://127.0.0.1:{damaged.http_port}/")


def test_what_is_lost_is_shown_and_given_up_by_the_typed_name(page: Page) -> None:
    show(page, "queues/q/now")
    loss = page.get_by_role("region", name="What is lost")
    expect(loss).to_contain_text("items cannot be read: ")
    said = loss.locator("p").inner_text()
    expect(page.get_by_text("Nobody is asking for an item.")).to_be_visible()
    ready = figure(page, "Ready")

    page.set_viewport_size(NARROW)
    page.get_by_role("button", name="Give up unreadable…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{said} This ends them for good")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    dialog.get_by_role("button", name="Cancel").click()
    expect(loss).to_be_visible()

    act(page, "Give up unreadable…", "Give up", typed="q")
    expect(loss).to_be_hidden()
    expect(page.get_by_role("button", name="Give up unreadable…")).to_be_hidden()
    assert figure(page, "Ready") == ready, "what can be read stays"
