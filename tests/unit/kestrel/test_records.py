"""Records of Kestrel's journal, by the golden vectors."""

from __future__ import annotations

import pytest

from kestrelpy.kestrel import KestrelItem, add_record, item_at
from kestrelpy.kestrel.records import BODY_BYTES_MAX, record_bytes
from tests.support.kestrel import ADDED_MS

KITTY = "021b0000005e4d3c2b3a010000000000000000000068656c6c6f206b69747479"
SOON = "02110000005e4d3c2b3a010000e6603c2b3a01000078"
OF_1_0 = "0005000000805d775078"
WITH_XID = "0705000000120000005e4d3c2b3a01000000000000000000006162"
CONTINUED = "08" + WITH_XID[2:]


@pytest.mark.parametrize(
    ("vector", "item"),
    [
        (KITTY, KestrelItem(ADDED_MS, 0, b"hello kitty")),
        (SOON, KestrelItem(ADDED_MS, ADDED_MS + 5000, b"x")),
        (OF_1_0, KestrelItem(0, 1_350_000_000_000, b"x")),
        (WITH_XID, KestrelItem(ADDED_MS, 0, b"ab")),
        (CONTINUED, KestrelItem(ADDED_MS, 0, b"ab")),
    ],
)
def test_an_item_is_read_as_kestrel_wrote_it(vector: str, item: KestrelItem) -> None:
    data = bytes.fromhex(vector)

    assert item_at(b"front" + data + b"behind", 5) == item
    assert record_bytes(data, 0) == len(data)


@pytest.mark.parametrize("vector", [KITTY, SOON])
def test_an_item_is_written_as_kestrel_writes_it(vector: str) -> None:
    assert add_record(item_at(bytes.fromhex(vector), 0)).hex() == vector


def test_the_sizes_are_those_of_kestrels_own_tests() -> None:
    assert len(add_record(KestrelItem(ADDED_MS, 0, bytes(8192)))) == 8213
    assert len(add_record(KestrelItem(ADDED_MS, 0, b"hello kitty"))) == 32
    assert len(add_record(KestrelItem(ADDED_MS, 0, b""))) == 21


class Huge(bytes):
    """Says that it is larger than a record may be."""

    def __len__(self) -> int:
        return BODY_BYTES_MAX + 1


def test_a_body_that_no_size_can_say_is_refused() -> None:
    with pytest.raises(ValueError, match=f"an item of {BODY_BYTES_MAX + 1} bytes"):
        add_record(KestrelItem(ADDED_MS, 0, Huge()))
