"""Which settings a reload changes: by their names, never with their values."""

from __future__ import annotations

import pytest

from kestrelpy.access import hash_secret
from kestrelpy.config import Config, changed_settings

SECRET = hash_secret(b"secret")


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


# By the setting: a value of the start, and one that a reload finds in the file.
WAITING = {
    "[server] port": ({"server": {"port": 1}}, {"server": {"port": 2}}),
    "[server] data_dir": ({}, {"server": {"data_dir": "elsewhere"}}),
    "[journal] segment_min": ({"journal": {"segment_min": "128KiB"}}, {}),
    "[fleet] engine": ({}, {"fleet": {"engine": "postgresql://kestrel@nowhere/kestrel"}}),
    "[server] tls_cert, [server] tls_key": (
        {"server": {"tls_cert": "a", "tls_key": "b"}}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("setting", WAITING)
def test_what_no_reload_applies_stays_as_it_was_at_the_start(setting: str) -> None:
    before, after = (config(**blocks) for blocks in WAITING[setting])

    begun = after.begun_as(before)

    assert changed_settings(before, begun) == []
    assert ", ".join(changed_settings(begun, after)) == setting


def test_what_a_reload_applies_is_as_the_file_has_it() -> None:
    before = config(auth={"anna": {"secret": SECRET, "role": "read"}})
    after = config(
        server={"port": 1, "max_queues": 7}, queues={"jobs": {"lease": "1h"}}
    )

    begun = after.begun_as(before)

    assert changed_settings(before, begun) == [
        "[server] max_queues", "[queues.jobs]", "[auth.anna]",
    ]  # fmt: skip
    assert begun.queue(b"jobs") == after.queue(b"jobs")


def test_another_certificate_is_taken_by_a_reload() -> None:
    before = config(server={"tls_cert": "a", "tls_key": "b"})
    after = config(server={"tls_cert": "c", "tls_key": "d"})

    assert after.begun_as(before) == after
