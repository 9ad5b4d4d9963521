"""What is here of a file: what was written, and what was fetched once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from journal.engine.cache import FETCH_BYTES, Cache

SIZE = 4 * FETCH_BYTES
CONTENT = bytes(range(256)) * (SIZE // 256)


class Store:
    """A file of the engine, and what was asked of it."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []

    def fetch(self, offset: int, size: int) -> bytes:
        self.asked.append((offset, size))
        return self.content[offset : offset + size]


def cache_of(tmp_path: Path, bytes_max: int = 1 << 30, committed: int = 1 << 30) -> Cache:
    cache = Cache(str(tmp_path / "cache"), bytes_max, lambda ticket: ticket <= committed)
    cache.begin()
    return cache


def test_a_small_read_fetches_what_lies_around_it_once(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE)

    assert cache.read(file, 100, 10, store.fetch) == CONTENT[100:110]
    assert cache.read(file, 2000, 10, store.fetch) == CONTENT[2000:2010]
    assert cache.read(file, FETCH_BYTES - 5, 10, store.fetch) == CONTENT[FETCH_BYTES - 5 :][:10]
    assert cache.read(file, 0, -1, store.fetch) == CONTENT
    assert store.asked == [
        (0, FETCH_BYTES), (FETCH_BYTES, FETCH_BYTES), (2 * FETCH_BYTES, 2 * FETCH_BYTES)
    ]  # fmt: skip


def test_a_read_behind_the_end_gives_what_there_is(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, 100)

    assert cache.read(file, 90, 100, store.fetch) == CONTENT[90:100]
    assert cache.read(file, 100, 1, store.fetch) == b""
    assert store.asked == [(0, 100)]


def test_what_was_written_is_not_replaced_by_what_is_fetched(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE)
    descriptor = cache.open(file)
    cache.write(file, descriptor, 50, b"written")

    def written_meanwhile(offset: int, size: int) -> bytes:
        cache.write(file, descriptor, 10, b"meanwhile")
        return store.fetch(offset, size)

    found = cache.read(file, 0, 100, written_meanwhile)
    assert found == CONTENT[:10] + b"meanwhile" + CONTENT[19:50] + b"written" + CONTENT[57:100]
    cache.close(file, descriptor)


def test_between_the_old_end_and_a_write_behind_it_there_are_zeros(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store(b"ab")
    file = cache.add(1, 2)
    descriptor = cache.open(file)
    cache.write(file, descriptor, 4, b"c")

    assert cache.read(file, 0, -1, store.fetch) == b"ab\0\0c"
    cache.close(file, descriptor)


def test_files_read_longest_ago_go_first(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path, bytes_max=2 * SIZE), Store()
    files = [cache.add(number, SIZE) for number in range(3)]
    for at in (0, 1, 0, 2):
        assert cache.read(files[at], 0, -1, store.fetch) == CONTENT

    assert [file.present.bytes for file in files] == [SIZE, 0, SIZE]
    assert len(os.listdir(cache.here)) == 2
    assert cache.read(files[1], 0, -1, store.fetch) == CONTENT


@pytest.mark.parametrize("why", ["it is written", "the engine does not have it yet"])
def test_a_file_stays_while(tmp_path: Path, why: str) -> None:
    cache, store = cache_of(tmp_path, bytes_max=SIZE, committed=7), Store()
    kept = cache.make(1, CONTENT, SIZE)
    if why == "it is written":
        cache.open(kept)
    else:
        kept.ticket = 8
    others = [cache.add(number, SIZE) for number in (2, 3)]
    for each in others:
        cache.read(each, 0, -1, store.fetch)

    assert cache.read(kept, 0, -1, _unasked) == CONTENT


def test_a_file_that_is_deleted_is_gone_also_for_a_read_under_way(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE)

    def deleted_meanwhile(offset: int, size: int) -> bytes:
        cache.forget(file)
        return store.fetch(offset, size)

    with pytest.raises(FileNotFoundError):
        cache.read(file, 0, 10, deleted_meanwhile)
    assert os.listdir(cache.here) == []


def test_a_new_process_begins_with_nothing(tmp_path: Path) -> None:
    cache_of(tmp_path).make(1, CONTENT, SIZE)

    again = cache_of(tmp_path)
    assert os.listdir(again.folder) == [os.path.basename(again.here)]
    assert os.listdir(again.here) == []


def _unasked(offset: int, size: int) -> bytes:
    raise AssertionError("it is here")


