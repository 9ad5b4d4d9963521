"""The mistakes that a reply can make with the item that it shows, leases or hands out.

One rule: each of these breaks a sentence of the spec, whatever else is going on.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.books import Book, Thing, unix_ms
from tests.simulation.requests import Reply, Request


def wrong_with(
    request: Request, reply: Reply, thing: Thing, book: Book, fresh: bool
) -> Iterator[str]:
    """Yield all mistakes. `fresh`: the item is certainly still leased by this reply."""
    if reply.body != thing.body:
        yield f"{request} shows {thing} with another body: {reply.body[:60]!r}"
    if thing.refused:
        yield f"{request} shows {thing}, which was refused"
    due_us = thing.due_us if request.after < 0 else thing.first_due_us
    if request.left_us < due_us:
        yield f"{request} shows {thing}, which is not due before {due_us / 1000}"
    yield from _gone(request, thing, book, fresh)
    if request.after >= 0:
        yield from _observed(request, reply.number, thing, book)
        return
    yield from _held(request, thing, book, fresh)
    yield from _out_of_time(request, thing, book, fresh)
    if not (request.dead or book.may_fail):
        yield from _overtaken(request, thing, book)
    if reply.number and request.arrived_us > book.deleted_us:
        yield from _misnumbered(request, reply.number, thing, book)


def is_in_doubt(request: Request, thing: Thing, book: Book) -> bool:
    """True if the item was handed off and its own journal failed: observers see it until a restart.
    """
    return request.after >= 0 and book.may_fail and any(
        hand.came_of_it == "both" and hand.settled_us > book.ended_us for hand in thing.hands
    )


def _gone(request: Request, thing: Thing, book: Book, fresh: bool) -> Iterator[str]:
    if not thing.gone or thing.may_return or is_in_doubt(request, thing, book):
        return
    if request.after >= 0 and book.rules.retains:
        return  # the shelf checks what may be shown there
    since_us = book.last_wipe_us if request.fetches and fresh else thing.gone_us
    if request.arrived_us > since_us:
        yield (
            f"{request} shows {thing}, which was confirmed, taken or deleted at "
            f"{thing.gone_us / 1000}"
        )


def _held(request: Request, thing: Thing, book: Book, fresh: bool) -> Iterator[str]:
    if (
        request.fetches
        and fresh
        and thing.holder not in (None, request.talk)
        and request.left_us < thing.held_until_us
    ):
        yield f"{request} is leased {thing}, which another connection holds"
    if request.opens and fresh and not request.dead:  # (what is taken is done before it is said)
        for rival in book.rivals(thing, request.left_us):
            yield f"{request} is leased {thing}, but {rival} of its key is leased"


def _out_of_time(request: Request, thing: Thing, book: Book, fresh: bool) -> Iterator[str]:
    if thing.roams or (request.dead and book.rules.expire_to):
        return  # it was stored anew, or died of its age
    last_ms = thing.expires_last_ms
    if last_ms and not request.dead and unix_ms(request.arrived_us) > last_ms:
        yield f"{request} shows {thing}, which has expired"
    most = book.rules.max_attempts
    if most is None or not fresh:
        return
    if request.dead and thing.ends + book.opens_unseen < most:
        yield f"{thing} is among the dead after {thing.ends} attempts"
    if request.fetches and not request.dead and thing.sure_ends >= most:
        yield f"{thing} is delivered after {thing.sure_ends} attempts"


def _overtaken(request: Request, thing: Thing, book: Book) -> Iterator[str]:
    sure = book.fetchable(request.arrived_us, request.left_us)
    before = [some for some in sure if _is_one_before(some, thing)]
    if len(before) > book.excuses(request):
        yield f"{request} shows {thing}, but {before[0][0]} was before it"


def _is_one_before(some: list[Thing], thing: Thing) -> bool:
    """True if an item that was given back with a delay is before this one of the same key: it is
    first when it is due."""
    are_before = [each.surely_before(thing) and each is not thing for each in some]
    return all(are_before) if any(each.delay_ms for each in some) else any(are_before)


def _observed(request: Request, number: int, thing: Thing, book: Book) -> Iterator[str]:
    """Yield the mistakes of an observer's answer: it sees every readable item after its marker,
    leased and dead ones as well."""
    if number <= request.behind:
        yield f"{request} shows {thing} with marker {number}"
    if book.is_parentless:
        return  # with its last item it goes, and a child of the same name begins anew
    sure = surely_behind(request, book)
    missed = [each for each in sure if each.marker < number]
    if not book.may_fail and len(missed) > book.excuses(request):
        yield f"{request} shows {thing}, but {missed[0]} is before it"
    if request.arrived_us > book.deleted_us and not book.is_being_deleted:
        yield from _misnumbered(request, number, thing, book)


def surely_behind(request: Request, book: Book) -> list[Thing]:
    """Return the items after an observer's marker that were certainly ready all the time."""
    sure = book.surely_ready(request.arrived_us, request.left_us)
    return [each for each in sure if each.marker > request.behind]


def _misnumbered(request: Request, number: int, thing: Thing, book: Book) -> Iterator[str]:
    """Yield the mistakes of numbers: a token is issued once, and a marker belongs to one item."""
    if request.opens:
        if number in book.tokens:
            yield f"{request}: token {number} was issued before"
        book.tokens.add(number)
        return
    if book.is_parentless:
        return
    first = thing.original
    if first is not None and first.marker not in (0, number) and not thing.roams:
        yield f"{request}: {thing} has marker {number}, but {first} has {first.marker}"
    other = book.markers.setdefault(number, thing)
    if other is not thing or thing.marker not in (0, number):
        yield f"{request}: {thing} has marker {number}, which is {other}'s"
    thing.marker = number
