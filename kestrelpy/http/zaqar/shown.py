"""Messages as clients see them: `id href ttl age body claim_count checksum`, and no other member.

One rule: a body is shown as the JSON that it is, byte for byte; one that is no JSON as base64.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import md5
from typing import Any, Final

import msgspec

from kestrelpy.core import AnyQueue
from kestrelpy.http.zaqar.ids import ClaimId, MessageId
from kestrelpy.operations import SeenItem

# Of an item that never expires: the longest that a client can ask for.
_TTL_MAX: Final = 1_209_600
_raw: Final = msgspec.json.Decoder(msgspec.Raw)


def as_json(body: bytes) -> Any:
    """Return a body for an answer."""
    try:
        body.decode("utf-8")
        _raw.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {"base64": b64encode(body).decode()}
    return msgspec.Raw(body)


def message(
    queue: AnyQueue, path: str, seen: SeenItem, unix_ms: int, claim: ClaimId | None = None
) -> dict[str, Any]:
    """Return one message of the queue at this path, claimed by this claim."""
    id_ = str(MessageId(queue.generation, seen.id))
    life_ms = seen.expires_ms - seen.stored_ms if seen.expires_ms else _TTL_MAX * 1000
    return {
        "id": id_,
        "href": href(path, id_, claim),
        "ttl": life_ms // 1000,
        "age": age(seen.stored_ms, unix_ms),
        "body": as_json(seen.body),
        "claim_count": seen.attempts,
        "checksum": "MD5:" + md5(seen.body, usedforsecurity=False).hexdigest(),
    }


def href(path: str, id_: str, claim: ClaimId | None = None) -> str:
    """Return where a message is; the claim's id comes last."""
    where = f"{path}/messages/{id_}"
    return where if claim is None else f"{where}?claim_id={claim}"


def age(since_ms: int, unix_ms: int) -> int:
    """Return the seconds since then."""
    return max(unix_ms - since_ms, 0) // 1000
