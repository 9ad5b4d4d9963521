"""The cache has the written and the fetched parts of a file.

Promise: fleet-cache.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    file = cache.add(1, SIZE, SIZE)

    assert cache.read(file, 100, 10, store.fetch) == CONTENT[100:110]
    assert cache.read(file, 2000, 10, store.fetch) == CONTENT[2000:2010]
    assert cache.read(file, FETCH_BYTES - 5, 10, store.fetch) == CONTENT[FETCH_BYTES - 5 :][:10]
    assert cache.read(file, 0, -1, store.fetch) == CONTENT
    assert store.asked == [
        (0, FETCH_BYTES), (FETCH_BYTES, FETCH_BYTES), (2 * FETCH_BYTES, 2 * FETCH_BYTES)
    ]  # fmt: skip


def test_zeros_at_the_end_of_a_file_are_not_fetched(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE, 100)

    assert cache.read(file, 50, SIZE, store.fetch) == CONTENT[50:100] + bytes(SIZE - 100)
    assert cache.read(file, SIZE - 10, 20, store.fetch) == bytes(10)
    assert store.asked == [(0, FETCH_BYTES)]


def test_bytes_written_where_zeros_were_stay(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE, 100)
    descriptor = cache.open(file)
    cache.write(file, descriptor, 200, b"new")

    assert cache.read(file, 100, 200, store.fetch) == bytes(100) + b"new" + bytes(97)
    cache.write(file, descriptor, SIZE, b"longer")
    cache.close(file, descriptor)
    assert cache.read(file, SIZE - 1, 10, store.fetch) == b"\0longer"
    assert store.asked == []


def test_what_was_written_over_zeros_and_let_go_is_fetched(tmp_path: Path) -> None:
    content = b"x" * 100 + b"new".ljust(SIZE - 100, b"\0")
    cache, store = cache_of(tmp_path, bytes_max=0), Store(content)
    file, other = cache.add(1, SIZE, 100), cache.add(2, SIZE, SIZE)
    descriptor = cache.open(file)
    cache.write(file, descriptor, 100, b"new")
    cache.close(file, descriptor)
    cache.read(other, 0, -1, store.fetch)
    assert file.present.bytes == 0, "it was let go"

    assert cache.read(file, 90, 20, store.fetch) == b"x" * 10 + b"new" + bytes(7)


@pytest.mark.parametrize("name", ["open", "pwrite", "pread"])
def test_zeros_that_the_disk_refuses_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cache, disk = cache_of(tmp_path), Refusing(monkeypatch)
    store = Store(CONTENT[:100] + bytes(SIZE - 100))
    file = cache.add(1, SIZE, 100)
    disk.refused = {name}

    assert cache.read(file, 50, 100, store.fetch) == store.content[50:150]
    assert cache.read(file, SIZE - 5, 5, store.fetch) == bytes(5)


def test_what_was_fetched_for_many_files_is_here(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE, SIZE)
    cache.add_fetched(1, 0, CONTENT[:50])
    cache.add_fetched(1, SIZE - 7, CONTENT[-7:])
    cache.add_fetched(2, 0, b"of a file that is gone")

    assert cache.read(file, 0, 50, store.fetch) == CONTENT[:50]
    assert cache.read(file, SIZE - 7, 7, store.fetch) == CONTENT[-7:]
    assert store.asked == []


def test_what_cannot_be_cached_of_many_files_is_fetched_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, store, disk = cache_of(tmp_path), Store(), Refusing(monkeypatch)
    file = cache.add(1, SIZE, SIZE)
    disk.refused = {"pwrite"}
    cache.add_fetched(1, 0, CONTENT[:50])
    cache.add_fetched(1, SIZE - 7, CONTENT[-7:])

    assert cache.read(file, 0, 50, store.fetch) == CONTENT[:50]


def test_a_read_behind_the_end_gives_what_there_is(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, 100, 100)

    assert cache.read(file, 90, 100, store.fetch) == CONTENT[90:100]
    assert cache.read(file, 100, 1, store.fetch) == b""
    assert store.asked == [(0, 100)]


def test_what_was_written_is_not_replaced_by_what_is_fetched(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE, SIZE)
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
    file = cache.add(1, 2, 2)
    descriptor = cache.open(file)
    cache.write(file, descriptor, 4, b"c")

    assert cache.read(file, 0, -1, store.fetch) == b"ab\0\0c"
    cache.close(file, descriptor)


def test_files_read_longest_ago_go_first(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path, bytes_max=2 * SIZE), Store()
    files = [cache.add(number, SIZE, SIZE) for number in range(3)]
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
    others = [cache.add(number, SIZE, SIZE) for number in (2, 3)]
    for each in others:
        cache.read(each, 0, -1, store.fetch)

    assert cache.read(kept, 0, -1, _unasked) == CONTENT


def test_a_file_that_is_deleted_is_gone_also_for_a_read_under_way(tmp_path: Path) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.add(1, SIZE, SIZE)

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




class Refusing:
    """A local disk that refuses the next calls of a kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: set[str] = set()
        for name in ("open", "pwrite", "pread", "ftruncate"):
            monkeypatch.setattr(f"journal.engine.cache.os.{name}", self._around(name))

    def _around(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*words: Any) -> Any:
            if name in self.refused:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*words)

        return call


