"""`kestrelpy put`, `get` and `peek`: items between a server and standard input and output.

One rule: an item is confirmed when it has been written out, not before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote_from_bytes

from kestrelpy.cli.at import At
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.items.browsing import body_facts
from kestrelpy.cli.remote import (
    NoAnswer,
    connected,
    nothing_to_lease,
    parse_wait_ms,
    require_queue,
)
from kestrelpy.cli.screen import counted
from kestrelpy.durations import shown

# Memcached's border: a larger number on the wire is a date.
_RELATIVE_SECONDS_MAX: Final = 30 * 24 * 3600
_KEY_BYTES_MAX: Final = 250  # of memcached's protocol
_STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class PutOptions:
    """How to store an item, as the flags of `put` say it; None or empty: the flag is not there."""

    delay: str | None = None
    at: str | None = None
    id: str | None = None
    keys: list[str] = field(default_factory=list)
    expire: str | None = None

    def wire_key(self, queue: str) -> str:
        """Return the key of the `set`: the queue with its options; raise CommandError."""
        parts = [queue]
        if self.delay is not None and self.at is not None:
            raise CommandError("--delay and --at do not go together")
        if self.delay is not None:
            parts.append(f"delay={parse_wait_ms(self.delay, '--delay')}ms")
        if self.at is not None:
            parts.append(f"at={_unix_seconds(self.at)}")
        if self.id is not None:
            parts.append(f"id={_quoted(self.id, '--id')}")
        if self.keys:
            parts.append("key=" + ",".join(_quoted(key, "--key") for key in self.keys))
        wire_key = "/".join(parts)
        if len(wire_key) > _KEY_BYTES_MAX:
            raise CommandError(
                f"the queue with its --id and --key takes {len(wire_key)} bytes on the wire, limit "
                f"{_KEY_BYTES_MAX}: use a shorter id, for instance a hash of it"
            )
        return wire_key

    def expiry(self, now: float) -> int:
        """Return the expiry of the `set`, 0 for none; raise CommandError."""
        if self.expire is None:
            return 0
        milliseconds = parse_wait_ms(self.expire, "--expire")
        if milliseconds == 0 or milliseconds % 1000:
            raise CommandError(f"--expire: {shown(self.expire)} must be whole seconds, at least 1s")
        seconds = milliseconds // 1000
        return seconds if seconds <= _RELATIVE_SECONDS_MAX else int(now) + seconds


def put(
    at: At, queue: str, text: str, lines: bool, options: PutOptions, as_json: bool = False
) -> None:
    """Store the text, standard input, or each line of either; raise CommandError."""
    if lines and options.id is not None:
        raise CommandError("--id and --lines do not go together: an id is of one item")
    key, expiry = options.wire_key(queue), options.expiry(time.time())
    stored = 0
    try:
        with connected(at) as client:
            for body in _bodies(text, lines):
                if not client.set(key, body, expire=expiry):
                    raise CommandError(f"{queue}: the queue is full", NOTHING)
                stored += 1
    except CommandError as error:
        doubt = "; whether the item is stored is not known" if isinstance(error, NoAnswer) else ""
        before = f"; {counted(stored, 'item')} stored before that" if lines else ""
        raise CommandError(f"{error}{doubt}{before}", error.code) from None
    if as_json:
        ids = {"id": options.id} if options.id is not None else {}
        print(json.dumps({"queue": queue, "stored": stored, **ids}))
    elif options.id is None:
        print(f"stored {counted(stored, 'item')} in {queue}")
    else:
        print(f"stored id {options.id} in {queue}, now or before")


def get(at: At, queue: str, wait: str | None, as_json: bool = False) -> None:
    """Write one item's body to standard output, then confirm it; raise CommandError."""
    wait_ms = parse_wait_ms(wait, "--wait") if wait is not None else 0
    with connected(at, wait_ms) as client:
        waiting = f"/t={wait_ms}" if wait_ms else ""
        found = client.get(f"{queue}/open{waiting}")
        if found is None:
            raise nothing_to_lease(client, _name(queue))
        _write_out(_shown(queue, found[0], found[1], as_json))
        # Confirm only now: after a failed write the hang-up gives the item back.
        client.get(f"{queue}/close")


def peek(at: At, queue: str, as_json: bool = False) -> None:
    """Write the next item's body to standard output and leave it there; raise CommandError."""
    with connected(at) as client:
        found = client.get(f"{queue}/peek")
        if found is None:
            require_queue(client, _name(queue))
            raise CommandError(f"{queue}: no item is ready", NOTHING)
        _write_out(_shown(queue, found[0], found[1], as_json))


def _shown(queue: str, body: bytes, flags: int, as_json: bool) -> bytes:
    """Return what is printed of an item: its body, or all of it as a line of JSON."""
    if not as_json:
        return body
    facts = {"queue": queue, "bytes": len(body), "flags": flags, **body_facts(body)}
    return json.dumps(facts).encode() + b"\n"


def _name(key: str) -> str:
    """Return the queue of a key with options."""
    return key.partition("/")[0]


def _unix_seconds(text: str) -> str:
    """Return a moment as the wire has it, in seconds of 1970; raise CommandError."""
    try:
        moment = datetime.fromisoformat(text)
        if "T" not in text and " " not in text:
            raise ValueError  # a day alone does not say which hour was meant
        return f"{moment.timestamp():.3f}"
    except (ValueError, OverflowError, OSError):
        raise CommandError(
            f"--at: {shown(text)} is not a date with a time: it must be like "
            "2030-01-31T18:00:00Z; without a zone it is local time"
        ) from None


def _quoted(text: str, flag: str) -> str:
    """Return a text as the value of an option on the wire; raise CommandError."""
    if not text:
        raise CommandError(f"{flag}: it must not be empty")
    return quote_from_bytes(_encoded(text), safe="")


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
