"""The page's live views over all slices: `/views` once, `/events` as they change.

    each second: the view of every slice ──▶ one view ──▶ what has changed ──▶ the stream
                                                  └── whole: the first time

One rule: a stream holds the view that it sent last, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from kestrelpy.errors import SliceAway
from kestrelpy.http.checks import Rejected
from kestrelpy.http.listener import Send
from kestrelpy.http.live import COMMENT, QUIET_TICKS, STREAM, TICK_SECONDS, changes
from kestrelpy.http.slices import merging, ordered, views
from kestrelpy.http.slices.asked import Asked, SliceAnswer
from kestrelpy.http.slices.links import SliceEnded
from kestrelpy.http.slices.merging import Members

_encode: Final = msgspec.json.Encoder().encode
# The views of one queue, which its slice has.
_OF_QUEUE: Final = frozenset({"queue", "items", "leases", "keys", "dead"})
# What a stream shows in the place of the view; all else ends it.
_SHOWN: Final = frozenset({404, 502, 503})
Whole = Callable[[int, bytes, bool], ordered.Asking]


class ViewOfSlices:
    """The view that one request wants. `whole` asks a slice for a path, and may wait until it
    serves."""

    __slots__ = ("_asked", "_shrink", "_whole")

    def __init__(self, asked: Asked, whole: Whole, shrink: Callable[[], None]) -> None:
        """`shrink` frees the memory that answers held."""
        self._asked = asked
        self._whole = whole
        self._shrink = shrink

    def _targets(self, number: int) -> list[bytes]:
        """Return the paths of the view in a slice, one for each of its pages."""
        asked, query = self._asked, self._asked.query
        kind, offset, after = query.get("view"), query.get("offset", "0"), query.get("after", "0")
        if kind == "queues" and offset.isdecimal() and int(offset):
            if int(offset) + views.ROWS_MAX > views.DEPTH_MAX:
                raise Rejected(400, f"offset is {offset}: over slices it is below "
                               f"{views.DEPTH_MAX - views.ROWS_MAX}; search for a part of the name")
            starts = range(0, int(offset) + views.ROWS_MAX, views.ROWS_MAX)
            return [asked.of_path("/views", offset=at, limit=views.ROWS_MAX) for at in starts]
        if kind == "connections" and after.isdecimal():
            own = merging.after_in(number, int(after), asked.slices)
            return [asked.of_path("/views", after=own)]
        return [asked.of_path("/views")]

    async def look(self) -> Members | SliceAnswer:
        """Return the view as it is now, or the refusal of a slice; raise SliceAway."""
        asked = self._asked
        numbers = list(range(1, asked.slices + 1))
        if is_of_queue := asked.query.get("view") in _OF_QUEUE:
            name = asked.query.get("queue", "").encode("utf-8", "surrogatepass")
            if asked.router.is_sliced(name):
                word = name.decode("utf-8", "replace")
                raise Rejected(409, f"queue {word} is sliced: the list of queues has its figures")
            numbers = [asked.router.placement.slice_of(name)]
        away = {each: why for each in numbers if (why := asked.router.why_away(each))}
        there = numbers if is_of_queue else [each for each in numbers if each not in away]
        places = [(each, target) for each in there for target in self._targets(each)]
        answers = await ordered.each_of(self._whole(*each, is_of_queue) for each in places)
        found: dict[int, list[Members]] = {}
        for (number, _), said in zip(places, answers, strict=True):
            if isinstance(said, SliceAway | SliceEnded) and not is_of_queue:
                away[number] = asked.router.why_away(number) or ordered.why_not(said)
            elif isinstance(said, BaseException):
                raise said
            elif said.status != 200:
                return said
            else:
                found.setdefault(number, []).append(merging.read(said))
        for number in away.keys() & found.keys():  # only some of its pages came
            del found[number]
        self._shrink()
        if not found:
            raise SliceAway(merging.sentence(*next(iter(away.items()))))
        return views.merged(asked, found, away)

    async def stream(self, send: Send, is_ending: asyncio.Event) -> SliceAnswer | None:
        """Send the view whole, then what changes, until the router ends; return the refusal of a
        slice if nothing was sent."""
        tick, quiet, before = 0, 0, dict[str, object]()
        while not is_ending.is_set():
            view = await self._shown()
            if isinstance(view, SliceAnswer):
                return view if not tick else None
            if not tick:
                await send({
                    "type": "http.response.start", "status": 200,
                    "headers": [(b"content-type", f"{STREAM}; charset=utf-8".encode())],
                })  # fmt: skip
                await _send(send, b"retry: 1000\n\n")
            data = _encode(view)
            view.pop("history", None)
            if tick:
                patch = changes(before, view)
                data = _encode(patch) if patch else b""
            tick, quiet, before = tick + 1, 0 if data else quiet + 1, view
            if data:
                kind = b"change" if tick > 1 else b"whole"
                await _send(send, b"id: %d\nevent: %b\ndata: %b\n\n" % (tick, kind, data))
            elif quiet % QUIET_TICKS == 0:
                await _send(send, COMMENT)
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await is_ending.wait()
            except TimeoutError:
                continue
        await _send(send, b'event: end\ndata: {"why":"draining"}\n\n')
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _shown(self) -> Members | SliceAnswer:
        """Return the view; one that cannot be shown now says why."""
        try:
            found = await self.look()
        except SliceAway as away:
            return _error(503, str(away))
        except SliceEnded:
            return _error(502, "its slice has ended just now")
        if isinstance(found, SliceAnswer) and found.status in _SHOWN:
            return _error(found.status, merging.read(found).get("description", ""))
        return found


def _error(status: int, description: str) -> Members:
    return {"error": {"status": status, "description": description}}


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
