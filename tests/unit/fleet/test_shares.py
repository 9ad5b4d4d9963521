"""Members share the slices: a model of any fleet whose members come, die, and are drained."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.engine import Member, Owner, Seat
from kestrelpy.fleet import attended, living, owned, plan, silent, surplus
from kestrelpy.fleet.shares import Place

A, B, C, D = (Member(each, f"10.0.0.{at}:22133") for at, each in enumerate("abcd"))


def test_slices_that_nobody_owns_are_shared_out_evenly() -> None:
    places = plan(8, {}, [A, B, C])

    heirs = [each.heir for each in places.values()]
    assert sorted(heirs.count(each) for each in (A, B, C)) == [2, 3, 3]
    assert not any(each.moves for each in places.values())


def test_a_member_that_comes_is_given_its_share_and_nothing_else_moves() -> None:
    owners = {1: A, 2: A, 3: A, 4: A, 5: B, 6: B, 7: B, 8: B}

    places = plan(8, owners, [A, B, C])

    moving = {number: each for number, each in places.items() if each.moves}
    assert len(moving) == 2
    assert {each.heir for each in moving.values()} == {C}
    ready = [Seat(C, 3.0, 0.0, waits=tuple(range(1, 9)))]
    assert sorted(surplus(places, A, ready) + surplus(places, B, ready)) == sorted(moving)
    assert surplus(places, C, ready) == []


def test_a_slice_is_given_up_when_its_heir_is_ready() -> None:
    places = {1: Place(A, B, moves=True), 2: Place(A, C, moves=True), 3: Place(A, B)}

    assert surplus(places, A, [Seat(B, 3.0, 0.0), Seat(C, 3.0, 0.0)]) == []
    assert surplus(places, A, [Seat(B, 3.0, 0.0, waits=(1, 2, 3)), Seat(C, 3.0, 0.0)]) == [1]


def test_a_slice_is_silent_while_nobody_commits_to_it_unless_one_is_moved_in() -> None:
    owners = {
        1: Owner(A, 1, 1, 1.0, False, takeover_s=3.0),
        2: Owner(A, 1, 1, 3.0, False, takeover_s=3.0),
        3: Owner(A, 1, 1, 0.0, True),
        4: Owner(A, 1, 1, 9.0, False, is_importing=True),
        5: Owner(A, 1, 1, 3.0, False, takeover_s=5.0),
    }

    assert silent(6, owners, 3.0) == {2, 3, 6}


def test_the_slices_of_a_member_are_waited_for_by_all_the_others() -> None:
    owners = dict.fromkeys(range(1, 7), A) | {7: B, 8: B, 9: B, 10: B, 11: B, 12: B}
    owners |= dict.fromkeys(range(13, 19), C)

    places = plan(18, owners, [A, B, C])

    of_a = [places[number].heir for number in range(1, 7)]
    assert of_a.count(B) == of_a.count(C) == 3


def test_a_fleet_of_one_owns_all_and_has_no_heir() -> None:
    assert set(plan(3, {1: A, 2: A}, [A]).values()) == {Place(A, None), Place(None, A)}
    assert plan(2, {1: A}, []) == {1: Place(A, None), 2: Place(None, None)}


def test_a_member_has_a_process_for_what_it_owns_and_for_what_it_waits_for() -> None:
    places = {1: Place(A, B), 2: Place(B, A), 3: Place(B, C, moves=True), 4: Place(None, A)}

    assert attended(places, A) == {1, 2, 4}
    assert attended(places, C) == {3}


@pytest.mark.parametrize(
    ("seat", "lives"),
    [
        (Seat(A, 3.0, 4.4), True),
        (Seat(A, 3.0, 4.5), False),
        (Seat(A, 3.0, 0.0, is_drained=True), False),
    ],
)
def test_a_member_lives_while_it_says_so_and_is_not_drained(seat: Seat, lives: bool) -> None:
    assert living([seat]) == ([A] if lives else [])


def test_members_are_in_one_order_for_all() -> None:
    assert living([Seat(B, 3.0, 0.0), Seat(A, 3.0, 0.0), Seat(B, 3.0, 0.0)]) == [A, B]


def test_who_released_a_slice_or_moves_data_in_owns_nothing() -> None:
    owners = {
        1: Owner(A, 1, 0, 0.0, False), 2: Owner(A, 1, 0, 0.0, True),
        3: Owner(A, 1, 0, 0.0, False, is_importing=True), 4: Owner(B, 1, 0, 99.0, False),
    }  # fmt: skip

    assert owned(owners) == {1: A, 4: B}


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.sampled_from(["come", "die", "drain"]), st.sampled_from([A, B, C, D])),
             max_size=12),
)  # fmt: skip
def test_whatever_happened_the_shares_even_out_and_then_nothing_moves(
    slices: int, events: list[tuple[str, Member]]
) -> None:
    owners: dict[int, Member] = {}
    here: set[Member] = {A}
    for event, member in events:
        if event == "come":
            here.add(member)
        else:  # of its slices the heirs take what it had
            places = plan(slices, owners, sorted(here))
            here.discard(member)
            if event == "die":
                owners = {
                    number: heir if each == member and (heir := places[number].heir) else each
                    for number, each in owners.items()
                }
        _even_out(slices, owners, sorted(here))


def _even_out(slices: int, owners: dict[int, Member], here: list[Member]) -> None:
    """Let heirs claim what is free or given up; all moves together are as few as can be."""
    places = plan(slices, owners, here)
    if not here:
        assert not any(each.heir for each in places.values())
        return
    before = dict(owners)
    for _ in range(slices + 1):  # one at a time: each changes the plan
        places = plan(slices, owners, here)
        free = [n for n, each in places.items() if each.owner not in here]
        moving = [n for n, each in places.items() if each.moves]
        changed = (free or moving)[:1]
        if not changed:
            break
        heir = places[changed[0]].heir
        assert heir is not None
        owners[changed[0]] = heir
    assert set(owners) == set(range(1, slices + 1))
    counts = [list(owners.values()).count(each) for each in here]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == slices
    least, left = divmod(slices, len(here))
    moved = sum(1 for n, each in before.items() if each in here and owners[n] != each)
    had = sorted((list(before.values()).count(each) for each in here), reverse=True)
    needed = sum(max(count - (least + (at < left)), 0) for at, count in enumerate(had))
    assert moved == needed
