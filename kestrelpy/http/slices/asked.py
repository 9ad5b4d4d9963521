"""A request to the router: what it says, and what of it is sent on to a slice.

    path, query, headers ──▶ Asked ──▶ a target and headers for a slice

One rule: what a client says reaches the slice unchanged, but for headers of the connection.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from kestrelpy.http.checks import CLIENT, header_of
from kestrelpy.http.listener import Scope
from kestrelpy.http.routing import Route
from kestrelpy.http.slices.links import Headers
from kestrelpy.http.slices.ports import SlicesPort

# They are of one connection. `expect` is answered here.
_OF_CONNECTION: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding",
    b"upgrade", b"expect", CLIENT,
})  # fmt: skip
_LENGTH: Final = b"content-length"
_CODING: Final = b"transfer-encoding"


class SliceAnswer(NamedTuple):
    """A whole answer of a slice."""

    status: int
    headers: Headers
    body: bytes


class Asked(NamedTuple):
    """One request. `parts` are those of its path, `query` its last value of each name."""

    scope: Scope
    route: Route | None
    parts: dict[str, str]
    query: dict[str, str]
    router: SlicesPort

    @classmethod
    def of(
        cls, scope: Scope, route: Route | None, parts: dict[str, str], router: SlicesPort
    ) -> Asked:
        """Return the request of this scope."""
        text = scope["query_string"].decode("latin-1")
        return cls(scope, route, parts, dict(parse_qsl(text, keep_blank_values=True)), router)

    @property
    def slices(self) -> int:
        """The number of slices."""
        return self.router.placement.slices

    @property
    def method(self) -> str:
        """Its method."""
        method: str = self.scope["method"]
        return method

    @property
    def target(self) -> bytes:
        """Its path and query, as the client sent them."""
        path: bytes = self.scope["raw_path"]
        query: bytes = self.scope["query_string"]
        return path + b"?" + query if query else path

    def with_query(self, **changed: object) -> bytes:
        """Return its path and query with other values."""
        return f"{quote(self.scope['path'])}?{urlencode(self.query | changed)}".encode()

    def of_path(self, path: str, **changed: object) -> bytes:
        """Return another path with its query, with other values if some are given."""
        query: bytes = self.scope["query_string"]
        if changed:
            query = urlencode(self.query | changed).encode()
        return b"%b?%b" % (path.encode(), query)

    @property
    def project(self) -> bytes:
        """The project that it names."""
        return header_of(self.scope, b"x-project-id")

    @property
    def is_chunked(self) -> bool:
        """True if its body says no length."""
        return any(name == _CODING for name, _ in self.scope["headers"])

    @property
    def has_body(self) -> bool:
        """True if a body follows its head."""
        return self.is_chunked or any(
            name == _LENGTH and value.strip() != b"0" for name, value in self.scope["headers"]
        )

    def limit(self) -> int:
        """Return how many rows it wants at most."""
        assert self.route is not None
        return int(self.query.get("limit", self.route.query["limit"].default))

    def head(self, target: bytes, length: int | None = None, method: str = "") -> bytes:
        """Return its head for a slice. `length` is that of another body, None: it is the client's.
        """
        headers = [
            (name, value) for name, value in self.scope["headers"]
            if name not in _OF_CONNECTION and not (length is not None and name == _LENGTH)
        ]  # fmt: skip
        if length is not None:
            headers.append((_LENGTH, b"%d" % length))
        elif self.is_chunked:
            headers.append((_CODING, b"chunked"))
        client = self.scope.get("client")
        if client:
            headers.append((CLIENT, f"{client[0]}:{client[1]}".encode()))
        lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        return b"%b %b HTTP/1.1\r\n%b\r\n" % ((method or self.method).encode(), target, lines)


def to_client(headers: Headers) -> Headers:
    """Return the headers of a slice's answer that are for the client."""
    return [pair for pair in headers if pair[0] not in _OF_CONNECTION]
