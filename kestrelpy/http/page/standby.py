"""The page of a process that has no data to serve: why, and a link to the one that serves.

One rule: it needs no script; the browser asks again by itself.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from kestrelpy.http.page.route import POLICY

# A host that an address may name, with or without a port; nothing else becomes a link.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]+)?")


def standby_page(
    why: str, owner_address: str, scheme: str, port: int
) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """Return the page and its headers. The owner's page is taken to be on the same port."""
    named = _HOST.fullmatch(owner_address)
    link = f"{scheme}://{named[1]}:{port}/" if named is not None else ""
    owner = f'<p><a href="{link}">{link}</a></p>' if link else ""
    text = _template().substitute(why=escape(why), owner=owner)
    headers = (
        (b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store"),
        (b"content-security-policy", POLICY.encode()),
    )  # fmt: skip
    return text.encode(), headers


@cache
def _template() -> Template:
    return Template(files(__package__).joinpath("standby.html").read_text())
