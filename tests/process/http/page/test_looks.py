"""Every page in both widths and schemes: accessible, never wider than its window, and as a picture.

The pictures go to build/screenshots, which git ignores.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.process.http.page.conftest import NARROW, WIDE, show
from tests.support.daemon import DaemonProcess

PAGES = (
    "overview", "queues", "queues/jobs/now", "queues/jobs/items", "queues/jobs/items/1",
    "queues/mail/keys", "queues/mail/leases", "queues/letters/dead", "queues/jobs/time",
    "queues/jobs/settings", "dead", "clients", "schedules", "journal", "find?text=1",
)  # fmt: skip
PICTURES = Path("build/screenshots")
NASTY = b"<img src=x onerror=alert(1)>\x1b[31m \xe2\x80\xae" + b"w" * 5000


@pytest.fixture
def filled(daemon: DaemonProcess) -> DaemonProcess:
    """Items in each state, a key that is held, dead letters."""
    client = daemon.client()
    for body in (b'{"job": 1, "to": ["a", null]}', NASTY, b"\xff\xfe"):
        assert client.set("jobs", body)
    assert client.set("jobs/delay=10m", b"later")
    for _ in range(3):
        assert client.set("mail/key=account-7", b"x")
    assert client.gets("mail/open/lease=10m")[0] == b"x"
    for _ in range(2):
        assert client.set("letters", b"x")
        assert client.get("letters/open") == b"x"
        client.get("letters/abort/dead=timeout")
    client.close()
    return daemon


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_in_both_widths(
    page: Page, filled: DaemonProcess, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for size, word in ((WIDE, "wide"), (NARROW, "narrow")):
        page.set_viewport_size(size)
        for name in PAGES:
            show(page, name)
            found = Axe().run(page)
            assert found.violations_count == 0, f"{name} {size}: {found.generate_report()}"
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], f"{name} scrolls sideways: {width}"
            file = f"{name.partition('?')[0].replace('/', '_')}-{word}-{scheme}.png"
            page.screenshot(path=PICTURES / file, full_page=True)


def test_every_page_is_accessible_before_the_server_answers(
    page: Page, filled: DaemonProcess
) -> None:
    show(page, "overview")
    page.route(re.compile(r"/(events|views)\?"), lambda route: None)  # it is never answered
    for name in PAGES[1:]:
        page.goto(f"/#/{name}")
        expect(page.locator("[aria-busy]")).to_have_count(1)
        found = Axe().run(page)
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"


def test_a_dialog_is_accessible_and_a_sheet_on_a_phone(page: Page, filled: DaemonProcess) -> None:
    page.set_viewport_size(NARROW)
    show(page, "queues/letters/dead")
    page.get_by_role("button", name="Purge…").click()
    expect(page.get_by_text("2 dead letters are removed for good.")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    box = page.get_by_role("dialog").bounding_box()
    assert box is not None
    assert box["x"] == 0
    assert round(box["y"] + box["height"]) == NARROW["height"]


def test_the_tab_that_is_open_is_in_sight_on_a_phone(page: Page, filled: DaemonProcess) -> None:
    page.set_viewport_size(NARROW)
    for name in ("settings", "now"):
        show(page, f"queues/jobs/{name}")
        tab = page.locator(".tabs [aria-current]")
        expect(tab).to_have_text(name.capitalize())
        box = tab.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= NARROW["width"] - box["width"], name


def test_text_of_twice_the_size_fits(page: Page, filled: DaemonProcess) -> None:
    page.set_viewport_size({"width": WIDE["width"] // 2, "height": WIDE["height"] // 2})
    for name in ("overview", "queues/letters/dead", "queues/jobs/items/2"):
        show(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDE["width"] // 2, name
