"""What the routes of administration share: limits, cursors, texts, the line in the log.

One rule: no listing without a limit, and no action without a line.
"""

from __future__ import annotations

import logging
from typing import Annotated, Final
from urllib.parse import quote, urlencode

from msgspec import UNSET, Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.access import with_user
from kestrelpy.core import AnyQueue, QueueLife
from kestrelpy.http.admin import models
from kestrelpy.http.answers import HttpError, answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import DryRun, refusals
from kestrelpy.http.values import is_true, queue_name

log = logging.getLogger("kestrelpy.admin")

LIMIT_MAX: Final = 500
NUMBER_MAX: Final = (1 << 53) - 1
_LINE_CHARACTERS_MAX: Final = 300

Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="How many at most.")]
After = Annotated[
    int, Meta(ge=0, le=NUMBER_MAX, description="The cursor of the page before; 0: the first page.")
]

# What routes of administration refuse with.
LIMITED: Final = refusals(413)
ERRORS: Final = refusals(404, 413)


def find_queue(call: Call, text: str) -> AnyQueue:
    """Return this queue or child; raise HttpError 404."""
    queue = call.broker.queues.get(queue_name(text))
    if queue is None:
        raise HttpError(404, f"there is no queue {text}")
    return queue


def refuse_other(life: QueueLife) -> None:
    """Raise HttpError 404 if the queue was deleted since it was found."""
    if life.is_over:
        raise HttpError(404, f"there is no queue {life.queue.name.decode('ascii')}")


def next_page(request: Request, cursor: object) -> str | None:
    """Return the path of the next page; None: there is none."""
    if cursor is None:
        return None
    parameters = {**request.query_params, "after": cursor}
    return f"{quote(request.scope['path'])}?{urlencode(parameters)}"


def is_dry_run(
    request: Request, asked: DryRun, body: models.DryRunBody | models.Selection | None = None
) -> bool:
    """Return whether to change nothing, as the URL or the body says; raise HttpError if both
    do."""
    said = body.dry_run if body is not None else UNSET
    if "dry_run" not in request.query_params:
        return said is not UNSET and said
    if said is not UNSET:
        raise HttpError(400, "dry_run is in the URL and in the body: say it once")
    return is_true(asked)


def counted(count: int, is_dry_run: bool, **more: object) -> Response:
    """Return the answer of an action: how many items it concerned, or would concern."""
    return answer({"count": count, **more, **({"is_dry_run": True} if is_dry_run else {})})


def text_of(data: bytes | None) -> str | None:
    """Return bytes of a client as text; bytes that are not UTF-8 are escaped."""
    return data.decode("utf-8", "backslashreplace") if data is not None else None


def note(
    call: Call, action: str, queue: bytes | None = None, count: int | None = None, more: str = ""
) -> None:
    """Note an action that is done, and write its line: peer, action, count.

    `count` is of items, None: it does not count them.
    """
    call.host.actions.note(call.who, action, call.now_ms(), queue, count, more)
    name = queue.decode("ascii", "replace") if queue is not None else ""
    line(call, " ".join(filter(None, (action, name, more))), 1 if count is None else count)


def line(call: Call, action: str, count: int) -> None:
    """Write the line of an action. Control characters are escaped."""
    log.info("%s", as_line(f"{with_user(call.holder.name, call.user)}: {action}: {count}"))


def as_line(text: str) -> str:
    """Return the text as one line of printable characters."""
    words = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return words[:_LINE_CHARACTERS_MAX]
