"""The page in a real browser, over a real daemon with real clients: its views and actions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pymemcache.client.base import Client

from tests.process.http.page.conftest import act, figure, show
from tests.support.daemon import DaemonProcess

DEAD = 30


@pytest.fixture
def filled(daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    """Items, and a key that one client holds and another waits for."""
    client = daemon.client()
    for number in range(3):
        assert client.set("jobs", b'{"job": %d}' % number)
    for _ in range(3):
        assert client.set("mail/key=account-7", b"x")
    holder, other = daemon.client(), daemon.client()
    assert holder.get("mail/open") == b"x"
    assert other.get("mail/open") is None
    yield daemon
    holder.close()
    other.close()


def kill_items(client: Client, queue: str, count: int, reasons: tuple[str, ...]) -> None:
    """Store items and make them dead letters, for these reasons in turn."""
    for number in range(count):
        assert client.set(queue, b"x%d" % number)
    for number in range(count):
        assert client.get(f"{queue}/open") is not None
        client.get(f"{queue}/abort/dead={reasons[number % len(reasons)]}")


def test_a_set_by_another_client_appears_without_reload(page: Page, daemon: DaemonProcess) -> None:
    show(page, "overview")
    expect(page.get_by_text("All is well.")).to_be_visible()
    expect(page.get_by_text("No queue has an item.")).to_be_visible()
    client = daemon.client()
    assert client.set("orders", b"x")
    page.locator("tbody").get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    expect(page.get_by_text("Nobody is asking for an item.")).to_be_visible()


def test_a_group_of_dead_letters_is_redriven_after_a_preview(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    kill_items(client, "jobs", DEAD, ("timeout", "bad", "bad"))
    show(page, "dead")
    page.locator("tbody").get_by_role("link", name="jobs").click()
    page.locator(".reasons").get_by_role("link", name="timeout").click()
    expect(page.get_by_text("Chosen: all dead letters of the reason “timeout”")).to_be_visible()
    page.get_by_role("button", name="Redrive…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("10 dead letters go to the end of their queue")).to_be_visible()
    assert client.stats("jobs/item=1")  # nothing has happened yet
    assert "dead" in str(client.stats("jobs/item=1"))
    dialog.get_by_role("button", name="Redrive", exact=True).click()
    expect(page.get_by_text("Redriven: 10 items.")).to_be_visible()
    page.mouse.move(0, 0)  # no row moves under the pointer
    expect(page.locator(".reasons").get_by_text("timeout")).to_have_count(0)
    assert client.get("jobs") == b"x0"


def test_chosen_rows_alone_are_purged(page: Page, daemon: DaemonProcess) -> None:
    kill_items(daemon.client(), "jobs", 4, ("bad",))
    show(page, "queues/jobs/dead")
    page.get_by_label("Select 2").check()
    page.get_by_label("Select 3").check()
    expect(page.get_by_text("Chosen: 2 chosen dead letters")).to_be_visible()
    act(page, "Purge…", "Purge")
    expect(page.get_by_text("Purged: 2 items.")).to_be_visible()
    page.mouse.move(0, 0)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Select 2")).to_have_count(0)
    expect(page.get_by_label("Select 4")).to_have_count(1)


def test_the_rows_match_the_filter_and_an_address_is_the_same_for_everybody(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    kill_items(client, "jobs", 3, ("bad",))
    assert client.set("jobs", b"twice")
    for end in ("abort", "abort/dead"):
        assert client.get("jobs/open") == b"twice"
        client.get(f"jobs/{end}")
    show(page, "queues/jobs/dead")
    rows = page.locator("tbody", has=page.locator(".pick")).locator("tr")
    expect(rows).to_have_count(4)
    page.get_by_text("Filter by time and attempts").click()
    page.get_by_label("Attempts, at least").fill("2")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(rows).to_have_count(1)
    expect(rows.locator("td").nth(1)).to_have_text("4")
    expect(page.get_by_text("Chosen: all dead letters with 2 attempts or more")).to_be_visible()
    page.get_by_role("button", name="No filter").click()
    expect(page.locator(".reasons")).not_to_contain_text("in ")  # no item died in the future
    page.locator(".reasons").get_by_role("link", name="abort").click()
    expect(rows).to_have_count(1)
    page.get_by_text("Filter by time and attempts").click()
    page.get_by_label("Died from").fill("2020-01-31 14:00")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.get_by_text("all dead letters of the reason “abort”, that died in")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Died from")).to_have_value("2020-01-31 14:00:00")
    expect(rows).to_have_count(1)
    page.get_by_label("Died from").fill("00:00")  # of today, whatever day it is opened
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.get_by_label("Died from")).to_have_value(re.compile(r"20\d\d-\d\d-\d\d 00:00:00"))


def test_a_job_with_a_rate_shows_its_progress_and_is_stopped(
    page: Page, daemon: DaemonProcess
) -> None:
    kill_items(daemon.client(), "jobs", 20, ("bad",))
    show(page, "queues/jobs/dead")
    page.get_by_role("button", name="Redrive…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Items a second").fill("1")
    expect(dialog.locator(".command code", has_text="--rate 1/s")).to_have_count(1)
    dialog.get_by_role("button", name="Redrive", exact=True).click()
    expect(page.get_by_text("Redrive in jobs: ")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("stopped, ")).to_be_visible()


def test_a_blocked_key_leads_to_its_holder_which_is_released(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for _ in range(2):
        assert client.set("mail/key=account-7", b"x")
    assert client.gets("mail/open/lease=10m")[0] == b"x"
    assert client.get("mail/open") is None  # its key is held
    show(page, "queues/mail/now")
    expect(page.get_by_text("key account-7 is held by item 1, leased to")).to_be_visible()
    page.get_by_role("link", name="Keys").click()
    row = page.locator("tbody tr")
    expect(row.locator("td").nth(0)).to_have_text("account-7")
    expect(row.locator("td").nth(1)).to_have_text("1")
    act(page, "Release…", "Release")
    expect(page.get_by_text("Item 1 is back.")).to_be_visible()
    assert client.get("mail") is not None


def test_a_key_that_nobody_waits_for_is_among_all_that_are_held(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    assert client.set("mail/key=17", b"x")
    assert client.gets("mail/open/lease=10m")[0] == b"x"
    show(page, "queues/mail/keys")
    expect(page.get_by_text("No item waits for a key.")).to_be_visible()
    page.get_by_label("Which keys").select_option("all held")
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("17")
    expect(row.locator('td[data-label="Leased to"]')).to_have_text(re.compile(r"token \d+"))


def test_the_links_of_a_key_end_at_the_item_that_is_leased(
    page: Page, daemon: DaemonProcess
) -> None:
    client, worker = daemon.client(), daemon.client()
    for key in ("A", "A,B", "B"):
        assert client.set(f"pay/key={key}", b"x")
    assert worker.get("pay/open") == b"x"
    assert client.get("pay/open") is None
    show(page, "queues/pay/items/3")
    expect(page.get_by_text("It waits. Behind key B held by item 2.")).to_be_visible()
    expect(page.locator(".chain li")).to_have_count(2)
    expect(page.locator(".chain li").nth(0)).to_contain_text("item 2 waits for key A, held by item")
    expect(page.locator(".chain li").nth(1)).to_contain_text("item 1: leased to 127.0.0.1:")


def test_the_item_of_a_killed_worker_returns_before_ones_eyes(
    page: Page, daemon: DaemonProcess
) -> None:
    client, worker = daemon.client(), daemon.client()
    assert client.set("jobs", b"x")
    assert worker.gets("jobs/open/lease=4s")[0] == b"x"
    worker.close()
    show(page, "queues/jobs/leases")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody .level.warn", has_text="▲")).to_be_visible()  # it ends soon
    expect(page.get_by_text("No item is leased.")).to_be_visible()
    page.get_by_role("link", name="Items").click()
    expect(page.locator("tbody td", has_text="ready")).to_be_visible()


def test_the_page_says_that_the_daemon_is_away_and_comes_back(
    page: Page, filled: DaemonProcess
) -> None:
    show(page, "queues/jobs/now")
    expect(page.locator(".figures > div", has_text="Ready").locator("dd")).to_have_text("3")
    filled.kill()
    state = page.locator("#state")
    expect(state).to_have_text("No connection to the server. Trying again.")
    filled.start()
    assert filled.client().set("jobs", b"after")
    expect(state).to_have_text("live")
    expect(page.locator(".figures > div", has_text="Ready").locator("dd")).to_have_text("4")
    assert figure(page, "Dead") == "0"


def test_a_queue_is_paused_flushed_and_deleted_by_its_name(
    page: Page, filled: DaemonProcess
) -> None:
    client = filled.client()
    show(page, "queues/jobs/now")
    act(page, "Pause…", "Pause")
    expect(page.get_by_text("The queue is paused.")).to_be_visible()
    assert client.get("jobs") is None
    act(page, "Resume…", "Resume")
    expect(page.get_by_text("The queue is paused.")).to_have_count(0)
    page.get_by_role("button", name="Flush…").click()
    expect(page.get_by_text("This removes 3 ready items and 0 delayed.")).to_be_visible()
    page.keyboard.press("Escape")
    act(page, "Flush…", "Flush", "jobs")
    expect(page.get_by_text("3 items of jobs removed.")).to_be_visible()
    assert client.get("jobs") is None
    act(page, "Delete…", "Delete", "jobs")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    assert client.delete("jobs") is False


def test_items_move_and_the_dialog_shows_the_lines_that_do_the_same(
    page: Page, filled: DaemonProcess
) -> None:
    show(page, "queues/jobs/now")
    page.get_by_role("button", name="Move…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To the queue").fill("it's")
    dialog.get_by_label("How many").fill("2")
    lines = dialog.locator(".command code")
    expect(lines.nth(0)).to_have_text(
        f"kestrelpy move jobs 'it'\\''s' --count 2 --server 127.0.0.1:{filled.port}"
    )
    dialog.get_by_label("To the queue").fill("later")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_text("Moved to later: 2 items.")).to_be_visible()
    assert filled.client().get("later") == b'{"job": 0}'


def test_a_refusal_is_a_sentence_in_the_dialog(page: Page, filled: DaemonProcess) -> None:
    show(page, "queues/jobs/now")
    page.get_by_role("button", name="Move…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To the queue").fill("jobs")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(dialog.get_by_role("alert")).to_have_text("Target: items move to another queue.")


def test_a_connection_is_closed_and_its_lease_ends(page: Page, daemon: DaemonProcess) -> None:
    client, worker = daemon.client(), daemon.client()
    assert client.set("jobs", b"x")
    assert worker.get("jobs/open") == b"x"
    show(page, "clients")
    row = page.locator("tbody tr").filter(has=page.locator("td", has_text="1"), has_text="memcache")
    expect(row).not_to_have_count(0)
    held = page.locator("tbody tr").filter(has=page.locator('td[data-label="Leases"]:text-is("1")'))
    held.get_by_role("button", name="Close…").click()
    expect(page.get_by_text("1 lease by this connection ends")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert client.get("jobs/t=5s") == b"x"  # it ends in a later turn


def test_the_walk_by_keyboard(page: Page, filled: DaemonProcess) -> None:
    kill_items(filled.client(), "letters", 2, ("bad",))
    show(page, "overview")
    for key, heading in (
        ("s", "Schedules"), ("c", "Clients"), ("j", "Journal"), ("d", "Dead letters"),
        ("q", "Queues"),
    ):  # fmt: skip
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=heading).first).to_be_visible()
    expect(page.get_by_role("link", name="mail")).to_be_visible()
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") != first
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") == first
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=first)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("account-7")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="item 1")).to_be_visible()  # the one hit
    page.goto("/#/queues/letters/dead")
    expect(page.locator("tbody tr")).not_to_have_count(0)
    expect(page.get_by_label("Select 1")).to_be_visible()
    for _ in range(2):
        page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("Chosen: 1 chosen dead letter")).to_be_visible()
    page.keyboard.press(".")
    expect(page.get_by_role("button", name="Redrive…")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    expect(page.locator("#state")).to_have_text("Paused.")
    page.keyboard.press("p")
    expect(page.locator("#state")).to_have_text("live")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_no_row_moves_under_the_focus_and_the_focus_survives(
    page: Page, filled: DaemonProcess
) -> None:
    client = filled.client()
    show(page, "queues?sort=items")
    mail = page.locator("tbody").get_by_role("link", name="mail")
    expect(mail).to_be_visible()
    mail.focus()
    before = mail.bounding_box()
    assert client.set("many", b"x")
    for _ in range(20):
        assert client.set("jobs", b"x")
    expect(page.locator("tbody tr", has_text="jobs").locator("td").nth(1)).to_have_text("23")
    expect(mail).to_be_focused()
    assert mail.bounding_box() == before
    page.keyboard.press("Escape")
    expect(page.locator("tbody tr").first).to_contain_text("jobs")


def test_the_focus_survives_a_sentence_that_changes_each_second(
    page: Page, daemon: DaemonProcess
) -> None:
    kill_items(daemon.client(), "letters", 1, ("bad",))
    show(page, "queues")
    link = page.locator("tbody").get_by_role("link", name="letters")
    expect(page.locator("td.name .level")).to_contain_text("died")
    link.focus()
    for seconds in range(2):  # two changes of it elsewhere
        text = page.locator("#verdict").inner_text()
        expect(page.locator("#verdict")).not_to_have_text(text)
        expect(link, str(seconds)).to_be_focused()


def test_every_kind_of_hit_leads_to_its_place(page: Page, filled: DaemonProcess) -> None:
    client = filled.client()
    assert client.set("seen/id=order-99", b"x")
    for text, heading in (
        ("order-99", "seen ▸ item 1"), ("see", "seen"), ("account-7", "mail ▸ item 1"),
    ):  # fmt: skip
        page.goto(f"/#/find?text={text}")
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    page.goto("/#/find?text=1")
    hits = page.locator(".hits li")
    expect(hits).not_to_have_count(0)
    for at in range(hits.count()):
        assert hits.nth(at).get_by_role("link").first.get_attribute("href", timeout=1000)
    page.goto("/#/find?text=nothing-at-all")
    expect(page.get_by_text("Nothing has this name, number, key or id.")).to_be_visible()


def test_a_body_is_copied_without_https_and_saved(page: Page, filled: DaemonProcess) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    show(page, "queues/jobs/items/1")
    expect(page.locator(".tree")).to_contain_text("job")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.press("ControlOrMeta+v")
    assert page.locator("#find-text").input_value() == '{"job": 0}'
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    saved = download.value.path()
    assert saved is not None
    assert Path(saved).read_bytes() == b'{"job": 0}'


def test_settings_in_force_are_shown_with_their_source(page: Page, filled: DaemonProcess) -> None:
    show(page, "queues/jobs/settings")
    expect(page.get_by_text("Every setting has its default.")).to_be_visible()
    page.get_by_text("All 3").click()
    expect(page.locator("tr", has_text="max_attempts")).to_contain_text("default")


def test_where_time_goes_is_drawn_and_said(page: Page, daemon: DaemonProcess) -> None:
    client = daemon.client()
    for _ in range(3):
        assert client.set("jobs", b"x")
        assert client.get("jobs/open") == b"x"
        client.get("jobs/close")
    show(page, "queues/jobs/time")
    expect(page.locator(".heat rect").first).to_be_attached()
    heat = page.get_by_role("img", name="Waiting, by minute: the newest minute: p50 under")
    expect(heat).to_be_visible()
    expect(page.locator(".figures, figure table tbody tr").first).to_be_attached()


def test_an_items_life_is_read_from_the_journal_on_request(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    assert client.set("jobs", b"x")
    for how in ("abort", "abort/dead=broken"):
        body, token = client.gets("jobs/open/lease=10m")
        assert body == b"x"
        client.get(f"jobs/{how}/token={int(token)}")
    show(page, "queues/jobs/items/1")
    life = page.locator("ol.life")
    expect(life.get_by_text("stored")).to_be_visible()
    page.get_by_role("button", name="Look in the journal").click()
    expect(page.get_by_text("All of the journal")).to_be_visible()
    for what in ("leased", "given back", "dead"):
        expect(life.get_by_text(what).first).to_be_visible()


def test_time_travel_goes_to_a_marker_and_changes_nothing(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for number in range(60):
        assert client.set("jobs", b"body %d" % number)
    show(page, "queues/jobs/time")
    page.get_by_label("Time or marker").fill("yesterday or so")
    page.get_by_role("button", name="Go there").click()
    expect(page.get_by_text("is neither a time nor a marker")).to_be_visible()
    page.get_by_label("Time or marker").fill("#5")
    page.get_by_role("button", name="Go there").click()
    expect(page.get_by_text("body 4", exact=True)).to_be_visible()
    expect(page.get_by_text("50 items shown")).to_be_visible()
    page.get_by_role("button", name="Step on").click()
    expect(page.get_by_text("The items end here.")).to_be_visible()
    expect(page.locator(".command code")).to_contain_text("gets jobs/peek/after=4/n=50")
    page.get_by_label("Text in the body").fill("body 17")
    page.get_by_role("button", name="Go there").click()
    expect(page.get_by_text("1 item shown")).to_be_visible()
    assert client.get("jobs") == b"body 0"


def test_what_people_did_is_a_list_and_a_mark_on_the_charts(
    page: Page, daemon: DaemonProcess
) -> None:
    assert daemon.client().set("jobs", b"x")
    show(page, "queues/jobs/now")
    act(page, "Pause…", "Pause")
    expect(page.locator("ol.actions li").first).to_contain_text("pause")
    mark = page.locator("figure .marks title").first
    expect(mark).to_contain_text("pause jobs")
    act(page, "Resume…", "Resume")


def test_what_is_coming_is_on_one_axis(page: Page, daemon: DaemonProcess) -> None:
    client = daemon.client()
    for minutes in (5, 10, 500):
        assert client.set(f"later/delay={minutes}m", b"x")
    show(page, "schedules")
    lane = page.get_by_role("img", name="3 items of later delayed, 2 of them on this axis")
    expect(lane).to_be_visible()
    page.get_by_label("Range of the axis").select_option("1 day")
    expect(page.get_by_role("img", name="3 of them on this axis")).to_be_visible()
