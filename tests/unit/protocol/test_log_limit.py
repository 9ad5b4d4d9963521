"""A client's mistakes are logged once a second for its address, and the others are counted."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.log_limit import INTERVAL_MS, KEYS_MAX, MANY, LogLimit, address_of
from tests.support.server_harness import ServerHarness


def flood(stage: ServerHarness, count: int, address: str = "192.0.2.1") -> None:
    for n in range(count):
        name = f"{address}:{n}"
        stage.send(name, (b"\x80" * 24, b"GET / HTTP/1.1\r\n")[n % 2])
        assert stage.client(name).closed
        del stage.clients[name]


def test_one_address_has_one_line_a_second_and_the_next_one_counts_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = ServerHarness()
    flood(stage, 1000)
    assert [record.message for record in caplog.records] == [
        "192.0.2.1:0: binary memcache protocol refused: set the client to the text (ASCII) "
        "protocol"
    ]
    stage.pass_time(INTERVAL_MS)
    flood(stage, 2)
    assert len(caplog.records) == 2
    assert caplog.records[1].message.endswith(" (999 more like it were not logged)")


def test_each_address_has_its_own_line(caplog: pytest.LogCaptureFixture) -> None:
    stage = ServerHarness()
    for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
        flood(stage, 10, address)
    assert [record.message.split(": ")[0] for record in caplog.records] == [
        "192.0.2.1:0", "192.0.2.2:0", "2001:db8::1:0"
    ]  # fmt: skip


def test_many_addresses_are_one_when_they_are_too_many() -> None:
    limit = LogLimit()
    logged = [limit.take(f"10.0.{n // 256}.{n % 256}", 5) for n in range(10_000)]
    assert sum(end is not None for end in logged) == KEYS_MAX + 1
    assert limit.rest(5 + INTERVAL_MS) == [
        f"{MANY}: {10_000 - KEYS_MAX - 1} more lines like the last one were not logged"
    ]


def test_addresses_without_lines_make_room_for_others() -> None:
    limit = LogLimit()
    for second in range(10):
        ends = [limit.take(f"10.{second}.0.{n}", second * INTERVAL_MS) for n in range(KEYS_MAX)]
        assert ends == [""] * KEYS_MAX


def test_lines_left_out_are_logged_once_if_no_later_line_counts_them() -> None:
    limit = LogLimit()
    for _ in range(8):
        limit.take("192.0.2.1", 0)
    assert limit.rest(INTERVAL_MS - 1) == []
    assert limit.rest(INTERVAL_MS) == [
        "192.0.2.1: 7 more lines like the last one were not logged"
    ]
    assert limit.rest(3 * INTERVAL_MS) == []


def test_an_address_is_a_peer_without_its_port() -> None:
    assert [address_of(peer) for peer in ("192.0.2.1:80", "::1:80", "unix")] == [
        "192.0.2.1", "::1", "unix"
    ]  # fmt: skip
