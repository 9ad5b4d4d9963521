"""Which slices each member owns, and which it waits for: a plan that every member makes alike.

    a owns 1 2 3 4 5, b owns 6 7 8, and c has just come
    4 and 5 move to c, which waits for them       b waits for 1 and 3, c for 2, should a die

A member that an operator has drained is like one that is dead: it is to own nothing.

One rule: nothing rests on the plan. A member with another view may wait for the wrong slice, or for
none; whether it may claim one is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from journal.engine import Member, Owner, Seat

# A member is gone if it has been silent for this many times its `takeover`, and gets no slice from
# another one if it has been silent for half of that.
GONE_AFTER: Final = 3
# If nobody has served a slice for this many times `takeover`, the member that should cannot: then
# every member tries.
ORPHANED_AFTER: Final = 5
NOTES: Final = 2  # how often a member says in `takeover` that it is there


class Place(NamedTuple):
    """What is to become of one slice. `heir` is the member that waits for it; `moves`: its owner
    gives it up to the heir, because its share is smaller, or because it is drained."""

    owner: Member | None
    heir: Member | None
    moves: bool = False


def living(seats: Iterable[Seat]) -> list[Member]:
    """Return the members that may own slices: they have said lately that they are there."""
    return sorted(
        {
            each.member for each in seats
            if each.age_s < GONE_AFTER / NOTES * each.takeover_s and not each.is_drained
        }
    )  # fmt: skip


def namesake_age_s(seats: Iterable[Seat], member: Member) -> float | None:
    """Return how long ago a member with this name and address said that it is there; None: so long
    that it is gone, or never."""
    ages_s = [
        each.age_s for each in seats if each.member == member and each.age_s < each.takeover_s
    ]  # fmt: skip
    return ages_s[0] if ages_s else None


def owned(owners: Mapping[int, Owner]) -> dict[int, Member]:
    """Return who owns each slice, whether it lives or not."""
    return {
        number: each.member for number, each in owners.items()
        if not each.has_released and not each.is_importing
    }  # fmt: skip


def silent(slices: int, owners: Mapping[int, Owner], takeover_s: float) -> set[int]:
    """Return the slices that nobody owns, or whose owner commits nothing; one that is being moved
    in is none of them."""
    numbers = set(range(1, slices + 1))
    for number, each in owners.items():
        has_owner = not each.has_released and each.age_s < max(takeover_s, each.takeover_s)
        if has_owner or each.is_importing:
            numbers.discard(number)
    return numbers


def plan(slices: int, owners: Mapping[int, Member], members: list[Member]) -> dict[int, Place]:
    """Return what is to become of each slice; `members` are those that may own some, in order."""
    if not members:
        return {number: Place(owners.get(number), None) for number in range(1, slices + 1)}
    has: dict[Member, list[int]] = {each: [] for each in members}
    homeless: list[int] = []
    for number in range(1, slices + 1):
        has.get(owners.get(number, _NOBODY), homeless).append(number)
    shares = _shares(slices, has)
    for member, numbers in has.items():
        homeless += numbers[shares[member] :]
        del numbers[shares[member] :]
    places = {}
    lacks = {each: shares[each] - len(has[each]) for each in members}
    for number in homeless:
        heir = max(members, key=lambda each: lacks[each])
        lacks[heir] -= 1
        places[number] = Place(owner := owners.get(number), heir, owner is not None)
    for member, numbers in has.items():
        others = [each for each in members if each != member]
        for at, number in enumerate(numbers):
            places[number] = Place(member, others[at % len(others)] if others else None)
    return places


def attended(places: Mapping[int, Place], member: Member) -> set[int]:
    """Return the slices for which this member has a process: it owns them, or waits for them."""
    return {number for number, each in places.items() if member in (each.owner, each.heir)}


def surplus(
    places: Mapping[int, Place], member: Member, seats: Iterable[Seat]
) -> list[int]:
    """Return the slices that this member is to give up now: their heirs are ready."""
    ready = {(each.member, number) for each in seats for number in each.waits}
    return sorted(
        number for number, each in places.items()
        if each.moves and each.owner == member and (each.heir, number) in ready
    )  # fmt: skip


def _shares(slices: int, has: Mapping[Member, list[int]]) -> dict[Member, int]:
    """Return how many slices each member is to own. They differ by one at most; the larger shares
    are of those that own most now, so that little moves."""
    least, left = divmod(slices, len(has))
    by_size = sorted(has, key=lambda each: (-len(has[each]), each))
    return {each: least + (at < left) for at, each in enumerate(by_size)}


_NOBODY: Final = Member("")
