"""One walk over all queues: seats for the active ones, and the others as one."""

from __future__ import annotations

from random import Random

import pytest

from kestrelpy.http.metrics import figures
from kestrelpy.http.metrics.families import queue_families
from kestrelpy.http.metrics.figures import COLUMNS, OTHERS, WalkedFigures, Walks
from tests.support.server_harness import ServerHarness
from tests.support.steps import counted, ended


@pytest.fixture(autouse=True)
def two_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "SEATS_MAX", 2)
    monkeypatch.setattr(figures, "_MARGIN", 0)


def put(server: ServerHarness, name: str, count: int) -> None:
    for _ in range(count):
        server.say("a", b"set %b 0 0 1" % name.encode(), b"x")


def walk(server: ServerHarness, walks: Walks) -> WalkedFigures:
    return ended(walks.walk(server.broker, server.now_ms))


def stored(found: WalkedFigures) -> dict[str, int]:
    """Return the stored items by queue; `others` are those of all queues without a seat."""
    rows = {name: row[COLUMNS["stored"]] for name, row in found.rows.items()}
    return rows | ({"others": found.others[COLUMNS["stored"]]} if found.others else {})


def test_the_most_active_queues_have_seats_and_the_others_are_one() -> None:
    server, walks = ServerHarness(), Walks()
    for name, count in (("a", 3), ("b", 1), ("c", 2), ("d", 1)):
        put(server, name, count)
    found = walk(server, walks)
    assert (stored(found), found.queues) == ({"a": 3, "c": 2, "others": 2}, 4)


def test_without_others_there_is_no_row_for_them() -> None:
    server, walks = ServerHarness(), Walks()
    put(server, "a", 1)
    assert stored(walk(server, walks)) == {"a": 1}
    assert stored(walk(server, walks)) == {"a": 1}


def test_a_much_more_active_queue_takes_a_seat() -> None:
    server, walks = ServerHarness(), Walks()
    for name, count in (("a", 3), ("b", 3), ("c", 1), ("d", 2)):
        put(server, name, count)
    assert stored(walk(server, walks)) == {"a": 3, "b": 3, "others": 3}
    put(server, "c", 2)
    assert stored(walk(server, walks)) == {"a": 3, "b": 3, "others": 5}
    put(server, "c", 5)
    assert stored(walk(server, walks))["c"] == 8


def test_the_others_have_no_counter_which_could_fall() -> None:
    server, walks = ServerHarness(), Walks()
    for name, count in (("a", 3), ("b", 3), ("c", 1), ("d", 2)):
        put(server, name, count)
    shown = {family.name: family for family in queue_families(walk(server, walks))}
    for family in shown.values():
        queues = {sample.labels["queue"] for sample in family.samples}
        assert queues == {"a", "b"} | ({OTHERS} if family.type == "gauge" else set()), family.name
    assert {family.type for family in shown.values()} == {"gauge", "counter"}
    server.say("a", b"delete c")
    server.say("a", b"delete d")
    assert walk(server, walks).others is None


def test_an_item_counts_as_stored_once_no_crash_takes_it_away() -> None:
    server, walks = ServerHarness(), Walks()
    put(server, "a", 2)
    server.say("a", b"set a/delay=1s 0 0 1", b"x")
    server.writes = False
    put(server, "a", 3)
    server.pass_time(1000)  # the delayed item is ready now: that is no item more
    assert stored(walk(server, walks)) == {"a": 3}
    for name in list(server.clients):
        server.hang_up(name)
    server.kill()
    assert stored(walk(server, Walks())) == {"a": 3}


@pytest.mark.parametrize("seed", range(6))
def test_no_counter_falls_while_queues_move_go_and_come_and_the_server_restarts(
    seed: int
) -> None:
    """But those of a queue that is made anew, and of the process at its start."""
    random, server, walks = Random(seed), ServerHarness(), Walks()
    names = [f"q{number}" for number in range(6)]
    before = dict[tuple[str, str], float]()
    for _ in range(150):
        name = random.choice(names)
        deed = random.choice(("put", "put", "put", "get", "scrape", "scrape", "delete", "end"))
        if deed == "put":
            put(server, name, random.randrange(1, 9))
        elif deed == "get":
            for _ in range(3):
                server.say("a", b"get %b" % name.encode())
        elif deed == "delete" and random.random() < 0.3:
            server.say("a", b"delete %b" % name.encode())
            before = {key: value for key, value in before.items() if key[1] != name}
        elif deed == "end" and random.random() < 0.3:
            random.choice((server.restart, server.kill, server.cut_power))()
            walks = Walks()
            lasting = "kestrelpy_items_stored_total"
            before = {key: value for key, value in before.items() if key[0] == lasting}
        shown = {
            (sample.name, sample.labels["queue"]): sample.value
            for family in queue_families(walk(server, walks)) if family.type == "counter"
            for sample in family.samples
        }
        assert OTHERS not in {queue for _, queue in shown}
        for key, value in shown.items():
            assert value >= before.get(key, 0), (key, seed)
        before |= shown


def test_the_sums_of_histograms_do_not_fall_when_a_queue_is_deleted() -> None:
    server, walks = ServerHarness(), Walks()
    put(server, "a", 2)
    for _ in range(2):
        server.say("a", b"get a")
    assert sum(walk(server, walks).service_ms[:-1]) == 2
    server.say("a", b"delete a")
    assert sum(walk(server, walks).service_ms[:-1]) == 2


def test_a_walk_over_many_queues_pauses_between_its_slices() -> None:
    server = ServerHarness()
    for number in range(301):
        server.broker.create(b"q%d" % number, server.now_ms)
    found, pauses = counted(Walks().walk(server.broker, server.now_ms))
    assert (found.queues, found.states, pauses) == (301, {"ok": 301}, 7)


def test_the_age_of_the_others_is_that_of_the_oldest() -> None:
    server, walks = ServerHarness(), Walks()
    put(server, "old", 1)
    server.pass_time(500)
    for name in ("a", "b"):
        put(server, name, 3)
    put(server, "new", 1)
    found = walk(server, walks)
    assert found.others is not None
    assert found.others[COLUMNS["age_ms"]] == 500
