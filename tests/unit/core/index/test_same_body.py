"""An id with another body or key: known for a mistake, over restarts, chunks and old journals.

Promise same-body: kills, power cuts, snapshots, chunks of this version and of earlier ones.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from journal.files import Disk
from journal.format.item_header import ItemHeader
from journal.sets import ID
from journal.write.segment_file import Sizes
from kestrelpy.core import DUPLICATE, REUSED
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.restart import recover
from tests.golden.build import GOLDEN
from tests.golden.layout import TIME_MS
from tests.golden.once import ACCOUNT
from tests.support.core_harness import CoreHarness, make_queue
from tests.support.transfer_harness import TransferHarness

A, B = b"\1\1\0\0\0A", b"\1\1\0\0\0B"  # two canonical keys
PLAIN = ItemHeader(b"cmd")
OF_KEY = ItemHeader(b"cmd", of_key=True)
SCOPED = ItemHeader(b"cmd", b"s", 1)


def put(q: CoreHarness, header: ItemHeader, key: bytes, body: bytes) -> int:
    return q.queue.put(body, 0, 0, q.now_ms, key, header=header)


@pytest.mark.parametrize(
    ("header", "key", "body", "answer"),
    [
        (PLAIN, A, b"x", DUPLICATE), (PLAIN, A, b"y", REUSED), (PLAIN, B, b"x", REUSED),
        (PLAIN, b"", b"x", REUSED), (PLAIN, A, b"", REUSED),
        (OF_KEY, A, b"x", DUPLICATE), (OF_KEY, A, b"y", REUSED), (OF_KEY, B, b"x", 0),
        (SCOPED, A, b"x", DUPLICATE), (SCOPED, A, b"y", REUSED), (SCOPED, B, b"x", REUSED),
    ],
)  # fmt: skip
def test_an_id_with_another_body_or_key_is_no_repetition(
    header: ItemHeader, key: bytes, body: bytes, answer: int
) -> None:
    q = make_queue()
    assert put(q, header, A, b"x") > 0

    said = put(q, header, key, body)

    assert (said if said < 0 else 0) == answer
    assert put(q, header, A, b"x") == DUPLICATE


def test_an_id_of_a_key_and_the_same_id_of_the_queue_are_two() -> None:
    q = make_queue()

    assert put(q, OF_KEY, A, b"x") > 0
    assert put(q, PLAIN, B, b"y") > 0
    assert put(q, OF_KEY, A, b"x") == DUPLICATE
    assert put(q, PLAIN, B, b"y") == DUPLICATE


def test_an_id_that_was_stored_for_the_queue_is_seen_in_the_stream_of_its_item_alone() -> None:
    q = make_queue()
    assert put(q, PLAIN, A, b"x") > 0

    assert put(q, OF_KEY, A, b"y") == REUSED
    assert put(q, OF_KEY, A, b"x") == DUPLICATE
    assert put(q, OF_KEY, B, b"x") > 0


def test_the_item_of_an_id_is_found_in_its_stream() -> None:
    q = make_queue()
    for key in (A, B):
        put(q, OF_KEY, key, b"x")
    ids, now = q.queue.dedupe.ids, q.unix_ms

    assert [ids.item_of(b"cmd", q.queue.policy, now, key) for key in (A, B, b"")] == [1, 2, 0]


@pytest.mark.parametrize("many", [1, 200])
def test_a_scope_with_few_ids_and_one_with_many_know_each_body(many: int) -> None:
    q = make_queue()
    for number in range(many):
        assert put(q, ItemHeader(b"%d" % number, b"s", 1), b"", b"%d" % number) > 0
    for number in range(many):
        header = ItemHeader(b"%d" % number, b"s", 1)
        assert put(q, header, b"", b"%d" % number) == DUPLICATE
        assert put(q, header, b"", b"other") == REUSED


def test_a_remembered_id_takes_no_more_than_64_bytes() -> None:
    assert ID.size <= 40


LINES = (b"id=a", b"id=a/scope=s/epoch=1", b"key=K/id=a")


@pytest.mark.parametrize("verb", [b"set", b"add"])
@pytest.mark.parametrize("options", LINES)
@pytest.mark.parametrize("way", ["now", "kill", "crash", "snapshot", "merged"])
def test_the_same_id_with_another_body_is_one_clear_error(
    verb: bytes, options: bytes, way: str
) -> None:
    town = TransferHarness()
    town.set_queue("jobs", dedupe="same body")
    line = b"%b jobs/%b 0 0 1" % (verb, options)
    assert town.say("p", line, b"x") == b"STORED\r\n"
    if way in ("snapshot", "merged"):
        town.snapshot("jobs")
    if way == "merged":
        town.say("p", b"set jobs/id=other 0 0 1", b"x")
        town.snapshot("jobs")
    if way == "crash":
        town.crash(Random(1))
    elif way != "now":
        town.kill()

    said = town.say("p", line, b"y")

    assert said is not None
    assert said.startswith(b"CLIENT_ERROR id a was stored in jobs before"), said
    again = b"STORED\r\n" if verb == b"set" else b"NOT_STORED\r\n"
    assert town.say("p", line, b"x") == again
    assert town.queue("jobs").total_items == 1 + (way == "merged")


@pytest.mark.parametrize(("verb", "word"), [(b"set", b"STORED\r\n"), (b"add", b"NOT_STORED\r\n")])
def test_without_the_setting_a_body_is_not_looked_at(verb: bytes, word: bytes) -> None:
    town = TransferHarness()
    town.say("p", b"set jobs/id=a 0 0 1", b"x")

    assert town.say("p", b"%b jobs/id=a 0 0 1" % verb, b"y") == word


def test_a_hand_off_under_a_used_id_confirms_nothing() -> None:
    town = TransferHarness()
    town.set_queue("next", dedupe="same body")
    town.say("c", b"set jobs 0 0 1", b"a")
    town.say("p", b"set next/id=a 0 0 1", b"x")
    town.say("c", b"get jobs/open")

    said = town.say("c", b"set next/id=a/confirm 0 0 1", b"y")

    assert said is not None and said.startswith(b"CLIENT_ERROR id a was stored in next before")
    assert len(town.queue("jobs").reader.leases) == 1


@pytest.mark.parametrize("version", ["v5", "v6", "v7", "v8"])
def test_ids_of_older_journals_count_as_they_did(tmp_path: Path, version: str) -> None:
    shutil.copytree(GOLDEN / version / "once.1", tmp_path / "data" / "once.1")
    town = TransferHarness()
    directory = DataDirectory(Disk(), str(tmp_path / "data"), Sizes())
    found = recover(directory, town.broker, [], town.now_ms, TIME_MS + 10)
    queue, unix_ms = town.broker.queues[b"once"], TIME_MS + 10
    ids, last = queue.dedupe.ids, queue.dedupe.versions.last(ACCOUNT).item
    assert found.damages == []

    def seen(id_: bytes, key: bytes, written: int) -> bool:
        header = ItemHeader(id_, of_key=True)
        return ids.has_seen(header, queue.policy, unix_ms, key, written)

    assert seen(b"order-2", ACCOUNT, last), "stored for this stream, over HTTP"
    assert not seen(b"order-2", A, 0), "nothing was written to this stream since"
    is_known = version in ("v7", "v8")  # an older chunk has no fingerprints
    assert ids.has_seen(ItemHeader(b"order-1"), queue.policy, unix_ms)
    assert ids.is_altered(b"", b"another") is is_known
    assert ids.has_seen(ItemHeader(b"order-1"), queue.policy, unix_ms)
    assert not ids.is_altered(b"", b"one")
