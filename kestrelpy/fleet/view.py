"""The fleet as one of its members sees it: who has which slices, and when they changed hands.

    owners, seats, takeovers ──▶ FleetFacts ──▶ the page, /admin/fleet, /metrics

One rule: it only tells; nothing is decided by it. Ages are as of the last look at the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from journal.engine import Member, Owner, Seat, Takeover
from kestrelpy.fleet.shares import GONE_AFTER, living, owned, plan

SeatState = Literal["up", "drained", "gone"]


class MemberFacts(NamedTuple):
    """A member of a fleet. `state`: "drained" is to own nothing, "gone" has said nothing for long;
    `age_ms`: since it said that it is there. `beat_age_ms`: since the last commit of the slice that
    has been silent longest; null: it owns none."""

    member: str
    address: str
    state: SeatState
    age_ms: int
    owns: list[int]
    waits_for: list[int]
    beat_age_ms: int | None


class SliceFacts(NamedTuple):
    """A slice, and the member that owns it; null: none does, or there is no fleet. `why`: why
    nobody serves it now; null: it serves. `beat_age_ms`: since its last commit, or sign of life."""

    slice: int
    member: str | None
    why: str | None
    beat_age_ms: int | None


class TakeoverFacts(NamedTuple):
    """A slice that began to serve at another member, or again. `epoch`: the number of the claim, or
    of the restart; `before`: the member that had it. `why`: "first", "released", "silent", or how
    its process ended. `idle_ms`: how long it had been silent; `took_ms`: from the claim, or the end
    of its process, until it served; `age_ms`: since then."""

    slice: int
    epoch: int
    before: str | None
    member: str | None
    why: str
    idle_ms: int
    took_ms: int
    age_ms: int


class FleetFacts(NamedTuple):
    """Slices, members and the last takeovers, the newest first. Without an engine there are no
    members, and takeovers are restarts since the start of the router. `takeovers_total`: claims of
    all slices since their tables were made, or restarts. `trouble`: why the engine does not answer;
    then all is as it was before."""

    slices: list[SliceFacts]
    members: list[MemberFacts]
    takeovers: list[TakeoverFacts]
    takeovers_total: int
    trouble: str | None


NOT_SLICED: Final = FleetFacts([], [], [], 0, None)


def seat_state(seat: Seat) -> SeatState:
    """Return whether a member is there, and may own slices."""
    if seat.age_s >= GONE_AFTER * seat.takeover_s:
        return "gone"
    return "drained" if seat.is_drained else "up"


def member_facts(
    slices: int, owners: Mapping[int, Owner], seats: list[Seat], since_s: float = 0.0
) -> list[MemberFacts]:
    """Return the members by name; `since_s` is how long ago the engine said this."""
    has = owned(owners)
    places = plan(slices, has, living(seats))
    found = []
    for seat in seats:
        owns = sorted(number for number, each in has.items() if each == seat.member)
        ages_s = [owners[number].age_s for number in owns]
        found.append(MemberFacts(
            seat.member.name, seat.member.address, seat_state(seat),
            _ms(seat.age_s + since_s), owns,
            sorted(number for number, each in places.items() if each.heir == seat.member),
            _ms(max(ages_s) + since_s) if ages_s else None,
        ))  # fmt: skip
    return found


def slice_facts(
    slices: int, owners: Mapping[int, Owner], owner_of: Callable[[int], Member | None],
    why_away: Callable[[int], str | None], since_s: float = 0.0,
) -> list[SliceFacts]:
    """Return all slices of a fleet; `owner_of` and `why_away` know what has changed since."""
    found = []
    for number in range(1, slices + 1):
        owner, last = owner_of(number), owners.get(number)
        found.append(SliceFacts(
            number, owner.name if owner is not None else None, why_away(number),
            _ms(last.age_s + since_s) if last is not None else None,
        ))  # fmt: skip
    return found


def takeover_facts(takeovers: list[Takeover], since_s: float = 0.0) -> list[TakeoverFacts]:
    """Return what the engine has kept of takeovers."""
    return [
        TakeoverFacts(
            each.slice, each.epoch, each.before or None, each.member.name, each.why,
            _ms(each.idle_s), _ms(each.took_s), _ms(each.age_s + since_s),
        )
        for each in takeovers
    ]  # fmt: skip


def _ms(seconds: float) -> int:
    return max(round(seconds * 1000), 0)
