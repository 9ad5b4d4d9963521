"""Which queue a line of `stats` belongs to."""

from __future__ import annotations

from kestrelpy.cli.wire import as_fact, sorted_out

FACTS = ("items", "bytes", "total_items", "open_transactions", "state")


def lines_of(*names: str) -> list[tuple[str, str]]:
    return [
        (f"queue_{name}_{fact}", "ok" if fact == "state" else str(number))
        for number, name in enumerate(names)
        for fact in FACTS
    ]


def test_the_lines_of_the_server_come_first() -> None:
    found = sorted_out([("uptime", "5"), ("queue_creates", "2"), *lines_of("q")])

    assert found.server == {"uptime": 5, "queue_creates": 2}
    assert [name for name, _ in found.queues] == ["q"]


def test_names_that_look_like_counts_are_recognised_by_their_position() -> None:
    names = ("n", "n_items", "n_open", "n_reason", "n_state", "n_total", "queue_n", "queue_n_items")

    found = sorted_out(lines_of(*names))

    assert [name for name, _ in found.queues] == list(names)
    for number, (_, facts) in enumerate(found.queues):
        assert tuple(facts) == FACTS
        assert facts["items"] == facts["total_items"] == number


def test_a_queue_that_is_not_well_has_a_reason() -> None:
    lines = [*lines_of("a"), ("queue_a_reason", "no_room"), *lines_of("b")]

    found = sorted_out(lines)

    assert found.queues[0][1]["reason"] == "no_room"
    assert [name for name, _ in found.queues] == ["a", "b"]


def test_a_number_is_one_only_in_ascii() -> None:
    assert [as_fact(each) for each in ("12", "ok", "-", "²")] == [12, "ok", "-", "²"]
