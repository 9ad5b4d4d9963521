"""The files of the page, with their tags and the policy that keeps the page to itself.

One rule: only the files that are named here are served, and no page loads anything from elsewhere.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Header
from starlette.responses import Response

from kestrelpy.http.answers import HttpError

router: Final = APIRouter(include_in_schema=False)
_TYPES: Final = {
    "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml",
}  # fmt: skip
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'"
)
_HOME: Final = "index.html"


class _File(NamedTuple):
    body: bytes
    type: str
    tag: str


@cache
def page_files() -> dict[str, _File]:
    """Return the files of the page by name."""
    found = dict[str, _File]()
    for each in files(__package__).joinpath("static").iterdir():
        type_ = _TYPES.get(each.name.rpartition(".")[2])
        if type_ is not None:
            body = each.read_bytes()
            found[each.name] = _File(body, type_, f'"{blake2b(body, digest_size=12).hexdigest()}"')
    return found


_Tags = Annotated[str, Header(max_length=4096)]


@router.get("/")
async def get_home(if_none_match: _Tags = "") -> Response:
    """Answer with the page."""
    return _answer(_HOME, if_none_match)


@router.get("/page/{name}")
async def get_file(name: str, if_none_match: _Tags = "") -> Response:
    """Answer with a file of the page."""
    return _answer(name, if_none_match)


def _answer(name: str, known: str) -> Response:
    file = page_files().get(name)
    if file is None:
        raise HttpError(404, "the page has no such file")
    # The browser asks each time whether its copy is still good.
    headers = {
        "etag": file.tag, "cache-control": "no-cache", "content-security-policy": POLICY,
    }  # fmt: skip
    tags = [each.strip().removeprefix("W/") for each in known.split(",")]
    if file.tag in tags or "*" in tags:
        return Response(b"", 304, headers)
    return Response(file.body, 200, headers, file.type)
