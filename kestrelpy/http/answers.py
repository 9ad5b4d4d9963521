"""Answers: JSON, and errors as `{title, description}`.

    ClientError, ItemRefused ──▶ 400      ServerError ──▶ 503      InvalidToken ──▶ 404
    Forbidden ──▶ 403

One rule: an error is one sentence that says what, where and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kestrelpy.errors import ClientError, Forbidden, InvalidToken, ItemRefused, Refused

_encode: Final = msgspec.json.Encoder().encode
JSON: Final = "application/json"
MISTAKE: Final = "the server made a mistake; its log says which"
# On every answer; a page of ours says more in its own Content-Security-Policy.
SAFETY_HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class HttpError(Exception):
    """A refusal with a status of its own."""

    def __init__(self, status: int, description: str, **more: Any) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.more = more  # further members of the answer


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return this value as JSON."""
    return Response(_encode(value), status, headers, JSON)


def nothing(status: int = 204, headers: dict[str, str] | None = None) -> Response:
    """Return an answer without a body."""
    return Response(b"", status, headers)


def error_body(status: int, description: str, more: dict[str, Any] | None = None) -> bytes:
    """Return the body of an error."""
    title = HTTPStatus(status).phrase
    return _encode({"title": title, "description": description, **(more or {})})


_PATH: Final = re.compile(r"(?<![\w/])(?:/[^\s:,;'\"()/]+)+/([^\s:,;'\"()/]+)")


def without_paths(text: str) -> str:
    """Return the text with the last part of each path alone: no folder is shown."""
    return _PATH.sub(r".../\1", text)


def status_of(error: Refused) -> int:
    """Return the status of a refusal by the core."""
    if isinstance(error, InvalidToken):
        return 404
    if isinstance(error, Forbidden):
        return 403
    return 400 if isinstance(error, ClientError | ItemRefused) else 503


def refused(error: Refused | HttpError) -> Response:
    """Return the answer to a request that was refused."""
    if isinstance(error, HttpError):
        return Response(
            error_body(error.status, error.description, error.more), error.status, None, JSON
        )
    status = status_of(error)
    return Response(error_body(status, without_paths(str(error))), status, None, JSON)


class Parts(Response):
    """An answer that is sent while it is made: a part at a time, as fast as the client reads."""

    def __init__(self, parts: AsyncIterator[bytes], media_type: str = JSON) -> None:
        super().__init__(b"", 200, None, media_type)
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        )
        if (call := scope.get("call")) is not None and call.is_head:
            return await send({"type": "http.response.body", "body": b"", "more_body": False})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
