"""The connection from the command line to a server: its address, one client, and its errors.

One rule: every error is one sentence. A permanent refusal by the server is wrong usage (2), a
temporary one is a "no" (1), as is one of a user; an unreachable server is 2.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
)

from kestrelpy.cli.at import At
from kestrelpy.cli.errors import NOTHING, UNUSABLE, CommandError
from kestrelpy.client import (
    Access,
    Address,
    LoginFailed,
    explained,
    is_logged_out,
    is_refused,
    new_client,
    reason,
)
from kestrelpy.durations import format_duration_ms, parse_duration_ms
from kestrelpy.wire.dial import TlsRefused

_CONNECT_SECONDS_MAX: Final = 5.0
NONE: Final = "-"  # an absent value in a reply


def parse_address(text: str) -> Address:
    """Return the address: `host:port`, `[v6]:port`, or the path of a Unix socket; raise
    CommandError."""
    is_url = "://" in text
    if "/" in text and not is_url:
        return text
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
    if colon and host and is_port and not is_url:
        return host, int(port)
    raise CommandError(
        f"{text!r} is not a server's address: it must be host:port, or the path of a Unix socket "
        "with a / in it"
    )


def parse_wait_ms(text: str, flag: str) -> int:
    """Return the milliseconds of a duration given to a flag; raise CommandError."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise CommandError(f"{flag}: {error}") from None


class NoAnswer(CommandError):
    """The server did not answer in time: whether it carried the request out is not known."""


@contextmanager
def connected(at: At, wait_ms: int = 0) -> Iterator[Client]:
    """Yield a client; its commands wait at most `wait_ms` for an item.

    Every error inside becomes a CommandError.
    """
    address, access = parse_address(at.server), at.access or Access()
    seconds = at.timeout_ms / 1000
    with refusals(at.server):
        try:
            connect_seconds = min(seconds, _CONNECT_SECONDS_MAX)
            client = new_client(address, wait_ms / 1000 + seconds, connect_seconds, access)
            try:
                yield client
            finally:
                client.close()
        except TimeoutError:
            within = format_duration_ms(at.timeout_ms)
            raise NoAnswer(f"{at.server}: no answer within {within} (--timeout)") from None
        except (ConnectionResetError, BrokenPipeError, MemcacheUnexpectedCloseError) as error:
            raise explained(error, address, access) from None


def no_queue(queue: str) -> CommandError:
    """Return the error for a queue that does not exist."""
    return CommandError(f"no queue {queue}", NOTHING)


def require_queue(client: Client, queue: str) -> dict[bytes, bytes | int]:
    """Return the facts of a queue; raise CommandError if there is no such queue."""
    facts: dict[bytes, bytes | int] = client.stats(queue)
    if not facts:
        raise no_queue(queue)
    return facts


def nothing_to_lease(client: Client, queue: str) -> CommandError:
    """Return the error for a queue that leased no item; raise CommandError if it does not exist."""
    facts = require_queue(client, queue)
    if facts.get(f"queue_{queue}_paused".encode()):
        text = f"{queue} is paused and leases no item (kestrelpy queues resume {queue})"
        return CommandError(text, NOTHING)
    return CommandError(f"{queue}: no item is ready", NOTHING)


@contextmanager
def refusals(server: str) -> Iterator[None]:
    """Turn the exceptions of sockets and pymemcache into one sentence."""
    try:
        yield
    except TimeoutError:
        raise CommandError(f"{server}: no answer in time") from None
    except socket.gaierror as error:
        raise CommandError(f"{server}: this name has no address: {error.strerror}") from None
    except (TlsRefused, ssl.SSLError) as error:
        raise CommandError(f"{server}: {reason(error)}") from None
    except (OSError, MemcacheUnexpectedCloseError) as error:
        raise CommandError(unreachable(server, error)) from None
    except MemcacheIllegalInputError as error:  # refused before it was sent
        raise CommandError(reason(error)) from None
    except MemcacheUnknownCommandError as error:
        raise CommandError(f"{server} does not know {reason(error)}: is it kestrelpy?") from None
    except LoginFailed as error:
        raise CommandError(f"{server}: {reason(error)}", NOTHING) from None
    except MemcacheError as error:
        if is_logged_out(error):
            text = f"{server}: {reason(error)} (--user, --password-file)"
            raise CommandError(text, NOTHING) from None
        if is_refused(error, "forbidden"):
            raise CommandError(f"{server} refused: {reason(error)}", NOTHING) from None
        code = NOTHING if isinstance(error, MemcacheServerError) else UNUSABLE
        said = "refused" if isinstance(error, MemcacheServerError | MemcacheClientError) else "said"
        raise CommandError(f"{server} {said}: {reason(error)}", code) from None


def date(unix_ms: int) -> str:
    """Return a moment for people, to the second."""
    try:
        moment = datetime.fromtimestamp(unix_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # an expiry may be beyond what calendars know
        return str(unix_ms)
    return moment.isoformat(" ", "seconds").replace("+00:00", "Z")


def printable(text: str) -> str:
    """Return a client's words for a terminal, without control characters."""
    return "".join(c if c.isprintable() else "." for c in text)


def unreachable(server: str, error: BaseException) -> str:
    """Return the error for a server that cannot be reached."""
    return f"no server at {server}: {reason(error)} (kestrelpy serve starts one)"
