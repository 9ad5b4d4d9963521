"""The texts of three slices are one text: sums, and rules for what is no sum."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kestrelpy.http.slices.metrics import RULES, merged

HEAD = "# HELP kestrelpy_{0} Text.\n# TYPE kestrelpy_{0} gauge\n"


def text(*lines: str) -> bytes:
    families = dict.fromkeys(each.partition("{")[0].partition(" ")[0] for each in lines)
    made = ""
    for family in families:
        made += HEAD.format(family)
        made += "".join(f"kestrelpy_{each}\n" for each in lines if each.startswith(family))
    return made.encode()


def values(said: bytes) -> dict[str, float]:
    lines = [each for each in said.decode().splitlines() if not each.startswith("#")]
    return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines)}


def test_the_same_series_of_two_slices_are_added_up_and_others_stand_side_by_side() -> None:
    one, two = text('items{queue="a b"} 3.0', "syncs 1.0"), text('items{queue="c"} 4', "syncs 2")
    said = merged([one, two], {})
    assert values(said) == {
        'kestrelpy_items{queue="a b"}': 3, 'kestrelpy_items{queue="c"}': 4, "kestrelpy_syncs": 3,
    }  # fmt: skip
    assert said.count(b"# HELP kestrelpy_items ") == 1
    assert [each.name for each in text_string_to_metric_families(said.decode())] == [
        "kestrelpy_items", "kestrelpy_syncs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "value"),
    [
        ("build_info", 3), ("start_time_seconds", 1), ("recovery_seconds", 3),
        ("disk_free_bytes", 1), ("mode", 3), ("oldest_item_age_seconds", 3),
        ("new_queues_possible", 1),
    ],
)
def test_what_is_no_sum_has_a_rule(family: str, value: float) -> None:
    assert family in RULES
    texts = [text(f"{family} {each}") for each in (2, 1, 3)]
    assert values(merged(texts, {})) == {f"kestrelpy_{family}": value}


def test_a_slice_that_can_make_no_queue_says_why() -> None:
    name = 'new_queues_possible{{reason="{}"}} {}'
    said = merged([text(name.format("", 1.0)), text(name.format("the disk is full", 0.0))], {})
    assert values(said) == {'kestrelpy_new_queues_possible{reason="the disk is full"}': 0}


def test_what_the_router_counts_itself_is_no_sum_of_the_slices() -> None:
    texts = [text('connections{wire="http"} 9.0')] * 2
    said = merged(texts, {'kestrelpy_connections{wire="http"}': 5.0})
    assert values(said) == {'kestrelpy_connections{wire="http"}': 5}
