# ruff: noqa: PLC0415
"""The server of a command, the time to wait for it, and the login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kestrelpy.cli.commands import said
from kestrelpy.cli.errors import CommandError
from kestrelpy.durations import parse_duration_ms

if TYPE_CHECKING:
    from kestrelpy.wire.dial import Access

DEFAULT_SERVER: Final = "127.0.0.1:22133"
DEFAULT_TIMEOUT: Final = "10s"


class At(NamedTuple):
    """A server's address, how many milliseconds to wait for each of its answers, and the login
    (None: without one)."""

    server: str
    timeout_ms: int
    access: Access | None = None


def at(server: str, timeout: str) -> At:
    """Return the server of a command and how to reach it; raise CommandError."""
    try:
        timeout_ms = parse_duration_ms(timeout)
    except ValueError as error:
        raise CommandError(f"--timeout: {error}") from None
    if timeout_ms < 1:
        raise CommandError("--timeout: an answer takes some time: it must be at least 1ms")
    return At(server, timeout_ms, access())


def access() -> Access:
    """Return the login of the running command; raise CommandError."""
    from kestrelpy.wire.dial import access_of

    try:
        return access_of(**said())
    except ValueError as error:
        raise CommandError(str(error)) from None
