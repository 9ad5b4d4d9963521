"""Due times in chunks: a sorted list in which nothing takes longer than a chunk or two."""

from __future__ import annotations

import gc
from random import Random

import pytest

from journal.sets.id_set import IdSet
from kestrelpy.core.index.sorted_table import CHUNK_ENTRIES, ENTRY, Due, DueTimes


def in_chunks(times: DueTimes) -> list[int]:
    return [len(chunk) // 20 for chunk in times._chunks]


@pytest.mark.parametrize("seed", range(30))
def test_it_is_a_sorted_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrelpy.core.index.sorted_table.CHUNK_ENTRIES", 8)
    monkeypatch.setattr("kestrelpy.core.index.sorted_table._CHUNK_BYTES", 160)
    monkeypatch.setattr("kestrelpy.core.index.sorted_table._MERGED_BYTES", 80)
    random = Random(seed)
    model: list[Due] = sorted((random.randrange(50), id_, 7) for id_ in range(1, seed * 3))
    times, copies = DueTimes(reversed(model)), list[tuple[DueTimes, list[Due]]]()
    for id_ in range(100, 400):
        act = random.random()
        if act < 0.5:
            due = random.choice([random.randrange(60), id_])
            times.add(due, id_, id_ % 5)
            model = sorted([*model, (due, id_, id_ % 5)])
        elif act < 0.7 and model:
            assert times.pop() == model.pop(0)
        elif act < 0.9:
            gone = random.choice(model)[1] if model and random.random() < 0.9 else id_
            found = next((each for each in model if each[1] == gone), None)
            assert times.find(gone) == found
            assert times.remove(gone) == (found is not None)
            model = [each for each in model if each[1] != gone]
        elif act < 0.93:
            ids = IdSet()
            for each in sorted(each[1] for each in model):
                if each % 7:
                    ids.add(each)
            for _ in range(random.choice([1, len(times._chunks) + 1])):
                times.tidy(ids)
            left = set(times)
            assert all(each in left for each in model if each[1] % 7)
            assert left <= set(model)
            model = sorted(left)
        elif act < 0.95:
            due = random.choice([each[0] for each in model] or [9])
            assert times.of(due) == [each for each in model if each[0] == due]
            gone = random.choice([*model, (due, 9, 9)])
            times.discard(*gone)
            model = [each for each in model if each != gone]
        elif act < 0.97:
            copies.append((times.copy(), model[:]))
        assert times.first() == (model[0] if model else None)
        assert (list(times), times.count) == (model, len(model))
        assert [chunk[-20:] for chunk in times._chunks] == times._lasts
        assert max(in_chunks(times), default=0) <= 8
    for copy, then in copies:
        assert list(copy) == then
    times.clear()
    assert (times.first(), times.count, list(times)) == (None, 0, [])


def test_an_id_is_found_only_where_an_id_stands() -> None:
    """The bytes of an id may also be a part of a time or a size, or lie across two fields."""
    times = DueTimes()
    times.add(7 << 8, 1, 0)
    times.add(9 << 32, 2, 0)
    times.add((9 << 32) + 1, 3, 7)
    assert times.find(9 << 32) is times.find(7) is times.find(7 << 8) is None
    assert times.find(3) == ((9 << 32) + 1, 3, 7)


@pytest.mark.slow
def test_chunks_stay_full_enough() -> None:
    """Ascending entries fill their chunks; random ones fill at least half of each."""
    times, random = DueTimes(), Random(1)
    for id_ in range(1, 10_001):
        times.add(id_, id_, 0)
    assert set(in_chunks(times)[:-1]) == {CHUNK_ENTRIES}
    for id_ in range(10_001, 30_001):
        times.add(random.randrange(10_000), id_, 0)
    assert min(in_chunks(times)[1:-1]) >= CHUNK_ENTRIES // 2
    for id_ in range(1, 29_901):
        times.remove(id_)
    assert len(in_chunks(times)) <= 5


def test_all_chunks_are_tidied_in_their_turn() -> None:
    times, some = DueTimes((n, n, 0) for n in range(1, 10_001)), IdSet()
    for id_ in range(1, 10_001, 300):
        some.add(id_)
    before = times.count
    while times.count > some.count:
        times.tidy(some)
        assert before - times.count <= CHUNK_ENTRIES
        before = times.count
    assert [id_ for _, id_, _ in times] == list(some)
    for _ in range(3 * len(times._chunks)):
        times.tidy(some)
    assert len(times._chunks) == 1, "those that have become small are one"


def test_a_copy_shares_and_the_garbage_collector_has_next_to_nothing_to_look_through() -> None:
    times = DueTimes((id_, id_, 0) for id_ in range(1, 20_001))
    copy = times.copy()
    assert all(mine is theirs for mine, theirs in zip(times._chunks, copy._chunks, strict=True))
    looked_through = sum(len(gc.get_referents(each)) for each in (times._chunks, times._lasts))
    assert looked_through <= 2 * (20_000 // CHUNK_ENTRIES + 1)
    assert not any(map(gc.is_tracked, times._chunks))


@pytest.mark.parametrize("popped", [0, 3])
def test_many_are_added_behind_all_others(popped: int) -> None:
    times = DueTimes((due, due, 7) for due in range(1, 11))
    for _ in range(popped):
        times.pop()
    for first, count in ((11, 5), (16, CHUNK_ENTRIES), (16 + CHUNK_ENTRIES, 3 * CHUNK_ENTRIES)):
        times.add_behind(b"".join(ENTRY.pack(due, due, 7) for due in range(first, first + count)))
    last = 15 + 4 * CHUNK_ENTRIES
    assert times.count == last - popped
    assert [due for due, _, _ in times] == list(range(1 + popped, last + 1))
    assert times.find(last) == (last, last, 7)
    times.add(last, 5, 7)
    assert [times.pop()[0] for _ in range(times.count)] == [*range(1 + popped, last + 1), last]


def test_the_first_of_a_time_is_taken_wherever_it_stands() -> None:
    times = DueTimes((due, due, due + 7) for due in range(1, 3 * CHUNK_ENTRIES))
    times.pop()
    for due in (2, CHUNK_ENTRIES, CHUNK_ENTRIES + 1, 3 * CHUNK_ENTRIES - 1):
        assert times.take(due) == due + 7
        assert times.take(due) == 0
        assert times.find(due) is None
    assert times.take(3 * CHUNK_ENTRIES) == times.take(1) == 0
    assert times.count == len(list(times)) == 3 * CHUNK_ENTRIES - 6
    for due in range(1, 3 * CHUNK_ENTRIES):
        times.take(due)
    assert (times.count, times.first()) == (0, None)
