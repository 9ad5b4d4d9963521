"""The page of the fleet, and what else tells of it: real members, and slices of one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from kestrelpy.placement import Placement
from tests.process.http.page.conftest import (  # noqa: F401  # a fixture
    NARROW,
    WIDE,
    browser,
    figure,
    show,
    watched_page,
)
from tests.process.router.members import SLICES, Fleet
from tests.process.router.test_http import client_of, kill
from tests.process.router.test_members_http import QUEUES, queue_of, start
from tests.process.router.test_slices import CONFIG, eventually, slices_of
from tests.support.daemon import DaemonProcess

PICTURES = Path("build/screenshots")


def told(member: DaemonProcess) -> dict[str, Any]:
    with client_of(member) as client:
        found: dict[str, Any] = client.get("/admin/fleet").json()
        return found


def run(member: DaemonProcess, *words: str) -> str:
    """What a command prints about a member."""
    done = subprocess.run(
        [sys.executable, "-m", "kestrelpy", *words, "--server", f"{member.host}:{member.port}"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def look_at(page: Page, word: str) -> None:
    """The page is accessible, fits its window, and is kept as a picture, in each scheme."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for size, width in ((WIDE, "wide"), (NARROW, "narrow")):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            page.screenshot(path=PICTURES / f"{word}-{width}-{scheme}.png", full_page=True)
    page.set_viewport_size(WIDE)


def test_the_page_shows_members_their_slices_and_a_takeover(
    fleet: Fleet, browser: Browser  # noqa: F811
) -> None:
    a, b = start(fleet, "a", "b")
    with client_of(a) as client:
        for name in QUEUES:
            assert client.post(f"/queues/{name}/items", content=name).status_code == 201
        metrics = client.get("/metrics").text
        assert 'member="b"' in metrics
        assert "kestrelpy_takeovers_total" in metrics
    lost = queue_of(fleet, "b")
    number = Placement(SLICES).slice_of(lost.encode())
    owners = fleet.owners()
    rows = {each["name"]: each for each in json.loads(run(a, "queues", "ls", "--json"))}
    top = {each["name"]: each for each in json.loads(run(a, "top", "--json"))}
    for name in QUEUES:
        here = Placement(SLICES).slice_of(name.encode())
        for row in (rows[name], top[name]):
            assert (row["slice"], row["member"]) == (here, owners[here])
    assert f"slice {number}, b" in run(a, "queues", "ls")

    pages = watched_page(browser, f"http://127.0.0.1:{a.http_port}/")
    page = next(pages)
    show(page, "queues")
    expect(page.get_by_text(f"slice {number}, b")).to_be_visible()
    show(page, "fleet")
    expect(page.get_by_role("region", name="Members").locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("region", name="Slices").locator("tbody tr")).to_have_count(SLICES)
    assert figure(page, "Slices served") == f"{SLICES} of {SLICES}"
    b.kill()
    moved = page.get_by_role("region", name="Takeovers").locator("tbody tr", has_text="silent")
    expect(moved.first).to_contain_text("its owner was silent")
    expect(page.get_by_role("region", name="Members").get_by_text("gone")).to_be_visible()
    eventually(lambda: all(each["member"] == "a" for each in told(a)["slices"]))
    found = told(a)
    takeover = next(each for each in found["takeovers"] if each["slice"] == number)
    assert (takeover["before"], takeover["member"], takeover["why"]) == ("b", "a", "silent")
    assert takeover["idle_ms"] > 0
    assert [each["state"] for each in found["members"]] == ["up", "gone"]
    look_at(page, "fleet-members")
    with pytest.raises(StopIteration):
        next(pages)


def test_health_and_the_page_name_slices_that_nobody_serves(
    fleet: Fleet, browser: Browser  # noqa: F811
) -> None:
    a, b = start(fleet, "a", "b")
    ours = sorted(each for each, owner in fleet.owners().items() if owner == "b")
    pages = watched_page(browser, f"http://127.0.0.1:{a.http_port}/")
    page = next(pages)
    show(page, "fleet")
    # The processes at `a` that would take over are asleep.
    for pid in (each for number, each in slices_of(a).items() if number in ours):
        os.kill(pid, signal.SIGSTOP)
    b.kill()
    with client_of(a) as client:
        eventually(lambda: client.get("/health").json().get("unserved") == ours)
    expect(page.get_by_text(f"{len(ours)} slices are served by nobody.")).to_be_visible()
    expect(page.get_by_role("region", name="Members").get_by_text("gone")).to_be_visible()
    look_at(page, "fleet-away")
    for pid in slices_of(a).values():
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(StopIteration):
        next(pages)


def test_slices_of_one_machine_are_shown_with_their_restarts(
    tmp_path: Path, browser: Browser  # noqa: F811
) -> None:
    with DaemonProcess(tmp_path / "data", config=CONFIG, http_port="0") as router:
        pages = watched_page(browser, f"http://127.0.0.1:{router.http_port}/")
        page = next(pages)
        show(page, "overview")
        page.get_by_role("link", name="Fleet").click()
        expect(page.get_by_role("region", name="Slices").locator("tbody tr")).to_have_count(3)
        kill(router, 2)
        restart = page.get_by_role("region", name="Restarts").locator("tbody tr")
        expect(restart).to_contain_text("ended with code -9")
        found = told(router)
        assert [(each["slice"], each["epoch"], each["why"]) for each in found["takeovers"]] == [
            (2, 1, "ended with code -9"),
        ]  # fmt: skip
        assert (found["takeovers_total"], found["members"]) == (1, [])
        look_at(page, "fleet-machine")
        with pytest.raises(StopIteration):
            next(pages)
