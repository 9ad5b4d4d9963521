"""Planted breaches of the rules of one item: see `planted`. (`balance.Wrong` has the rules.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tests.unit.spark.jobs.books import Pen
from tests.unit.spark.jobs.planted import BOTH, CHILD, Case, Legal, Story

Act = Callable[[Pen, int], object]
NEVER: Final = 5000  # from here on no number was ever given


def by_token(end: Act) -> Act:
    """End an item by the token of its lease."""

    def act(pen: Pen, item: int) -> None:
        pen.lease(item, token_of(item))
        end(pen, item)

    return act


def token_of(item: int) -> int:
    """Return a token that no other lease has."""
    return 100_000 + item * 10


def flush(pen: Pen, item: int) -> None:
    pen.flush(item)


def upto(pen: Pen, item: int) -> None:
    pen.upto(item)


def lease(pen: Pen, item: int) -> None:
    pen.lease(item, token_of(item) + 1)


def renew(pen: Pen, item: int) -> None:
    pen.renew(item, token_of(item) + 1)


ENDS: Final[dict[str, Act]] = {
    "confirmed": Pen.done, "expired": Pen.expire, "discarded": Pen.discard,
    "cancelled": Pen.cancel, "moved": Pen.move,
}  # fmt: skip
ALL_ENDS: Final[dict[str, Act]] = {**ENDS, "handed off": Pen.hand}
# Acts that only a live item can meet, and that leave it alive.
LIVES: Final[dict[str, Act]] = {
    "given back": Pen.back, "dead": Pen.die, "lent by token": lease, "renewed": renew,
    "redriven": Pen.redrive,
}  # fmt: skip


def then(*acts: Act) -> Story:
    """Put one item, and do these acts with it."""

    def story(pen: Pen) -> int:
        item = pen.put()
        for act in acts:
            act(pen, item)
        return item

    return story


def each(*acts: Act) -> Legal:
    """Put an item for each of these acts: alone each act is right."""

    def story(pen: Pen) -> None:
        for act in acts:
            then(act)(pen)

    return story


def never_put(act: Act) -> Story:
    def story(pen: Pen) -> int:
        number = NEVER + len(pen.book.drafts)
        act(pen, number)
        return number

    return story


def before_put(*acts: Act, own: bool = False) -> Story:
    """The last of these comes after the put of the item, if there are several."""

    def story(pen: Pen) -> int:
        item = pen.book.number()
        acts[0](pen, item)
        pen.put(item=item, reader=pen.reader if own else 0)
        for act in acts[1:]:
            act(pen, item)
        return item

    return story


def again(*between: Act) -> Story:
    """Put twice under one number."""

    def story(pen: Pen) -> int:
        item = pen.put_own()
        for act in between:
            act(pen, item)
        return pen.put(item=item, reader=pen.reader)

    return story


def for_all_and_for_one(pen: Pen) -> int:
    return pen.put(item=pen.put(), reader=pen.reader)


def put_of_each(pen: Pen) -> None:
    pen.put()
    pen.put_own()


def delayed(*acts: Act) -> Story:
    """An item that is not due yet."""

    def story(pen: Pen) -> int:
        item = pen.put(is_due=False)
        for act in acts:
            act(pen, item)
        return item

    return story


def held_by_both(pen: Pen) -> None:
    """The queue and its child have the same item at once, and end it, each for itself."""
    item, began_ms = pen.put(), pen.open()
    pen.done(item, began_ms)
    pen.book.own.done(item, began_ms)


# -- the table ------------------------------------------------------------------------------------


def confirmed_twice() -> Iterator[Case]:
    rule = "confirmed_twice"
    yield Case(rule, "twice by connection", then(Pen.done, Pen.done), then(Pen.done))
    yield Case(rule, "by token, then by connection", then(by_token(Pen.done), Pen.done),
               then(by_token(Pen.done)))  # fmt: skip
    yield Case(rule, "twice, given back before", then(Pen.back, Pen.done, Pen.done),
               then(Pen.back, Pen.done))  # fmt: skip
    yield Case(rule, "twice as a dead letter", then(Pen.die, Pen.done, Pen.done),
               then(Pen.die, Pen.done))  # fmt: skip
    yield Case(rule, "twice by the child", then(Pen.done, Pen.done), held_by_both, (CHILD,))


def ended_twice() -> Iterator[Case]:
    rule = "ended_twice"
    for first, act in ALL_ENDS.items():
        for second, other in ALL_ENDS.items():
            pair = {first, second}
            if pair in ({"confirmed"}, {"handed off"}):
                continue  # these are rules of their own
            if pair == {"handed off", "moved"}:
                continue  # that is how it should be
            yield Case(rule, f"{first}, then {second}", then(act, other), each(act, other))
    yield Case(rule, "handed off and cancelled, as the move says too",
               then(Pen.hand, Pen.move, Pen.cancel), then(Pen.hand, Pen.move))  # fmt: skip
    yield Case(rule, "three times", then(Pen.done, Pen.expire, Pen.move), each(*ENDS.values()))


def put_twice() -> Iterator[Case]:
    rule = "put_twice"
    yield Case(rule, "at once", again(), put_of_each)
    yield Case(rule, "given back between", again(Pen.back), then(Pen.back, Pen.done))
    yield Case(rule, "after its end", again(Pen.done), then(Pen.done), also=("sum",))
    yield Case(rule, "when it should have been redriven", again(Pen.die),
               then(Pen.die, Pen.redrive))  # fmt: skip
    yield Case(rule, "when it should have been released", again(), delayed(Pen.release))
    yield Case(rule, "for all and for the child", for_all_and_for_one, put_of_each, (CHILD,))


def lost() -> Iterator[Case]:
    rule, also = "lost", ("sum",)
    states: dict[str, Story] = {
        "ready": then(), "given back": then(Pen.back), "delayed": delayed(),
        "released": delayed(Pen.release), "put off": then(Pen.put_off), "dead": then(Pen.die),
        "redriven": then(Pen.die, Pen.redrive), "lent by token": then(lease),
    }  # fmt: skip

    def forgotten(story: Story) -> Story:
        def story_without(pen: Pen) -> int:
            item = story(pen)
            assert isinstance(item, int)
            pen.forget(item)
            return item

        return story_without

    for state, story in states.items():
        yield Case(rule, state, forgotten(story), story, also=also)
    for end, act in ALL_ENDS.items():
        yield Case(rule, f"another was {end}", forgotten(then()), then(act), also=also)
    for name, reach in (("flushed", flush), ("confirmed up to", upto)):
        yield Case(rule, f"another was {name}", forgotten(then()), then(reach),
                   also=also, apart=name.replace(" ", "_"))  # fmt: skip


def unexplained_presence() -> Iterator[Case]:
    also = ("sum",)

    def remembered(pen: Pen) -> int:
        number = NEVER + len(pen.book.drafts)
        pen.remember(number)
        return number

    yield Case("no_put", "nothing says so", remembered, then(), also=also)
    yield Case("no_put", "nothing says so, others moved on", remembered,
               each(Pen.back, Pen.put_off, Pen.die), also=also)  # fmt: skip
    yield Case("no_put", "nothing says so, others are the child's", remembered, put_of_each,
               (CHILD,), also=also)  # fmt: skip
    rule = "there_although_ended"
    for end, act in ALL_ENDS.items():
        yield Case(rule, end, then(act, Pen.remember), each(act, Pen.back), also=also)
    spared = then(Pen.back)
    yield Case(rule, "flushed", then(flush, Pen.remember), then(Pen.die, flush),
               apart="flushed")  # fmt: skip
    yield Case(rule, "confirmed up to", then(upto, Pen.remember), then(Pen.put_off, upto),
               apart="upto")  # fmt: skip
    yield Case(rule, "confirmed up to, others dead", then(upto, Pen.remember), then(Pen.die, upto),
               apart="upto_dead")  # fmt: skip
    yield Case(rule, "confirmed up to, others on their way", then(upto, Pen.remember), under_way,
               apart="upto_moving")  # fmt: skip
    yield Case(rule, "flushed, others lent", then(flush, Pen.remember), spared,
               apart="flushed_lent")  # fmt: skip


def under_way(pen: Pen) -> None:
    """The item is on its way to another queue, so that a confirm of all up to it leaves it."""
    item, other = pen.put(), pen.put()
    pen.upto(other, item)
    third = pen.put()
    pen.upto(third, item)
    pen.move(item)


def never() -> Iterator[Case]:
    rule = "never_put"
    for name, act in (ENDS | LIVES).items():
        also = ("sum",) if name in ENDS else ()
        yield Case(rule, name, never_put(act), then(act), also=also)
        yield Case(rule, f"{name}, others are the child's", never_put(act), own(act), (CHILD,),
                   also=also)  # fmt: skip


def own(act: Act) -> Legal:
    """Do the act with an item that was put for this line alone."""
    return lambda pen: act(pen, pen.put_own())


def too_early() -> Iterator[Case]:
    rule = "before_its_put"
    for name, act in (ENDS | LIVES).items():
        also = ("sum",) if name in ENDS else ()
        is_leased = name in ("lent by token", "renewed")
        if name != "redriven":  # dead by one and live by the other is unclear as well
            yield Case(rule, name, before_put(act), then(act), also=also)
            yield Case(rule, f"{name}, put for the child", before_put(act, own=True), own(act),
                       (CHILD,), also=also)  # fmt: skip
        if not also and not is_leased:
            yield Case(rule, f"{name}, and again after it", before_put(act, Pen.back, act),
                       then(act, Pen.back, act))  # fmt: skip


def too_late() -> Iterator[Case]:
    rule = "after_its_end"
    for end, act in ALL_ENDS.items():
        for name, other in LIVES.items():
            yield Case(rule, f"{end}, then {name}", then(act, other), each(act, other))
    yield Case(rule, "given back, confirmed, given back", then(Pen.back, Pen.done, Pen.back),
               then(Pen.back, Pen.back, Pen.done))  # fmt: skip
    for reach, by in (("flushed", flush), ("confirmed up to", upto)):
        apart = reach.replace(" ", "_")
        for name, other in (ALL_ENDS | LIVES).items():
            if reach != "flushed" and name in ("given back", "dead", "redriven"):
                continue  # may have been delayed or dead: that is not known
            yield Case(rule, f"{reach}, then {name}", then(by, other), each(other), apart=apart)
        yield Case(rule, f"{reach}, another was spared", then(by, Pen.expire), then(Pen.die, by),
                   apart=apart)  # fmt: skip


def deaths() -> Iterator[Case]:
    rule = "death_unclear"
    yield Case(rule, "alive by the state", then(Pen.die, Pen.mark_alive), then(Pen.die))
    yield Case(rule, "dead by the state", then(Pen.mark_dead), then(Pen.back))
    yield Case(rule, "redriven, and dead by the state", then(Pen.die, Pen.redrive, Pen.mark_dead),
               then(Pen.die, Pen.redrive))  # fmt: skip
    yield Case(rule, "dead again, and alive by the state",
               then(Pen.die, Pen.redrive, Pen.die, Pen.mark_alive),
               then(Pen.die, Pen.redrive, Pen.die))  # fmt: skip
    yield Case(rule, "alive by the state, others done", then(Pen.die, Pen.mark_alive),
               then(Pen.die, Pen.done))  # fmt: skip


CASES: Final = (
    *confirmed_twice(), *ended_twice(), *put_twice(), *lost(), *unexplained_presence(), *never(),
    *too_early(), *too_late(), *deaths(),
)  # fmt: skip
assert all(case.lines in (BOTH, (CHILD,)) for case in CASES)
