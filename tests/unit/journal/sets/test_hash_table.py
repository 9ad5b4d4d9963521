"""The table of hashes holds what a list would, whatever comes and goes, in little more bytes."""

from __future__ import annotations

import os
import sys
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.sets.hash_table import ID, KEY, Table, time_of


def hash_of(number: int) -> bytes:
    return blake2b(number.to_bytes(8, "big"), digest_size=16).digest()


def entry(number: int, time_ms: int = 0, item: int = 0, fingerprint: int = 0) -> bytes:
    return ID.pack(hash_of(number), time_ms, item or number, fingerprint)


def test_what_was_added_is_found_and_nothing_else() -> None:
    table = Table(ID)
    for number in range(5000):
        table.add(entry(number, time_ms=number, fingerprint=~number & 2**64 - 1))

    assert table.count == 5000
    for number in range(5000):
        found = table.find(hash_of(number))
        assert found is not None
        assert ID.unpack_from(*found) == (hash_of(number), number, number, ~number & 2**64 - 1)
        assert time_of(*found) == number
    assert all(table.find(hash_of(number)) is None for number in range(5000, 9000))


def test_the_last_entry_of_a_hash_counts() -> None:
    table = Table(ID)
    table.add(entry(1, time_ms=10))
    table.add(entry(1, time_ms=20))

    found = table.find(hash_of(1))
    assert found is not None and time_of(*found) == 20


def test_a_hash_that_stands_across_two_entries_is_not_found() -> None:
    table = Table(ID)
    across = hash_of(7)
    table.add(ID.pack(b"\0" * 16, int.from_bytes(across[:8], "little"),
                      int.from_bytes(across[8:], "little"), 0))  # fmt: skip

    assert table.find(across) is None


def test_an_entry_put_again_takes_the_place_of_the_one_before() -> None:
    table = Table(KEY)
    for version in range(1, 4):
        table.put(KEY.pack(hash_of(1), version * 10, version, version))

    assert table.count == 1
    found = table.find(hash_of(1))
    assert found is not None and KEY.unpack_from(*found)[3] == 3


def test_sorted_entries_are_loaded_as_if_added_one_by_one() -> None:
    entries = sorted(entry(number) for number in range(20_000))
    table = Table(ID, expected=20_000)
    half = len(entries) // 2
    table.load(b"".join(entries[:half]))
    table.load(b"".join(entries[half:]))
    table.load(b"".join(sorted(entry(number) for number in range(20_000, 20_050))))

    assert table.count == 20_050
    assert all(table.find(hash_of(number)) for number in range(20_050))
    for number in range(30_000, 50_000):
        table.add(entry(number))
    assert sorted(table) == sorted(
        entry(number) for number in (*range(20_050), *range(30_000, 50_000))
    )


@pytest.mark.parametrize("piece", [1, 10, 700, 5000])
def test_sorted_entries_are_loaded_piece_by_piece_each_into_its_few_buckets(piece: int) -> None:
    entries = sorted(entry(number) for number in range(5000))
    table = Table(ID, expected=5000)
    for at in range(0, len(entries), piece):
        table.load(b"".join(entries[at : at + piece]))
    table.load(b"")

    assert sorted(table) == entries and table.count == 5000
    assert all(table.find(hash_of(number)) for number in range(5000))


def test_what_is_swept_is_gone_and_so_is_its_memory() -> None:
    table = Table(ID)
    for number in range(100_000):
        table.add(entry(number, time_ms=number))
    large = memory_of(table)

    for _ in range(8):
        table.sweep(99_900, table.buckets)

    assert table.count == 100
    assert memory_of(table) < large / 100
    assert all(table.find(hash_of(number)) for number in range(99_900, 100_000))


def memory_of(table: Table) -> int:
    rows = (*table._row, *table._next)
    return sys.getsizeof(table._row) + sys.getsizeof(table._next) + sum(map(sys.getsizeof, rows))


@pytest.mark.parametrize("width", [ID, KEY])
def test_an_entry_costs_at_most_64_bytes(width: object) -> None:
    layout = KEY if width is KEY else ID
    table = Table(layout)
    rest = bytes(layout.size - 16)
    for _ in range(50_000):
        table.add(os.urandom(16) + rest)
        if table.count % 10_000 == 0:
            assert memory_of(table) / table.count < 56  # and what the allocator adds


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 400), st.integers(0, 100)),
    st.tuples(st.just("put"), st.integers(0, 400), st.integers(0, 100)),
    st.tuples(st.just("sweep"), st.integers(1, 6), st.integers(0, 100)),
    st.tuples(st.just("many"), st.integers(0, 4000), st.integers(0, 100)),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=60))
def test_it_holds_what_a_list_holds(steps: list[tuple[str, int, int]]) -> None:
    table, told = Table(ID), list[tuple[int, int]]()
    for what, number, time_ms in steps:
        if what == "sweep":
            for _ in range(number * 4):
                table.sweep(time_ms, table.buckets)
            told = [(n, t) for n, t in told if t >= time_ms]
        elif what == "many":
            for each in range(number, number + 300):
                table.add(entry(each, time_ms))
                told.append((each, time_ms))
        elif what == "put" and any(n == number for n, _ in told):
            last = max(at for at, (n, _) in enumerate(told) if n == number)
            table.put(entry(number, time_ms))
            told[last] = (number, time_ms)
        else:
            (table.put if what == "put" else table.add)(entry(number, time_ms))
            told.append((number, time_ms))
    assert table.count == len(told)
    assert sorted(table) == sorted(entry(n, t) for n, t in told)
    latest = dict(told)
    for number in range(500):
        found = table.find(hash_of(number))
        assert (time_of(*found) if found else None) == latest.get(number)
