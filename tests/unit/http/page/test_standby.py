"""The page of a process that does not serve: the reason, and a link to the one that serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.http.page.route import POLICY
from kestrelpy.http.page.standby import standby_page
from tests.support.http_client import web


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("10.0.0.1:22133", "https://10.0.0.1:2223/"),
        ("10.0.0.1", "https://10.0.0.1:2223/"),
        ("host-a.example", "https://host-a.example:2223/"),
        ("[::1]:22133", "https://[::1]:2223/"),
        ("", ""),
        ("a b", ""),
        ('x"onclick="y', ""),
        ("javascript:alert(1)", ""),
        ("a/b", ""),
        ("user@host", ""),
    ],
)
def test_an_address_that_is_one_becomes_a_link(address: str, link: str) -> None:
    body, _ = standby_page("why", address, "https", 2223)
    assert (b"<a href=" in body) == bool(link)
    if link:
        assert f'<a href="{link}">{link}</a>' in body.decode()


def test_what_others_wrote_is_text() -> None:
    body, _ = standby_page("standby of <script>$owner</script>", "", "http", 1)
    assert b"&lt;script&gt;$owner&lt;/script&gt;" in body
    assert b"<script" not in body


async def test_a_browser_gets_a_page_and_a_program_an_error(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        server.daemon._note_closed("standby of b: it owns the data, ask there", "127.0.0.9:1")
        page = await server.client.get("/")
        assert page.status_code == 503
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["cache-control"] == "no-store"
        assert "standby of b: it owns the data, ask there" in page.text
        assert f'<a href="http://127.0.0.9:{server.port}/">' in page.text
        head = await server.client.head("/")
        assert (head.status_code, head.text) == (503, "")
        assert head.headers["content-length"] == page.headers["content-length"]

        assert (await server.client.get("/page/style.css")).status_code == 200
        for answer in (
            await server.client.get("/queues"),
            await server.client.post("/"),
            await server.client.get("/page/app.js"),
        ):
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/json"

        server.daemon._note_closed("")
        assert (await server.client.get("/")).status_code == 200
