"""Talking to a server from the command line: its address, one client, and what went wrong.

One rule: whatever happens on the way is one sentence. What the server refuses for good is wrong
usage (2); what it refuses now is a "no" (1); a server that cannot be reached is 2.
"""

from __future__ import annotations

import socket
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

from kestrelpy.cli.errors import NOTHING, UNUSABLE, CommandError
from kestrelpy.client import ANSWER_SECONDS, Address
from kestrelpy.client.connection import new_client, reason
from kestrelpy.durations import parse_duration_ms

NONE: Final = "-"  # in an answer, for what there is not


def parse_address(text: str) -> Address:
    """`host:port`, `[v6]:port`, or the path of a Unix socket; raises CommandError."""
    if "/" in text:
        return text
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
        return host, int(port)
    raise CommandError(
        f"{text!r} is not a server's address: it must be host:port, or the path of a Unix socket "
        "with a / in it"
    )


def parse_wait_ms(text: str, flag: str) -> int:
    """Milliseconds of a duration given to a flag; raises CommandError."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise CommandError(f"{flag}: {error}") from None


@contextmanager
def connected(server: str, wait_ms: int = 0) -> Iterator[Client]:
    """A client for the commands inside, which wait `wait_ms` at most for an item.

    Whatever goes wrong inside comes out as CommandError.
    """
    address = parse_address(server)
    with refusals(server):
        client = new_client(address, wait_ms / 1000 + ANSWER_SECONDS)
        try:
            yield client
        finally:
            client.close()


@contextmanager
def refusals(server: str) -> Iterator[None]:
    """Make one sentence of what sockets and pymemcache raise."""
    try:
        yield
    except TimeoutError:
        raise CommandError(f"{server}: no answer in time") from None
    except socket.gaierror as error:
        raise CommandError(f"{server}: this name has no address: {error.strerror}") from None
    except (OSError, MemcacheUnexpectedCloseError) as error:
        raise CommandError(unreachable(server, error)) from None
    except MemcacheIllegalInputError as error:  # refused before it was sent
        raise CommandError(reason(error)) from None
    except MemcacheUnknownCommandError as error:
        raise CommandError(f"{server} does not know {reason(error)}: is it kestrelpy?") from None
    except MemcacheError as error:
        code = NOTHING if isinstance(error, MemcacheServerError) else UNUSABLE
        said = "refused" if isinstance(error, MemcacheServerError | MemcacheClientError) else "said"
        raise CommandError(f"{server} {said}: {reason(error)}", code) from None


def date(unix_ms: int) -> str:
    """A moment for a person, to the second."""
    try:
        moment = datetime.fromtimestamp(unix_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # an expiry may be beyond what calendars know
        return str(unix_ms)
    return moment.isoformat(" ", "seconds").replace("+00:00", "Z")


def printable(text: str) -> str:
    """A client's words for a terminal: nothing that moves its cursor."""
    return "".join(c if c.isprintable() else "." for c in text)


def unreachable(server: str, error: BaseException) -> str:
    """The sentence when nobody is there."""
    return f"no server at {server}: {reason(error)} (kestrelpy serve starts one)"
