"""Each time of a schedule is put once: over restarts, clocks that are set, and full queues.

Promises: schedule, slices.
"""

from __future__ import annotations

from typing import Any

import pytest

from journal.format.key import value_of
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta
from kestrelpy.core import schedules
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.policy import Policy
from kestrelpy.core.schedules import CAUGHT_UP_MAX, CatchUp, Running, Schedule, Timetable
from kestrelpy.cron import Cron
from kestrelpy.errors import Refused
from kestrelpy.message_keys import MessageKey
from tests.support.core_harness import NAME, WALL_MS, CoreHarness, make_queue, no_queue
from tests.support.steps import Work

BEGAN_S = WALL_MS // 1000  # divisible by ten
TENTH = "*/10 * * * * *"  # every ten seconds


class Clockwork:
    """A queue and the timetable that puts items into it."""

    def __init__(self, hand: CoreHarness, *schedules: Schedule) -> None:
        self.hand = hand
        self.schedules = schedules
        self.why_not = ""
        self.start()

    def start(self) -> None:
        self.table = Timetable(self.hand.broker)
        self.table.take_over(self.schedules, self.hand.now_ms)
        self.pass_s(0)

    def reload(self, *schedules: Schedule) -> None:
        self.schedules = schedules
        self.table.take_over(schedules, self.hand.now_ms)
        self.pass_s(0)

    def pass_s(self, seconds: float) -> None:
        """Let time pass; the timetable looks each time that it is due."""
        until_ms = self.hand.now_ms + int(seconds * 1000)
        while (due := self.table.next_due()) is not None and due <= until_ms:
            self.hand.now_ms = max(self.hand.now_ms, due)
            self.table.look(self.hand.now_ms, self.why_not)
        self.hand.now_ms = until_ms

    def sleep_s(self, seconds: float) -> None:
        """Let time pass without a look of the timetable."""
        self.hand.now_ms += int(seconds * 1000)

    def step_clock_s(self, seconds: int) -> None:
        self.hand.broker.step_clock(self.hand.broker.clock.offset_ms + seconds * 1000)
        self.pass_s(0)

    def restart(self, after_s: float = 0, *schedules: Schedule) -> None:
        """Kill the server, and start another one `after_s` later."""
        self.hand = self.hand.restarted()
        self.hand.now_ms += int(after_s * 1000)
        self.schedules = schedules or self.schedules
        self.start()

    @property
    def put(self) -> list[int]:
        """Return the times of all puts in the log, in seconds since the beginning."""
        return put_in(self.hand)

    @property
    def one(self) -> Running:
        (running,) = self.table.running.values()
        return running


def put_in(hand: CoreHarness) -> list[int]:
    metas = [decode_meta(r.meta) for r in hand.records if r.kind == Kind.PUT]
    return [int(meta[Tag.EPOCH]) - BEGAN_S for meta in metas if Tag.EPOCH in meta]


def schedule(
    line: str = TENTH, catch_up: CatchUp = CatchUp.LAST, name: bytes = b"tick",
    queue: bytes = NAME, body: bytes = b"go",
) -> Schedule:  # fmt: skip
    return Schedule(name, queue, body, Cron(line), catch_up, line, "UTC")


def running(*schedules: Schedule, **settings: Any) -> Clockwork:
    return Clockwork(make_queue(**settings), *(schedules or (schedule(),)))


# -- the time comes --------------------------------------------------------------------------------


def test_an_item_is_put_at_each_time_and_its_record_says_for_which() -> None:
    works = running()

    works.pass_s(9.999)
    assert works.put == []
    works.pass_s(0.001)
    assert works.put == [10]
    works.pass_s(20)

    assert works.put == [10, 20, 30]
    assert works.hand.ready == [b"go"] * 3
    assert works.hand.story.endswith(f"put 3 go scope=tick epoch={BEGAN_S + 30}")


def test_a_new_schedule_begins_now_and_not_with_this_very_second() -> None:
    works = running()

    assert works.put == []
    assert works.hand.story.startswith(f"ids 0 entries scope=tick epoch={BEGAN_S}, ")


def test_a_queue_is_made_when_its_schedule_begins() -> None:
    works = Clockwork(no_queue(), schedule())

    assert NAME in works.hand.broker.queues
    works.pass_s(10)
    assert works.hand.ready == [b"go"]


