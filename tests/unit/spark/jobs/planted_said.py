"""Planted records that contradict each other about items: see `planted`. (`once` has the rules.)

In the journal of a child the stories use items that are put for the child alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from journal.format.item_header import ItemHeader
from journal.format.key import join, text_of, value_of
from journal.format.schedule import Watermark
from journal.format.transfer import Origin
from tests.unit.spark.jobs.books import LIFE, Pen
from tests.unit.spark.jobs.planted import CHILD, OWN, Case, Legal, Story

MINUTE_MS: Final = 60_000
DAY_MS: Final = 24 * 60 * MINUTE_MS
Act = Callable[[Pen, int], object]
ENDS: Final[dict[str, Act]] = {
    "confirmed": Pen.done, "expired": Pen.expire, "discarded": Pen.discard,
    "cancelled": Pen.cancel,
}  # fmt: skip


# -- versions -------------------------------------------------------------------------------------


def versions(*steps: tuple[int, int], step_ms: int = 0) -> Story:
    """Puts under one key: the version of each, and how far back the one is that it says was before
    it (0: none). The last is named."""

    def story(pen: Pen) -> str:
        key, items = text_of(b"key of %d" % pen.book.next), list[int]()
        for version, back in steps:
            previous = items[-back] if back else 0
            items.append(pen.put_own(key, ItemHeader(version=version, previous=previous)))
            pen.book.tick(step_ms)
        return f"item {items[-1]} is version {steps[-1][0]}"

    return story


def of_two_keys(one: bytes, other: bytes) -> Legal:
    """Put items under two keys: each key has versions of its own."""

    def story(pen: Pen) -> None:
        more = value_of(pen.book.next)
        for key in (one, other):
            first = pen.put_own(key + more, ItemHeader(version=1))
            pen.put_own(key + more, ItemHeader(version=2, previous=first))

    return story


def one_key_and_another(pen: Pen) -> None:
    """Two values, and one that has a comma."""
    number = b"%d" % pen.book.next
    pair = join([text_of(number), text_of(b"B")], False)
    for key in (pair, text_of(number + b",B")):
        first = pen.put_own(key, ItemHeader(version=1))
        pen.put_own(key, ItemHeader(version=2, previous=first))


def version() -> Iterator[Case]:
    rule, right = "version", versions((1, 0), (2, 1), (3, 1))
    yield Case(rule, "the first is none", versions((2, 0)), right)
    yield Case(rule, "one is left out", versions((1, 0), (3, 1)), right)
    yield Case(rule, "one comes again", versions((1, 0), (2, 1), (2, 1)), right)
    yield Case(rule, "it begins again", versions((1, 0), (2, 1), (1, 0)),
               versions((1, 0), (2, 1), (1, 0), step_ms=MINUTE_MS))  # fmt: skip
    yield Case(rule, "the first comes again", versions((1, 0), (1, 0)),
               versions((1, 0), (1, 0), step_ms=MINUTE_MS))  # fmt: skip
    yield Case(rule, "it goes back", versions((1, 0), (2, 1), (3, 1), (2, 2)),
               versions((1, 0), (2, 1), (3, 1), (4, 1)))  # fmt: skip
    yield Case(rule, "it goes back after long", versions((1, 0), (2, 1), (2, 2), step_ms=DAY_MS),
               versions((1, 0), (2, 1), (3, 1), step_ms=DAY_MS))  # fmt: skip
    yield Case(rule, "it says that another was before it", versions((1, 0), (2, 1), (3, 2)), right)
    yield Case(rule, "it does not say which was before it", versions((1, 0), (2, 0)), right)
    yield Case(rule, "others have a key each", versions((1, 0), (1, 0)),
               of_two_keys(text_of(b"A"), text_of(b"B")))  # fmt: skip
    yield Case(rule, "others have a number and a text", versions((1, 0), (1, 0)),
               of_two_keys(value_of(1), value_of("1")))  # fmt: skip
    yield Case(rule, "others have a comma and two values", versions((1, 0), (1, 0)),
               one_key_and_another)  # fmt: skip


# -- ids ------------------------------------------------------------------------------------------


def stamped(*stamps: ItemHeader, step_ms: int = 0, words: str = "later, as item {}") -> Story:
    """Put items with these headers, with scopes and ids of the story; the audit names the last."""

    def story(pen: Pen) -> str:
        number, item = b"%d" % pen.book.next, 0
        for each in stamps:
            scope = each.scope + number if each.scope else b""
            item = pen.put_own(b"", each._replace(id=each.id + number, scope=scope))
            pen.book.tick(step_ms)
        return words.format(item)

    return story


def done_between(pen: Pen) -> str:
    id_ = b"%d" % pen.book.next
    pen.done(pen.put_own(b"", ItemHeader(id_)))
    return f"later, as item {pen.put_own(b'', ItemHeader(id_))}"


def for_all_and_for_one(pen: Pen) -> str:
    id_ = b"%d" % pen.book.next
    pen.put(b"", ItemHeader(id_))
    return f"later, as item {pen.put_own(b'', ItemHeader(id_))}"


def in_two_queues(pen: Pen) -> None:
    id_ = b"%d" % pen.book.next
    for each in (pen, pen.book.beside("other").own):
        each.put(b"", ItemHeader(id_))


def ids() -> Iterator[Case]:
    a, b = ItemHeader(b"a"), ItemHeader(b"b")
    rule, alone = "id_twice", stamped(a, b)
    yield Case(rule, "at once", stamped(a, a), alone)
    yield Case(rule, "others between", stamped(a, b, a), stamped(a, b))
    yield Case(rule, "almost a minute later", stamped(a, a, step_ms=59_000),
               stamped(a, a, step_ms=MINUTE_MS))  # fmt: skip
    yield Case(rule, "of what is done", done_between, stamped(a, a, step_ms=DAY_MS))
    yield Case(rule, "put for all and for one", for_all_and_for_one, alone, (CHILD,))
    yield Case(rule, "in one queue, others in two", stamped(a, a), in_two_queues, (OWN,))
    scoped = ItemHeader(b"a", b"w", 1)
    yield Case(rule, "in one epoch", stamped(scoped, scoped),
               stamped(scoped, scoped._replace(epoch=2)))  # fmt: skip
    yield Case(rule, "in one scope", stamped(scoped, scoped),
               stamped(scoped, scoped._replace(scope=b"v")))  # fmt: skip
    yield Case(rule, "in one scope, others in none", stamped(scoped, scoped), stamped(scoped, a))
    yield Case(rule, "no text, others differ", stamped(ItemHeader(b"\xff"), ItemHeader(b"\xff")),
               stamped(ItemHeader(b"\xff"), ItemHeader(b"\xfe")))  # fmt: skip
    rule, words = "epoch_back", "item {} of epoch 1 of scope"
    newer, newest = (ItemHeader(b"%d" % n, b"w", n) for n in (2, 3))
    late = ItemHeader(b"late", b"w", 1)
    yield Case(rule, "behind a newer one", stamped(newer, late, words=words),
               stamped(late, newer))  # fmt: skip
    yield Case(rule, "behind two newer ones", stamped(newer, newest, late, words=words),
               stamped(late, newer, newest))  # fmt: skip
    yield Case(rule, "with an id that the older had", stamped(scoped, newer, late, words=words),
               stamped(scoped, late, newer))  # fmt: skip
    yield Case(rule, "soon", stamped(newer, late, step_ms=59_000, words=words),
               stamped(newer, late, step_ms=MINUTE_MS))  # fmt: skip
    yield Case(rule, "in one scope, others in two", stamped(newer, late, words=words),
               stamped(newer, late._replace(scope=b"v")))  # fmt: skip


# -- times of schedules ---------------------------------------------------------------------------


def put_at(*times: tuple[bytes, int], over_a_restart: bool = False) -> Story:
    """Put items of these schedules (of the story) for these times; the audit names the last."""

    def story(pen: Pen) -> str:
        number, item = b"%d" % pen.book.next, 0
        for name, time_s in times:
            item = pen.put(reader=pen.reader, meta=Watermark(name + number, time_s).meta)
            if over_a_restart:
                pen.book.tokens()
        return f"and again as item {item}"

    return story


def times() -> Iterator[Case]:
    rule, twice = "time_twice", put_at((b"daily", 60), (b"daily", 60))
    yield Case(rule, "at once", twice, put_at((b"daily", 60), (b"daily", 120)))
    yield Case(rule, "behind a later one", put_at((b"daily", 60), (b"daily", 120), (b"daily", 60)),
               put_at((b"daily", 60), (b"daily", 120), (b"daily", 180)))  # fmt: skip
    yield Case(rule, "over a restart", put_at((b"daily", 60), (b"daily", 60), over_a_restart=True),
               put_at((b"daily", 60), (b"daily", 120), over_a_restart=True))  # fmt: skip
    yield Case(rule, "of one schedule, others of two", twice,
               put_at((b"daily", 60), (b"hourly", 60)))  # fmt: skip
    yield Case(rule, "others have a scope and an epoch", twice,
               stamped(ItemHeader(b"a", b"daily", 60), ItemHeader(b"b", b"daily", 60)))  # fmt: skip


# -- tokens ---------------------------------------------------------------------------------------


def token(number: int) -> int:
    """Return a token that no other story has."""
    return 1000 + 10 * number


def issued(second: int, same_item: bool = False) -> Story:
    """Two leases, the second with the token `second`, after the first."""

    def story(pen: Pen) -> str:
        item = pen.put()
        first = token(item)
        pen.done(item, pen.lease(item, first)) if not same_item else pen.back(
            item, pen.lease(item, first)
        )
        other = item if same_item else pen.put()
        pen.done(other, pen.lease(other, first + second))
        return f"token {first + second} was issued for item {item} and again for item {other}"

    return story


def issued_for_both(pen: Pen) -> str:
    item = pen.put()
    pen.lease(item, token(item))
    pen.book.own.lease(item, token(item))
    return f"token {token(item)} was issued for item {item} and again for item {item}"


def issued_over_a_restart(pen: Pen) -> str:
    item, other = pen.put(), pen.put()
    pen.done(item, pen.lease(item, token(item)))
    pen.book.tokens()
    pen.done(other, pen.lease(other, token(item)))
    return f"token {token(item)} was issued for item {item} and again for item {other}"


def renewed(pen: Pen) -> None:
    item = pen.put()
    since_ms = pen.lease(item, token(item))
    pen.renew(item, token(item))
    pen.renew(item, token(item))
    pen.done(item, since_ms)


def issued_in_two_queues(pen: Pen) -> None:
    item = pen.put()
    pen.lease(item, token(item))
    other = pen.book.beside("other").own
    other.lease(other.put(), token(item))


def tokens() -> Iterator[Case]:
    rule = "token_twice"
    yield Case(rule, "for two items", issued(0), issued(1))
    yield Case(rule, "for one item", issued(0, True), issued(1, True))
    yield Case(rule, "over a restart", issued_over_a_restart, renewed)
    yield Case(rule, "by the child and the queue", issued_for_both, issued(1), (CHILD,))
    yield Case(rule, "in one queue, others in two", issued(0), issued_in_two_queues, (OWN,))


# -- moves ----------------------------------------------------------------------------------------


def origin(pen: Pen, name: str = "gone", generation: int = LIFE, server: bytes = b"s1") -> Origin:
    """An item of a queue without a journal."""
    queue = f"{pen.book.queue}-{name}"
    return Origin(server, queue.encode(), pen.book.next, generation)


def made(*of: Callable[[Pen], Origin], own: bool = False) -> Story:
    """Put items with these origins; the audit names the last."""

    def story(pen: Pen) -> str:
        item = 0
        for each in [each(pen) for each in of]:
            item = (pen.put_own if own else pen.put)(b"", ItemHeader(origin=each))
        return f"item {item} was made of"

    return story


def made_in_two_queues(pen: Pen) -> str:
    stamp = ItemHeader(origin=origin(pen))
    other = pen.book.beside("other").own
    other.put(b"", stamp)
    pen.book.tick()
    return f"item {pen.put(b'', stamp)} was made of"


def made_twice() -> Iterator[Case]:
    rule, two = "made_twice", made(origin, origin)

    def next_one(pen: Pen) -> Origin:
        return origin(pen)._replace(item=pen.book.next + 1_000_000)

    yield Case(rule, "in one queue", two, made(origin, next_one))
    yield Case(rule, "in two queues", made_in_two_queues, made(origin))
    yield Case(rule, "for the child alone", made(origin, origin, own=True),
               made(origin, next_one, own=True), (CHILD,))  # fmt: skip
    yield Case(rule, "others of two generations", two,
               made(origin, lambda pen: origin(pen, generation=LIFE + 1)))  # fmt: skip
    yield Case(rule, "others of two servers", two,
               made(origin, lambda pen: origin(pen, server=b"s2")))  # fmt: skip
    yield Case(rule, "others of two queues", two, made(origin, lambda pen: origin(pen, "lost")))
    yield Case(rule, "others of a queue and its child", two,
               made(origin, lambda pen: origin(pen, "gone+audit")))  # fmt: skip


def source_of(pen: Pen) -> Pen:
    """Return a line of another queue; a child's if this one is a child's."""
    child = "audit" if pen.reader else ""
    return pen.book.beside("source", child).line


def handed(pen: Pen, *acts: Act, life: int = LIFE) -> str:
    """Make an item of the other queue one of this queue, and do these acts with the original."""
    source = source_of(pen)
    item = source.put()
    pen.book.now_ms = source.book.now_ms
    copy = pen.put(b"", ItemHeader(origin=source.name(item, life)))
    source.book.now_ms = pen.book.now_ms
    for act in acts:
        act(source, item)
    return f"item {copy} of {pen.book.queue} was made, and it has a"


def moved_there(pen: Pen) -> None:
    """Move an item to this queue as a daemon does."""
    source = source_of(pen)
    item = source.put()
    copy = pen.put(b"", ItemHeader(origin=source.name(item)))
    source.book.now_ms = pen.book.now_ms
    source.move(item, pen.book.own.name(copy))


def ended_by_another_line(pen: Pen) -> None:
    """The queue hands its item on; for the child the item is done."""
    source = pen.book.beside("both", "audit")
    item = source.own.put()
    copy = pen.put(b"", ItemHeader(origin=source.own.name(item)))
    source.own.move(item, pen.book.own.name(copy))
    source.line.done(item)


def ended_elsewhere() -> Iterator[Case]:
    rule = "ended_elsewhere"
    for name, act in ENDS.items():
        yield Case(rule, name, lambda pen, act=act: handed(pen, act), moved_there)
    yield Case(rule, "confirmed, others under way", lambda pen: handed(pen, Pen.done), handed)
    yield Case(rule, "confirmed, others dead", lambda pen: handed(pen, Pen.done),
               lambda pen: handed(pen, Pen.die))  # fmt: skip
    yield Case(rule, "given back and cancelled", lambda pen: handed(pen, Pen.back, Pen.cancel),
               lambda pen: handed(pen, Pen.back))  # fmt: skip
    yield Case(rule, "confirmed, others of another generation",
               lambda pen: handed(pen, Pen.done),
               lambda pen: handed(pen, Pen.done, life=LIFE - 1))  # fmt: skip
    yield Case(rule, "confirmed, others by another line", lambda pen: handed(pen, Pen.done),
               ended_by_another_line)  # fmt: skip


def moved_to(target: Callable[[Pen], Origin]) -> Story:
    def story(pen: Pen) -> str:
        item = pen.put()
        pen.move(item, target(pen))
        return f"item {item} was moved to"

    return story


def nowhere(pen: Pen) -> Origin:
    """A number that the other queue never gave."""
    other = pen.book.beside("target", "audit")
    return other.own.name(other.next + 1_000_000)


def anothers(pen: Pen) -> Origin:
    """An item of the other queue that is made of nothing."""
    other = pen.book.beside("target", "audit")
    return other.own.name(other.own.put())


def made_of_another(pen: Pen) -> Origin:
    other = pen.book.beside("target", "audit")
    stamp = ItemHeader(origin=pen.name(pen.book.next + 1_000_000))
    return other.own.name(other.own.put(b"", stamp))


def first_there(pen: Pen) -> Origin:
    """The very first item of a queue, made of nothing."""
    other = pen.book.beside("first").own
    if other.book.next == 1:
        other.put()
    return other.name(1)


def arrived(own: bool) -> Legal:
    """Move an item that arrives in its target, for all readers or for the child alone."""

    def story(pen: Pen) -> None:
        item, other = pen.put(), pen.book.beside("target", "audit")
        stamp = ItemHeader(origin=pen.name(item))
        there = other.line if own else other.own
        pen.move(item, there.name((there.put_own if own else there.put)(b"", stamp)))

    return story


def moved_nowhere() -> Iterator[Case]:
    rule = "moved_nowhere"
    yield Case(rule, "nothing is there", moved_to(nowhere), arrived(False))
    yield Case(rule, "something else is there", moved_to(anothers), arrived(True))
    yield Case(rule, "what is there is made of another", moved_to(made_of_another), arrived(True))
    yield Case(rule, "something else is there, the first", moved_to(first_there), arrived(False))
    yield Case(rule, "others to a server that is not here", moved_to(nowhere),
               moved_to(lambda pen: nowhere(pen)._replace(server=b"s2")))  # fmt: skip
    yield Case(rule, "others to another generation", moved_to(nowhere),
               moved_to(lambda pen: nowhere(pen)._replace(generation=LIFE + 1)))  # fmt: skip
    yield Case(rule, "others within this queue", moved_to(nowhere), redriven_here)


def redriven_here(pen: Pen) -> None:
    item = pen.put()
    copy = pen.hand(item)
    pen.move(item, pen.book.own.name(copy))


CASES: Final = (
    *version(), *ids(), *times(), *tokens(), *made_twice(), *ended_elsewhere(), *moved_nowhere(),
)  # fmt: skip
