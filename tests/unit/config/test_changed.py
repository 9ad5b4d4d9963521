"""Which settings a reload changes: by their names, never with their values."""

from __future__ import annotations

from kestrelpy.config import Config, changed_settings


def config(**blocks: object) -> Config:
    return Config.model_validate(blocks)


def test_each_changed_setting_is_named_as_in_the_file() -> None:
    before = config(server={"idle_timeout": "1h"}, queues={"jobs": {"lease": "30m"}, "old": {}})
    after = config(
        server={"idle_timeout": "2h"}, queue_defaults={"max_items": 3},
        queues={"jobs": {"lease": "1h", "retry_delay": "1s"}},
        schedules={"nightly": {"cron": "0 3 * * *", "queue": "jobs", "body": "x"}},
    )  # fmt: skip

    assert changed_settings(before, after) == [
        "[server] idle_timeout", "[queue_defaults] max_items", "[queues.jobs] lease",
        "[queues.jobs] retry_delay", "[queues.old]", "[schedules.nightly]",
    ]  # fmt: skip
    assert changed_settings(after, after) == []


def test_a_setting_that_is_set_to_its_default_differs_from_none() -> None:
    before = config(queues={"jobs": {}})
    after = config(queues={"jobs": {"max_attempts": 100}})
    assert changed_settings(before, after) == ["[queues.jobs] max_attempts"]


def test_many_changes_are_counted() -> None:
    after = config(queues={f"q{number:02}": {} for number in range(12)})
    names = changed_settings(config(), after)
    assert len(names) == 11
    assert names[-1] == "and 2 more"
