"""What a member tells of the fleet."""

from __future__ import annotations

from journal.engine import Member, Owner, Seat, Takeover
from kestrelpy.fleet.view import member_facts, seat_state, slice_facts, takeover_facts

A, B, C = (Member(each, f"host-{each}:22133") for each in "abc")


def owned_by(member: Member, age_s: float = 0.1) -> Owner:
    return Owner(member, 1, 5, age_s, False)


def test_a_member_is_told_with_its_slices_its_oldest_commit_and_whether_it_is_there() -> None:
    seats = [Seat(A, 3.0, 0.2), Seat(B, 3.0, 1.0, is_drained=True), Seat(C, 3.0, 9.0)]
    owners = {1: owned_by(A), 2: owned_by(A, 0.7), 3: owned_by(B)}

    a, b, c = member_facts(4, owners, seats, since_s=1.0)

    assert (a.member, a.address, a.state, a.age_ms) == ("a", "host-a:22133", "up", 1200)
    assert (a.owns, a.waits_for, a.beat_age_ms) == ([1, 2], [3, 4], 1700)
    assert (b.state, b.owns, b.waits_for) == ("drained", [3], [])
    assert (c.state, c.owns, c.beat_age_ms) == ("gone", [], None)


def test_a_member_is_gone_after_three_times_its_takeover() -> None:
    assert [seat_state(Seat(A, 2.0, age_s)) for age_s in (5.9, 6.0)] == ["up", "gone"]


def test_a_slice_is_told_with_its_owner_or_why_nobody_serves_it() -> None:
    owners = {1: owned_by(A), 2: owned_by(B, 5.0)}
    away = {2: "b owns it and does not serve it now", 3: "nobody owns it now"}

    found = slice_facts(3, owners, {1: A, 2: B}.get, away.get, since_s=0.5)

    assert [tuple(each) for each in found] == [
        (1, "a", None, 600), (2, "b", away[2], 5500), (3, None, away[3], None),
    ]  # fmt: skip


def test_a_takeover_is_told_with_its_reason_and_its_length() -> None:
    first, second = takeover_facts(
        [Takeover(3, 7, A, "b", "silent", 3.1, 0.25, 60.0), Takeover(3, 6, B, "", "first", 0, 0.1)],
        since_s=1.0,
    )
    assert tuple(first) == (3, 7, "b", "a", "silent", 3100, 250, 61_000)
    assert (second.before, second.why, second.took_ms, second.age_ms) == (None, "first", 100, 1000)
