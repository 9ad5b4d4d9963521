"""Ways between the page and the server: users, a proxy that buffers, a tab that is hidden."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from kestrelpy.access import hash_secret
from tests.process.http.page.conftest import act, show, watched_page
from tests.support.daemon import DaemonProcess
from tests.support.guarded import KINDS, PASSWORD, Guarded

SECRET = hash_secret(b"let me in")
USERS = "".join(
    f'[auth.{name}]\nsecret = "{SECRET}"\nrole = "{role}"\n'
    for name, role in (("root", "admin"), ("reader", "read"))
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("guarded")
    with DaemonProcess(folder / "data", config=USERS, http_port="0") as running:
        with running.socket() as wire:
            wire.sendall(b"set auth 0 0 14\r\nroot let me in\r\nset jobs 0 0 1\r\nx\r\n")
            assert wire.recv(64).startswith(b"STORED")
        yield running


@pytest.fixture
def closed(browser: Browser, guarded: DaemonProcess) -> Iterator[Page]:
    yield from watched_page(browser, f"http://127.0.0.1:{guarded.http_port}/")


def sign_in(page: Page, user: str, secret: str) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Secret").fill(secret)
    page.get_by_role("button", name="Sign in").click()


def test_a_user_signs_in_and_acts_and_a_reload_asks_again(closed: Page) -> None:
    closed.goto("/#/queues/jobs/now")
    expect(closed.get_by_role("heading", name="Sign in")).to_be_visible()
    closed.goto("/#/clients")  # another page asks as well
    expect(closed.get_by_role("heading", name="Sign in")).to_be_visible()
    closed.goto("/#/queues/jobs/now")
    expect(closed.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(closed, "root", "wrong")
    expect(closed.get_by_text("No such user, or another secret.")).to_be_visible()
    sign_in(closed, "root", "let me in")
    expect(closed.get_by_text("Nobody is asking for an item.")).to_be_visible()
    expect(closed.locator("#user-name")).to_have_text("root (admin)")
    act(closed, "Pause…", "Pause")
    expect(closed.get_by_text("The queue is paused.")).to_be_visible()
    act(closed, "Resume…", "Resume")
    kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    assert "let me in" not in closed.evaluate(kept)
    closed.reload()
    expect(closed.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_reader_sees_no_button_that_changes_something(closed: Page) -> None:
    closed.goto("/#/queues/jobs/now")
    sign_in(closed, "reader", "let me in")
    expect(closed.get_by_text("Nobody is asking for an item.")).to_be_visible()
    expect(closed.locator("main button")).to_have_count(0)
    closed.goto("/#/clients")
    expect(closed.locator("tbody tr").first).to_be_visible()
    expect(closed.locator("main tbody button")).to_have_count(0)


def test_no_delete_button_where_delete_is_not_allowed(browser: Browser, tmp_path: Path) -> None:
    config = "[server]\nallow_delete = false\n"
    with DaemonProcess(tmp_path / "data", config=config, http_port="0") as running:
        assert running.client().set("jobs", b"x")
        for page in watched_page(browser, f"http://127.0.0.1:{running.http_port}/"):
            show(page, "queues/jobs/now")
            expect(page.get_by_role("button", name="Flush…")).to_be_visible()
            expect(page.get_by_role("button", name="Delete…")).to_be_hidden()


@pytest.mark.parametrize("kind", ["open", *KINDS])
def test_the_lines_by_hand_do_the_same_whatever_the_server_wants(
    browser: Browser, tmp_path: Path, kind: str
) -> None:
    """The lines name the open port, TLS and the user, and work in a shell unchanged."""
    guarded = Guarded(tmp_path, kind, http_port="0")
    with guarded.daemon as running:
        guarded.put("jobs", b"x")
        scheme = "http" if kind in ("open", "users") else "https"
        home = f"{scheme}://127.0.0.1:{running.http_port}/"
        for page in watched_page(browser, home):
            page.goto("/#/queues/jobs/now")
            if kind in ("users", "both"):
                sign_in(page, "anna", PASSWORD)
            for button, paused in (("Pause…", 1), ("Resume…", 0)):
                page.get_by_role("button", name=button).click()
                page.get_by_text("The same by hand").click()
                command, line = page.locator(".command code").all_inner_texts()
                page.keyboard.press("Escape")
                if paused:
                    said = shell(line.replace("SECRET", PASSWORD), {})
                    assert said.stdout.endswith(b"OK\r\n"), said
                else:
                    said = shell(command.replace("FILE", str(tmp_path / "secret")), {
                        "KESTRELPY_TLS_CA": guarded.access().tls_ca or "",
                    })  # fmt: skip
                assert said.returncode == 0, said
                assert guarded.counts("jobs")["paused"] == paused, (line, command, said)


def shell(line: str, more: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a line that the page shows."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **{name: value for name, value in more.items() if value}}
    return subprocess.run(
        ["sh", "-c", line], env={**environment, "PATH": path}, capture_output=True, timeout=30,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


class BufferingProxy:
    """A proxy that lets answers pass, and holds back a stream of events."""

    def __init__(self, port: int) -> None:
        self._to, self.port = port, 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._take, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        lines = [each for each in head.split(b"\r\n") if not each.lower().startswith(b"connection")]
        back.write(b"\r\n".join([lines[0], b"Connection: close", *lines[1:]]))
        if head.startswith(b"GET /events"):
            await reader.read()  # until the browser gives up
        else:
            while data := await there.read(1 << 16):
                writer.write(data)
                await writer.drain()
        back.close()
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


def test_a_proxy_that_holds_the_stream_back_is_named_and_worked_around(
    browser: Browser, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    assert client.set("jobs", b"x")
    proxy = BufferingProxy(int(daemon.http_port))
    try:
        for page in watched_page(browser, f"http://127.0.0.1:{proxy.port}/"):
            page.clock.install()
            with page.expect_request(lambda request: "/events" in request.url):
                page.goto("/#/queues/jobs/now")
            page.clock.fast_forward(11_000)
            state = page.locator("#state")
            expect(state).to_have_text("Updates every 5 s: no live stream comes through.")
            ready = page.locator(".figures > div", has_text="Ready").locator("dd")
            expect(ready).to_have_text("1")
            assert client.set("jobs", b"y")
            page.clock.fast_forward(6_000)
            expect(ready).to_have_text("2")
    finally:
        proxy.close()


def test_a_hidden_tab_closes_its_stream_and_opens_it_again(
    page: Page, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    assert client.set("jobs", b"x")
    show(page, "queues/jobs/now")
    ready = page.locator(".figures > div", has_text="Ready").locator("dd")
    expect(ready).to_have_text("1")
    hide = (
        "(is) => { Object.defineProperty(document, 'hidden', {value: is, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    with page.expect_event("requestfailed", lambda request: "/events" in request.url):
        page.evaluate(hide, True)
    assert client.set("jobs", b"y")
    with page.expect_request(lambda request: "/events" in request.url):
        page.evaluate(hide, False)
    expect(ready).to_have_text("2")
