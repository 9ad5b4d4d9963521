"""A key is a stream: each item written under it makes the next version, and a writer may insist.

Promise version: kills, power cuts, snapshots; the whole server with crashes and faults.
"""

from __future__ import annotations

from journal.format.item_header import ItemHeader, item_header_of
from journal.format.key import join, text_of
from journal.sets.hash_table import KEY, hash_of, keyed
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.queue.queue import ANY_VERSION, DUPLICATE, EXISTS, NOT_FOUND, NOT_STORED
from tests.support.core_harness import CoreHarness, make_queue

WINDOW_MS = 60_000


def write(q: CoreHarness, key: bytes, expects: int | None = None, id_: bytes = b"") -> int:
    header = ItemHeader(id_) if id_ else None
    return q.queue.put(b"x", 0, 0, q.now_ms, key, header=header, expects=expects)


def version(q: CoreHarness, key: bytes) -> int:
    return q.queue.dedupe.versions.of(key, q.queue.policy, q.unix_ms).version


def test_every_item_written_under_a_key_is_its_next_version() -> None:
    q = make_queue()

    for expected in (1, 2, 3):
        assert write(q, b"k") > 0
        assert version(q, b"k") == expected
    assert version(q, b"other") == 0
    stamps = [item_header_of(r.meta) for r in q.records]
    assert [(s.version, s.previous) for s in stamps if s] == [(1, 0), (2, 1), (3, 2)]


def test_add_stores_only_what_nobody_wrote_before() -> None:
    q = make_queue()

    assert write(q, b"k", expects=0) > 0
    assert write(q, b"k", expects=0) == EXISTS
    assert version(q, b"k") == 1


def test_cas_stores_at_exactly_that_version() -> None:
    q = make_queue()

    assert write(q, b"k", expects=1) == NOT_FOUND
    assert write(q, b"k", expects=0) > 0
    assert write(q, b"k", expects=2) == EXISTS
    assert write(q, b"k", expects=1) > 0
    assert version(q, b"k") == 2


def test_replace_stores_where_something_was_written() -> None:
    q = make_queue()

    assert write(q, b"k", expects=ANY_VERSION) == NOT_FOUND
    write(q, b"k")
    assert write(q, b"k", expects=ANY_VERSION) > 0


def test_the_id_is_looked_at_before_the_version_and_remembered_only_if_stored() -> None:
    q = make_queue()

    assert write(q, b"k", expects=1, id_=b"a") == NOT_FOUND
    assert write(q, b"k", expects=0, id_=b"a") > 0
    assert write(q, b"k", expects=7, id_=b"a") == DUPLICATE
    assert write(q, b"k", expects=7, id_=b"b") == EXISTS
    assert write(q, b"k", expects=1, id_=b"b") > 0


def test_a_full_queue_changes_no_version() -> None:
    q = make_queue(max_items=1)
    write(q, b"k")

    assert write(q, b"k", expects=1) == NOT_STORED
    assert version(q, b"k") == 1


def test_what_was_confirmed_or_is_delayed_counts_too() -> None:
    q = make_queue()
    write(q, b"k")
    q.close(q.open())
    q.queue.put(b"x", 0, 0, q.now_ms, b"k", delay=Delay(1000, False))

    assert version(q, b"k") == 2
    assert write(q, b"k", expects=2) > 0


def test_a_key_is_forgotten_when_nobody_wrote_under_it_for_the_window() -> None:
    q = make_queue(dedupe_window_ms=WINDOW_MS)
    write(q, b"k")
    q.now_ms += WINDOW_MS - 1
    write(q, b"k")
    q.now_ms += WINDOW_MS - 1
    assert version(q, b"k") == 2
    q.now_ms += 1

    assert version(q, b"k") == 0
    assert write(q, b"k", expects=0) > 0
    assert version(q, b"k") == 1
    q.now_ms += WINDOW_MS * 2
    for _ in range(10):
        q.now_ms += WINDOW_MS
        q.pass_time(0)
    assert q.queue.dedupe.versions.is_empty


def test_with_retain_a_key_is_never_forgotten() -> None:
    q = make_queue(dedupe_window_ms=WINDOW_MS, retain_ms=None)
    write(q, b"k", id_=b"an id")
    q.pass_time(WINDOW_MS - 1)
    assert not q.queue.dedupe.ids.is_empty
    q.pass_time(WINDOW_MS * 3)

    assert q.queue.dedupe.ids.is_empty, "what may be forgotten was looked through"
    assert version(q, b"k") == 1
    assert q.queue.dedupe.versions.table.count == 1


def test_a_restart_knows_the_versions() -> None:
    q = make_queue()
    for _ in range(3):
        write(q, b"k")
    q.close(q.open())

    again = q.restarted()

    assert version(again, b"k") == 3
    assert write(again, b"k", expects=2) == EXISTS
    assert write(again, b"k", expects=3) > 0


def test_keys_that_look_alike_are_different_streams() -> None:
    q = make_queue()
    write(q, join([text_of(b"A"), text_of(b"B")], False))

    assert version(q, join([text_of(b"AB")], False)) == 0


def test_where_a_key_would_stand_is_asked_again_when_others_were_written_since() -> None:
    q = make_queue()
    versions, key = q.queue.dedupe.versions, b"the key"
    versions.last(key)
    for number in range(500):  # buckets are split
        versions._apply_written(b"other %d" % number, 1, number + 1, q.unix_ms)

    versions._apply_written(key, 1, 501, q.unix_ms)
    versions._apply_written(key, 2, 502, q.unix_ms)

    assert versions.table.count == 501
    assert versions.last(key)[:2] == (2, 502)
    assert all(versions.last(b"other %d" % number).item == number + 1 for number in range(500))


def test_what_a_later_chunk_says_of_a_key_takes_the_place_of_the_earlier_word() -> None:
    q = make_queue()
    versions, keys = q.queue.dedupe.versions, [hash_of(keyed(b""), b"key %d" % n) for n in range(4)]
    for item, version in ((1, 1), (11, 2)):
        entries = sorted(KEY.pack(key, q.unix_ms, item, version) for key in keys)
        versions.load(b"".join(entries))

    assert versions.table.count == 4
    assert {KEY.unpack(entry)[2:] for entry in versions.table} == {(11, 2)}
