"""`kestrelpy put`, `get` and `peek`: items between a server and standard input and output.

One rule: an item is confirmed when it has been written out, not before.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Final

from pymemcache.client.base import Client

from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.remote import connected, parse_wait_ms

# Memcached's border: a larger number on the wire is a date.
_RELATIVE_SECONDS_MAX: Final = 30 * 24 * 3600
_STDIN: Final = "-"


def put(server: str, queue: str, text: str, lines: bool, expire: int) -> None:
    """Store the text, standard input, or each line of either; raise CommandError."""
    if expire > _RELATIVE_SECONDS_MAX:
        expire += int(time.time())
    stored = 0
    try:
        with connected(server) as client:
            for body in _bodies(text, lines):
                if not client.set(queue, body, expire=expire):
                    raise CommandError(f"{queue}: the queue is full", NOTHING)
                stored += 1
    except CommandError as error:
        before = f"; {_items(stored)} stored before that" if lines else ""
        raise CommandError(f"{error}{before}", error.code) from None
    print(f"stored {_items(stored)} in {queue}")


def get(server: str, queue: str, wait: str | None) -> None:
    """Write one item's body to standard output, then confirm it; raise CommandError."""
    wait_ms = parse_wait_ms(wait, "--wait") if wait is not None else 0
    with connected(server, wait_ms) as client:
        waiting = f"/t={wait_ms}" if wait_ms else ""
        _write_out(_found(client, queue, f"{queue}/open{waiting}"))
        # Confirm only now: after a failed write the hang-up gives the item back.
        client.get(f"{queue}/close")


def peek(server: str, queue: str) -> None:
    """Write the next item's body to standard output and leave it there; raise CommandError."""
    with connected(server) as client:
        _write_out(_found(client, queue, f"{queue}/peek"))


def _found(client: Client, queue: str, key: str) -> bytes:
    found: tuple[bytes, int] | None = client.get(key)
    if found is None:
        raise CommandError(f"{queue}: no item is ready", NOTHING)
    return found[0]


def _write_out(body: bytes) -> None:
    """Write exactly the body; at a terminal, also a line end. Raise CommandError."""
    if sys.stdout.isatty() and not body.endswith(b"\n"):
        body += b"\n"
    rest = memoryview(body)
    try:
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]
    except OSError as error:
        text = f"the item stays in its queue: standard output: {error.strerror}"
        raise CommandError(text, NOTHING) from None


def _bodies(text: str, lines: bool) -> Iterable[bytes]:
    stdin = sys.stdin.buffer
    if lines:
        source = stdin if text == _STDIN else _encoded(text).splitlines(keepends=True)
        return (line.removesuffix(b"\n").removesuffix(b"\r") for line in source)
    return [stdin.read() if text == _STDIN else _encoded(text)]


def _encoded(text: str) -> bytes:
    # As typed: bytes of an argument that are not UTF-8 come in as surrogates.
    return text.encode("utf-8", "surrogateescape")


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"
