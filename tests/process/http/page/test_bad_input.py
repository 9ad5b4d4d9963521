"""Bad input on the page: bodies, names, crowds, queues that vanish, servers in trouble."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgpack
import pytest
from playwright.sync_api import Browser, Page, expect
from pymemcache.exceptions import MemcacheServerError

from tests.process.http.page.conftest import PATIENCE_MS, act, show, watched_page
from tests.support.daemon import DaemonProcess
from tests.support.faults import Tracer

CUT = 64 << 10


def body_page(page: Page, daemon: DaemonProcess, body: bytes) -> None:
    """Store a body, and open the page of its item."""
    client = daemon.client()
    assert client.set("jobs", body)
    client.close()
    show(page, "queues/jobs/items/1")
    expect(page.get_by_role("heading", name="Body, ")).to_be_visible()


def test_markup_escapes_and_bidi_signs_are_shown_as_text(
    page: Page, daemon: DaemonProcess
) -> None:
    body_page(page, daemon, b"<script>alert(1)</script><img src=x>\x1b[31m\xe2\x80\xae")
    shown = page.locator("pre")
    expect(shown).to_have_text("<script>alert(1)</script><img src=x>⟨1B⟩[31m⟨202E⟩")
    assert page.locator("main img, main script").count() == 0
    page.get_by_role("link", name="Items of jobs").click()
    expect(page.locator("td.body")).to_contain_text("<img src=x>")


def test_a_megabyte_without_a_blank_is_cut_and_keeps_the_page_narrow(
    page: Page, daemon: DaemonProcess
) -> None:
    body_page(page, daemon, b"w" * (1 << 20))
    expect(page.get_by_text("The first 64 KiB of 1.0 MiB.")).to_be_visible()
    assert page.locator("pre").inner_text() == "w" * CUT
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_bytes_that_are_no_text_are_shown_as_hex(page: Page, daemon: DaemonProcess) -> None:
    body_page(page, daemon, b"\xff\xfe\x00A")
    expect(page.locator("pre.hex")).to_contain_text("ff fe 00 41")
    expect(page.get_by_role("button", name="Text")).to_have_count(0)


def test_messagepack_is_a_tree_and_a_lie_in_it_is_hex(page: Page, daemon: DaemonProcess) -> None:
    body_page(page, daemon, msgpack.packb({"id": 2**63, "tags": [None, b"\x01"]}))
    expect(page.get_by_role("button", name="MessagePack")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".tree")).to_contain_text("9223372036854775808")
    client = daemon.client()
    assert client.set("jobs", b"\xdf\xff\xff\xff\xff\x01")  # a map of four thousand million
    show(page, "queues/jobs/items/2")
    expect(page.locator("pre.hex")).to_contain_text("df ff ff")


def test_numbers_of_json_lose_no_digits(page: Page, daemon: DaemonProcess) -> None:
    body_page(page, daemon, b'{"id": 12345678901234567890, "deep": {"x": [1]}}')
    expect(page.locator(".tree")).to_contain_text("12345678901234567890")


@pytest.mark.parametrize(
    "text", ["1.0", "1.50", "1e400", "-0", "1e5", "9007199254740993", "0.1000000000000000055511"]
)
def test_a_number_that_a_browser_would_change_is_shown_as_it_was_sent(
    page: Page, daemon: DaemonProcess, text: str
) -> None:
    body_page(page, daemon, b'{"x": %b, "y": 12}' % text.encode())
    expect(page.locator(".tree .v", has_text=text).last).to_have_text(text)
    expect(page.locator(".tree .v.number")).to_have_text("12")


@pytest.mark.parametrize(
    "body", [b'{"a": "first", "a": "second", "b": 1}', b"\x82\xa1a\xa5first\xa1a\xa6second"]
)
def test_a_member_that_is_repeated_is_shown_twice(
    page: Page, daemon: DaemonProcess, body: bytes
) -> None:
    body_page(page, daemon, body)
    for text in ("first", "second"):
        expect(page.locator(".tree")).to_contain_text(f'a (there 2 times): "{text}"')


@pytest.mark.parametrize("name", ["a\"b'<c>%&=?#;", "orders+<a>", "x" * 127 + "%"])
def test_a_name_is_a_name_whatever_it_holds(
    page: Page, daemon: DaemonProcess, name: str
) -> None:
    client = daemon.client()
    assert client.set(name, b"x")
    show(page, "queues")
    page.locator("tbody").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    for tab in ("Items", "Keys", "Leases", "Dead", "Time", "Settings", "Now"):
        page.get_by_role("link", name=tab, exact=True).last.click()
        expect(page.locator(".tabs [aria-current]")).to_have_text(tab)
        expect(page.locator("main > [role=alert]")).to_be_empty()
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("The queue is paused.")).to_be_visible()
    act(page, "Delete…", "Delete", name)
    expect(page.locator("tbody").get_by_role("link", name=name)).to_have_count(0)


def test_an_address_that_is_wrong_says_so(page: Page, daemon: DaemonProcess) -> None:
    show(page, "queues/%3Cb%3E/now")
    expect(page.get_by_role("alert").first).to_have_text("There is no queue <b>.")
    show(page, "queues?offset=-7&sort=nonsense")
    expect(page.get_by_text("No queue matches.")).to_be_visible()
    show(page, "nowhere/%ff/at/all")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_an_item_that_goes_while_it_is_shown_says_so(page: Page, daemon: DaemonProcess) -> None:
    body_page(page, daemon, b"x")
    assert daemon.client().get("jobs") == b"x"
    expect(page.get_by_text("Item 1 is gone: confirmed, expired or removed.")).to_be_visible()
    expect(page.get_by_role("button", name="Remove…")).to_have_count(0)


def test_a_queue_that_is_deleted_and_made_again_is_shown_again(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    assert client.set("jobs", b"x")
    show(page, "queues/jobs/now")
    ready = page.locator(".figures > div", has_text="Ready").locator("dd")
    expect(ready).to_have_text("1")
    assert client.delete("jobs")
    expect(page.get_by_role("alert").first).to_have_text("There is no queue jobs.")
    for _ in range(2):
        assert client.set("jobs", b"y")
    expect(ready).to_have_text("2")
    expect(page.locator("main > [role=alert]")).to_be_empty()


@pytest.mark.parametrize(
    "mode, text",
    [("readonly", "nothing new is stored"), ("quiescent", "no item is delivered")],
)
def test_the_mode_of_the_server_is_in_the_verdict(
    page: Page, daemon: DaemonProcess, mode: str, text: str
) -> None:
    with daemon.socket() as wire:
        wire.sendall(b"status %b\r\n" % mode.encode())
        assert wire.recv(64) == b"END\r\n"
        try:
            show(page, "overview")
            expect(page.locator("#verdict")).to_contain_text(text)
            expect(page.locator(".verdict")).to_contain_text(text)
        finally:
            wire.sendall(b"status up\r\n")
            assert wire.recv(64) == b"END\r\n"
    expect(page.get_by_text("All is well.")).to_be_visible()


def test_a_browser_clock_an_hour_off_changes_no_age(page: Page, daemon: DaemonProcess) -> None:
    page.add_init_script(
        "const real = Date.now; Date.now = () => real() + 3600000;"
        "const D = Date; globalThis.Date = class extends D {"
        " constructor(...all) { super(...(all.length ? all : [real() + 3600000])); } };"
    )
    client = daemon.client()
    assert client.set("jobs", b"x")
    assert client.gets("jobs/open/lease=30m")[0] == b"x"
    show(page, "queues/jobs/leases")
    assert page.evaluate("new Date().getTime()") > page.evaluate("performance.timeOrigin") + 3000000
    left = page.locator('td[data-label="Time left"]')
    expect(left).to_have_text("29 min")
    show(page, "queues/jobs/items/1")
    stored = page.locator(".facts > div", has_text="Stored").locator("dd")
    expect(stored).not_to_contain_text("h")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Many queues in memory, and many dead letters of many reasons."""
    folder = tmp_path_factory.mktemp("crowd")
    config = "[queue_defaults]\ndurable = false\n"
    with DaemonProcess(folder / "data", config=config, http_port="0") as running:
        with running.socket(60) as wire:
            lines = b"".join(b"set q%05d 0 0 1\r\nx\r\n" % number for number in range(QUEUES - 1))
            send_all(wire, lines, QUEUES - 1)
            lines = b"".join(b"set crowd 0 0 1\r\nx\r\n" for _ in range(REASONED))
            send_all(wire, lines, REASONED)
            lines = b"".join(
                b"get crowd/open\r\nget crowd/abort/dead=reason%d\r\n" % (number % REASONS)
                for number in range(REASONED)
            )
            send_all(wire, lines, 2 * REASONED, b"END\r\n")
        yield running


