"""An AMQP argument becomes a setting, or is refused with the nearest name."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("kombu", reason="kombu is not installed: pip install 'kestrelpy[celery]'")

from kestrelpy.kombu.options import (
    Unsupported,
    lease_ms,
    refuse_priority,
    settings_of,
    warn_of_unknown,
    warn_once,
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
        ({"x-max-priority": None, "x-queue-type": None, "x-overflow": None}, {}),
        ({"x-max-length": "5"}, {"max_items": "5", "discard_old_when_full": "true"}),
        ({"x-message-ttl": 2.0}, {"max_age": '"2ms"'}),
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
        ({"x-max-length": "many"}, "x-max-length='many' cannot be: say a whole number from 1"),
        ({"x-max-length": 0}, "x-max-length=0 cannot be: say a whole number from 1"),
        ({"x-max-length": True}, "x-max-length=True cannot be"),
        ({"x-max-length": 2.7}, "x-max-length=2.7 cannot be"),
        ({"x-max-length-bytes": "1_000"}, "x-max-length-bytes='1_000' cannot be"),
        ({"x-message-ttl": -1000}, "x-message-ttl=-1000 cannot be"),
        ({"x-message-ttl": math.inf}, "x-message-ttl=inf cannot be"),
        ({"x-message-ttl": [5]}, "x-message-ttl=[5] cannot be"),
        ({"x-expires": 0.5}, "x-expires=0.5 cannot be"),
        ({5: 1}, "the argument 5=1 is not understood"),
        ({"x-overflow": "drop-tail"}, "say drop-head or reject-publish"),
        ({"x-dead-letter-exchange": "dead"}, "x-dead-letter-exchange='dead' is not understood"),
    ],
)
def test_an_argument_that_cannot_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(Unsupported) as caught:
        settings_of("q", arguments)
    assert said in str(caught.value)


def test_what_is_left_in_a_queue_that_goes_with_its_process_expires() -> None:
    """AMQP deletes such a queue with its messages; a queue of the daemon goes when it is empty."""
    arguments = {"x-expires": 60_000}
    assert settings_of("q", arguments) == {"max_queue_age": '"60000ms"'}
    going = settings_of("q", arguments, is_auto_delete=True)
    assert going == {"max_queue_age": '"60000ms"', "max_age": '"60000ms"'}
    said = settings_of("q", {**arguments, "x-message-ttl": 5}, is_auto_delete=True)
    assert said["max_age"] == '"5ms"'


def test_the_lease_has_two_names() -> None:
    assert lease_ms({}, "30s") == 30_000
    assert lease_ms({"visibility_timeout": 3600}, "30s") == 3_600_000
    assert lease_ms({"visibility_timeout": "90"}, "30s") == 90_000
    assert lease_ms({"visibility_timeout": 60, "lease": "1m"}, "30s") == 60_000
    bad: list[Any] = [
        "soon", "²", True, [1], {}, b"60", -1, math.nan, math.inf, 10**400, "1" * 400,
    ]  # fmt: skip
    refused: list[dict[str, Any]] = [{"visibility_timeout": each} for each in bad]
    for said in ({"visibility_timeout": 60, "lease": "30s"}, *refused):
        with pytest.raises(ValueError, match="visibility_timeout"):
            lease_ms(said, "30s")


def test_a_priority_is_refused_and_none_is_not() -> None:
    for priority in (None, 0):
        refuse_priority({"properties": {"priority": priority}})
    with pytest.raises(Unsupported, match="priority=5"):
        refuse_priority({"properties": {"priority": 5}})


def test_unknown_transport_options_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    for _ in range(10):
        warn_of_unknown({"lease": 1, "max_retries": 1, "visibility_timout": 60})
    assert caplog.messages == [
        "the transport option visibility_timout means nothing here: did you mean "
        "visibility_timeout?"
    ]
