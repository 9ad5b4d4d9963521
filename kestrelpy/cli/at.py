"""Where a command finds its server, and how long it waits there."""

from __future__ import annotations

from typing import Final, NamedTuple

from kestrelpy.cli.errors import CommandError
from kestrelpy.durations import parse_duration_ms

DEFAULT_SERVER: Final = "127.0.0.1:22133"
DEFAULT_TIMEOUT: Final = "10s"


class At(NamedTuple):
    """A server's address, and how many milliseconds to wait for each of its answers."""

    server: str
    timeout_ms: int


def at(server: str, timeout: str) -> At:
    """Return where a command finds its server; raise CommandError."""
    try:
        timeout_ms = parse_duration_ms(timeout)
    except ValueError as error:
        raise CommandError(f"--timeout: {error}") from None
    if timeout_ms < 1:
        raise CommandError("--timeout: an answer takes some time: it must be at least 1ms")
    return At(server, timeout_ms)
