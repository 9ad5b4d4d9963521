"""The page in a real browser, over a real daemon with real clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.process.http.page.conftest import NARROW, PATIENCE_MS, WIDE
from tests.support.daemon import DaemonProcess

PAGES = (
    "overview", "queues", "queues/jobs/now", "queues/jobs/items", "queues/mail/keys",
    "queues/mail/leases", "queues/jobs/dead", "connections", "schedules", "journal",
)  # fmt: skip
NASTY = b"<img src=x onerror=alert(1)>\x1b[31m \xe2\x80\xae" + b"w" * 5000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def filled(daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    """Items, and a key that one client holds and another waits for."""
    client = daemon.client()
    for body in (b'{"job": 1}', NASTY, b"\xff\xfe"):
        assert client.set("jobs", body)
    for _ in range(3):
        assert client.set("mail/key=account-7", b"x")
    holder, other = daemon.client(), daemon.client()
    assert holder.get("mail/open") == b"x"
    assert other.get("mail/open") is None
    yield daemon
    holder.close()
    other.close()


def show(page: Page, name: str) -> None:
    page.goto(f"/#/{name}")
    expect(page.locator(".verdict p")).not_to_be_empty()


def figure(page: Page, label: str) -> str:
    shown = page.locator(".figures div", has=page.locator("dt", has_text=label)).first
    return shown.locator("dd").inner_text()


def test_a_set_by_another_client_appears_without_reload(page: Page, daemon: DaemonProcess) -> None:
    show(page, "overview")
    expect(page.get_by_text("All is well.")).to_be_visible()
    expect(page.get_by_text("No queue has an item.")).to_be_visible()
    client = daemon.client()
    assert client.set("orders", b"x")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    expect(page.get_by_text("Nobody is asking for an item.")).to_be_visible()


def test_a_blocked_key_leads_to_its_holder(page: Page, filled: DaemonProcess) -> None:
    show(page, "queues/mail/now")
    expect(page.get_by_text("key account-7 is held by item 1, leased to")).to_be_visible()
    page.get_by_role("link", name="Keys").click()
    row = page.locator("tbody tr")
    expect(row.locator("td").nth(0)).to_have_text("account-7")
    expect(row.locator("td").nth(2)).to_have_text("1")


def test_bodies_are_text_whatever_they_hold(page: Page, filled: DaemonProcess) -> None:
    show(page, "queues/jobs/items")
    expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    assert page.locator("main img").count() == 0
    expect(page.get_by_text("base64: //4=")).to_be_visible()


def test_a_worker_that_hangs_up_gives_its_item_back_before_ones_eyes(
    page: Page, daemon: DaemonProcess
) -> None:
    client, worker = daemon.client(), daemon.client()
    assert client.set("jobs", b"x")
    assert worker.get("jobs/open") == b"x"
    show(page, "queues/jobs/leases")
    expect(page.locator("tbody tr")).to_have_count(1)
    worker.close()
    expect(page.get_by_text("No item is leased.")).to_be_visible()


def test_the_page_says_that_the_daemon_is_away_and_comes_back(
    page: Page, filled: DaemonProcess
) -> None:
    show(page, "queues/jobs/now")
    assert figure(page, "Ready") == "3"
    filled.kill()
    state = page.locator("#state")
    expect(state).to_have_text("No connection to the server. Trying again.")
    filled.start()
    assert filled.client().set("jobs", b"after")
    expect(state).to_have_text("live")
    expect(page.locator(".figures div", has_text="Ready").locator("dd")).to_have_text("4")


def test_the_walk_by_keyboard(page: Page, filled: DaemonProcess) -> None:
    show(page, "overview")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    expect(page.get_by_role("link", name="mail")).to_be_visible()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") in ("mail", "jobs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Leases")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("account-7")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Found for account-7")).to_be_visible()
    page.get_by_role("link", name="mail").first.click()
    expect(page.locator("tbody tr").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_in_both_widths(
    page: Page, filled: DaemonProcess, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for name in PAGES:
            show(page, name)
            found = Axe().run(page)
            assert found.violations_count == 0, f"{name} {size}: {found.generate_report()}"
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], f"{name} scrolls sideways: {width}"


def test_a_queue_that_is_not_there_says_so(page: Page, daemon: DaemonProcess) -> None:
    show(page, "queues/%3Cb%3E/now")
    expect(page.get_by_role("alert")).not_to_be_empty()
