"""`item show`, `item cancel`, `item retry`, `queues pause` and `resume`: commands for one item or
queue.

One rule: a refusal includes what the server knows, so that no second request is needed.
"""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import unquote

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

from kestrelpy.cli.asking import asked, report
from kestrelpy.cli.at import At
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.remote import NONE, connected, date, no_queue, printable
from kestrelpy.client import reason
from kestrelpy.durations import format_duration_ms
from kestrelpy.wire.names import state_word

_DURATIONS: Final = frozenset({"age_ms", "lease_left_ms"})
_DATES: Final = frozenset({"stored_ms", "expires_ms", "died_ms"})
_UNTIL: Final = re.compile(r"((?:delayed|leased) .*?until )(\d+)")
_NOT_ASSIGNED: Final = re.compile(r"item \d+ of .* is not assigned yet, the latest is (\d+)")
_SAID: Final = {
    True: "is paused: it stores, confirms and shows, and leases nothing",
    False: "leases again",
}

Facts = dict[str, str | int | None]


def pause(at: At, queue: str, paused: bool, as_json: bool = False) -> None:
    """Stop a queue's leases, or allow them again; raise CommandError."""
    verb = "pause" if paused else "resume"
    with connected(at) as client:
        # one word: it cannot add another command
        name = client.check_key(queue, b"").decode("ascii")
        answer = client.raw_command(f"{verb} {name}")
        if answer != b"OK":
            raise no_queue(queue)
    report(as_json, {"queue": queue, "paused": paused}, f"{queue} {_SAID[paused]}")


def show(at: At, queue: str, number: int, as_json: bool) -> bool:
    """Print where the item is and why it is not delivered; return whether it is there. Raise
    CommandError."""
    with connected(at) as client:
        facts = _facts(client, queue, number)
    if as_json:
        print(json.dumps(facts))
    else:
        rows = {
            name.removesuffix("_ms"): _shown(name, value)
            for name, value in facts.items() if value is not None
        }  # fmt: skip
        width = max(map(len, rows))
        for name, word in rows.items():
            print(f"{name:<{width}}  {word}")
    return facts["state"] != "gone"


def cancel(at: At, queue: str, number: int, yes: bool, as_json: bool = False) -> None:
    """Remove a waiting item; raise CommandError if it does not wait, or without a yes."""
    with connected(at) as client:
        if not yes:
            facts = _facts(client, queue, number)
            if facts["state"] not in ("ready", "delayed"):
                raise _refused(queue, number, facts)
            if not asked(f"Item {number} of {queue} ({facts['bytes']} bytes) goes. Remove it?"):
                raise CommandError("nothing was changed", NOTHING)
        if not client.delete(f"{queue}/item={number}"):
            raise _refused(queue, number, _facts(client, queue, number))
    facts = {"queue": queue, "removed": number}
    report(as_json, facts, f"removed item {number} of {queue}")


def retry(at: At, queue: str, number: int, as_json: bool = False) -> None:
    """Make a delayed item available now; raise CommandError if it is not delayed."""
    with connected(at) as client:
        name = client.check_key(queue, b"").decode("ascii")
        if client.raw_command(f"retry {name} {number}") != b"OK":
            facts = _facts(client, queue, number)
            raise _refused(queue, number, facts, "is not delayed", "redrive")
    facts = {"queue": queue, "available": number}
    report(as_json, facts, f"item {number} of {queue} is available")


def _refused(
    queue: str, number: int, facts: Facts, not_so: str = "does not wait", remedy: str = "purge"
) -> CommandError:
    hint = ""
    if facts["state"] == "dead":
        does = "removes it" if remedy == "purge" else "has it tried again"
        hint = f" (kestrelpy dead {remedy} {queue} {number} {does})"
    text = f"item {number} of {queue} {not_so}: {facts['state']}, {facts['why']}{hint}"
    return CommandError(text, NOTHING)


def _facts(client: Client, queue: str, number: int) -> Facts:
    """Return the server's facts of the item, `None` for an absent one; raise CommandError."""
    try:
        found = client.stats(f"{queue}/item={number}")
    except MemcacheClientError as error:
        if not (latest := _NOT_ASSIGNED.fullmatch(reason(error))):
            raise
        text = f"queue {queue} has no item {number}, the latest is {latest[1]}"
        raise CommandError(text, NOTHING) from None
    if not found:
        raise no_queue(queue)
    facts = {key.decode("ascii"): _decoded(key, value) for key, value in found.items()}
    return {"number": facts.pop("id"), **facts}


def _decoded(key: bytes, value: bytes | int) -> str | int | None:
    if isinstance(value, int):
        return value
    text = value.decode("ascii")
    if text == NONE:
        return None
    if key == b"why":
        return re.sub("^lent ", "leased ", unquote(text.replace("_", " ")))
    return state_word(text) if key == b"state" else unquote(text)


def _shown(name: str, value: str | int) -> str:
    if isinstance(value, int) and name in _DURATIONS:
        return format_duration_ms(value)
    if isinstance(value, int) and name in _DATES:
        return date(value)
    text = printable(str(value))
    if name == "why" and (found := _UNTIL.fullmatch(text)):
        return found[1] + date(int(found[2]))
    return text
