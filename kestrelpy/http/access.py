"""Access: Basic and Bearer credentials, and the role that each path needs.

    Authorization: Basic base64(user:secret)        as `curl -u user:secret` sends it
    Authorization: Bearer user:secret

    GET /ready, GET / and /page/...                 need none: they say nothing of the queues

    no or wrong credentials ──▶ 401, a moment later if they are wrong       too few rights ──▶ 403

One rule: a path that this module does not know needs a role in all queues: read for GET and HEAD,
admin for the rest.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final, NamedTuple

from kestrelpy.access import ALL, Grant, Need, Role
from kestrelpy.errors import ServerError
from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call
from kestrelpy.http.zaqar import prefix_of

CHALLENGE: Final = (b"www-authenticate", b'Basic realm="kestrelpy", charset="UTF-8"')
_SAFE: Final = frozenset({"GET", "HEAD"})
# Programs that start and stop servers ask /ready and cannot log in. The page has a form for that.
_OPEN: Final = ("/ready", "/")
_FILES: Final = "/page/"
_QUEUES, _STREAMS, _CATEGORIES = "/queues/", "/streams/", "/categories/"
_ADMIN_QUEUES: Final = "/admin/queues/"
_MESSAGING: Final = "/v2/queues/"


class Credentials(NamedTuple):
    """What a request says of its sender."""

    name: str
    secret: bytes


async def user_of(
    call: Call, method: str, path: str, said: bytes, project: bytes
) -> Grant | None:
    """Return what the sender of a request may do; None: it needs no user. Raise HttpError unless it
    may do this; `said` is the Authorization header, `project` the one that the request names."""
    host, logins = call.host, call.host.logins
    if not logins.are_needed or (method in _SAFE and is_open(path)):
        return None
    sender = credentials(said)
    if sender is None:
        raise HttpError(401, "this server needs a user and a secret, by Basic or Bearer")
    try:
        check = logins.check(sender.name, sender.secret, call.holder.name)
        grant = await call.unless_gone(check)
    except ServerError as error:
        raise HttpError(503, str(error)) from None
    if grant is None:
        raise HttpError(401, "no such user, or another secret")
    refuse_role(grant, need_of(method, path, project, host.server_settings.default_project))
    return grant


def is_open(path: str) -> bool:
    """True if a GET of this path needs no user."""
    return path in _OPEN or path.startswith(_FILES)


def refuse_role(grant: Grant, need: Need) -> None:
    """Raise HttpError unless the user may do this."""
    if not grant.may(need):
        name = need.queue.decode("utf-8", "replace")
        where = f"in queue {name}" if name else "in all queues"
        raise HttpError(403, f"this needs the role {need.role.name.lower()} {where}")


def credentials(said: bytes) -> Credentials | None:
    """Return the credentials of an Authorization header; None: it has none."""
    scheme, _, value = said.strip().partition(b" ")
    value = value.strip()
    if scheme.lower() == b"basic":
        try:
            value = b64decode(value, validate=True)
        except (ValueError, binascii.Error):
            return None
    elif scheme.lower() != b"bearer":
        return None
    name, colon, secret = value.partition(b":")
    if not colon or not name:
        return None
    return Credentials(name.decode("utf-8", "replace"), secret)


def need_of(
    method: str, path: str, project: bytes = b"", default_project: str | None = None
) -> Need:
    """Return what a request needs."""
    is_safe = method in _SAFE
    if path.startswith(_MESSAGING):
        name, _, rest = path.removeprefix(_MESSAGING).partition("/")
        queue = prefix_of(project, default_project) + _queue(name)
        if rest.startswith(("messages", "claims")):
            return Need(Role.READ if is_safe else Role.WRITE, queue)
        return Need(Role.READ if is_safe else Role.ADMIN, queue)
    if path.startswith(_QUEUES):
        name, _, rest = path.removeprefix(_QUEUES).partition("/")
        if rest == "items" or rest.startswith("leases"):
            return Need(Role.READ if is_safe else Role.WRITE, _queue(name))
        return Need(Role.READ if is_safe else Role.ADMIN, _queue(name))
    if path.startswith(_STREAMS):
        category = path.removeprefix(_STREAMS).partition("-")[0]
        return Need(Role.READ if is_safe else Role.WRITE, _queue(category))
    if path.startswith(_ADMIN_QUEUES) and not is_safe:
        name, _, rest = path.removeprefix(_ADMIN_QUEUES).partition("/")
        if rest.startswith("leases/"):  # as for their holders
            return Need(Role.WRITE, _queue(name))
    if path.startswith(_CATEGORIES) and is_safe:
        return Need(Role.READ, _queue(path.removeprefix(_CATEGORIES)))
    return Need(Role.READ if is_safe else Role.ADMIN, ALL)


def _queue(name: str) -> bytes:
    # A name that no queue can have: only the pattern * allows it, and then it is refused as bad.
    return name.encode("utf-8", "surrogatepass") or ALL
