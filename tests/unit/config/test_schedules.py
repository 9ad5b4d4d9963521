"""`[schedules.<name>]`: valid values, and the reports on invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.config.mistakes import ConfigError
from tests.unit.config.files import load_text, problems_of

GOOD = 'cron = "*/5 * * * *"\nqueue = "jobs"\n'


def complaint(file: Path, text: str) -> str:
    return problems_of(file, text).removeprefix(f"{file}: ")


def test_a_schedule_has_a_line_and_a_queue_and_defaults_for_the_rest(file: Path) -> None:
    one = load_text(file, f"[schedules.nightly]\n{GOOD}").schedules["nightly"]

    assert (one.cron, one.queue, one.body, one.timezone, one.catch_up) == (
        "*/5 * * * *", "jobs", "", "UTC", "last",
    )  # fmt: skip
    assert next(one.times.after(0)) == 300


def test_everything_can_be_said(file: Path) -> None:
    text = (
        '[schedules."every-second.2"]\ncron = "* * * * * *"\nqueue = "a:b"\nbody = "gr\u00fcn"\n'
        'timezone = "Europe/Berlin"\ncatch_up = "all"\n'
    )

    one = load_text(file, text).schedules["every-second.2"]

    assert one.body_bytes == "gr\u00fcn".encode()
    assert next(one.times.after(0)) == 1


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ('cron = "61 * * * *"', "field 1 of 5, the minute, must be 0 to 59, or several"),
        ('cron = "* * *"', "must be five fields, minute hour day-of-month month day-of-week, or"),
        ("cron = 5", "must be a text"),
        ('queue = "a b"', "must be a queue's name: 1 to 128 printable ASCII characters"),
        ('queue = ""', "must be a queue's name"),
        ('queue = "a/open"', "must be a queue's name"),
        ("body = 5", "must be a text"),
        ('timezone = "Berlin"', "must be a time zone that this machine knows, say Europe/Berlin"),
        ('catch_up = "some"', "must be 'none', 'last' or 'all'"),
        ("catch_up = true", "must be 'none', 'last' or 'all'"),
    ],
)
def test_a_wrong_value_is_reported_with_the_allowed_ones(
    file: Path, setting: str, why: str
) -> None:
    key = setting.split(maxsplit=1)[0]
    rest = "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith(key))

    problem = complaint(file, f"[schedules.a]\n{setting}\n{rest}")

    assert problem.startswith(f"[schedules.a] {setting}, but {why}")
    assert problem.endswith(".")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[schedules.a]", "[schedules.a] must have cron and queue."),
        ('[schedules.a]\nqueue = "q"', "[schedules.a] must have cron as well as queue."),
        ('[schedules.a]\ncron = "* * * * *"', "[schedules.a] must have queue as well as cron."),
        ("[schedules]\na = 5", "[schedules] a = 5, but must be a table."),
        ("schedules = 5", "schedules = 5, but must be a table."),
        (f'[schedules."a b"]\n{GOOD}', '[schedules."a b"], but a schedule\'s name must be 1 to '),
        (f"[schedules.a]\n{GOOD}when = 1", "[schedules.a] when = 1 is not a known key; allowed "),
        (f'[schedules.a]\n{GOOD}time_zone = "UTC"', "the nearest is timezone; allowed are cron,"),
    ],
)
def test_a_block_that_is_no_table_is_reported(file: Path, text: str, why: str) -> None:
    assert why in complaint(file, text)


def test_a_body_that_its_queue_would_refuse_is_reported(file: Path) -> None:
    text = f'[queues.jobs]\nmax_item_size = 4\n[schedules.a]\n{GOOD}body = "hello"\n'

    assert complaint(file, text) == (
        "[schedules.a] has a body of 5 bytes, and max_item_size of queue jobs is 4."
    )
    assert load_text(file, text.replace("hello", "hell")).schedules


def test_all_mistakes_are_reported_at_once(file: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_text(file, '[schedules.a]\ncron = "* * * * 9"\nqueue = "/"\n[schedules.b]\n')

    assert len(refusal.value.problems) == 3


def test_a_child_is_no_queue_of_a_schedule(file: Path) -> None:
    text = f"[schedules.a]\n{GOOD.replace('jobs', 'jobs+kid')}"
    assert "no + (a fan-out child is not put into)" in complaint(file, text)