def test_several_schedules_put_into_one_queue_and_into_several() -> None:
    works = running(
        schedule(body=b"a"), schedule("*/15 * * * * *", name=b"other", body=b"b"),
        schedule(name=b"mail", queue=b"mail"),
    )  # fmt: skip

    works.pass_s(30)

    assert sorted(works.hand.ready) == [b"a", b"a", b"a", b"b", b"b"]
    assert works.hand.broker.queues[b"mail"].total_items == 3


def test_who_waits_is_served_at_the_time() -> None:
    works = running()
    works.hand.wait("anna", wait_ms=60_000)

    works.pass_s(10)

    assert works.hand.answers() == [("anna", b"go")]


def test_without_schedules_one_never_looks() -> None:
    works = running()
    works.reload()

    assert works.table.next_due() is None
    works.pass_s(60)
    assert works.put == []


def test_all_that_came_while_one_looked_on_is_put_though_the_look_comes_late() -> None:
    works = running(schedule(catch_up=CatchUp.NONE))

    works.sleep_s(45)
    works.pass_s(0)

    assert works.put == [10, 20, 30, 40]


# -- restarts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("catch_up", CatchUp)
def test_what_was_put_is_not_put_again_after_a_restart_in_the_same_second(
    catch_up: CatchUp,
) -> None:
    works = running(schedule(catch_up=catch_up))
    works.pass_s(10)

    for _ in range(3):
        works.restart(0.1)
        works.pass_s(0.1)

    assert works.put == [10]
    works.pass_s(10)
    assert works.put == [10, 20]


@pytest.mark.parametrize(
    ("catch_up", "put"),
    [
        (CatchUp.NONE, [10, 60]),
        (CatchUp.LAST, [10, 50, 60]),
        (CatchUp.ALL, [10, 20, 30, 40, 50, 60]),
    ],
)
def test_of_the_past_times_those_are_put_that_catch_up_says(
    catch_up: CatchUp, put: list[int]
) -> None:
    works = running(schedule(catch_up=catch_up))
    works.pass_s(10)

    works.restart(45)
    works.pass_s(5)

    assert works.put == put


def test_the_first_times_of_a_schedule_are_made_up_for_too() -> None:
    works = running()

    works.restart(25)

    assert works.put == [20]


def test_at_most_a_thousand_past_times_are_put_and_they_are_the_last() -> None:
    works = running(schedule("* * * * * *", CatchUp.ALL))

    works.restart(5000)

    assert works.put == list(range(5000 - CAUGHT_UP_MAX + 1, 5001))


def test_all_past_times_are_put_though_not_in_one_look() -> None:
    lines = [schedule("* * * * * *", CatchUp.ALL, b"a"), schedule("* * * * * *", CatchUp.ALL, b"b")]
    works = running(*lines)
    works.hand = works.hand.restarted()
    works.sleep_s(5000)
    works.table = Timetable(works.hand.broker)
    works.table.take_over(lines, works.hand.now_ms)

    works.table.look(works.hand.now_ms)
    assert len(works.put) == CAUGHT_UP_MAX
    assert works.table.next_due() == works.hand.now_ms
    works.pass_s(0)

    assert len(works.put) == 2 * CAUGHT_UP_MAX


def test_other_times_go_on_from_the_last_one_over_a_restart_and_without() -> None:
    other = schedule("5,25,45 * * * * *", CatchUp.ALL)
    works = running(schedule(catch_up=CatchUp.ALL))
    works.pass_s(20)

    works.reload(other)
    works.pass_s(10)
    assert works.put == [10, 20, 25]
    works.restart(40, schedule(catch_up=CatchUp.ALL))
    assert works.put == [10, 20, 25]
    works.pass_s(10)

    assert works.put == [10, 20, 25, 80]


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("line", ["5,25,45 * * * * *", "0 0 * * * *", "*/7 * * * * *"])
def test_another_line_puts_nothing_for_the_past(
    catch_up: CatchUp, restarts: bool, line: str
) -> None:
    works = running(schedule(catch_up=catch_up))
    works.pass_s(20)
    other = schedule(line, catch_up)

    works.restart(3600, other) if restarts else works.reload(other)
    before = list(works.put)
    works.restart(0)

    assert before == works.put == [10, 20]


def test_the_first_line_comes_back_and_puts_nothing_for_the_past() -> None:
    works = running(schedule())
    works.pass_s(20)
    works.restart(0, schedule("0 0 0 1 1 *"))
    works.restart(100, schedule())
    assert works.put == [10, 20]
    works.restart(100)

    assert works.put == [10, 20, 220], "its own times were missed this time"


