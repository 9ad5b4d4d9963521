"""Segments that are mostly dead are rewritten, dead ones go; files are twice what is alive.

Promise: segment-goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.compaction.picker import INPUTS_MAX, choose, compacted_bytes, live_frame_bytes
from journal.write.segment_file import OVERHEAD_BYTES, SECTOR_BYTES, Segment
from journal.write.segment_list import take_place

MAX = 1 << 20
KIB = 1 << 10


def segment(number: int, capacity: int, live_bytes: int, **other: int) -> Segment:
    """A sealed segment with the lsns 100 to 199 for number 1, and so on."""
    live = -(-live_bytes // 100)
    made = Segment(number, f"/q/{number}", capacity, None, number * 100, live=live)
    made.live_bytes, made.lsn_last = live_bytes, number * 100 + 99
    for name, value in other.items():
        setattr(made, name, value)
    return made


def chosen(*segments: Segment, settled_lsn: int = 1 << 40, segment_max: int = MAX) -> list[int]:
    return [s.number for s in choose(segments, settled_lsn, segment_max)]


# -- what to rewrite ------------------------------------------------------------------------------


def test_a_segment_less_than_half_alive_is_chosen_and_one_that_is_fuller_is_not() -> None:
    assert chosen(segment(1, 64 * KIB, 20 * KIB)) == [1]
    assert chosen(segment(1, 64 * KIB, 32 * KIB)) == []
    assert chosen(segment(1, 64 * KIB, 64 * KIB)) == []


def test_nothing_is_chosen_where_nothing_is_alive() -> None:
    assert chosen() == []
    assert chosen(segment(1, 64 * KIB, 0), segment(2, 64 * KIB, 0)) == []


def test_the_oldest_run_is_chosen_and_one_that_is_fuller_ends_it() -> None:
    assert chosen(
        segment(1, 64 * KIB, 60 * KIB),
        segment(2, 64 * KIB, KIB),
        segment(3, 64 * KIB, KIB),
        segment(4, 64 * KIB, 60 * KIB),
        segment(5, 64 * KIB, KIB),
    ) == [2, 3]


def test_dead_ones_in_between_go_with_them_and_those_around_do_not() -> None:
    dead = 64 * KIB, 0
    assert chosen(
        segment(1, *dead), segment(2, 64 * KIB, KIB), segment(3, *dead),
        segment(4, 64 * KIB, KIB), segment(5, *dead),
    ) == [2, 3, 4]  # fmt: skip


def test_a_dead_one_in_between_does_not_make_a_rewrite_worth_it() -> None:
    tiny = compacted_bytes(100)
    assert chosen(segment(1, tiny, 100), segment(2, MAX, 0), segment(3, 64 * KIB, 60 * KIB)) == []


def test_what_is_active_or_in_no_snapshot_yet_is_not_chosen() -> None:
    segments = [segment(n, 64 * KIB, KIB) for n in (1, 2, 3, 4)]
    segments[3].lsn_last = 0

    assert chosen(*segments) == [1, 2, 3]
    assert chosen(*segments, settled_lsn=299) == [1, 2]
    assert chosen(*segments, settled_lsn=298) == [1]
    assert chosen(*segments, settled_lsn=0) == []


def test_a_damaged_one_is_left_alone_dead_or_alive() -> None:
    around = segment(1, 64 * KIB, KIB), segment(3, 64 * KIB, KIB)
    for live_bytes in (0, KIB):
        damaged = segment(2, 64 * KIB, live_bytes, damaged=True)
        assert chosen(around[0], damaged, around[1]) == [1]
        assert chosen(damaged, around[1]) == [3]


def test_together_they_fit_into_one_segment() -> None:
    segments = [segment(n, MAX, 300 * KIB) for n in range(1, 9)]
    assert chosen(*segments) == [1, 2, 3]


def test_one_alone_may_be_larger_than_a_segment() -> None:
    assert chosen(segment(1, 10 * MAX, 2 * MAX), segment(2, MAX, KIB)) == [1]


def test_a_run_has_a_bounded_number_of_segments() -> None:
    segments = [segment(n, 64 * KIB, 100) for n in range(1, 100)]
    assert chosen(*segments) == list(range(1, INPUTS_MAX + 1))


def test_a_run_of_which_nothing_is_saved_is_not_chosen() -> None:
    small = compacted_bytes(100)
    assert chosen(segment(1, small, 100)) == []
    assert chosen(segment(1, 2 * small - 1, 100)) == []
    assert chosen(segment(1, 2 * small, 100)) == [1], "half of it is saved"
    assert chosen(*(segment(n, small, 100) for n in (1, 2, 3))) == [1, 2, 3]


def test_segments_measured_in_vain_are_not_chosen_until_half_their_items_are_gone() -> None:
    one = segment(1, 64 * KIB, 10_000)  # 100 puts
    assert chosen(one) == [1]
    one.measured, one.extra_bytes = 100, 40 * KIB
    assert live_frame_bytes(one) == 10_000 + 40 * KIB
    assert chosen(one) == []

    one.live, one.live_bytes = 51, 5_100
    assert chosen(one) == [], "the heavy ones may be those that are left"
    one.live, one.live_bytes = 50, 5_000
    assert live_frame_bytes(one) == 5_000 + 20 * KIB
    assert chosen(one) == [1]


def test_the_new_segment_counts_what_is_alive_in_those_it_stands_for_now() -> None:
    inputs = [segment(n, 64 * KIB, 300 * n) for n in (1, 2)]
    inputs[0].emptied_lsn, inputs[1].emptied_lsn = 777, 700
    fresh = segment(9, 4096, 5000)
    take_place(fresh, inputs)

    assert (fresh.live, fresh.live_bytes, fresh.emptied_lsn) == (9, 900, 777)


@dataclass
class Model:
    """A segment whose puts are known: bytes of header and body, of meta and padding."""

    segment: Segment
    puts: list[tuple[int, int]] = field(default_factory=list)

    @property
    def frame_bytes(self) -> int:
        return sum(a + b for a, b in self.puts)

    def count(self) -> None:
        self.segment.live = len(self.puts)
        self.segment.live_bytes = sum(a for a, _ in self.puts)

    def measure(self) -> None:
        self.segment.measured = len(self.puts)
        self.segment.extra_bytes = sum(b for _, b in self.puts)


PUTS = st.lists(
    st.tuples(st.integers(64, 9000), st.one_of(st.just(0), st.integers(0, 9000))), max_size=12
)


@st.composite
def chains(draw: st.DrawFn) -> list[Model]:
    models = []
    for number, puts in enumerate(draw(st.lists(PUTS, max_size=14)), 1):
        needed = compacted_bytes(sum(a + b for a, b in puts))
        dead = draw(st.sampled_from([0, 512, 3000, 20_000, 200_000])) // 512 * 512
        model = Model(segment(number, needed + dead, 0), puts)
        model.segment.damaged = draw(st.integers(0, 9)) == 0
        model.count()
        models.append(model)
    return models


def rewrite(models: list[Model], run: list[Segment]) -> None:
    """Do as a job and the journal: measure in vain, or let one stand for all of them."""
    first = next(n for n, m in enumerate(models) if m.segment is run[0])
    inputs = models[first : first + len(run)]
    assert [m.segment for m in inputs] == run
    puts = [put for m in inputs for put in m.puts]
    capacity = compacted_bytes(sum(a + b for a, b in puts))
    if capacity * 2 > sum(s.capacity for s in run if s.live):
        before = [live_frame_bytes(s) for s in run]
        for model in inputs:
            model.measure()
        assert [live_frame_bytes(s) for s in run] != before, "in vain twice"
        return
    number = max(m.segment.number for m in models) + 1
    fresh = Model(segment(number, capacity, 0), puts)
    fresh.segment.lsn_first = run[0].lsn_first
    fresh.segment.lsn_last, fresh.segment.rank = run[-1].lsn_last, run[0].rank or run[0].number
    fresh.count()
    fresh.measure()
    models[first : first + len(run)] = [fresh]


def bound(models: list[Model], segment_max: int) -> int:
    """Return the most bytes of files that are left once `choose` finds nothing more to do.

    That is twice the live bytes (by `live_frame_bytes`: with the meta of items that ended since the
    last measure, up to half of it), with a BATCH frame for each half piece; and twice the fixed
    cost of a file for each run that was looked at and was not worth it. Such a run ends at a
    segment that is half alive, damaged or the last; or after 64 segments; or where the next would
    not fit, and two runs in a row then hold more than one segment takes.
    """
    fixed = OVERHEAD_BYTES + SECTOR_BYTES - 1
    total = ends = 0
    for model in models:
        size = max(model.frame_bytes, live_frame_bytes(model.segment))
        with_batches = size + 64 * -(-2 * size // (1 << 20))
        total += with_batches
        ends += model.segment.damaged or with_batches * 2 >= model.segment.capacity
    runs = ends + 1 + len(models) // INPUTS_MAX + 2 * total // (segment_max - fixed)
    return 2 * total + 2 * fixed * runs


def check_to_the_end(models: list[Model], segment_max: int) -> int:
    """Rewrite until nothing is left to do; return the number of rewrites."""
    times = 0
    while run := choose([m.segment for m in models], 1 << 40, segment_max):
        times += 1
        assert times < 200, "this does not end"
        assert len(run) <= INPUTS_MAX
        assert all(s.lsn_last > 0 and not s.damaged for s in run)
        assert all(s.live_bytes * 2 < s.capacity for s in run)
        assert run[0].live
        assert run[-1].live
        guess = compacted_bytes(sum(live_frame_bytes(s) for s in run))
        assert guess <= segment_max or sum(s.live > 0 for s in run) == 1
        assert guess * 2 <= sum(s.capacity for s in run if s.live)
        rewrite(models, run)
    kept = sum(m.segment.capacity for m in models if m.puts and not m.segment.damaged)
    assert kept <= bound(models, segment_max)
    return times


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(chains(), st.sampled_from([16 * KIB, 64 * KIB, MAX]), st.data())
def test_rewriting_ends_and_leaves_twice_what_is_alive_and_what_files_cost(
    models: list[Model], segment_max: int, data: st.DataObject
) -> None:
    check_to_the_end(models, segment_max)
    for _ in range(3):  # and again when more has ended
        for model in models:
            gone = data.draw(st.integers(0, len(model.puts)))
            model.puts = model.puts[gone :: data.draw(st.integers(1, 2))]
            model.count()
        check_to_the_end(models, segment_max)


def test_rewriting_ends_when_the_items_end_one_by_one() -> None:
    """Each segment is measured in vain a few times only, however its items go."""
    random = Random(5)
    puts = [(64, random.choice([0, 0, 0, 3000])) for _ in range(200)]
    model = Model(segment(1, compacted_bytes(sum(a + b for a, b in puts)), 0), puts)
    models, times = [model], 0
    while models[0].puts:
        light = [n for n, (_, extra) in enumerate(models[0].puts) if not extra]
        models[0].puts.pop(light[0] if light else 0)
        models[0].count()
        times += check_to_the_end(models, MAX)
    assert times < 20
