"""The shapes of the messaging API for /openapi.json: headers, queries, bodies, answers.

    limit: Limit, echo: Flag ──▶ arguments of a handler      request_parts(body=BATCH) ──▶ its body

One rule: of a body they describe; the Structs of the handlers check.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from kestrelpy.http.models import Shape, parameter, refusals
from kestrelpy.http.routing import ReadBy
from kestrelpy.http.zaqar.ask import LIMIT_MAX, several, truth

ERRORS: Final = refusals(406)
LIMIT: Final = 10
_WAIT_SECONDS_MAX: Final = 60
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="How many at most.")]
Wait = Annotated[
    int, Meta(ge=0, le=_WAIT_SECONDS_MAX, description="Seconds to wait for the first.")
]
Flag = Annotated[bool, ReadBy(truth)]
Several = Annotated[tuple[str, ...], Meta(min_length=1, max_length=LIMIT_MAX), ReadBy(several)]
_TEXT: Final = {"type": "string"}
_OBJECT: Final = {"type": "object", "additionalProperties": True}
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