QUEUES, REASONED, REASONS = 10_000, 100_000, 5_000


def send_all(
    wire: socket.socket, lines: bytes, count: int, answer: bytes = b"STORED\r\n"
) -> None:
    """Send lines in portions, and wait for their answers."""
    got, view, size = 0, memoryview(lines), 1 << 15
    rest = b""
    while view or got < count:
        if view:
            wire.sendall(view[:size])
            view = view[size:]
        rest += wire.recv(1 << 20)
        got += rest.count(answer)
        rest = rest[rest.rfind(b"\n") + 1 :]


@pytest.mark.slow
def test_ten_thousand_queues_and_five_thousand_reasons(
    browser: Browser, crowded: DaemonProcess
) -> None:
    for page in watched_page(browser, f"http://127.0.0.1:{crowded.http_port}/"):
        show(page, "queues/crowd/dead")
        expect(page.locator(".reasons tbody tr").nth(99)).to_be_visible()
        page.get_by_role("button", name="Redrive…").click()
        expect(page.get_by_text("100,000 dead letters go to the end")).to_be_visible()
        show(page, "queues?sort=name")
        # The sampler sees 500 queues a second.
        expect(page.get_by_text("1 to 100 of 10,000")).to_be_visible(timeout=2 * PATIENCE_MS)
        expect(page.locator("tbody tr")).to_have_count(100)
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("101 to 200 of 10,000")).to_be_visible()
        page.get_by_label("Part of the name").fill("q0998")
        page.keyboard.press("Enter")
        expect(page.get_by_text("1 to 10 of 10")).to_be_visible()


