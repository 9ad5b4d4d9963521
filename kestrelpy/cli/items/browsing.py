"""`kestrelpy items ls` and `items show`: the items of a queue by marker, and none is taken.

One rule: a listing changes nothing; a body is printed only when it was asked for.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any, Final

from pymemcache.client.base import Client
from rich.text import Text

from kestrelpy.cli.at import At
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.remote import NONE, connected, date, printable, require_queue
from kestrelpy.cli.screen import console, size, table
from kestrelpy.cli.wire import Shown, shown_items

_AT_ONCE: Final = 500  # items of one request
_BODY_SHOWN: Final = 60  # characters of a body in a table

Fact = str | int | None
# The facts of an item, and how a person reads each; without "_ms" a name is the title.
_SHOWN_AS: Final[dict[str, Callable[[Any], str]]] = {
    "marker": str, "state": str, "attempts": str, "bytes": size, "flags": str, "stored_ms": date,
    "expires_ms": date, "key": str, "id": str,
}  # fmt: skip
_LISTED: Final = [name for name in _SHOWN_AS if name != "flags"]
_TEXT_COLUMNS: Final = ("state", "stored", "expires", "key", "id", "body")
# Facts that not every item of a listing has: each row has all names.
_NOT_OF_ALL: Final[dict[str, Fact]] = dict.fromkeys(("number", "flags", "id", "due_ms"))


def ls(at: At, queue: str, after: int, count: int, with_body: bool, as_json: bool) -> None:
    """Print at most `count` items after a marker, in order; raise CommandError."""
    found: list[Shown] = []
    with connected(at) as client:
        while len(found) < count:
            most = min(count - len(found), _AT_ONCE)
            some = shown_items(client, queue, found[-1].marker if found else after, most)
            if not some:
                break
            found += some
        later = _delayed(client, queue, count - len(found))
        if not (found or later):
            require_queue(client, queue)
    if as_json:
        listed = [{**_NOT_OF_ALL, **facts_of(item, with_body)} for item in found]
        print(json.dumps([*listed, *({**each, "due_ms": due_ms} for each, due_ms in later)]))
        return
    if not (found or later):
        print(f"no items in {queue} after marker {after}", file=sys.stderr)
        return
    titles = [*map(_title, _LISTED), *(["body"] if with_body else [])]
    made = table(*titles, left=_TEXT_COLUMNS)
    rows = [(facts_of(item, False), _cut(item.body)) for item in found]
    rows += [({**each, "state": f"delayed until {date(due_ms)}"}, NONE) for each, due_ms in later]
    for facts, body in rows:
        row = [*(_word(facts, name) for name in _LISTED), *([body] if with_body else [])]
        made.add_row(*(Text(printable(word)) for word in row))
    console().print(made)


def _title(name: str) -> str:
    return name.removesuffix("_ms")


def _word(facts: dict[str, Fact], name: str) -> str:
    value = facts[name]
    return NONE if value is None or value == "" else _SHOWN_AS[name](value)


def _delayed(client: Client, queue: str, most: int) -> list[tuple[dict[str, Fact], int]]:
    """Return at most `most` items that have no marker yet, and when each is due; those that are due
    first before the others."""
    found = list[tuple[dict[str, Fact], int]]()
    prefix = f"queue_{queue}_delayed_"
    for name, due_ms in client.stats(f"{queue}/delayed").items() if most > 0 else ():
        number = name.decode("ascii").removeprefix(prefix).removesuffix("_due_ms")
        said = client.stats(f"{queue}/item={number}")
        if said.get(b"state") != b"delayed" or isinstance(said[b"marker"], int):
            continue  # available meanwhile; or listed with its marker
        facts = {**_NOT_OF_ALL, "marker": None, "number": int(number), "state": "delayed"}
        for key in ("attempts", "bytes", "stored_ms", "expires_ms", "key"):
            value = said.get(key.encode())
            text = value.decode("ascii") if isinstance(value, bytes) else value
            facts[key] = None if text == NONE else text
        found.append((facts, int(due_ms)))
        if len(found) == most:
            break
    return found


def show(at: At, queue: str, marker: int, with_body: bool, as_json: bool) -> None:
    """Print the item with this marker; raise CommandError if it is not there."""
    with connected(at) as client:
        found = shown_items(client, queue, marker - 1, 1)
        if not found:
            require_queue(client, queue)
    if not found or found[0].marker != marker:
        after = f"; the next one is {found[0].marker}" if found else ""
        raise CommandError(f"{queue}: there is no item with marker {marker}{after}", NOTHING)
    item = found[0]
    facts = facts_of(item, with_body)
    if as_json:
        print(json.dumps(facts))
        return
    width = max(map(len, map(_title, _SHOWN_AS)))
    for name in _SHOWN_AS:
        print(f"{_title(name):<{width}}  {printable(_word(facts, name))}")
    if with_body:
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\n" + item.body + (b"" if item.body.endswith(b"\n") else b"\n"))


def facts_of(item: Shown, with_body: bool) -> dict[str, Fact]:
    """Return an item for --json."""
    facts = {name: getattr(item, name) for name in _SHOWN_AS}
    return {**facts, **(body_facts(item.body) if with_body else {})}


def body_facts(body: bytes) -> dict[str, Fact]:
    """Return a body for --json: as text, or in base64 if it is not UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode("ascii")}


def _cut(body: bytes) -> str:
    text = body[: 4 * _BODY_SHOWN].decode("utf-8", "replace")
    return text if len(text) <= _BODY_SHOWN else text[: _BODY_SHOWN - 3] + "..."
