"""One answer is made of those of the slices."""

from __future__ import annotations

import pytest

from kestrelpy.cli.wire import sorted_out
from kestrelpy.core import KeySettings
from kestrelpy.operations import ServerFacts
from kestrelpy.protocol.routing.merging import Listed, blocks_of_facts, merged_word
from tests.support.routed_harness import SlicedHarness
from tests.support.server_harness import ServerHarness


def facts(said: bytes) -> dict[str, str]:
    lines = said.decode().splitlines()
    assert lines.pop() == "END"
    words = (line.split(" ", 2) for line in lines)
    return {name: value for _, name, value in words}


def test_stats_add_up_what_can_be_added() -> None:
    many = SlicedHarness(3)
    many.say("a", b"set a 0 0 1\r\nx\r\nset c 0 0 2\r\nyy\r\nset g 0 0 1\r\nz\r\n")
    many.say("a", b"set a/x 0 0 0 noreply\r\n\r\n")
    many.counts.connections, many.counts.connections_total = 5, 7
    many.counts.refused_noreply = 3
    found = facts(many.say("a", b"stats\r\n"))
    names = [name for name in found if not name.startswith("queue_") or name in ServerFacts._fields]
    assert names == [name for name in ServerFacts._fields if name != "health_reason"]
    assert (found["curr_items"], found["bytes"], found["cmd_set"]) == ("3", "4", "3")
    assert (found["curr_connections"], found["total_connections"]) == ("5", "7")
    assert found["refused_noreply"] == "4"
    assert (found["queue_a_items"], found["queue_c_bytes"]) == ("1", "2")


@pytest.mark.parametrize(
    ("name", "words", "merged"),
    [
        (b"uptime", [b"7", b"5"], b"5"),
        (b"time", [b"7", b"9"], b"9"),
        (b"health", [b"ok", b"failed", b"damaged"], b"failed"),
        (b"health", [b"ok", b"no_new_queue"], b"no_new_queue"),
        (b"health", [b"ok", b"ok"], b"ok"),
        (b"http_port", [b"-", b"-"], b"-"),
        (b"server_id", [b"a", b"b"], b"a,b"),
        (b"cmd_get", [b"1", b"2"], b"3"),
    ],
)
def test_a_figure_of_the_whole(name: bytes, words: list[bytes], merged: bytes) -> None:
    assert merged_word(name, words) == merged


def test_the_first_error_is_the_answer() -> None:
    many = SlicedHarness(3)
    many.say("a", b"set a 0 0 1\r\nx\r\n")
    many.away = {2: "gone"}
    error = b"SERVER_ERROR slice 2 does not answer: gone\r\n"
    for request in (b"stats\r\n", b"flush_all\r\n", b"dump_stats\r\n", b"flush_all_expired\r\n"):
        assert many.say("a", request) == error, request
    many.sliced[b"jobs"] = KeySettings()
    assert many.say("a", b"dump_stats jobs a\r\n") == error


def test_a_mode_is_that_of_all_slices() -> None:
    many = SlicedHarness(3)
    assert many.say("a", b"status\r\n") == b"UP\r\n"
    assert many.say("a", b"status readonly\r\nstatus\r\n") == b"END\r\nREADONLY\r\n"
    many.slices[2].set_mode("up")
    assert many.say("a", b"status\r\n") == b"READONLY\r\n"


def test_blocks_of_named_queues_come_in_their_order() -> None:
    many = SlicedHarness(3)
    many.say("a", b"set a 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\nset g 0 0 1\r\nx\r\n")
    said = many.say("a", b"dump_stats g a\r\n").decode()
    assert said.index("queue 'g'") < said.index("queue 'a'")
    assert said.count("END") == 1
    every = many.say("a", b"dump_stats\r\n").decode()
    assert all(f"queue '{name}'" in every for name in "acg")
    assert many.say("a", b"dump_stats a a+b+c\r\n").startswith(b"CLIENT_ERROR")
    assert many.say("a", b"flush_all_expired\r\nstats markers\r\n").startswith(b"0\r\nSTAT queue_")


NAMES = (b"a", b"a_items", b"a_items_items", b"a+x", b"b", b"c", b"g", b"g_reason", b"Z")


