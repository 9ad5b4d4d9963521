"""The shapes of the messaging API for /openapi.json: headers, queries, bodies, answers.

    told(HEADERS..., LIMIT, body=BATCH) ──▶ what a handler reads through `Ask`

One rule: they describe; `Ask` and the Structs of the handlers check.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from kestrelpy.http.models import Shape, parameter, refusals
from kestrelpy.http.models import request_parts as told_of
from kestrelpy.http.zaqar.ask import LIMIT_MAX
from kestrelpy.http.zaqar.projects import PROJECT_BYTES_MAX

ERRORS: Final = refusals(406)
LIMIT: Final = 10
_WAIT_SECONDS_MAX: Final = 60
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="How many at most.")]
Wait = Annotated[
    int, Meta(ge=0, le=_WAIT_SECONDS_MAX, description="Seconds to wait for the first.")
]
_FLAG: Final = {"type": "boolean", "default": False}
_TEXT: Final = {"type": "string"}
_OBJECT: Final = {"type": "object", "additionalProperties": True}
_SOME: Final = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": LIMIT_MAX}
_HEADERS: Final = (
    parameter("Client-ID", {"type": "string", "format": "uuid"}, "Who asks.", "header",
              required=True),
    parameter("X-Project-ID", {"type": "string", "minLength": 1, "maxLength": PROJECT_BYTES_MAX},
              "Whose queues.", "header", required=True),
)  # fmt: skip


def flag(name: str, description: str) -> dict[str, Any]:
    """Return the declaration of a truth value of the query."""
    return parameter(name, _FLAG, description)


def text(name: str, description: str) -> dict[str, Any]:
    """Return the declaration of a text of the query."""
    return parameter(name, {**_TEXT, "minLength": 1}, description)


def some(name: str, description: str) -> dict[str, Any]:
    """Return the declaration of a list in the query."""
    return parameter(name, _SOME, description)


def request_parts(
    *parameters: dict[str, Any], body: dict[str, Any] | None = None,
    kind: str = "application/json", required: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return what a route of a project reads itself."""
    return told_of(*_HEADERS, *parameters, body=body, kind=kind, required=required)


METADATA_FILTER: Final = parameter(
    "metadata", {"type": "object", "additionalProperties": _TEXT},
    "Any other name: the queues whose metadata have this value.",
)  # fmt: skip
_SECONDS: Final = {"type": ["integer", "null"]}
BATCH: Final = {
    "type": "object", "required": ["messages"], "additionalProperties": False,
    "properties": {"messages": {"type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["body"], "additionalProperties": False,
        "properties": {"body": {}, "ttl": _SECONDS, "delay": _SECONDS},
    }}},
}  # fmt: skip
TIMES: Final = {
    "type": "object", "additionalProperties": False,
    "properties": {"ttl": _SECONDS, "grace": _SECONDS},
}  # fmt: skip
METADATA: Final = _OBJECT
PATCH: Final = {
    "type": "array", "items": {
        "type": "object", "required": ["op", "path"], "additionalProperties": False,
        "properties": {
            "op": {"enum": ["add", "replace", "remove"]},
            "path": {"type": "string", "pattern": "^/metadata/."}, "value": {},
        },
    },
}  # fmt: skip
PURGE: Final = {
    "type": "object", "additionalProperties": False,
    "properties": {"resource_types": {
        "type": ["array", "null"], "items": {"enum": ["messages", "subscriptions"]},
    }},
}  # fmt: skip


class Link(Shape):
    """Where the next page is."""

    rel: Literal["next"]
    href: str


class Message(Shape):
    """A message; its body is any JSON."""

    id: str
    href: str
    ttl: int
    age: int
    body: Any
    claim_count: int
    checksum: str


class Messages(Shape):
    """Messages that were claimed or taken."""

    messages: list[Message]


class MessagePage(Messages):
    """Messages after a marker, with links; or those with some ids, without."""

    links: list[Link] | None = None


class Posted(Shape):
    """The hrefs of the messages that are on disk."""

    resources: list[str]


class Claim(Messages):
    """A claim, and the messages that it holds. Times are in seconds."""

    age: int
    ttl: int
    href: str


class ProjectQueue(Shape):
    """A queue of a project; its metadata if details were asked for."""

    name: str
    href: str
    metadata: dict[str, Any] | None = None


class ProjectQueues(Shape):
    """Queues of a project; `count`, if it was asked for, is how many match."""

    queues: list[ProjectQueue]
    links: list[Link]
    count: int | None = None


class OneMessage(Shape):
    """A message in figures."""

    href: str
    age: int
    created: str


class MessageFigures(Shape):
    """How many messages a queue has."""

    claimed: int
    free: int
    total: int
    oldest: OneMessage | None = None
    newest: OneMessage | None = None


class QueueFigures(Shape):
    """The figures of a queue."""

    messages: MessageFigures


class MessagingHealth(Shape):
    """Whether the server stores and hands out messages; `warning` says why it makes no new queue,
    null if it does."""

    catalog_reachable: bool
    storage_reachable: bool
    mode: Literal["up", "readonly", "quiescent"]
    queues: int
    warning: str | None


class Resources(Shape):
    """The home document (JSON home)."""

    resources: dict[str, Any]
