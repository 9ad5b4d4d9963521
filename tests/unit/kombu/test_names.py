"""Names of kombu on the wire, and what a message asks of the daemon."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("kombu", reason="celery is not installed: pip install 'kestrelpy[celery]'")

from kestrelpy.kombu.names import (
    NameRefused,
    child_name,
    due_seconds,
    exchange_name,
    expiry_seconds,
    queue_name,
)
from kestrelpy.kombu.options import Unsupported

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("queue", "name"),
    [
        ("celery", "celery"),
        ("w@host.celery.pidbox", "w@host.celery.pidbox"),
        ("a/b c", "a%2Fb%20c"),
        ("a+b%2F", "a%2Bb%252F"),
        ("ü", "%C3%BC"),
    ],
)
def test_a_queue_has_a_name_that_the_daemon_allows(queue: str, name: str) -> None:
    assert queue_name(queue) == name


def test_an_exchange_is_no_queue_and_its_queues_are_children() -> None:
    assert exchange_name("news") == "exchange:news"
    assert child_name("news", "a+b") == "exchange:news+a%2Bb"


@pytest.mark.parametrize("queue", ["", "x" * 129, "ü" * 22])
def test_a_name_that_cannot_be_is_refused_with_one_sentence(queue: str) -> None:
    with pytest.raises(NameRefused) as error:
        queue_name(queue)

    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("eta", "due"),
    [
        ("2027-01-15T08:00:01+00:00", NOW + 1),
        ("2027-01-15T09:00:01.5+01:00", NOW + 1.5),
        ("2027-01-15T08:00:00+00:00", None),  # now
        ("2027-01-15T09:00:01", None),  # the zone is missing
        ("tomorrow", None),
        (None, None),
        (7, None),
    ],
)
def test_an_eta_with_a_time_zone_is_the_daemon_s_delay(eta: Any, due: float | None) -> None:
    assert due_seconds({"headers": {"eta": eta}}, NOW) == due
    assert due_seconds({}, NOW) is None


@pytest.mark.parametrize(
    ("expiration", "expiry"),
    [
        ("1500", 2), ("1", 1), ("0", 1), (None, 0), ("", 0), ("2592000000", 2_592_000),
        ("2592001000", 1_802_592_001),
    ],
)  # fmt: skip
def test_an_expiration_is_memcached_s_expiry(expiration: Any, expiry: int) -> None:
    assert expiry_seconds({"properties": {"expiration": expiration}}, NOW) == expiry


@pytest.mark.parametrize("expiration", ["soon", "-1000", "1.5", "1e3", "²", "9" * 16, -5, True])
def test_an_expiration_that_cannot_be_is_refused(expiration: Any) -> None:
    with pytest.raises(Unsupported, match="expiration="):
        expiry_seconds({"properties": {"expiration": expiration}}, NOW)


@pytest.mark.parametrize("name_of", [queue_name, exchange_name])
def test_a_name_that_is_too_long_is_refused_with_its_length(name_of: Any) -> None:
    with pytest.raises(NameRefused, match=r"has a name of (\d+) bytes") as refused:
        name_of("ü" * 100)
    bytes_ = len(name_of("ü")) * 100 if name_of is queue_name else 9 + 6 * 100
    assert f" of {bytes_} bytes " in str(refused.value)
