"""The replay of Kestrel's journals: golden files, every truncation, damage."""

from __future__ import annotations

import random
from collections import deque

import pytest

from kestrelpy.kestrel import FileDamage, KestrelReplay
from tests.support.kestrel import (
    FILES,
    REMOVED,
    add,
    add_1_0,
    confirmed,
    damages,
    golden,
    left,
    opened,
    put_back,
    source,
    with_xid,
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("piece_bytes", [25, 40, 1 << 20])
def test_a_golden_file_leaves_what_kestrel_would_serve(name: str, piece_bytes: int) -> None:
    assert left(golden(name), piece_bytes=piece_bytes) == FILES[name][1]


@pytest.mark.parametrize(("name", "offset"), [("V5", 22), ("V6", 22)])
def test_damage_is_named_with_its_offset(name: str, offset: int) -> None:
    assert damages(source(golden(name))) == [("q.0", offset)]


def ends(data: bytes) -> list[int]:
    """Return where whole records end, from the facts alone."""
    found, at = [0], 0
    while at < len(data) and data[at] <= 9:
        opcode = data[at]
        if opcode in (1, 3):
            length = 1
        elif opcode in (4, 5, 6, 9):
            length = 5
        else:
            begin = 5 if opcode in (0, 2) else 9
            length = begin + int.from_bytes(data[at + begin - 4 : at + begin], "little")
        at += length
        if at <= len(data):
            found.append(at)
    return found


@pytest.mark.parametrize("name", FILES)
def test_each_truncation_leaves_what_its_whole_records_say(name: str) -> None:
    data = golden(name)
    whole = ends(data)
    for length in range(len(data)):
        cut = max(end for end in whole if end <= length)
        made = source(data[:length])

        assert damages(made) == ([] if cut == length else [("q.0", cut)]), length
        assert [item.body for item in made.items()] == left(data[:cut]), length


def test_open_items_come_back_with_the_lowest_xid_first() -> None:
    data = b"".join([*(add(b"%d" % n) for n in range(4)), opened(9), opened(3), opened(5)])

    assert left(data) == [b"1", b"2", b"0", b"3"]


def test_an_item_that_is_put_back_is_the_head() -> None:
    assert left(add(b"a") + add(b"b") + opened(1) + put_back(1)) == [b"a", b"b"]
    assert left(add(b"a") + add(b"b") + opened(1) + add(b"c") + put_back(1) + REMOVED) == [
        b"b",
        b"c",
    ]


def test_ends_of_unknown_xids_and_removals_of_nothing_change_nothing() -> None:
    data = REMOVED + confirmed(7) + put_back(7) + opened(8) + add(b"a") + put_back(8)

    assert left(data) == [b"a"]


def test_an_xid_that_is_open_twice_loses_no_item() -> None:
    assert left(add(b"a") + add(b"b") + opened(1) + opened(1)) == [b"b", b"a"]


def test_a_legacy_open_takes_the_next_free_xid() -> None:
    tentative = b"\x03"
    data = add(b"a") + add(b"b") + with_xid(4, 6) + tentative + tentative + confirmed(7)
    assert left(data) == [b"b"]

    wrapped = add(b"a") + add(b"b") + with_xid(4, -1) + opened(1) + with_xid(4, -1) + tentative
    assert left(wrapped + confirmed(2)) == [b"a"]  # neither 0 nor the open 1


def test_a_legacy_item_is_open_under_the_xid_that_it_brings() -> None:
    def bringing(xid: int, body: bytes) -> bytes:
        return with_xid(7, xid) + add(body)[1:] + b"\x03"

    data = bringing(6, b"a") + bringing(5, b"b")

    assert left(data) == [b"b", b"a"]
    assert left(data + confirmed(5)) == [b"a"]
    assert left(bringing(6, b"a") + bringing(6, b"b") + confirmed(6)) == [b"b"]


def test_items_of_all_versions_stand_in_one_journal() -> None:
    made = source(add_1_0(b"old", 1_350_000_000) + add(b"new", expires_ms=17))

    assert [(item.body, item.added_ms > 0, item.expires_ms) for item in made.items()] == [
        (b"old", False, 1_350_000_000_000), (b"new", True, 17),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("behind", "reason"),
    [
        (b"\x7f", "a record of unknown kind 127"),
        (b"\x02\x11\x00", "the file ends inside a record"),
        (b"\x06\x01", "the file ends inside a record"),
        (b"\x02\xff\xff\xff\x7f" + bytes(30),
         "a record says that it has 2147483647 bytes, and the file has 30 more"),
        (b"\x02\xfb\xff\xff\xff" + bytes(30),
         "a record says that it has -5 bytes, and each of its kind has 16 or more"),
        (b"\x00\x03\x00\x00\x00" + bytes(30),
         "a record says that it has 3 bytes, and each of its kind has 4 or more"),
        (b"\x08\x01\x00\x00\x00\x0f\x00\x00\x00" + bytes(30),
         "a record says that it has 15 bytes, and each of its kind has 16 or more"),
        (bytes(4096), "zeros instead of a record, as a crashed file system leaves them"),
    ],
)  # fmt: skip
def test_damage_is_one_clear_reason(behind: bytes, reason: str) -> None:
    made = source(add(b"a") + behind)

    assert [damage for _, damage in made.damages] == [FileDamage(22, reason)]
    assert [item.body for item in made.items()] == [b"a"]


def test_the_next_file_is_read_after_damage() -> None:
    made = source(add(b"a") + b"\x7f" + add(b"lost"), add(b"b"))

    assert damages(made) == [("q.0", 22)]
    assert [item.body for item in made.items()] == [b"a", b"b"]


def test_no_removal_after_damage_counts() -> None:
    made = source(
        add(b"a") + b"\x7f" + add(b"lost"),
        REMOVED + REMOVED + add(b"b") + opened(1) + confirmed(1) + add(b"c"),
    )

    assert [item.body for item in made.items()] == [b"a", b"b", b"c"]
    assert made.replay.spared == 3


def test_damage_anywhere_loses_only_the_items_in_the_damaged_part() -> None:
    chance = random.Random(20261123)
    for _ in range(300):
        files, served = lively_files(chance)
        number = chance.randrange(len(files))
        cut = chance.choice(ends(files[number])[:-1] or [0])
        hurt = files.copy()
        hurt[number] = files[number][:cut] + b"\x7f" + files[number][cut + 1 :]
        lost = set(bodies(files[number][cut:]))

        assert set(served) - set(left(*hurt)) <= lost


def bodies(data: bytes) -> list[bytes]:
    return [data[a + 21 : b] for a, b in zip(ends(data), ends(data)[1:], strict=False)
            if data[a] == 2]  # fmt: skip


def lively_files(chance: random.Random) -> tuple[list[bytes], list[bytes]]:
    """Return three files of a queue in use, and what a simple queue has at the end."""
    files, queue, held, number, xid = list[bytes](), deque[bytes](), dict[int, bytes](), 0, 0
    for _ in range(3):
        data = b""
        for _ in range(chance.randrange(1, 30)):
            act = chance.randrange(5)
            if act == 0 and queue:
                queue.popleft()
                data += REMOVED
            elif act == 1 and queue:
                xid += 1
                held[xid] = queue.popleft()
                data += opened(xid)
            elif act == 2 and held:
                first = min(held)
                if chance.random() < 0.5:
                    queue.appendleft(held.pop(first))
                    data += put_back(first)
                else:
                    del held[first]
                    data += confirmed(first)
            else:
                number += 1
                queue.append(b"%d" % number)
                data += add(b"%d" % number)
        files.append(data)
    for each in sorted(held, reverse=True):
        queue.appendleft(held[each])
    return files, list(queue)


def test_a_queue_in_use_is_left_as_a_simple_queue_has_it() -> None:
    chance = random.Random(17)
    for _ in range(300):
        files, served = lively_files(chance)
        assert left(*files, piece_bytes=chance.choice([25, 64, 1 << 20])) == served


def test_removed_items_are_given_back_to_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kestrelpy.kestrel.replay._REMOVED_MAX", 4)
    made = source(b"".join(add(b"%d" % n) for n in range(6)) + REMOVED * 5 + add(b"x"))

    assert [item.body for item in made.items()] == [b"5", b"x"]
    assert len(made.replay) == len(made.replay.rest()) == 2
    assert len(made.replay._tail) == 3


def test_a_header_that_is_not_whole_waits_for_more_bytes() -> None:
    data, replay = add(b"a"), KestrelReplay()

    assert replay.feed(data[:4], 0, 0, len(data), 0) == 0
    assert replay.records == 0
    assert replay.feed(data, 0, 0, len(data), 0) == len(data)
