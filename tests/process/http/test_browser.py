"""A real Chromium: pages of another origin, and of a rebound name, change nothing in the daemon.

    rebound.example:D ─┐                  GET /page ──▶ our page
    evil.example:D   ──┴▶ 127.0.0.2:D ──▶ POST /report ──▶ what it saw
                                          anything else ──▶ the daemon on 127.0.0.1:D

The front on 127.0.0.2 does what a rebinding name server does: the page and the daemon have one
name.

Promise: other-site.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
BROWSER_SECONDS = 45.0
PAGE = """<!doctype html><meta charset="utf-8"><iframe name="frame"></iframe><script>
const target = TARGET, token = TOKEN;
const queues = target + "/queues/jobs";
function form() {
  const form = document.createElement("form");
  form.method = "POST"; form.enctype = "text/plain"; form.target = "frame";
  form.action = queues + "/items?id=form";
  form.innerHTML = '<input name="by" value="form">';
  document.body.append(form); form.submit();
  return new Promise(done => setTimeout(() => done("sent"), 1500));
}
function events() {
  return new Promise(done => {
    const source = new EventSource(target + "/categories/jobs");
    source.onmessage = () => done("read");
    source.onerror = () => { source.close(); done("refused"); };
  });
}
async function tried(url, options) {
  try {
    const said = await fetch(url, options);
    return said.type === "opaque" ? "sent" : String(said.status);
  } catch (error) { return "refused"; }
}
(async () => {
  const seen = {
    form: await form(),
    text: await tried(queues + "/items?id=text",
      {method: "POST", mode: "no-cors", body: "text", headers: {"Content-Type": "text/plain"}}),
    json: await tried(queues + "/items?id=json", {method: "POST", body: "{}",
      headers: {"Content-Type": "application/json"}}),
    stream: await tried(target + "/streams/jobs-1", {method: "POST", mode: "no-cors", body: "x"}),
    lease: await tried(queues + "/leases", {method: "POST", mode: "no-cors"}),
    confirm: await tried(queues + "/leases/" + token, {method: "DELETE"}),
    list: await tried(target + "/categories/jobs", {}),
    events: await events(),
  };
  // a name of its own, so that no connection to the daemon is used
  await fetch("http://report.example:" + location.port + "/report",
    {method: "POST", mode: "no-cors", body: JSON.stringify(seen)});
})();
</script>"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here: .ci/system-packages brings it on Debian"
)


class Front:
    """Serves the page, takes its report, and passes everything else on to the daemon."""

    def __init__(self, port: int, page: str) -> None:
        self._port = port
        self._page = page.encode()
        self.report: dict[str, str] = {}
        self.has_reported = threading.Event()
        self._listener = socket.create_server(("127.0.0.2", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            head = sock.recv(1 << 16)
            if head.startswith(b"GET /page "):
                self._say(sock, self._page)
            elif head.startswith(b"POST /report "):
                while b"}" not in head:
                    head += sock.recv(1 << 16)
                self.report = json.loads(head.partition(b"\r\n\r\n")[2])
                self._say(sock, b"")
                self.has_reported.set()
            elif head and not head.startswith(b"GET /favicon"):
                with socket.create_connection(("127.0.0.1", self._port)) as daemon:
                    daemon.sendall(head)
                    threading.Thread(target=pipe, args=(sock, daemon), daemon=True).start()
                    pipe(daemon, sock)

    @staticmethod
    def _say(sock: socket.socket, body: bytes) -> None:
        sock.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n%b" % (len(body), body)
        )


def pipe(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)


def browse(folder: Path, name: str, port: int, front: Front) -> dict[str, str]:
    """Open the page of this name in a browser; return the answers that the page had."""
    assert CHROMIUM is not None
    browser = subprocess.Popen(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-dev-shm-usage", "--disable-background-networking",
            f"--user-data-dir={folder / 'browser'}",
            "--host-resolver-rules=MAP *.example 127.0.0.2",
            f"http://{name}:{port}/page",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert front.has_reported.wait(BROWSER_SECONDS), "the page did not report"
        return front.report
    finally:
        browser.terminate()
        try:
            browser.wait(10)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait(10)


@pytest.mark.parametrize("name", ["evil.example", "rebound.example", "good.example"])
def test_a_page_of_another_site_changes_nothing(tmp_path: Path, name: str) -> None:
    config = '[server]\nhttp_allowed_hosts = ["good.example"]\n'
    with DaemonProcess(tmp_path / "data", config=config, http_port="0") as daemon:
        client, port = daemon.client(), int(daemon.http_port)
        for body in ("leased", "waits"):
            assert client.set("jobs", body)
        _, token = client.gets("jobs/open/lease=10m")
        before = facts(daemon)
        target = f"http://127.0.0.1:{port}" if name == "evil.example" else ""
        page = PAGE.replace("TARGET", json.dumps(target)).replace("TOKEN", token.decode())
        front = Front(port, page)
        try:
            seen = browse(tmp_path, name, port, front)
        finally:
            front.close()
        if name == "good.example":  # the tries are real: a page of the server itself can
            assert seen["json"] == "201"
            assert seen["confirm"] == "204"
            assert facts(daemon) != before
            return
        assert facts(daemon) == before
        assert client.delete(f"jobs/token={token.decode()}")
        assert seen["list"] in ("refused", "421")
        assert seen["events"] == "refused"
        assert seen["json"] in ("refused", "421")
        assert seen["confirm"] in ("refused", "421")


def facts(daemon: DaemonProcess) -> dict[bytes, object]:
    """Return the figures that change with an item or a lease."""
    stats = daemon.client().stats()
    names = ("items", "total_items", "leased", "transactions", "bytes")
    found = {name: stats[b"queue_jobs_" + name.encode()] for name in names}
    return {**{name.encode(): value for name, value in found.items()}, b"sets": stats[b"cmd_set"]}