@pytest.mark.parametrize("restarts", [False, True])
def test_another_body_or_queue_keeps_the_times(restarts: bool) -> None:
    works = running(schedule())
    works.pass_s(20)
    works.sleep_s(100)
    if restarts:
        works.restart(0, schedule(body=b"other"))
    else:
        works.reload(schedule(body=b"other"))

    assert works.put == [10, 20, 120]


def test_a_schedule_that_was_left_out_for_a_while_has_past_times() -> None:
    works = running(schedule())
    works.pass_s(10)

    works.reload()
    works.pass_s(25)
    works.reload(schedule())

    assert works.put == [10, 30]


@pytest.mark.parametrize("restarts", [True, False])
def test_into_another_queue_nothing_is_put_twice(restarts: bool) -> None:
    works = running()
    works.pass_s(10)

    works.reload(schedule(queue=b"mail"))
    works.pass_s(10)
    works.reload(schedule())
    if restarts:  # the harness restarts the first of the two queues alone
        works.restart()
    works.pass_s(10)

    assert works.put == [10, 30]


@pytest.mark.parametrize(
    ("catch_up", "put"), [(CatchUp.NONE, 0), (CatchUp.LAST, 1), (CatchUp.ALL, 10)]
)
@pytest.mark.parametrize("name", [b"mail", NAME])
def test_another_queue_over_a_restart_gets_the_past_times(
    name: bytes, catch_up: CatchUp, put: int
) -> None:
    works = running(schedule(catch_up=catch_up))
    works.pass_s(20)
    before = works.hand.queue.total_items

    works.restart(100, schedule(catch_up=catch_up, queue=name))

    there = works.hand.broker.queues[name]
    assert there.total_items - (before if name == NAME else 0) == put
    works.pass_s(10)
    assert there.total_items - (before if name == NAME else 0) == put + 1


def test_of_two_queues_the_one_with_the_later_time_says_how_far_it_has_got() -> None:
    works = running(schedule(queue=b"mail"))
    works.pass_s(10)
    works.reload(schedule())
    works.pass_s(10)
    assert list(works.hand.broker.queues) == [NAME, b"mail"]

    works.reload()
    works.reload(schedule(catch_up=CatchUp.ALL))
    works.pass_s(10)

    assert works.put == [20, 30]


# -- clocks that are set ---------------------------------------------------------------------------


def test_a_time_that_comes_again_because_the_clock_was_set_back_is_not_put_again() -> None:
    works = running()
    works.pass_s(30)

    works.step_clock_s(-25)
    works.pass_s(25)
    assert works.put == [10, 20, 30]
    works.pass_s(10)

    assert works.put == [10, 20, 30, 40]


def test_nor_is_it_when_a_restart_comes_between() -> None:
    works = running(schedule(catch_up=CatchUp.ALL))
    works.pass_s(30)

    works.step_clock_s(-25)
    works.restart()
    works.pass_s(34)

    assert works.put == [10, 20, 30]
    works.pass_s(1)
    assert works.put == [10, 20, 30, 40]


def test_a_clock_that_is_set_back_and_forward_again_brings_nothing_twice() -> None:
    works = running(schedule(catch_up=CatchUp.ALL))
    works.pass_s(90)

    works.step_clock_s(-85)
    works.pass_s(2)
    works.step_clock_s(+100)
    works.pass_s(8)

    assert works.put == list(range(10, 111, 10))


@pytest.mark.parametrize(
    ("catch_up", "put"), [(CatchUp.NONE, [110]), (CatchUp.LAST, [100, 110])]
)
def test_what_a_clock_that_was_set_forward_leapt_over_is_past(
    catch_up: CatchUp, put: list[int]
) -> None:
    works = running(schedule(catch_up=catch_up))
    works.pass_s(5)

    works.step_clock_s(100)
    works.pass_s(5)

    assert works.put == put


def test_a_clock_that_is_set_forward_by_less_than_a_minute_leaps_over_nothing() -> None:
    works = running(schedule(catch_up=CatchUp.NONE))

    works.step_clock_s(45)
    works.pass_s(0)

    assert works.put == [10, 20, 30, 40]


def test_what_was_leapt_over_and_not_put_comes_again_when_the_clock_is_set_back() -> None:
    works = running(schedule(catch_up=CatchUp.NONE))
    works.step_clock_s(1000)
    works.pass_s(1)
    works.step_clock_s(-1000)

    works.pass_s(20)

    assert works.put == [10, 20]


