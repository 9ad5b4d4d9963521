"""Planted breaches of the order, and double leases: see `planted`; `order` has the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from journal.format.key import join, text_of
from kestrelpy.spark.jobs.common.blocks import BLOCK_BITS
from tests.unit.spark.jobs.books import ELSEWHERE, Pen
from tests.unit.spark.jobs.planted import CHILD, OWN, Case, Legal, Story

End = Callable[[Pen, int, int], object]  # ends a delivery of an item that began then
KEY: Final = text_of(b"K")
OTHER_KEY: Final = text_of(b"L")
DENSE: Final = 30  # records at one moment
A_WHILE_MS: Final = 3_600_000


def hand_off(pen: Pen, item: int, began_ms: int) -> None:
    pen.move(item, ELSEWHERE, began_ms)


def by_token(pen: Pen, item: int, began_ms: int) -> None:
    """Lent by token a moment later, and confirmed."""
    pen.done(item, pen.lease(item, 500_000 + item))


BY_CONNECTION: Final[dict[str, End]] = {
    "confirmed": Pen.done, "given back": Pen.back, "dead": Pen.die, "handed off": hand_off,
}  # fmt: skip
ENDINGS: Final[dict[str, End]] = {**BY_CONNECTION, "confirmed by token": by_token}


# -- first deliveries -----------------------------------------------------------------------------


def late(item: int) -> str:
    """Return the words of the audit."""
    return f"item {item} was first opened"


def swapped(first: End, second: End, key: bytes = b"", own: bool = False) -> Story:
    """The younger is delivered first, and ended so; then the older."""

    def story(pen: Pen) -> str:
        older, younger = ((pen.put_own if own else pen.put)(key) for _ in range(2))
        first(pen, younger, pen.open())
        second(pen, older, pen.open())
        return late(younger)

    return story


def one_after_another(*ends: End, key: bytes = b"") -> Legal:
    def story(pen: Pen) -> None:
        items = [pen.put(key) for _ in ends]
        for item, end in zip(items, ends, strict=True):
            end(pen, item, pen.open())

    return story


def overtaken_as_delayed(pen: Pen) -> None:
    older, younger = pen.put(is_due=False), pen.put()
    pen.done(younger)
    pen.release(older)
    pen.done(older)


def overtaken_as_its_key_is_leased(pen: Pen) -> None:
    first, second = pen.put(KEY), pen.put(KEY)
    other, free = pen.put(OTHER_KEY), pen.put()
    began_ms = pen.open()
    pen.done(other)
    pen.done(free)
    pen.done(first, began_ms)
    pen.done(second)


def again_before_the_next(pen: Pen) -> None:
    older, younger = pen.put(), pen.put()
    pen.back(older)
    pen.done(younger)
    pen.done(older)


def overtaken_by_a_crash(pen: Pen) -> None:
    """The first delivery of the older ended with the server."""
    older, younger = pen.put(), pen.put()
    pen.open()
    pen.done(younger)
    pen.book.tokens()
    pen.done(older)


def overtaken_over_a_crash(pen: Pen) -> None:
    """The younger item was leased by token, so its delivery goes on after the crash."""
    older, younger = pen.put(), pen.put()
    pen.open()
    since_ms = pen.lease(younger, 500_000 + younger)
    pen.book.tokens()
    pen.done(older)
    pen.done(younger, since_ms)


def clock_set_back(pen: Pen) -> None:
    older, younger = pen.put(), pen.put()
    pen.done(older)
    pen.book.tick(-A_WHILE_MS)
    pen.done(younger)
    pen.book.tick(2 * A_WHILE_MS)


def close(dense: bool) -> Story:
    """Two deliveries begin so near to each other that a small step of the clock may explain their
    order; if `dense`, other records of that time would show such a step."""

    def story(pen: Pen) -> str:
        older, younger = pen.put(), pen.put()
        began_ms, step_ms, pen.book.step_ms = pen.open(), pen.book.step_ms, 0
        for _ in range(DENSE if dense else 0):
            pen.put()
        pen.book.step_ms = step_ms
        pen.done(younger, began_ms)
        pen.done(older, began_ms + 5)
        return late(younger)

    return story


def in_another_block(pen: Pen) -> str:
    """The two items are in two blocks; they are the child's own, so that no number is missing."""
    block = 1 << BLOCK_BITS
    at = (pen.book.next // block + 1) * block
    older, younger = (pen.put(item=at + n, reader=pen.reader) for n in (-1, 1))
    pen.book.next = younger + 1
    pen.done(younger)
    pen.done(older)
    return late(younger)


def deliveries_swapped() -> Iterator[Case]:
    rule = "deliveries_swapped"
    for first, act in ENDINGS.items():
        for second, other in ENDINGS.items():
            yield Case(rule, f"the younger {first}, the older {second}", swapped(act, other),
                       one_after_another(other, act))  # fmt: skip
    done = Pen.done
    yield Case(rule, "others were delayed", swapped(done, done), overtaken_as_delayed)
    yield Case(rule, "others came back", swapped(done, done), again_before_the_next)
    yield Case(rule, "behind a crash", swapped(done, done), overtaken_by_a_crash)
    yield Case(rule, "over a crash", swapped(by_token, done), overtaken_over_a_crash)
    yield Case(rule, "behind a clock that was set back", swapped(done, done), clock_set_back,
               apart="clock")  # fmt: skip
    yield Case(rule, "close, and many at once", close(True), close(False), apart="close")
    yield Case(rule, "the child's own", swapped(done, done, own=True),
               one_after_another(done, done), (CHILD,))  # fmt: skip
    yield Case(rule, "in another block", in_another_block, one_after_another(done, done), (CHILD,),
               apart="far")  # fmt: skip
    yield Case(rule, "of one key", swapped(done, done, KEY), overtaken_as_its_key_is_leased,
               apart="keyed")  # fmt: skip
    yield Case(rule, "without a key, where others have one", swapped(done, done),
               one_after_another(done, done, key=KEY), apart="keyed")  # fmt: skip


# -- puts -----------------------------------------------------------------------------------------


def puts(*nths: int, own: bool = False) -> Story:
    """Take as many numbers, and put them as `nths` says (from 0); the last but one is too early."""

    def story(pen: Pen) -> str:
        numbers = [pen.book.number() for _ in nths]
        for nth in nths:
            pen.put(item=numbers[nth], reader=pen.reader if own else 0)
        return f"item {numbers[1]} was put (lsn"

    return story


def puts_in_another_block(pen: Pen) -> str:
    block = 1 << BLOCK_BITS
    at = (pen.book.next // block + 1) * block
    for number in (at + 1, at - 1):
        pen.put(item=number, reader=pen.reader)
    pen.book.next = at + 2
    return f"item {at + 1} was put (lsn"


def puts_swapped() -> Iterator[Case]:
    rule = "puts_swapped"
    yield Case(rule, "next to each other", puts(1, 0), puts(0, 1), (OWN,))
    yield Case(rule, "over others", puts(1, 2, 3, 0), puts(0, 1, 2, 3), (OWN,))
    yield Case(rule, "others delayed", puts(1, 0), overtaken_as_delayed, (OWN,))
    yield Case(rule, "the child's own", puts(1, 0, own=True), puts(0, 1, own=True), (CHILD,))
    yield Case(rule, "in another block", puts_in_another_block, puts(0, 1, own=True), (CHILD,),
               apart="far")  # fmt: skip


# -- leased to one at a time ----------------------------------------------------------------------


def at_once(first: End, second: End) -> Story:
    """One delivery begins while another of the same item goes on; these acts end the two."""

    def story(pen: Pen) -> str:
        item, began_ms = pen.put(), pen.open()
        also_ms = pen.open()
        first(pen, item, began_ms)
        second(pen, item, also_ms)
        return f"item {item} lent twice at once"

    return story


def one_by_one(first: End, second: End) -> Legal:
    def story(pen: Pen) -> None:
        item = pen.put()
        first(pen, item, pen.open())
        second(pen, item, pen.open())

    return story


def token_first(pen: Pen) -> str:
    item = pen.put()
    since_ms, also_ms = pen.lease(item, 10 * item), pen.open()
    pen.back(item, also_ms)
    pen.done(item, since_ms)
    return f"item {item} lent twice at once"


def connection_first(pen: Pen) -> str:
    item = pen.put()
    began_ms, since_ms = pen.open(), pen.lease(item, 10 * item)
    pen.back(item, began_ms)
    pen.done(item, since_ms)
    return f"item {item} lent twice at once"


def token_by_token(pen: Pen) -> None:
    item = pen.put()
    pen.back(item, pen.lease(item, 10 * item))
    pen.back(item)
    pen.done(item, pen.lease(item, 10 * item + 1))


def within_one_that_goes_on(pen: Pen) -> str:
    item, began_ms = pen.put(), pen.open()
    pen.back(item)
    pen.done(item, began_ms)
    return f"item {item} lent twice at once"


def of_one_key(key: bytes, other: bytes, own: bool = False, nested: bool = False) -> Story:
    """Lease two items with these keys at once."""

    def story(pen: Pen) -> str:
        put = pen.put_own if own else pen.put
        one, two = put(key), put(other)
        began_ms, also_ms = pen.open(), pen.open()
        pairs = [(one, began_ms), (two, also_ms)]
        for item, since_ms in reversed(pairs) if nested else pairs:
            pen.done(item, since_ms)
        both = (two, one) if nested else (one, two)
        return "items {} and {}, which share a key, lent twice".format(*both)

    return story


def one_key_by_one(pen: Pen) -> None:
    for item in [pen.put(KEY) for _ in range(2)]:
        pen.done(item)


def one_key_behind_a_hang_up(pen: Pen) -> None:
    one, two = pen.put(KEY), pen.put(KEY)
    pen.back(one)
    pen.done(one)
    pen.done(two)


def held_by_two_lines(pen: Pen) -> None:
    """The queue and its child have the same item at once."""
    item, began_ms = pen.put(KEY), pen.open()
    pen.book.own.done(item, began_ms)
    pen.done(item, began_ms)


def clock_set_back_while_leased(pen: Pen) -> None:
    item = pen.put()
    pen.back(item)
    pen.book.tick(-A_WHILE_MS)
    pen.done(item)
    pen.book.tick(2 * A_WHILE_MS)


def lent_twice() -> Iterator[Case]:
    rule = "lent_twice"
    for name, act in (("given back", Pen.back), ("dead", Pen.die)):
        for end, other in BY_CONNECTION.items():
            yield Case(rule, f"{name}, and {end}", at_once(act, other), one_by_one(act, other))
    yield Case(rule, "one within the other", within_one_that_goes_on,
               one_by_one(Pen.back, Pen.done))  # fmt: skip
    yield Case(rule, "by token, and by connection", token_first, token_by_token)
    yield Case(rule, "by connection, and by token", connection_first, token_by_token)
    yield Case(rule, "behind a clock that was set back", at_once(Pen.back, Pen.done),
               clock_set_back_while_leased, apart="clock")  # fmt: skip
    yield Case(rule, "two of one key", of_one_key(KEY, KEY), one_key_by_one, apart="keyed")
    yield Case(rule, "two of one key, one within the other", of_one_key(KEY, KEY, nested=True),
               one_key_behind_a_hang_up, apart="keyed")  # fmt: skip
    yield Case(rule, "two of one key, others have another", of_one_key(KEY, KEY),
               of_one_key(KEY, OTHER_KEY), apart="keyed")  # fmt: skip
    pair, other_pair = (join([KEY, each], False) for each in (OTHER_KEY, text_of(b"M")))
    yield Case(rule, "two of one pair, others share one value", of_one_key(pair, pair),
               of_one_key(pair, other_pair), apart="keyed")  # fmt: skip
    yield Case(rule, "two of one pair, others have no key", of_one_key(pair, pair),
               of_one_key(pair, b""), apart="keyed")  # fmt: skip
    whole = text_of(b"K,L")
    yield Case(rule, "two of one key with a comma, others of two values", of_one_key(whole, whole),
               of_one_key(whole, pair), apart="keyed")  # fmt: skip
    yield Case(rule, "two of one key, others held by two lines", of_one_key(KEY, KEY, own=True),
               held_by_two_lines, (CHILD,), apart="keyed")  # fmt: skip


# -- by token -------------------------------------------------------------------------------------


def leased(*between: Callable[[Pen, int], object], ends: bool = True) -> Story:
    """Lease an item by token twice; the acts `between` happen between the two."""

    def story(pen: Pen) -> int:
        item = pen.put()
        pen.lease(item, 10 * item)
        for act in between:
            act(pen, item)
        since_ms = pen.lease(item, 10 * item + 1)
        if ends:
            pen.done(item, since_ms)
        return item

    return story


def renew(pen: Pen, item: int) -> None:
    pen.renew(item, 10 * item)


def start(pen: Pen, item: int) -> None:
    pen.book.tokens()


def leased_twice() -> Iterator[Case]:
    rule = "leased_twice"
    yield Case(rule, "at once", leased(), leased(Pen.back))
    yield Case(rule, "and it has no end", leased(ends=False), leased(Pen.back, ends=False))
    yield Case(rule, "renewed before", leased(renew), leased(renew, Pen.back))
    yield Case(rule, "over a restart", leased(start), leased(start, Pen.back))
    yield Case(rule, "others died and were redriven", leased(), leased(Pen.die, Pen.redrive))
    yield Case(rule, "others were put off", leased(), leased(Pen.put_off))
    yield Case(rule, "others leased it for their line", leased(), leased_by_two_lines, (CHILD,))


def leased_by_two_lines(pen: Pen) -> None:
    item = pen.put()
    pen.lease(item, 10 * item)
    pen.book.own.lease(item, 10 * item + 1)


CASES: Final = (*deliveries_swapped(), *puts_swapped(), *lent_twice(), *leased_twice())