def test_a_full_disk_is_the_first_thing_that_the_page_says(
    browser: Browser, tmp_path: Path
) -> None:
    segments = '[journal]\nsegment_max = "64KiB"\n'
    server = DaemonProcess(tmp_path / "data", config=segments, http_port="0")
    with server as full, full.socket() as wire:
        wire.sendall(b"set jobs 0 0 1\r\nx\r\n")
        assert wire.recv(100) == b"STORED\r\n"
        full.config_file.write_text(f'{segments}[server]\nmin_disk_free = "1000000GiB"\n')
        wire.sendall(b"reload\r\n")
        assert wire.recv(1000).startswith(b"Reloaded")
        # The answer to one of them waits for room.
        wire.sendall(b"set jobs 0 0 30000\r\n%b\r\n" % bytes(30000) * 8)
        for page in watched_page(browser, f"http://127.0.0.1:{full.http_port}/"):
            show(page, "overview")
            expect(page.locator("#verdict .bad")).to_contain_text("jobs: its disk is full")


def test_a_failed_journal_is_named_and_other_queues_go_on(
    browser: Browser, tmp_path: Path
) -> None:
    fault = "fdatasync:error=EIO:when=1"
    with DaemonProcess(tmp_path / "data", http_port="0") as failing:
        client = failing.client()
        for queue in ("bad", "good"):
            assert client.set(queue, b"x")
        [segment] = (tmp_path / "data").glob("bad.*/*.segment")
        for page in watched_page(browser, f"http://127.0.0.1:{failing.http_port}/"):
            show(page, "overview")
            expect(page.locator("#verdict .bad")).to_have_count(0)
            with Tracer(failing.pid, tmp_path / "trace", segment, fault, "fdatasync"):
                with pytest.raises(MemcacheServerError):
                    for _ in range(100):
                        client.set("bad", b"x")
                expect(page.locator("#verdict .bad")).to_contain_text(
                    "bad: its journal failed, nothing is acknowledged until a restart"
                )
                assert failing.client().set("good", b"y")


def test_a_link_of_the_verdict_is_safe(page: Page, daemon: DaemonProcess) -> None:
    name = quote(json.dumps({"a": "<b>"}), safe="")
    show(page, f"find?text={name}")
    expect(page.get_by_text("Nothing has this name, number, key or id.")).to_be_visible()