def test_a_clock_that_is_far_behind_what_was_put_is_logged_once_a_minute() -> None:
    works = running()
    works.pass_s(10)
    works.step_clock_s(-7200)
    works.pass_s(60)

    (complaint,) = works.table.complaints
    assert complaint == (
        "schedule tick: the clock is 7199 seconds behind the last time that was put: it was set "
        "back, and no time is put twice"
    )
    works.pass_s(1)
    assert len(works.table.complaints) == 2


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_was_ahead_is_logged_from_the_first_time_that_is_skipped(
    restarts: bool,
) -> None:
    works = running()
    works.pass_s(5)
    works.step_clock_s(1800)
    works.pass_s(10)
    if restarts:
        works.hand.broker.step_clock(works.hand.broker.clock.offset_ms - 1800 * 1000)
        works.restart()
    else:
        works.step_clock_s(-1800)
    put = list(works.put)
    works.pass_s(4)
    assert (works.one.state, works.table.complaints) == ("ok", []), "no time has come yet"
    works.pass_s(1)

    assert works.one.state.startswith("the clock is 1790 seconds behind the last time")
    assert len(works.table.complaints) == 1
    assert works.put == put
    works.pass_s(1800)
    assert works.one.state == "ok"


def test_a_clock_that_is_set_back_between_two_times_is_not_worth_a_line() -> None:
    works = running()
    works.pass_s(19)
    works.step_clock_s(-5)
    works.pass_s(20)

    assert works.table.complaints == [] and works.one.state == "ok"


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("catch_up", "put"),
    [
        (CatchUp.NONE, [10, 40, 50]),
        (CatchUp.LAST, [10, 40, 50]),
        (CatchUp.ALL, [10, 20, 30, 40, 50]),
    ],
)
def test_what_a_full_queue_refuses_is_tried_again(catch_up: CatchUp, put: list[int]) -> None:
    works = running(schedule(catch_up=catch_up), max_items=1)
    works.pass_s(45)
    assert works.put == [10]
    assert works.table.complaints == ["schedule tick: queue jobs is full"]

    works.hand.reload(max_items=9)
    works.pass_s(5)

    assert works.put == put
    assert works.one.state == "ok"


def test_an_item_that_is_put_beside_the_times_needs_room_as_well() -> None:
    works = running(max_items=1)
    tick = works.one.schedule

    queue, lsn = works.table.put_now(tick, works.hand.now_ms)

    assert lsn == queue.log.lsn_appended
    with pytest.raises(Refused, match="queue jobs is full"):
        works.table.put_now(tick, works.hand.now_ms)


def test_one_that_is_refused_holds_up_no_other() -> None:
    works = running(schedule(), schedule(name=b"mail", queue=b"mail"))
    works.hand.queue.log.failure = OSError("the disk is gone")

    works.pass_s(30)

    assert works.put == []
    assert works.hand.broker.queues[b"mail"].total_items == 3
    (complaint,) = works.table.complaints
    assert "journal failed, queue jobs is closed until a restart" in complaint


def test_what_is_put_has_the_key_of_its_message_and_without_one_it_is_refused() -> None:
    keys = KeySettings(MessageKey("json", ("id",), False))
    works = running(
        schedule(body=b'{"id": 7}'), schedule(name=b"odd", body=b"no message"), keys=keys
    )
    works.pass_s(10)
    (put,) = [record for record in works.hand.records if record.kind == Kind.PUT]
    assert decode_meta(put.meta)[Tag.KEY] == value_of(7)
    (complaint,) = works.table.complaints
    assert complaint.startswith("schedule odd: queue jobs: the message does not parse as JSON")


def test_without_room_on_the_disk_it_waits_and_the_time_is_not_lost() -> None:
    works = running()
    works.hand.queue.log.no_room = "no room on the disk"
    works.pass_s(15)
    assert works.one.state == "no room on the disk"

    works.hand.queue.log.no_room = ""
    works.pass_s(1)

    assert works.put == [10]


def test_it_waits_for_room_until_the_journal_has_its_next_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works = running()
    with monkeypatch.context() as patch:
        patch.setattr(type(works.hand.queue.log), "has_room", lambda self, size, more=False: False)
        works.pass_s(10)
        assert works.table.waits_for_room
    works.pass_s(1)
    assert not works.table.waits_for_room
    assert works.put == [10]


