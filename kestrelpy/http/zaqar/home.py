"""The home document, ping and health; and what this server does not have.

One rule: an absent feature is 404 and says so.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.answers import HttpError, answer, nothing, without_paths
from kestrelpy.http.call import Call
from kestrelpy.http.models import refusals
from kestrelpy.http.routing import Router
from kestrelpy.http.zaqar import models

router: Final = Router("messaging", responses=refusals())
_QUEUE: Final = "/v2/queues/{queue_name}"


def _resource(template: str, *methods: str, **variables: str) -> dict[str, Any]:
    return {
        "href-template": template,
        "href-vars": {name: f"param/{kind}" for name, kind in variables.items()},
        "hints": {"allow": list(methods), "formats": {"application/json": {}}},
    }


_LISTING: Final = {"marker": "marker", "limit": "queue_limit"}
_MESSAGES: Final = {
    "queue_name": "queue_name", "marker": "marker", "limit": "messages_limit", "echo": "echo",
    "include_claimed": "include_claimed",
}  # fmt: skip
HOME: Final = {
    "resources": {
        "rel/queues": _resource(
            "/v2/queues{?marker,limit,detailed,name,with_count}", "GET", **_LISTING
        ),
        "rel/queue": _resource(
            _QUEUE, "GET", "HEAD", "PUT", "PATCH", "DELETE", queue_name="queue_name"
        ),
        "rel/queue_stats": _resource(f"{_QUEUE}/stats", "GET", queue_name="queue_name"),
        "rel/queue_purge": _resource(f"{_QUEUE}/purge", "POST", queue_name="queue_name"),
        "rel/messages": _resource(
            f"{_QUEUE}/messages{{?marker,limit,echo,include_claimed,include_delayed,wait}}",
            "GET", "POST", "DELETE", **_MESSAGES,
        ),
        "rel/message": _resource(
            f"{_QUEUE}/messages/{{message_id}}{{?claim_id}}", "GET", "DELETE",
            queue_name="queue_name", message_id="message_id", claim_id="claim_id",
        ),
        "rel/claims": _resource(
            f"{_QUEUE}/claims{{?limit,wait}}", "POST", queue_name="queue_name", limit="claim_limit"
        ),
        "rel/claim": _resource(
            f"{_QUEUE}/claims/{{claim_id}}", "GET", "PATCH", "DELETE",
            queue_name="queue_name", claim_id="claim_id",
        ),
        "rel/ping": _resource("/v2/ping", "GET"),
        "rel/health": _resource("/v2/health", "GET"),
    }
}  # fmt: skip


@router.get("/v2/ping", status=204, summary="Is the server there?")
@router.head("/v2/ping", status=204, is_described=False)
async def ping() -> Response:
    """Answer 204."""
    return nothing()


@router.get("/v2/health", summary="What can the server do now?",
            model=models.MessagingHealth)  # fmt: skip
async def health(call: Call) -> Response:
    """Answer whether the server stores and hands out messages."""
    mode = call.host.mode
    return answer({
        "catalog_reachable": True,
        "storage_reachable": mode == "up" and not call.broker.refusal,
        "mode": mode,
        "queues": len(call.broker.queues),
        "warning": without_paths(call.broker.no_new_queue) or None,
    })  # fmt: skip


@router.get("/v2/", summary="The home document", model=models.Resources)
@router.get("/v2", is_described=False)
async def home() -> Response:
    """Answer with the resources of this interface (JSON home)."""
    return answer(HOME)


async def _absent(request: Request) -> Response:
    names = {
        "subscriptions": "subscriptions", "share": "signed URLs", "pools": "pools",
        "flavors": "flavors",
    }  # fmt: skip
    parts = request.scope["path"].split("/")
    what = next((text for word, text in names.items() if word in parts[2:3] + parts[4:5]), "this")
    raise HttpError(404, f"this server has no {what}")


for _path in (
    "/v2/queues/{queue}/subscriptions", "/v2/queues/{queue}/subscriptions/{rest:rest}",
    "/v2/queues/{queue}/share", "/v2/pools", "/v2/pools/{rest:rest}", "/v2/flavors",
    "/v2/flavors/{rest:rest}",
):  # fmt: skip
    router.refuse(_path, _absent)
