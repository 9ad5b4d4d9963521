"""The checks of a request before it is looked at: its method, its Host, its origin, its path, the
size of its body.

    the method ──▶ Host ──▶ origin ──▶ path ──▶ the size of the body
        └─ 405       └─ 421   └─ 403     └─ 400    └─ 413, 400 under /v2

One rule: no page of another site can make a browser change or read anything here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from kestrelpy.http.answers import JSON, error_body
from kestrelpy.http.listener import Scope, Send

SAFE: Final = frozenset({"GET", "HEAD"})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
# The name of a stream goes on to the end of the path: its id is any text.
_STREAMS: Final = b"/streams/"
# A page of another site must not even open it: a stream stays, and there are few.
_STREAM: Final = "/events"
_LOCAL_NAMES: Final = frozenset({b"localhost"})
# The client of a router's request, as address:port. A slice believes it on its Unix socket alone.
CLIENT: Final = b"kestrelpy-client"


class Rejected(Exception):
    """A request that no route sees."""

    def __init__(self, status: int, description: str, allow: str | None = None) -> None:
        """`allow` names the methods that the path has."""
        super().__init__(description)
        self.status = status
        self.headers = ((b"allow", allow.encode()),) if allow is not None else ()


class Checks:
    """What one server checks."""

    __slots__ = ("_allowed_hosts", "_body_max", "_methods_of")

    def __init__(
        self, allowed_hosts: frozenset[str], body_max: Callable[[str], int],
        methods_of: Callable[[str], str],
    ) -> None:  # fmt: skip
        """`body_max` returns the limit of a body, in bytes, for a path; `methods_of` its
        methods."""
        self._allowed_hosts = frozenset(name.lower().encode() for name in allowed_hosts)
        self._body_max = body_max
        self._methods_of = methods_of

    def check(self, scope: Scope) -> None:
        """Raise Rejected for a request that no route may see; note its path, decoded."""
        if scope["connection"].is_of_router:  # which has checked the rest
            _check_path(scope)
            return
        method = scope["method"]
        if method not in _METHODS:
            text = f"{method[:16]} is not a method of this server"
            raise Rejected(405, text, self._methods_of(scope["path"]))
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            raise Rejected(400, "one Host header is needed")
        self._check_host(scope, hosts[0])
        self._check_origin(scope, method, hosts[0])
        _check_path(scope)

    def _check_host(self, scope: Scope, value: bytes) -> None:
        name, _ = _split_host(value)
        if name in _LOCAL_NAMES or name in self._allowed_hosts:
            return
        server = scope.get("server")
        if server and name == server[0].lower().encode():
            return
        raise Rejected(
            421,
            "the Host header names another server: localhost, the address that the server listens "
            "on and http_allowed_hosts are allowed",
        )

    @staticmethod
    def _check_origin(scope: Scope, method: str, host: bytes) -> None:
        site = origin = accept = b""
        for name, value in scope["headers"]:
            if name == b"sec-fetch-site":
                site = value
            elif name == b"origin":
                origin = value
            elif name == b"accept":
                accept = value
        is_stream = scope["path"] == _STREAM or b"text/event-stream" in accept
        if method in SAFE and not is_stream:
            return
        if site and site not in (b"same-origin", b"none"):
            raise Rejected(403, "a page of another site may not ask this server for anything")
        if origin:
            parts = urlsplit(origin.decode("latin-1"))
            if parts.scheme != scope["scheme"] or parts.netloc.lower().encode() != host.lower():
                raise Rejected(403, "a page of another site may not ask this server for anything")

    def body_most(self, scope: Scope) -> int:
        """Return how large its body may be, in bytes; raise Rejected if it says that it is larger.
        """
        most = self._body_max(scope["path"])
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > most):
                raise self.too_large(scope, most)
            elif name == b"expect" and value.lower() != b"100-continue":
                raise Rejected(417, "Expect: 100-continue is the only expectation known")
        return most

    @staticmethod
    def too_large(scope: Scope, most: int) -> Rejected:
        """Return the refusal of a body above this limit."""
        scope["connection"].end_after_this()  # the rest of it is not read
        # The messaging API's clients take 413 for a success.
        status = 400 if scope["path"].startswith("/v2/") else 413
        return Rejected(status, f"the body is too large: at most {most} bytes are allowed here")


def _check_path(scope: Scope) -> None:
    raw: bytes = scope["raw_path"]
    if _BAD_PERCENT.search(raw) or _BAD_PERCENT.search(scope["query_string"]):
        raise Rejected(400, "a % in a URL is followed by two hexadecimal digits")
    if b"%" not in raw:
        return
    path = unquote_to_bytes(raw)
    try:
        scope["path"] = path.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected(400, "the path is not UTF-8") from None
    if b"\0" in path:
        raise Rejected(400, "the path has a NUL byte")
    if raw.startswith(_STREAMS):
        return
    if _CONTROL.search(path):
        raise Rejected(400, "the path has a control character: no name here has one")
    if path.count(b"/") != raw.count(b"/"):  # it would be the path of another thing
        raise Rejected(400, "the path has an escaped slash (%2F): no name here has a slash")


def _split_host(value: bytes) -> tuple[bytes, bytes]:
    """Return the name in lower case, and the port."""
    value = value.strip().lower()
    if value.startswith(b"["):
        name, _, port = value[1:].partition(b"]")
        return name, port.removeprefix(b":")
    name, _, port = value.partition(b":")
    return name, port


def header_of(scope: Scope, wanted: bytes) -> bytes:
    """Return a header that is there once; else nothing."""
    values = [value for name, value in scope["headers"] if name == wanted]
    return values[0].strip() if len(values) == 1 else b""


async def say(
    send: Send, status: int, description: str, more: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Answer with an error."""
    headers = ((b"content-type", JSON.encode()), *more)
    await send_answer(send, status, error_body(status, description), headers)


async def send_answer(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Send a whole answer."""
    await send({
        "type": "http.response.start", "status": status,
        "headers": [(b"content-length", b"%d" % len(body)), *headers],
    })  # fmt: skip
    await send({"type": "http.response.body", "body": body})
