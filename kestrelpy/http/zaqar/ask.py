"""What every request of the messaging API states: its project, its client, its queue, its values.

    headers ──▶ X-Project-ID, Client-ID, Accept ──▶ the queue's full name ──▶ Ask ──▶ the handler

One rule: everything wrong is refused before anything is done, with 400 or 406 and one sentence.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request

from kestrelpy.durations import shown
from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call
from kestrelpy.http.models import parameter
from kestrelpy.http.routing import OfRequest, converted
from kestrelpy.http.values import parsed
from kestrelpy.http.zaqar.projects import NAME, PROJECT_BYTES_MAX, prefix_of

LIMIT_MAX: Final = 20
# Of a request, blanks included.
POST_BYTES_MAX: Final = 262_144
_TRUTH: Final = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
_CLIENTS_KEPT: Final = 4096
_FORM: Final = b"application/x-www-form-urlencoded"
_ANY: Final = (b"", b"*/*", b"application/json")


class Ask(OfRequest):
    """One request. `client` is the producer's name in the form that is stored, `query` the values
    of the query by name, of a list the last one."""

    __slots__ = ("call", "client", "prefix", "query", "request")
    parameters = (
        parameter("Client-ID", {"type": "string", "format": "uuid"}, "Who asks.", "header",
                  required=True),
        parameter("X-Project-ID",
                  {"type": "string", "minLength": 1, "maxLength": PROJECT_BYTES_MAX},
                  "Whose queues.", "header", required=True),
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        """Raise HttpError for bad headers."""
        self.request = request
        self.call: Call = request.scope["call"]
        accept, kind, client, projects = b"", b"", b"", list[bytes]()
        for name, value in request.scope["headers"]:  # once, for all of them
            if name == b"accept":
                accept = accept or value
            elif name == b"content-type":
                kind = value
            elif name == b"client-id":
                client = client or value
            elif name == b"x-project-id":
                projects.append(value.strip())
        if accept not in _ANY:
            _check_accept(accept.decode("latin-1"))
        if kind.startswith(_FORM):
            raise HttpError(
                400, f"Content-Type {_FORM.decode()} is not allowed: a body is JSON"
            )
        self.client = _client(client.decode("latin-1"))
        self.prefix = prefix_of(_project(projects), self.call.host.server_settings.default_project)
        self.query: dict[str, str] = request.scope["said"]

    # -- names ------------------------------------------------------------------------------

    @property
    def name(self) -> bytes:
        """The full name of the queue in the path."""
        return self.full_name(self.own_name)

    @property
    def own_name(self) -> str:
        """The name of the queue in the path, as the project knows it."""
        name: str = self.request.path_params["queue"]
        return name

    def full_name(self, own: str) -> bytes:
        """Return the full name of a queue of this project; raise HttpError."""
        if not NAME.fullmatch(own):
            raise HttpError(
                400, "bad queue name: 1 to 64 letters, digits, dots, dashes and underscores"
            )
        return self.prefix + own.encode()

    @property
    def path(self) -> str:
        """The path of the queue."""
        return f"/v2/queues/{self.own_name}"

    def next_href(self, path: str, marker: str) -> str:
        """Return the same question from this marker on."""
        said = self.request.query_params.multi_items()
        pairs = [(k, v) for k, v in said if k != "marker"]
        return f"{path}?{urlencode([*pairs, ('marker', marker)])}"

    # -- the body ---------------------------------------------------------------------------

    def raw(self, most: int = POST_BYTES_MAX) -> bytes:
        """Return the body; raise HttpError if it is too large or no UTF-8."""
        body: bytes = self.request.scope["body"]
        if len(body) > most:
            raise HttpError(400, f"the body has {len(body)} bytes (limit {most})")
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            raise HttpError(400, "the body is not UTF-8") from None
        return body

    def json(self, kind: type[Any] | Any, most: int = POST_BYTES_MAX) -> Any:
        """Return the body as this type; None: there is none. Raise HttpError."""
        body = self.raw(most)
        return decoded(body, kind) if body.strip() else None


def truth(request: Request, name: str) -> bool:
    """Return a truth value of the query; raise HttpError."""
    text = request.scope["said"][name]
    try:
        return _TRUTH[text.lower()]
    except KeyError:
        raise HttpError(400, f"{name} is {shown(text)}: true or false is allowed") from None


def several(request: Request, name: str) -> tuple[str, ...]:
    """Return the values of `ids=a&ids=b` and of `ids=a,b`, each once; raise HttpError."""
    said = request.query_params.getlist(name)
    found = (each for text in said for each in text.split(","))
    values = tuple(dict.fromkeys(each for each in found if each))
    if not 0 < len(values) <= LIMIT_MAX:
        raise HttpError(400, f"{name}: 1 to {LIMIT_MAX} are allowed")
    return values


def decoded(body: bytes, kind: type[Any] | Any) -> Any:
    """Return the body as this type; raise HttpError."""
    return converted(parsed(body), kind)


def _check_accept(accept: str) -> None:
    for part in accept.lower().split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        is_refused = any(each in ("q=0", "q=0.0", "q=0.00", "q=0.000") for each in parameters)
        if kind in ("*/*", "application/*", "application/json") and not is_refused:
            return
    raise HttpError(406, "answers are application/json, and Accept does not allow that")


@lru_cache(maxsize=_CLIENTS_KEPT)
def _client(text: str) -> bytes:
    try:
        if not text.isascii():
            raise ValueError
        return UUID(text).hex.encode()
    except ValueError:
        raise HttpError(400, "a Client-ID header with a UUID is needed") from None


def _project(found: list[bytes]) -> bytes:
    if len(found) != 1:  # whether the user may do this was asked for one
        raise HttpError(400, "one X-Project-ID header is needed")
    if not found[0]:
        raise HttpError(400, "X-Project-ID is empty")
    if len(found[0]) > PROJECT_BYTES_MAX:
        raise HttpError(400, f"X-Project-ID has over {PROJECT_BYTES_MAX} bytes")
    return found[0]
