"""What every request of the messaging API states: its project, its client, its queue, its values.

    headers ──▶ X-Project-ID, Client-ID, Accept ──▶ the queue's full name ──▶ query, body

One rule: everything wrong is refused before anything is done, with 400 or 406 and one sentence.
"""

from __future__ import annotations

from functools import lru_cache
from re import compile as pattern
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from starlette.requests import Request

from kestrelpy.durations import shown
from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call
from kestrelpy.http.routing import of_msgspec
from kestrelpy.http.values import parsed, refuse_half_characters
from kestrelpy.http.zaqar.projects import NAME, PROJECT_BYTES_MAX, prefix_of

LIMIT_MAX: Final = 20
# Of a request, blanks included.
POST_BYTES_MAX: Final = 262_144
_TRUTH: Final = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
_CLIENTS_KEPT: Final = 4096
_INT64_DIGITS: Final = 19
_MANY_DIGITS: Final = pattern(rb"[0-9]{%d}" % _INT64_DIGITS)
_FORM: Final = b"application/x-www-form-urlencoded"
_ANY: Final = (b"", b"*/*", b"application/json")


class Ask:
    """One request. `client` is the producer's name in the form that is stored, `query` the values
    of the query by name, of a list the last one."""

    __slots__ = ("call", "client", "prefix", "query", "request")

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
        self.prefix = prefix_of(_project(projects), self.call.host.default_project)
        self.query: dict[str, str] = request.scope["said"]

    # -- names ------------------------------------------------------------------------------

    @property
    def name(self) -> bytes:
        """The full name of the queue in the path."""
        return self.full_name(self.request.path_params["queue"])

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
        return f"/v2/queues/{self.request.path_params['queue']}"

    # -- the query --------------------------------------------------------------------------

    def flag(self, name: str) -> bool:
        """Return a truth value of the query; it is false if it is not there."""
        text = self.query.get(name)
        if text is None:
            return False
        try:
            return _TRUTH[text.lower()]
        except KeyError:
            raise HttpError(400, f"{name} is {shown(text)}: true or false is allowed") from None

    def many(self, name: str) -> list[str] | None:
        """Return the values of `ids=a&ids=b` and of `ids=a,b`, each once; None: there is none."""
        if name not in self.query:
            return None
        said = self.request.query_params.getlist(name)
        found = (each for text in said for each in text.split(","))
        values = list(dict.fromkeys(each for each in found if each))
        if not 0 < len(values) <= LIMIT_MAX:
            raise HttpError(400, f"{name}: 1 to {LIMIT_MAX} are allowed")
        return values

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


def decoded(body: bytes, kind: type[Any] | Any, *, may_repeat: bool = False) -> Any:
    """Return the body as this type; raise HttpError. `may_repeat`: the caller looks whether a
    member is there twice."""
    try:
        value = msgspec.json.decode(body, type=kind)
        if not may_repeat:
            parsed(body)
        if _MANY_DIGITS.search(body):
            _check_numbers(msgspec.json.decode(body))
    except RecursionError:
        raise HttpError(400, "the body is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        refuse_half_characters(body)  # msgspec does not name them
        raise HttpError(400, of_msgspec(str(error), kind)) from None
    return value


def _check_numbers(value: Any) -> None:
    """Raise HttpError for an integer beyond 64 bits."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest += each.values()
        elif isinstance(each, list):
            rest += each
        elif isinstance(each, int) and not -(1 << 63) <= each < 1 << 63:
            raise HttpError(400, f"{each} does not fit into 64 bits")


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