@pytest.mark.parametrize("request_", [b"stats", b"stats markers", b"dump_stats", b"dump_config"])
def test_queues_are_listed_by_name_as_one_server_does(request_: bytes) -> None:
    one, many = ServerHarness(), SlicedHarness(3)
    stores = b"".join(b"set %b 0 0 1\r\nx\r\n" % name for name in NAMES)
    assert one.say("a", stores.removesuffix(b"\r\n")).count(b"STORED") == len(NAMES)
    assert many.say("a", stores).count(b"STORED") == len(NAMES)
    found = names_of(many.say("a", request_ + b"\r\n"))
    places = [b"STAT queue_%b_slice" % name for name in NAMES]
    assert [each for each in found if each not in places] == names_of(one.say("a", request_))


def test_stats_say_the_slice_of_each_queue_and_the_member_that_owns_it() -> None:
    many = SlicedHarness(3)
    many.say("a", b"set a 0 0 1\r\nx\r\nset a+b 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\n")
    slices = {name: many.placement.slice_of(name.encode()) for name in ("a", "c")}
    found = facts(many.say("a", b"stats\r\n"))
    assert {name: int(found[f"queue_{name}_slice"]) for name in slices} == slices
    assert not [name for name in found if name.endswith("_member")]
    many.members = {slices["a"]: "host-b"}
    answer = many.say("a", b"stats\r\n")
    found = facts(answer)
    assert found["queue_a_member"] == "host-b"
    assert "queue_c_member" not in found, "nobody owns it"
    lines = sorted_out((name, value) for name, value in found.items())
    assert [name for name, _ in lines.queues] == ["a", "a+b", "c"]
    assert lines.queues[0][1]["slice"] == slices["a"]
    assert lines.queues[0][1]["state"] == "ok", "its state is still the last"


def test_stats_say_that_a_sliced_queue_is_in_all_slices() -> None:
    many = SlicedHarness(3)
    many.sliced = {b"a": KeySettings()}
    many.members = dict.fromkeys((1, 2, 3), "host-b")
    many.say("a", b"set a 0 0 1\r\nx\r\n")
    found = facts(many.say("a", b"stats\r\n"))
    assert found["queue_a_slice"] == "all"
    assert "queue_a_member" not in found


def names_of(answer: bytes) -> list[bytes]:
    """The first words of the lines of queues."""
    words = [line.split()[:2] for line in answer.splitlines()]
    return [b" ".join(each) for each in words if b"queue" in b"".join(each)]


def test_a_reason_stays_with_its_queue() -> None:
    listed = Listed(b"STAT queue_", ("items", "bytes", "reason"), has_reason=True)
    lines = [
        b"STAT queue_b_items 1\r\n", b"STAT queue_b_bytes 1\r\n", b"STAT queue_b_reason full\r\n",
        b"STAT queue_b_reason_items 1\r\n", b"STAT queue_b_reason_bytes 2\r\n",
    ]  # fmt: skip
    assert list(blocks_of_facts(lines, listed)) == [
        (b"b", b"".join(lines[:3])), (b"b_reason", b"".join(lines[3:])),
    ]  # fmt: skip


@pytest.mark.parametrize("request_", [b"dump_config\r\n", b"stats markers\r\n"])
def test_what_every_slice_says_of_a_sliced_queue_is_there_once(request_: bytes) -> None:
    many = SlicedHarness(3)
    many.sliced[b"jobs"] = KeySettings()
    for each in many.slices.values():
        each.say("beside", b"set jobs 0 0 1", b"x")
    alone = many.slices[1].say("beside", request_.rstrip())
    assert names_of(many.say("a", request_)) == names_of(alone)


def test_figures_of_a_sliced_queue_alone_are_asked_of_all_slices() -> None:
    many = SlicedHarness(3)
    many.sliced[b"jobs"] = KeySettings()
    home, other = many.placement.slice_of(b"jobs"), many.placement.slice_of(b"a")
    for request, slices in (
        (b"dump_stats jobs\r\n", [1, 2, 3]), (b"dump_config jobs\r\n", [home]),
        (b"dump_stats a\r\n", [other]),
    ):  # fmt: skip
        many.asked.clear()
        many.say("c", request)
        assert [number for number, _ in many.asked] == slices, request
