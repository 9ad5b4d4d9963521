"""The rates of connections are those between two looks, and few are remembered."""

from __future__ import annotations

import pytest

from kestrelpy.http.live import command_rates
from kestrelpy.http.live.command_rates import CommandRates


def test_a_rate_is_that_since_the_look_before() -> None:
    rates = CommandRates()
    assert rates.rate(7, 100, 1000) is None
    assert rates.rate(7, 150, 2000) == 50.0
    assert rates.rate(7, 151, 2100) == 50.0  # of another viewer, at the same tick
    assert rates.rate(7, 150, 4000) == 0.0


def test_the_connections_that_nobody_looks_at_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_rates, "KNOWN_MAX", 2)
    rates = CommandRates()
    for connection in (1, 2, 1, 3):
        rates.rate(connection, 0, 1000)
    assert rates.rate(1, 5, 2000) == 5.0
    assert rates.rate(2, 5, 2000) is None