@pytest.mark.parametrize("name", ["open", "pwrite", "ftruncate"])
def test_a_file_that_the_local_disk_refuses_is_read_from_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cache, store, disk = cache_of(tmp_path), Store(), Refusing(monkeypatch)
    disk.refused = {name}
    file = cache.make(1, CONTENT, SIZE)
    descriptor = cache.open(file)
    disk.refused.clear()
    cache.write(file, descriptor, SIZE, b"more")

    assert file.was_refused and file.size == SIZE + 4
    assert cache.read(file, 10, 20, store.fetch) == CONTENT[10:30]
    assert store.asked == [(10, 20)]
    assert cache.refusals == 1
    cache.close(file, descriptor)


def test_bytes_over_which_the_local_disk_refuses_to_write_are_those_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, store, disk = cache_of(tmp_path), Store(b"new" + CONTENT[3:]), Refusing(monkeypatch)
    file = cache.make(1, CONTENT, SIZE)
    descriptor = cache.open(file)
    disk.refused = {"pwrite"}
    cache.write(file, descriptor, 0, b"new")
    disk.refused.clear()
    cache.write(file, descriptor, 3, CONTENT[3:4])

    assert cache.read(file, 0, 10, store.fetch) == b"new" + CONTENT[3:10]
    cache.close(file, descriptor)


@pytest.mark.parametrize("name", ["open", "pwrite", "pread"])
def test_what_is_fetched_and_cannot_be_cached_is_returned_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cache, store, disk = cache_of(tmp_path), Store(), Refusing(monkeypatch)
    file = cache.add(1, SIZE, SIZE)
    disk.refused = {name}

    assert cache.read(file, 0, 10, store.fetch) == CONTENT[:10]
    assert cache.read(file, 0, -1, store.fetch) == CONTENT


@pytest.mark.parametrize("how", ["removed", "cut short"])
def test_a_cached_file_that_somebody_took_is_read_from_the_engine(
    tmp_path: Path, how: str
) -> None:
    cache, store = cache_of(tmp_path), Store()
    file = cache.make(1, CONTENT, SIZE)
    if how == "removed":
        os.unlink(file.local)
    else:
        os.truncate(file.local, 100)

    assert cache.read(file, 0, -1, store.fetch) == CONTENT


def test_a_full_disk_lets_all_go_that_the_engine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, disk = cache_of(tmp_path, committed=7), Refusing(monkeypatch)
    here = [cache.make(number, CONTENT, SIZE) for number in (1, 2)]
    here[1].ticket = 8
    disk.refused = {"pwrite"}
    cache.make(3, CONTENT, SIZE)

    assert [each.present.bytes for each in here] == [0, SIZE]


def test_a_file_that_was_removed_is_not_fetched_though_the_engine_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, store, disk = cache_of(tmp_path), Store(), Refusing(monkeypatch)
    disk.refused = {"open"}
    file = cache.make(1, CONTENT, SIZE)
    cache.forget(file)

    with pytest.raises(FileNotFoundError):
        cache.read(file, 0, 10, store.fetch)


def test_what_may_go_is_looked_for_only_when_much_is_new(tmp_path: Path) -> None:
    looks: list[int] = []

    def is_committed(ticket: int) -> bool:
        looks.append(ticket)
        return False

    cache = Cache(str(tmp_path / "cache"), 32 * FETCH_BYTES, is_committed)
    cache.begin()
    large, small = cache.add(1, 40 * FETCH_BYTES, 40 * FETCH_BYTES), cache.add(2, SIZE, SIZE)
    fetch = Store(bytes(40 * FETCH_BYTES)).fetch
    cache.read(large, 0, -1, fetch)
    assert len(looks) == 1, "it is too large, and stays"

    cache.read(small, 0, 10, fetch)
    assert len(looks) == 1, "little is new"
    cache.read(small, FETCH_BYTES, 10, fetch)
    assert len(looks) == 3, "both are asked for again"
