"""Key locks: which items may be leased, which item blocks which, and which is next.

Promise: key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from journal.format.key import join, text_of
from journal.sets import IdSet
from kestrelpy.core.index.key_locks import KeyLine, KeyLocks
from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import Trash
from tests.support.calls import calls_of
from tests.support.long_tests import share_of
from tests.support.steps import Work


def key(*values: str) -> bytes:
    return join([text_of(value.encode()) for value in values], False)


A, B, C, AB, BC, AC = (key(*word) for word in ("A", "B", "C", "AB", "BC", "AC"))


def ids(parked: list[tuple[int, int, int]]) -> list[int]:
    return [id_ for id_, _, _ in parked]


def claim(keys: KeyLocks, id_: int, wanted: bytes) -> bool:
    return keys.claim(id_, id_, 10, wanted)


def test_the_first_of_a_key_may_be_leased_and_the_others_wait() -> None:
    keys = KeyLocks()

    assert claim(keys, 1, A)
    assert not claim(keys, 2, A)
    assert claim(keys, 3, B)
    assert list(keys.blocked) == [2]
    assert keys.blocked_bytes == 10


def test_asking_again_changes_nothing() -> None:
    keys = KeyLocks()

    assert claim(keys, 1, A)
    assert claim(keys, 1, A)
    assert not claim(keys, 2, A)
    assert claim(keys, 1, A)


def test_when_an_item_ends_the_next_of_its_key_is_possible() -> None:
    keys = KeyLocks()
    for id_ in (1, 2, 3):
        claim(keys, id_, A)

    assert keys.end(1, A, 10) == [(2, 2, 10)]
    assert claim(keys, 2, A), "it has its key already"
    assert list(keys.blocked) == [3]


def test_one_whose_number_is_the_size_of_a_body_leaves_its_own_place_in_a_row() -> None:
    keys = KeyLocks()
    for id_ in range(1, 12):
        claim(keys, id_, A)
    for id_ in range(1, 7):
        keys.end(id_, A, 10)

    assert keys.end(10, A, 10) == []

    assert list(keys.blocked) == [8, 9, 11]
    assert [ids(keys.end(id_, A, 10)) for id_ in (7, 8, 9, 11)] == [[8], [9], [11], []]


def test_a_pair_is_one_value() -> None:
    keys = KeyLocks()

    assert claim(keys, 1, AB)
    assert claim(keys, 2, BC)


def test_with_any_sharing_one_value_is_enough() -> None:
    keys = KeyLocks(matches_any=True)

    assert claim(keys, 1, AB)
    assert not claim(keys, 2, BC)
    assert keys.blocker(2, BC) == (B, 1)


def test_a_skipped_item_holds_its_place_on_all_its_values() -> None:
    keys = KeyLocks(matches_any=True)
    claim(keys, 1, A)
    claim(keys, 2, AB)

    assert not claim(keys, 3, B), "nothing overtakes it"
    assert keys.blocker(3, B) == (B, 2)
    assert ids(keys.end(1, A, 10)) == [2]
    assert ids(keys.end(2, AB, 10)) == [3]


def test_an_item_that_shares_two_values_waits_for_both() -> None:
    keys = KeyLocks(matches_any=True)
    claim(keys, 1, A)
    claim(keys, 2, B)
    claim(keys, 3, AB)

    assert ids(keys.end(1, A, 10)) == []
    assert ids(keys.end(2, B, 10)) == [3]


def test_one_that_waits_may_end_too_and_those_behind_it_go_on() -> None:
    keys = KeyLocks(matches_any=True)
    claim(keys, 1, A)
    claim(keys, 2, AB)
    claim(keys, 3, B)

    assert ids(keys.end(2, AB, 10)) == [3]
    assert keys.blocked_bytes == 0
    assert ids(keys.end(1, A, 10)) == []
    assert ids(keys.end(3, B, 10)) == []
    assert len(keys) == 0


def test_an_item_whose_key_is_not_known_any_more_ends_all_the_same() -> None:
    keys = KeyLocks()
    claim(keys, 1, A)
    claim(keys, 2, A)

    assert ids(keys.end_unknown(1, 10)) == [2]


def test_what_is_held_since_before_is_first_and_parks_nobody() -> None:
    keys = KeyLocks(matches_any=True)
    keys.hold(9, AB)
    keys.hold(8, BC)

    assert (keys.holder(A), keys.holder(B), keys.holder(C)) == (9, 9, 8)
    assert not keys.blocked
    assert not claim(keys, 1, A)
    assert ids(keys.end(9, AB, 10)) == [1]
    assert keys.holder(B) == 0


def test_an_item_that_never_claimed_ends_without_a_trace() -> None:
    keys = KeyLocks()
    claim(keys, 1, A)
    claim(keys, 2, A)

    assert keys.end(9, A, 10) == []
    assert keys.end(9, B, 10) == []
    assert keys.holder(A) == 1


def test_values_that_somebody_waits_for_are_counted() -> None:
    keys = KeyLocks()
    for id_, wanted in enumerate((A, A, A, B, B, C), 1):
        claim(keys, id_, wanted)

    assert keys.blocked_values == 2
    keys.end(4, B, 10)
    assert keys.blocked_values == 1
    assert len(keys) == 3


def test_a_repeated_value_is_one() -> None:
    keys = KeyLocks(matches_any=True)

    assert claim(keys, 1, key("A", "A"))
    assert not claim(keys, 2, key("A", "A"))
    assert ids(keys.end(1, key("A", "A"), 10)) == [2]


def test_the_oldest_of_those_that_wait_is_that_with_the_lowest_place() -> None:
    keys = KeyLocks()
    for id_, place, wanted in ((1, 1, A), (2, 2, B), (3, 9, A), (4, 8, B)):
        keys.claim(id_, place, 5, wanted)

    assert keys.oldest() == ((4, 8, 5), B)


def test_who_is_first_of_a_row_after_another_is_found_by_its_place_and_not_its_number() -> None:
    keys = KeyLocks()
    for id_, place in (1, 1), (2, 8), (3, 9):
        keys.claim(id_, place, 5, A)
    assert keys.oldest() == ((2, 8, 5), A)

    keys.end(2, A, 5)

    assert keys.oldest() == ((3, 9, 5), A)


@pytest.mark.parametrize("rivals", ["one", "each"])
def test_finding_the_oldest_looks_at_one_row_however_many_there_are(rivals: str) -> None:
    """One value blocks all rows, or each row is blocked by a value of its own."""
    calls = []
    for count in (50, 50, 2000):  # the first run in a process may make a call more
        keys = KeyLocks(matches_any=True)
        for n in range(count):
            if rivals == "each" or not n:
                claim(keys, 1 + n, key(f"R{n}"))
        for n in range(count):
            blocked = f"R{n if rivals == 'each' else 0}"
            assert not claim(keys, 10_000 + n, key(blocked, f"V{n}"))
        keys.oldest()

        def drop_two(keys: KeyLocks = keys) -> None:
            for n in range(2):
                found = keys.oldest()
                assert found is not None
                assert found[0][0] == 10_000 + n
                blocked = f"R{n if rivals == 'each' else 0}"
                keys.end(10_000 + n, key(blocked, f"V{n}"), 10)

        calls.append(calls_of(drop_two))
    assert calls[1] == calls[2]


@pytest.mark.parametrize("end", ["one that waits", "one that holds", "some that wait"])
@pytest.mark.parametrize("matches_any", [False, True])
@pytest.mark.parametrize("came_back", [0, 1])
def test_an_item_is_found_by_its_id_however_many_keys_there_are(
    end: str, matches_any: bool, came_back: int
) -> None:
    def cost(count: int) -> int:
        keys = KeyLocks(matches_any)
        for n in range(count):
            claim(keys, 1 + n, key(f"R{n}"))
        for n in range(count):
            keys.claim(10_000 + 2 * n, 10_000 + 2 * n + came_back, 10, key(f"R{n}"))
        middle = 10_000 + count // 2 * 2
        with Work() as counted:
            if end == "one that waits":
                assert keys.end_unknown(middle, 10) == []
            elif end == "one that holds":
                assert ids(keys.end_unknown(1 + count // 2, 10)) == [middle]
            else:
                some = IdSet.of(range(middle, middle + 5))
                assert [*keys.leave(some)[0]] == [middle, middle + 2, middle + 4]
        return counted.steps

    assert cost(4000) < cost(400) * 1.5


@pytest.mark.parametrize("held", [10, 4000])
def test_only_lost_items_or_only_holders_are_looked_at_whichever_are_fewer(held: int) -> None:
    keys = KeyLocks()
    for n in range(held):
        claim(keys, 1 + n, key(f"R{n}"))
    lost = IdSet()
    lost.add_range(5, 8 if held > 10 else 4000)
    with Work() as counted:
        assert keys.holders(lost) == [id_ for id_ in lost if id_ <= held]
    assert counted.steps < 400


def test_who_waited_is_forgotten_though_nobody_asks_for_the_oldest_any_more() -> None:
    keys = KeyLocks()
    claim(keys, 1, A)
    claim(keys, 2, A)
    assert keys.oldest() == ((2, 2, 10), A)
    for id_ in range(3, 3000):
        claim(keys, id_, A)
        keys.end(id_ - 2, A, 10)
    assert keys._line.count == 1
    assert keys.oldest() == ((2999, 2999, 10), A)

    keys.end(2998, A, 10)
    assert keys.oldest() is None


def test_a_long_row_costs_40_bytes_for_each_that_waits() -> None:
    keys = KeyLocks()
    claim(keys, 1, A)
    for id_ in range(2, 10_001):
        claim(keys, id_, A)
    row = keys._rows[A]

    assert not isinstance(row, int)
    assert sum(map(len, row._chunks)) == 9_999 * 20
    assert sum(map(len, keys._line._chunks)) == 9_999 * 20
    while (freed := keys.end(keys.holder(A), A, 10)):
        assert len(freed) == 1
    assert not row._chunks, "those that went are let go"


@pytest.mark.parametrize("seed", range(12))
def test_a_row_is_a_list_oldest_first(seed: int) -> None:
    """Places rise, as in a ready list; or not, as nothing forbids. A copy stays as it was."""
    random = Random(seed)
    row, wait, copies, number = KeyLine(1), list[tuple[int, int, int]](), [], 0
    for _ in range(4000):
        choice = random.randrange(20)
        if choice < 10:
            number += 1
            place = number if seed % 4 else random.randrange(1, 1 << 40)
            wait.append((number << 33 | seed, place, random.randrange(99)))
            row.add(*wait[-1])
        elif choice < 14 and wait:
            assert row.first() == wait[0]
            row.drop_first()
            del wait[0]
        elif choice < 15 and wait:
            assert row.pop() == wait[0]
            assert row.holder == wait.pop(0)[0]
        elif choice < 18 and wait:
            id_, place, size = wait.pop(random.randrange(len(wait)))
            assert row.remove(id_, place) == size
            assert row.remove(id_, place) == -1
        elif choice == 18:
            copies = [*copies[-2:], (row.copy(0), wait[:])]
        assert len(row) == len(wait)
    assert [*row] == wait
    for copy, before in copies:
        assert [*copy] == before


def test_one_in_the_middle_leaves_however_many_wait() -> None:
    def cost(count: int) -> int:
        row = KeyLine(1)
        for id_ in range(2, count):
            row.add(id_, id_, 1)
        with Work() as counted:
            assert row.remove(count // 2, count // 2) == 1
            row.copy(1)
        return counted.steps

    assert cost(20_000) < cost(1000) * 1.5


@pytest.mark.parametrize("step", [1, -1])
def test_a_row_that_shrinks_is_in_few_chunks(step: int) -> None:
    row = KeyLine(1)
    for id_ in range(10_000):
        row.add(id_, id_, 1)
    for id_ in range(10_000)[::step]:
        if id_ % 100:
            row.remove(id_, id_)
    assert [id_ for id_, _, _ in row] == [*range(0, 10_000, 100)]
    assert len(row._chunks) < 5


Waiting = list[tuple[int, list[tuple[int, int, int]]]]


def waiting_in(rows: list[int | KeyLine]) -> Waiting:
    return [(row.holder, list(row)) for row in rows if not isinstance(row, int)]


class KeysMachine(RuleBasedStateMachine):
    """Against the plainest words of the spec: a list of claims in the order they were made."""

    matches_any = False

    def __init__(self) -> None:
        super().__init__()
        self.keys = KeyLocks(self.matches_any)
        self.claims: dict[int, bytes] = {}
        self.ids: dict[int, int] = {}
        self.possible: set[int] = set()
        self.next_id = 1
        self.trash = Trash(Timers())
        self.copies: list[tuple[list[int | KeyLine], Waiting]] = []

    def meets(self, one: bytes, other: bytes) -> bool:
        return bool(set(self.keys.values(one)) & set(self.keys.values(other)))

    def is_possible(self, id_: int) -> bool:
        mine = self.claims[id_]
        return not any(self.meets(mine, self.claims[i]) for i in self.claims if i < id_)

    def newly(self) -> Iterator[int]:
        return (i for i in self.claims if i not in self.possible and self.is_possible(i))

    @rule(
        words=st.sampled_from(["A", "B", "C", "AB", "BA", "BC", "ABC", "AA", "D", "AD"]),
        came_back=st.booleans(),
    )
    def arrive(self, words: str, came_back: bool) -> None:
        id_, place = self.next_id, self.next_id + came_back
        self.next_id, self.ids[id_] = place + 1, place
        self.claims[id_] = key(*words)
        assert self.keys.claim(id_, place, 10, key(*words)) == self.is_possible(id_)
        self.possible.update(self.newly())

    @rule(nth=st.integers(0, 9), is_known=st.booleans())
    def go(self, nth: int, is_known: bool) -> None:
        if not self.claims:
            return
        id_ = sorted(self.claims)[nth % len(self.claims)]
        mine = self.claims.pop(id_)
        self.possible.discard(id_)
        freed = self.keys.end(id_, mine, 10) if is_known else self.keys.end_unknown(id_, 10)
        newly = sorted(self.newly())
        assert ids(freed) == newly
        self.possible.update(newly)

    @rule(nth=st.integers(0, 9))
    def all_that_wait_leave(self, nth: int) -> None:
        waiting = sorted(set(self.claims) - self.possible)
        if self.matches_any or not waiting:
            return
        below = self.ids[waiting[nth % len(waiting)]] + 1
        gone = self.keys.leave_first(below)
        assert gone == {id_: 10 for id_ in waiting if self.ids[id_] < below}
        for id_ in gone:
            del self.claims[id_]

    @rule(those=st.sets(st.integers(0, 9)))
    def some_leave_if_they_wait(self, those: set[int]) -> None:
        some = [id_ for nth, id_ in enumerate(sorted(self.claims)) if nth in those]
        gone, freed = self.keys.leave(IdSet.of(some))
        assert gone == {id_: 10 for id_ in some if id_ not in self.possible}
        for id_ in gone:
            del self.claims[id_]
        newly = sorted(self.newly())
        assert ids(freed) == newly
        self.possible.update(newly)

    @rule(nth=st.integers(0, 9))
    def one_asks_again(self, nth: int) -> None:
        if self.claims:
            id_ = sorted(self.claims)[nth % len(self.claims)]
            assert self.keys.take(id_, self.claims[id_]) == (id_ in self.possible)

    @rule(stay=st.sets(st.integers(0, 9)), trash=st.integers(0, 9))
    def a_flush_leaves_some(self, stay: set[int], trash: int) -> None:
        spared = {id_ for nth, id_ in enumerate(sorted(self.possible)) if nth in stay}
        self.keys.retain_only(IdSet.of(spared), self.trash)
        self.claims = {id_: self.claims[id_] for id_ in spared}
        self.possible = spared
        for _ in range(trash):
            self.trash.free(0)

    @rule()
    def a_copy_is_taken(self) -> None:
        rows = self.keys.rows()
        self.copies = [*self.copies[-2:], (rows, waiting_in(rows))]

    @invariant()
    def a_copy_stays_as_it_is(self) -> None:
        for rows, seen in self.copies:
            assert waiting_in(rows) == seen

    @invariant()
    def it_knows_who_waits(self) -> None:
        waiting = sorted(set(self.claims) - self.possible)
        assert list(self.keys.blocked) == waiting
        assert self.keys.blocked_bytes == 10 * len(waiting)
        for id_, mine in self.claims.items():
            assert (self.keys.blocker(id_, mine) is None) == (id_ in self.possible)
        values = {v for mine in self.claims.values() for v in self.keys.values(mine)}
        held = [value for value, holder, _ in self.keys.some(0, 99) if holder]
        assert sorted(held) == sorted(values)
        assert len(self.keys) == len(self.keys.some(0, 99))
        rivals = [sum(v in self.keys.values(m) for m in self.claims.values()) for v in values]
        assert self.keys.blocked_values == sum(count > 1 for count in rivals)
        oldest = self.keys.oldest()
        assert (oldest[0][0] if oldest else None) == min(waiting, default=None)

    @invariant()
    def what_it_finds_by_an_id_is_what_a_look_at_all_rows_finds(self) -> None:
        keys = self.keys
        held, line = defaultdict[int, set[bytes]](set), list[tuple[int, int, int]]()
        for value, row in keys._rows.items():
            held[row if isinstance(row, int) else row.holder].add(value)
            if not isinstance(row, int):
                assert keys._named[row.number] == value
                line += [(place, id_, row.number) for id_, place, _ in row]
        assert [*keys._line] == sorted(line)
        back = {(id_, place, 0) for place, id_, _ in line if place != id_}
        assert [*keys._placed] == sorted(back)
        found = {id_: {v} if isinstance(v, bytes) else {*v} for id_, v in keys._held.items()}
        assert found == held
        for before in keys._before:
            for value, id_ in before.all():
                assert not id_ or value in before.held(id_)
        everybody = IdSet.of(range(1, self.next_id))
        assert keys.holders(everybody) == sorted(
            id_ for id_ in self.claims if any(keys.holder(v) == id_ for v in self.values_of(id_))
        )

    def values_of(self, id_: int) -> tuple[bytes, ...]:
        return self.keys.values(self.claims[id_])


class AnyMachine(KeysMachine):
    matches_any = True


@pytest.mark.slow
@pytest.mark.parametrize("machine", [KeysMachine, AnyMachine])
def test_claims_are_as_the_spec_says(
    machine: type[KeysMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.core.index.key_locks.SMALL", 1)
    monkeypatch.setattr("kestrelpy.core.trash.SMALL", 1)
    monkeypatch.setattr("kestrelpy.core.trash.FREED_MAX", 1)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=share_of(100), stateful_step_count=40, deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