def test_a_schedule_that_could_not_begin_begins_when_it_was_there() -> None:
    hand = make_queue()
    hand.queue.log.no_room = "no room on the disk"
    works = Clockwork(hand, schedule())
    works.pass_s(5)
    assert works.hand.story == ""

    works.hand.queue.log.no_room = ""
    works.pass_s(1)

    assert works.hand.story.startswith(f"ids 0 entries scope=tick epoch={BEGAN_S}, ")


def test_a_server_that_stores_nothing_puts_nothing_until_it_does() -> None:
    works = running()
    works.why_not = "readonly: this server stores nothing now"
    works.pass_s(25)
    assert works.put == []
    assert works.one.state == works.why_not

    works.why_not = ""
    works.pass_s(1)

    assert works.put == [20]


def test_too_many_queues_are_reported() -> None:
    hand = CoreHarness(Policy(), queues_max=0)

    works = Clockwork(hand, schedule())

    assert works.table.complaints == ["schedule tick: too many queues (limit 0)"]


# -- the queue's own life --------------------------------------------------------------------------


def test_a_queue_that_is_deleted_is_made_again_at_the_next_time() -> None:
    works = running()
    works.pass_s(10)
    works.hand.delete()

    works.pass_s(9)
    assert NAME not in works.hand.broker.queues
    works.pass_s(1)

    assert works.put == [20]


def test_a_queue_that_knows_a_schedule_is_never_too_old() -> None:
    works = running(max_queue_age_ms=1000)
    works.pass_s(5)

    works.hand.pass_time(5000)

    assert NAME in works.hand.broker.queues




# -- thousands of both -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [False, True], ids=["new", "known"])
def test_many_schedules_begin_beside_many_queues_without_looking_at_each_for_each(
    is_known: bool,
) -> None:
    def steps(queues: int) -> int:
        works = running()
        for number in range(queues):
            works.hand.broker.create(b"q%d" % number, works.hand.now_ms)
        many = [schedule(name=b"s%d" % each) for each in range(50)]
        if is_known:
            works.reload(*many)
            works.reload(schedule())
        with Work() as work:
            works.reload(*many)
        return work.steps

    assert steps(90) - steps(10) < 50 * 80


def test_one_look_begins_a_bounded_number_of_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "PUTS_MAX", 10)
    works = running()
    works.table.take_over(
        [schedule(name=b"s%d" % each) for each in range(35)], works.hand.now_ms
    )

    begun = []
    while (due := works.table.next_due()) is not None and due <= works.hand.now_ms:
        works.table.look(works.hand.now_ms)
        begun.append(sum(each.is_known for each in works.table.running.values()))

    assert begun == [10, 20, 30, 35]
    works.pass_s(10)
    assert len(works.put) == 35


@pytest.mark.parametrize("change", ["due", "clock set back", "clock set ahead", "new", "moved"])
def test_one_look_finds_the_times_of_a_bounded_number_of_schedules(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time is found in up to 0.1 ms, and thousands of schedules may have one at once."""
    monkeypatch.setattr(schedules, "FINDS_MAX", 10)
    works = running(*(schedule(name=b"s%d" % each) for each in range(35)))
    works.pass_s(1)
    found = list[int]()

    def at_once(table: Timetable) -> None:
        before = sum(each.is_work(table._unix_s(works.hand.now_ms)) for each in all_of(table))
        table.look(works.hand.now_ms)
        left = sum(each.is_work(table._unix_s(works.hand.now_ms)) for each in all_of(table))
        found.append(before - left)

    match change:
        case "due":
            works.sleep_s(9)
        case "clock set back":
            works.hand.broker.step_clock(works.hand.broker.clock.offset_ms - 5000)
            works.sleep_s(1)
        case "clock set ahead":
            works.hand.broker.step_clock(works.hand.broker.clock.offset_ms + 7_200_000)
        case "new" | "moved":
            line, name = (TENTH, b"n%d") if change == "new" else ("*/5 * * * * *", b"s%d")
            coming = [schedule(line, name=name % each) for each in range(35)]
            with Work() as work:
                works.table.take_over(coming, works.hand.now_ms)
            assert work.steps < 35 * 60, "it finds no time itself"
    while (due := works.table.next_due()) is not None and due <= works.hand.now_ms:
        at_once(works.table)
    assert found == [10, 10, 10, 5]
    works.pass_s(30)
    names = {bytes(name) for name in works.table.running}
    assert len(names) == 35
    assert all(each.state == "ok" or change == "clock set back" for each in all_of(works.table))


def all_of(table: Timetable) -> list[Running]:
    return [*table.running.values()]
