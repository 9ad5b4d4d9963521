"""The files of the page: tags, the policy, and no way to put markup into the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kestrelpy.http.page.route import POLICY, page_files
from tests.support.http_client import web

BYTES_MAX = 160 << 10
# Code that turns text into markup or into code.
REFUSED = re.compile(
    rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|"
    rb"DOMParser|createContextualFragment|setHTML|parseHTML|javascript:|importScripts|\sstyle=|"
    rb"""setAttribute\(["'](on|style)|createPolicy|https?://(?!www\.w3\.org/2000/svg)"""
)


async def test_a_file_is_sent_again_only_if_it_has_changed(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for path in ("/", "/page/app.js", "/page/style.css"):
            first = await server.client.get(path)
            assert first.status_code == 200
            tag = first.headers["etag"]
            for known in (tag, f'"other", W/{tag}'):
                again = await server.client.get(path, headers={"if-none-match": known})
                assert (again.status_code, again.content) == (304, b"")
                for said in (first, again):
                    assert said.headers["content-security-policy"] == POLICY
                    assert said.headers["cache-control"] == "no-cache"
                    assert said.headers["etag"] == tag
            other = await server.client.get(path, headers={"if-none-match": '"other"'})
            assert other.status_code == 200


@pytest.mark.parametrize("name", ["none.js", "..%2froute.py", "__init__.py", ""])
async def test_nothing_else_is_served(tmp_path: Path, name: str) -> None:
    async with web(tmp_path) as server:
        assert (await server.client.get(f"/page/{name}")).status_code in (400, 404)


def test_the_files_are_small_and_make_no_markup() -> None:
    known = page_files()
    assert {"index.html", "style.css", "app.js"} <= set(known)
    assert sum(len(each.body) for each in known.values()) <= BYTES_MAX
    for name, each in known.items():
        assert not (found := REFUSED.search(each.body)), f"{name}: {found}"


def test_the_check_finds_markup() -> None:
    assert REFUSED.search(b"x.innerHTML = y")
    assert REFUSED.search(b'<p style="x">')
    assert REFUSED.search(b"x.setHTMLUnsafe(y)")
    assert REFUSED.search(b"x.setAttribute('onclick', y)")
    assert REFUSED.search(b'a.href = "javascript:y"')
