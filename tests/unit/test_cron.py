"""Which moments a cron line names: in any zone, on either side of a clock that is moved.

Promise: schedule.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kestrelpy.cron import Cron, read_zone, why_no_cron

BERLIN = "Europe/Berlin"
HOUR_S, DAY_S = 3600, 86_400
# Moments at which a clock is moved: by an hour, by half of one, by two, at midnight, by a day.
MOVED = {
    BERLIN: (1_774_746_000, 1_792_890_000),
    "Australia/Lord_Howe": (1_775_314_800, 1_791_041_400),
    "Antarctica/Troll": (1_774_746_000, 1_792_890_000),
    "America/Havana": (1_772_946_000, 1_793_509_200),
    "Pacific/Apia": (1_325_239_200,),
    "UTC": (1_774_746_000,),
}


def moment(text: str) -> int:
    """`2026-03-29 02:30+01:00` as seconds since 1970."""
    return int(datetime.fromisoformat(text).timestamp())


def local(moments: list[int], zone: str = BERLIN) -> list[str]:
    """Moments as clocks there show them."""
    shown = (datetime.fromtimestamp(at, ZoneInfo(zone)) for at in moments)
    return [f"{at:%d %H:%M}{at:%z}"[:11] for at in shown]


def first(line: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    return local(list(islice(Cron(line, zone).after(moment(after)), count)), zone)


def test_moments_rise_from_the_one_behind_the_beginning() -> None:
    five = Cron("*/20 * * * *")
    six = Cron("*/20 * * * * *")

    assert list(islice(five.after(0), 4)) == [1200, 2400, 3600, 4800]
    assert list(islice(six.after(19), 3)) == [20, 40, 60]
    assert list(islice(six.after(20), 1)) == [40]


def test_the_latest_are_listed_in_sequence_and_no_more_than_asked_for() -> None:
    hourly = Cron("0 * * * *")

    assert hourly.latest(0, 10 * HOUR_S, 3) == [8 * HOUR_S, 9 * HOUR_S, 10 * HOUR_S]
    assert hourly.latest(8 * HOUR_S, 10 * HOUR_S - 1, 3) == [9 * HOUR_S]
    assert hourly.latest(10 * HOUR_S, 10 * HOUR_S, 3) == []
    assert hourly.latest(20 * HOUR_S, 10 * HOUR_S, 3) == []


def test_a_line_is_about_the_clocks_of_its_zone() -> None:
    assert first("0 9 * * MON-FRI", "2026-03-27 12:00+01:00", 2) == ["30 09:00+02", "31 09:00+02"]
    assert Cron("0 9 * * *", BERLIN).latest(0, moment("2026-01-01 12:00Z"), 1) == [
        moment("2026-01-01 08:00Z")
    ]


def test_a_time_that_does_not_exist_comes_once_as_much_later_as_the_clock_skips() -> None:
    assert first("30 2 * * *", "2026-03-28 12:00+01:00", 2) == ["29 03:30+02", "30 02:30+02"]
    assert first("0 2,3 * * *", "2026-03-28 12:00+01:00", 2) == ["29 03:00+02", "30 02:00+02"]


def test_a_time_that_exists_twice_comes_once() -> None:
    assert first("30 2 * * *", "2026-10-24 12:00+02:00", 2) == ["25 02:30+02", "26 02:30+01"]


def test_a_line_about_every_hour_goes_by_elapsed_time() -> None:
    spring = first("30 * * * *", "2026-03-29 00:00+01:00", 4)
    autumn = first("30 * * * *", "2026-10-25 01:00+02:00", 4)

    assert spring == ["29 00:30+01", "29 01:30+01", "29 03:30+02", "29 04:30+02"]
    assert autumn == ["25 01:30+02", "25 02:30+02", "25 02:30+01", "25 03:30+01"]


def in_full(line: str, zone: str, from_s: int, to_s: int) -> list[int]:
    """Return the same times by the definition: try every minute that any clock may show."""
    minute, hour, *_ = line.split()
    minutes, hours = field(minute, 60), field(hour, 24)
    tz, found = read_zone(zone), set()
    elapsed = hour.startswith("*")
    shown = datetime.fromtimestamp(from_s - 3 * DAY_S, UTC).replace(tzinfo=None, second=0)
    for _ in range((to_s - from_s + 6 * DAY_S) // 60):
        shown += timedelta(minutes=1)
        if shown.minute in minutes and shown.hour in hours:
            early = int(shown.replace(tzinfo=tz).timestamp())
            late = int(shown.replace(tzinfo=tz, fold=1).timestamp())
            if elapsed:
                found |= {early, late} if early <= late else set()
            else:
                found.add(early)
    return sorted(at for at in found if from_s < at <= to_s)


def field(text: str, top: int) -> set[int]:
    if text.startswith("*"):
        return set(range(0, top, int(text.partition("/")[2] or 1)))
    return set(map(int, text.split(",")))


MINUTES = st.one_of(
    st.sampled_from(["*", "*/7", "*/30"]), st.lists(st.integers(0, 59), min_size=1, max_size=3)
).map(lambda f: f if isinstance(f, str) else ",".join(map(str, f)))
HOURS = st.one_of(
    st.sampled_from(["*", "*/2", "*/5"]), st.lists(st.integers(0, 23), min_size=1, max_size=3)
).map(lambda f: f if isinstance(f, str) else ",".join(map(str, f)))
MOMENTS = st.sampled_from([(zone, at) for zone, moved in MOVED.items() for at in moved])


@settings(max_examples=60, deadline=None)
@given(MINUTES, HOURS, MOMENTS, st.integers(-30 * HOUR_S, 30 * HOUR_S))
@example("*/30", "2,3", (BERLIN, MOVED[BERLIN][0]), -10)
@example("*/30", "*", (BERLIN, MOVED[BERLIN][1]), 1800)
@example("15", "*/2", ("Australia/Lord_Howe", MOVED["Australia/Lord_Howe"][0]), 0)
def test_wherever_one_begins_and_whichever_way_one_goes_the_moments_are_the_same(
    minute: str, hour: str, where: tuple[str, int], before_s: int
) -> None:
    zone, moved_s = where
    line, from_s = f"{minute} {hour} * * *", moved_s - before_s
    to_s = from_s + DAY_S
    cron = Cron(line, zone)

    expected = in_full(line, zone, from_s, to_s)

    assert list(takewhile(lambda at: at <= to_s, cron.after(from_s))) == expected
    assert cron.latest(from_s, to_s, 10_000) == expected


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "must be five fields, minute hour day-of-month month day-of-week, or six"),
        ("* * * *", "or six with the second first, and this has 4"),
        ("* * * * * * *", "and this has 7"),
        ("61 * * * *", "field 1 of 5, the minute, must be 0 to 59, or several of them"),
        ("61 * * * *", '(*, a-b, */n, and lists with commas), and is "61"'),
        ("61 * * * * *", "field 1 of 6, the second, must be 0 to 59, or"),
        ("* * 24 * * *", "field 3 of 6, the hour, must be 0 to 23, or"),
        ("* * 0 * *", "field 3 of 5, the day-of-month, must be 1 to 31, L or LW, and"),
        ("0 0 31 2,4 *", "field 3 of 5, the day-of-month, must be 1 to 31, L or LW, and in one of"),
        ("0 0 * FOO *", "field 4 of 5, the month, must be 1 to 12 or JAN to DEC, or"),
        ("0 0 * * 8", "field 5 of 5, the day-of-week, must be 0 to 7 or SUN to SAT (FRI#2 is"),
        ("5-1 * * * *", 'and is "5-1"'),
        ("*/0 * * * *", 'and is "*/0"'),
        ("9" * 5000 + " * * * *", "must be at most 200 characters of ASCII"),
        ("\u0661 * * * *", "must be at most 200 characters of ASCII"),
    ],
)
def test_a_bad_line_is_refused_with_its_place_and_what_is_allowed(line: str, sentence: str) -> None:
    assert sentence in why_no_cron(line)
    with pytest.raises(ValueError, match="must"):
        Cron(line)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text("0123456789*/,-#LWMONJA? ", max_size=6), min_size=4, max_size=7))
def test_any_line_is_either_refused_with_its_fault_or_has_moments(fields: list[str]) -> None:
    line = " ".join(fields)
    if why := why_no_cron(line):
        assert " must " in f" {why}"
        assert "\n" not in why
    else:
        assert next(Cron(line, BERLIN).after(1_700_000_000)) > 1_700_000_000


@pytest.mark.parametrize("name", ["", "Europe", "Nowhere/Else", "../Europe/Berlin", "/etc", "a\0b"])
def test_an_unknown_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match="must be a time zone that this machine knows"):
        Cron("* * * * *", name)


@pytest.mark.parametrize("moment_s", [-(10**12), 0, 10**12])
def test_a_clock_that_is_wrong_by_ages_does_no_harm(moment_s: int) -> None:
    cron = Cron("0 0 29 2 1", "America/Havana")

    assert list(islice(cron.after(moment_s), 2)) is not None
    assert len(cron.latest(0, moment_s, 2)) <= 2
