"""The shapes of answers, and the declaration of what a handler reads itself, for /openapi.json.

    refusals(413) ──▶ what all routes of a router refuse with    errors(404) ──▶ one more of a route
    parameter(...), told(...) ──▶ parameters and bodies that a handler reads itself

One rule: a route declares every status that it answers with.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, defstruct

from journal.format import SENT_TEXTS
from kestrelpy.http.routing import Responses
from kestrelpy.http.values import Truth

WHY: Final = {
    400: "A bad value or a bad request: one sentence says which.",
    401: "A user and a secret are needed, or these are wrong.",
    403: "This user may not do this; or a page of another site asks.",
    404: "There is no such thing.",
    406: "Accept does not allow the answer.",
    408: "The request did not come in time.",
    409: "It contradicts what is there.",
    412: "The version is another one.",
    413: "The body is too large.",
    414: "The URL is too long.",
    415: "The body has another media type.",
    422: "Its id was stored before, with another body or key.",
    417: "An expectation other than 100-continue.",
    421: "The Host header names another server.",
    431: "The headers are too large.",
    503: "The server cannot do this now: one sentence says why.",
}
_TEXT: Final = {"schema": {"type": "string"}}
_ERROR: Final = {"$ref": "#/components/schemas/Error"}


class Shape(Struct):
    """The shape of an answer."""


class Error(Shape):
    """Why a request was refused."""

    title: str
    description: str


def errors(*statuses: int) -> Responses:
    """Return the declaration of refusals with these statuses."""
    found: Responses = {
        each: {"description": WHY[each], "content": {"application/json": {"schema": _ERROR}}}
        for each in statuses
    }
    if 401 in found:
        found[401]["headers"] = {"WWW-Authenticate": _TEXT}
    return found


# What stands before the routes answers so, whatever the route.
_ALWAYS: Final = errors(400, 401, 403, 408, 414, 415, 417, 421, 431, 503)


def refusals(*statuses: int) -> Responses:
    """Return what the routes of a router refuse with: what all do, and these."""
    return _ALWAYS | errors(*statuses)


def parameter(
    name: str, schema: dict[str, Any], description: str, where: str = "query", *,
    required: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return the declaration of a parameter that the handler reads itself."""
    return {
        "name": name, "in": where, "required": required, "schema": schema,
        "description": description,
    }  # fmt: skip


def request_parts(
    *parameters: dict[str, Any], body: dict[str, Any] | None = None,
    kind: str = "application/json", required: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return what a handler reads itself: parameters, and the body's schema."""
    found: dict[str, Any] = {"parameters": list(parameters)} if parameters else {}
    if body is not None:
        found["requestBody"] = {"content": {kind: {"schema": body}}, "required": required}
    return found


def header(description: str) -> dict[str, Any]:
    """Return the declaration of a header of an answer."""
    return {**_TEXT, "description": description}


# Of what destroys something.
DryRun = Annotated[Truth, Meta(description="Change nothing: say what would be done.")]
BYTES: Final = {"type": "string", "format": "binary"}
IDEMPOTENCY_KEY: Final = parameter(
    "Idempotency-Key", {"type": "string"}, "The same as `id`: say one of them.", "header"
)


# The texts of an item (`journal.format.kinds.ITEM_TEXTS`): as headers, and as members of an answer.
TEXT_HEADERS: Final = tuple(
    parameter(f"Item-{row.name.capitalize()}", {"type": "string", "maxLength": row.bytes_max},
              f"The {row.name} of the item.", "header")
    for row in SENT_TEXTS
)  # fmt: skip
TEXT_MEMBERS: Final[dict[str, Any]] = {row.name: (str | None, None) for row in SENT_TEXTS}


# -- items and leases, streams and categories ---------------------------------------------------


class Stored(Shape):
    """The number of an item that is on disk."""

    id: int


class Duplicate(Shape):
    """Its id was seen before: nothing is stored. `id` is the item that was stored then, `version`
    the version that it made of its stream, if that is still known."""

    duplicate: bool
    id: int | None = None
    version: int | None = None


class WouldEnd(Shape):
    """What the end of a lease would do to its item."""

    item: int
    would_be: Literal["confirmed", "given back", "dead"]
    is_dry_run: bool


class _LeasedItem(Shape):
    """A lease and its item. The body is text, or else base64."""

    token: int
    id: int
    attempts: int
    flags: int
    lease_left_ms: int
    body: str | None = None
    base64: str | None = None


LeasedItem: Any = defstruct(
    "LeasedItem", [(name, *member) for name, member in TEXT_MEMBERS.items()],
    bases=(_LeasedItem,), namespace={"__doc__": _LeasedItem.__doc__},
)  # fmt: skip


class Leases(Shape):
    """Leases; none: there was nothing to lease."""

    leases: list[LeasedItem]


class Appended(Shape):
    """The version of an event that is on disk, and its number in the queue."""

    version: int
    id: int


class Conflict(Error):
    """The version that was expected, and the one that the stream has."""

    expected: int | str
    actual: int


class Event(Shape):
    """An event. The body is text, or else base64."""

    stream: str | None
    id: int
    marker: int | None
    stored_ms: int
    idempotency_key: str | None = None
    body: str | None = None
    base64: str | None = None


class VersionedEvent(Event, kw_only=True):
    """An event of a stream."""

    version: int


class StreamEvents(Shape):
    """Events of a stream; `version` is that of its last one, 0: there is none."""

    stream: str
    version: int
    events: list[VersionedEvent]


class CategoryEvents(Shape):
    """Events of a category; `next` goes on after them."""

    category: str
    after: int
    next: str
    events: list[Event]
