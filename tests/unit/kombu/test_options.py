"""What AMQP's users say becomes a setting, or is refused with the nearest name."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("kombu", reason="kombu is not installed: pip install 'kestrelpy[celery]'")

from kestrelpy.kombu.options import (
    Unsupported,
    lease_ms,
    refuse_priority,
    settings_of,
    warn_of_unknown,
)


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, {}),
        ({"x-message-ttl": 90_000}, {"max_age": '"90000ms"'}),
        ({"x-max-length": 5}, {"max_items": "5", "discard_old_when_full": "true"}),
        (
            {"x-overflow": "reject-publish", "x-max-length-bytes": 9},
            {"max_bytes": "9", "discard_old_when_full": "false"},
        ),
        ({"x-expires": 10_000, "x-max-length": None}, {"max_queue_age": '"10000ms"'}),
        ({"x-queue-type": "classic", "x-queue-mode": "lazy"}, {}),
    ],
)
def test_arguments_of_a_queue_are_settings(
    arguments: dict[str, Any], settings: dict[str, str]
) -> None:
    assert settings_of("q", arguments) == settings


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-max-priority": 9}, "the daemon has no priorities"),
        ({"x-max-lenght": 9}, "did you mean x-max-length"),
        ({"x-queue-type": "quorum"}, "say classic"),
        ({"x-max-length": "many"}, "x-max-length='many' cannot be"),
        ({"x-overflow": "drop-tail"}, "say drop-head or reject-publish"),
        ({"x-dead-letter-exchange": "dead"}, "x-dead-letter-exchange='dead' is not understood"),
    ],
)
def test_an_argument_that_cannot_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(Unsupported) as caught:
        settings_of("q", arguments)
    assert said in str(caught.value)


def test_the_lease_has_two_names() -> None:
    assert lease_ms({}, "30s") == 30_000
    assert lease_ms({"visibility_timeout": 3600}, "30s") == 3_600_000
    assert lease_ms({"visibility_timeout": "90"}, "30s") == 90_000
    assert lease_ms({"visibility_timeout": 60, "lease": "1m"}, "30s") == 60_000
    for said in ({"visibility_timeout": 60, "lease": "30s"}, {"visibility_timeout": "soon"}):
        with pytest.raises(ValueError, match="visibility_timeout"):
            lease_ms(said, "30s")


def test_a_priority_is_refused_and_none_is_not() -> None:
    for priority in (None, 0):
        refuse_priority({"properties": {"priority": priority}})
    with pytest.raises(Unsupported, match="priority=5"):
        refuse_priority({"properties": {"priority": 5}})


def test_unknown_transport_options_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_unknown({"lease": 1, "max_retries": 1, "visibility_timout": 60})
    assert caplog.messages == [
        "the transport option visibility_timout means nothing here: did you mean "
        "visibility_timeout?"
    ]
