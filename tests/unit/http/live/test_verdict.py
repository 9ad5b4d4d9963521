"""The verdict: the worst first, bounded, each line with its link."""

from __future__ import annotations

from kestrelpy.http.live.troubles import Level, Trouble
from kestrelpy.http.live.verdict import (
    LINES_MAX,
    ServerLines,
    ServerState,
    VerdictLine,
    disk_full_in_ms,
    lines_of,
    verdict,
)

WELL = ServerState("up", False, None)


def seen(server: ServerState, now_ms: int = 5) -> list[VerdictLine]:
    lines = ServerLines()
    lines.look(server, now_ms)
    return lines.lines


def trouble(level: Level, since_ms: int) -> Trouble:
    return Trouble(level, "paused", "paused", "now", since_ms)


def test_no_trouble_is_well() -> None:
    assert verdict(lines_of([], {}), 0) == {"level": "ok", "lines": []}


def test_the_worst_comes_first_then_the_oldest() -> None:
    troubles = {
        b"new": [trouble("warn", 9)], b"old": [trouble("warn", 3)], b"bad": [trouble("bad", 8)],
    }
    lines = lines_of(seen(ServerState("readonly", False, 60_000)), troubles)
    assert [each.level for each in lines] == ["bad", "bad", "warn", "warn", "warn"]
    assert lines[0].text == "the disk is full in 60 s at this rate, and then nothing new is stored"
    assert [each.text for each in lines[2:]] == [
        "the server is read-only: nothing new is stored", "old: paused", "new: paused",
    ]
    assert lines[3].link == "#/queues/old/now"
    shown = verdict(lines, 1000)
    assert shown["level"] == "bad"
    assert shown["lines"][3]["since_ms"] == 1003


def test_refused_new_queues_are_bad_as_long_as_it_lasts_and_no_folder_is_shown() -> None:
    lines, why = ServerLines(), "no new queue is made: this process may make no file in /srv/data"
    for now_ms in (5, 6):
        lines.look(WELL._replace(no_new_queue=why), now_ms)
        text = "no new queue is made: this process may make no file in "
        line = VerdictLine("bad", "no_new_queue", f"{text}.../data", "#/journal", 5)
        assert lines.lines == [line]
    lines.look(WELL, 7)
    assert not lines.lines


def test_a_queue_with_a_full_disk_stands_for_new_ones_too() -> None:
    server = seen(WELL._replace(no_new_queue="the disk is full"))
    full = Trouble("bad", "disk_full", "its disk is full", "journal", 3)
    for troubles, codes in (
        ({b"jobs": [full]}, ["disk_full"]),
        ({b"jobs": [trouble("warn", 3)]}, ["no_new_queue", "paused"]),
    ):
        assert [line.code for line in lines_of(server, troubles)] == codes


def test_more_than_fit_are_counted() -> None:
    troubles = {b"q%03d" % number: [trouble("warn", number)] for number in range(100)}
    lines = lines_of(seen(ServerState("quiescent", True, None)), troubles)
    assert len(lines) == LINES_MAX
    text = "and 83 more troubles of queues"
    assert lines[-1] == VerdictLine("warn", "more", text, "#/queues", None)
    assert len(lines_of([], dict(list(troubles.items())[:LINES_MAX]))) == LINES_MAX


def test_a_disk_that_fills_is_full_at_some_time() -> None:
    free = [None, 100.0, 98.0, 96.0, 94.0, 92.0, 90.0]
    assert disk_full_in_ms(free, 1000) == 45_000
    assert disk_full_in_ms(free[:5], 1000) is None, "too few points"
    assert disk_full_in_ms([100.0] * 9, 1000) is None
    assert disk_full_in_ms([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1000) is None, "it empties"


def test_each_trouble_of_the_server_has_a_code_a_link_and_its_beginning() -> None:
    lines, codes = ServerLines(), list[tuple[str, str, int | None]]()
    for now_ms, state in (
        (1, WELL), (2, ServerState("readonly", False, None)),
        (3, ServerState("readonly", False, 23 * 3_600_000, 1)),
        (4, ServerState("quiescent", True, 60_000, 2)), (5, WELL),
        (6, ServerState("readonly", False, None)),
    ):
        lines.look(state, now_ms)
        codes += [(each.level, each.code, each.since_ms) for each in lines.lines]
        assert {each.link for each in lines.lines} <= {"#/journal"}
    assert codes == [
        ("warn", "readonly", 2),
        ("warn", "readonly", 2), ("warn", "disk_filling", 3), ("warn", "damaged", 3),
        ("bad", "draining", 4), ("warn", "quiescent", 4), ("bad", "disk_filling", 3),
        ("warn", "damaged", 3), ("warn", "readonly", 6),
    ]  # fmt: skip


def test_damage_is_counted_in_a_sentence() -> None:
    (one,), (two,) = (seen(ServerState("up", False, None, count)) for count in (1, 2))
    assert one.text == "1 damaged place found in journals since the start, and set aside"
    assert two.text.startswith("2 damaged places")


def test_the_time_is_counted_to_min_disk_free() -> None:
    free = [None, 100.0, 98.0, 96.0, 94.0, 92.0, 90.0]
    assert disk_full_in_ms(free, 1000, 80) == 5_000
    assert disk_full_in_ms(free, 1000, 90) == disk_full_in_ms(free, 1000, 95) == 0
    [line] = seen(ServerState("up", False, 5_000, min_disk_free=80))
    assert line.text.startswith(
        "the disk is down to min_disk_free in less than a minute at this rate"
    )
