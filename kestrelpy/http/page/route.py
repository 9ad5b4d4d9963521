"""The files of the page, with their tags and the policy that keeps the page to itself.

One rule: only the files that are named here are served, and no page loads anything from elsewhere.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.answers import HttpError
from kestrelpy.http.models import parameter, request_parts
from kestrelpy.http.routing import Router

router: Final = Router(is_described=False)
_TYPES: Final = {
    "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml",
}  # fmt: skip
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'"
)
_TAGS: Final = request_parts(
    parameter("If-None-Match", {"type": "string"}, "Tags of the browser's copies.", "header")
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


@router.get("/", reads=_TAGS)
async def get_home(request: Request) -> Response:
    """Answer with the page."""
    return _answer(request, _HOME)


@router.get("/page/{name}", reads=_TAGS)
async def get_file(request: Request, name: str) -> Response:
    """Answer with a file of the page."""
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    file = page_files().get(name)
    if file is None:
        raise HttpError(404, "the page has no such file")
    # The browser asks each time whether its copy is still good.
    headers = {
        "etag": file.tag, "cache-control": "no-cache", "content-security-policy": POLICY,
    }  # fmt: skip
    known: str = request.headers.get("if-none-match", "")
    tags = [each.strip().removeprefix("W/") for each in known.split(",")]
    if file.tag in tags or "*" in tags:
        return Response(b"", 304, headers)
    return Response(file.body, 200, headers, file.type)
