"""`GET /metrics`, and with `?queue=` the histograms of queues.

One rule: a scrape costs other clients little: see `scrapes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, cast

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call
from kestrelpy.http.metrics.families import queue_histograms
from kestrelpy.http.metrics.scrapes import Scrapes, rendered
from kestrelpy.http.models import refusals
from kestrelpy.http.routing import Router
from kestrelpy.http.values import queue_name

router: Final = Router("metrics", responses=refusals(413))
QUEUES_MAX: Final = 20
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics", summary="Metrics for Prometheus",
    responses={200: {"content": {"text/plain": {}}, "description": "The text format."}},
)  # fmt: skip
async def get_metrics(
    request: Request,
    call: Call,
    queue: Annotated[
        Sequence[str], Meta(max_length=QUEUES_MAX, description="With its histograms.")
    ] = (),
) -> Response:
    """Answer with all families; the 200 most active queues have series of their own."""
    names = [queue_name(each) for each in queue]
    text = await cast(Scrapes, request.scope["shared"].scrapes).text(call.host)
    if not text:
        raise HttpError(503, "the server stops")
    if names:
        families = queue_histograms(call.broker, list(dict.fromkeys(names)))
        text += b"".join(map(rendered, families))
    return Response(text, 200, None, TEXT)
