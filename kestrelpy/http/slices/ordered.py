"""Several slices asked at once, and what a body or an answer says of slices.

One rule: the answers are in the order of the slices' numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

import msgspec

from kestrelpy.errors import SliceAway
from kestrelpy.http.slices.asked import SliceAnswer
from kestrelpy.http.slices.links import SliceEnded
from kestrelpy.http.slices.merging import in_json, numbered, read

_JOBS: Final = b"/admin/jobs/"
_DRY_RUN: Final = "dry_run"
Asking = Coroutine[Any, Any, SliceAnswer]


async def each_of(asking: Iterable[Asking]) -> list[SliceAnswer | BaseException]:
    """Return the answers, each or why there is none."""
    tasks = [asyncio.create_task(each) for each in asking]
    try:
        return await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for each in tasks:
            each.cancel()


async def all_of(asking: Iterable[Asking]) -> list[SliceAnswer]:
    """Return the answers; raise what the first one raises that has none."""
    found = list[SliceAnswer]()
    for each in await each_of(asking):
        if isinstance(each, BaseException):
            raise each
        found.append(each)
    return found


def why_not(error: SliceAway | SliceEnded) -> str:
    """Return why a slice that was thought to serve has given no answer."""
    return str(error).partition(": ")[2] or "it has ended just now"


def renumbered(
    said: SliceAnswer, slice_: int, slices: int, asked: tuple[int, int] | None = None
) -> SliceAnswer:
    """Return an answer about a job or a connection with the number that clients know; `asked` are
    the number in the slice and the one that the client said."""
    members, headers = read(said), said.headers
    if said.status >= 400 and asked is not None and "description" in members:
        own, known = asked
        text = members["description"]
        for word in ("job", "connection"):
            text = text.replace(f"{word} {own}", f"{word} {known}")
        return in_json(said.status, {**members, "description": text})
    if said.status >= 400 or "id" not in members:
        return said
    members = numbered(slice_, members, slices)
    headers = [
        (name, _JOBS + str(members["id"]).encode() if value.startswith(_JOBS) else value)
        for name, value in headers
    ]
    return in_json(said.status, members)._replace(headers=headers)


def trial_of(query: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes, bool]:
    """Return how a slice is asked whether it would do this for the client: what differs in the
    query, the body, and whether the client itself wants no more than that."""
    try:
        said = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError):  # the slice refuses it
        return {}, body, True
    in_body = said.get(_DRY_RUN) if isinstance(said, dict) else None
    value = query.get(_DRY_RUN)
    if value is not None:
        is_trial = in_body is not None or value not in ("false", "0")
        return ({} if is_trial else {_DRY_RUN: "true"}), body, is_trial
    if in_body is True:
        return {}, body, True
    return {_DRY_RUN: "true"}, b"", False
