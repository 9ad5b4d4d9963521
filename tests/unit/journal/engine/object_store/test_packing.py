"""Packs and snapshots: what they keep, while commits go on."""

from __future__ import annotations

import pytest

from journal.engine import Create, Write
from journal.engine.object_store import ObjectStoreEngine, make_store, packing
from tests.support.memory_bucket import MemoryBucket
from tests.support.memory_engine import claimed


@pytest.fixture
def bucket() -> MemoryBucket:
    made = MemoryBucket()
    make_store(made)
    return made


def engine_on(bucket: MemoryBucket) -> ObjectStoreEngine:
    return ObjectStoreEngine(bucket, keep_s=0.0, is_threaded=False)


def test_what_is_committed_while_packs_are_written_is_kept(
    bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_on(bucket)
    at = claimed(engine, "a")
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"one")])
    at = at.after()
    monkeypatch.setattr(packing, "DUE_ENTRIES", 3)
    write = bucket.put

    def slowly(key: str, data: bytes) -> None:
        bucket.put = write  # type: ignore[method-assign]
        monkeypatch.setattr(packing, "DUE_ENTRIES", 1000)
        engine.commit(at.after(), [Write(1, 3, b"two")])
        write(key, data)

    bucket.put = slowly  # type: ignore[method-assign]
    engine.commit(at, [])
    at = at.after().after()
    engine.commit(at, [Write(1, 6, b"three")])

    for each in (engine, engine_on(bucket)):
        assert each.read(at.after(), 1, 0, 11) == b"onetwothree"


def test_later_bytes_lie_over_packed_ones(
    bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "DUE_ENTRIES", 2)
    engine = engine_on(bucket)
    at, wanted = claimed(engine, "a"), bytearray(b"." * 40)
    engine.commit(at, [Create(1, "a", 40), Write(1, 0, bytes(wanted))])
    later = [(5, b"bbbbb"), (0, b"aaaaaaa"), (30, b"c" * 10), (8, b"dd"), (3, b"e" * 30)]
    for begin, data in later:
        at = at.after()
        engine.commit(at, [Write(1, begin, data)])
        wanted[begin : begin + len(data)] = data
        for each in (engine, engine_on(bucket)):
            assert each.read(at.after(), 1, 0, 40) == wanted


def test_a_pack_holds_no_more_than_it_may(
    bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "DUE_BYTES", 1000)
    monkeypatch.setattr(packing, "PACK_BYTES", 700)
    engine = engine_on(bucket)
    at = claimed(engine, "a")
    data = bytes(range(250)) * 10
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, data), Create(2, "b", 0), Write(2, 9, data)])
    engine.commit(at.after(), [])
    at = at.after().after()

    packs = [len(data) for key, data in bucket.objects.items() if "/packs/" in key]
    assert max(packs) <= 700
    assert len(packs) < 10
    assert engine_on(bucket).read(at, 1, 0, 2500) == data
    assert engine_on(bucket).read(at, 2, 0, 2509) == bytes(9) + data
