"""`GET /views` and `GET /events`: a view of the page once, and as it changes.

    id: 1700000000000-17        the start of the process, and the tick
    event: whole | change       a change is a JSON merge patch of the view before (RFC 7396)
    data: {...}
    event: end                  the server drains

One rule: a stream holds no events: a late reader gets the newest view, whole.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast

from msgspec import Meta, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.answers import HttpError, Parts, answer
from kestrelpy.http.call import Call
from kestrelpy.http.live.views import ROWS_MAX, TAKES, Kind, Sort, Span, State, View
from kestrelpy.http.live.watching import Live
from kestrelpy.http.models import Shape, errors, refusals
from kestrelpy.http.routing import Router, allowed

router: Final = Router("live views", responses=refusals(404, 413))
_NUMBER_MAX: Final = (1 << 53) - 1
_OFFSET_MAX: Final = 100_000
STREAM: Final = "text/event-stream"


_Number = Annotated[int, Meta(ge=0, le=_NUMBER_MAX)]


class _Asked(Struct, kw_only=True):
    """The parameters of all views; each takes some of them."""

    view: Annotated[Kind, Meta(description="Which view.")]
    range: Annotated[Span, Meta(description="How long a past its history has.")] = "1h"
    queue: Annotated[str, Meta(max_length=256, description="The queue that is shown.")] = ""
    search: Annotated[
        str, Meta(max_length=128, description="Only queues with this in their name.")
    ] = ""
    sort: Annotated[Sort, Meta(description="What the queues are in the order of.")] = "trouble"
    order: Annotated[
        Literal["up", "down"], Meta(description="Whether the most comes last or first.")
    ] = "down"
    offset: Annotated[
        int, Meta(ge=0, le=_OFFSET_MAX, description="How many queues are passed over.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX, description="How many rows at most.")] = ROWS_MAX
    state: Annotated[
        State | None, Meta(description="Only items in this state; of keys, done: all of them.")
    ] = None
    key: (
        Annotated[
            str,
            Meta(
                min_length=0, max_length=1024,
                description="Only items with this key; of dead letters, with this reason.",
            ),
        ]
        | None
    ) = None  # fmt: skip
    after: Annotated[_Number, Meta(description="The cursor of the page before.")] = 0
    died_from_ms: Annotated[_Number, Meta(description="Only dead letters from then on.")] = 0
    died_before_ms: (
        Annotated[_Number, Meta(description="Only dead letters before then.")] | None
    ) = None
    attempts_least: Annotated[
        _Number, Meta(description="Only dead letters that were delivered so often.")
    ] = 0


class WholeView(Shape):
    """A view; docs/http/admin.md names the members of each."""

    now_ms: int
    started_ms: int
    verdict: dict[str, Any]
    server: dict[str, Any]


def _live_of(request: Request) -> Live:
    return cast(Live, request.scope["shared"].live)


@router.get("/views", summary="A view of the page, once", model=WholeView)
async def get_view(request: Request, call: Call, asked: _Asked) -> Response:
    """Answer with the whole view as it is now."""
    live = _live_of(request)
    rendered = await live.render(_view(asked, request), call)
    return answer(live.whole(rendered))


def _view(asked: _Asked, request: Request) -> View:
    """Return the view of the request; raise HttpError for a parameter that it does not take."""
    takes, said = TAKES[asked.view], request.scope["said"]
    for name in sorted(said.keys() - {"view", *takes}):
        what = allowed(takes) if takes else "it takes none"
        raise HttpError(400, f"the view {asked.view} does not take {name}: {what}")
    if asked.key == "" and asked.view != "dead":  # a dead letter may have no reason
        raise HttpError(400, "key has no value in the URL: leave it out, or say one")
    if asked.view == "keys" and asked.state not in (None, "done"):
        raise HttpError(400, f"state is {asked.state}: of keys, done is allowed, for all of them")
    return View(**structs.asdict(asked))


@router.get(
    "/events", summary="A view of the page, as it changes",
    responses={
        200: {"content": {STREAM: {}}, "description": "Server-sent events."}, **errors(503),
    },
)  # fmt: skip
async def get_events(request: Request, call: Call, asked: _Asked) -> Response:
    """Send the view whole, then what changes, at most once a second."""
    live = _live_of(request)
    view = _view(asked, request)
    live.refuse_more()
    return Parts(live.events(view, call), STREAM)

