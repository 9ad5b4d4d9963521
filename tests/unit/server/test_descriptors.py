"""Descriptors are shared out so that no crowd of connections takes what the queues need.

Promise descriptors: crowds up to a low limit.
"""

from __future__ import annotations

import pytest

from kestrelpy.server.descriptors import (
    HTTP_PART,
    OWN,
    RESERVED,
    raise_file_limit,
    share,
    share_of_router,
)
from kestrelpy.server.journals.open_journals import DESCRIPTORS_EACH


@pytest.mark.parametrize("limit", [24, 64, 100, 256, 1024, 4096, 20_000, 65_536, 1 << 20])
def test_shares_fit_into_the_limit(limit: int) -> None:
    shares = share(limit, 10_000, 10_000)
    taken = shares.own + shares.journals * DESCRIPTORS_EACH + shares.reserved + shares.connections
    assert taken <= limit
    assert min(shares.own, shares.journals, shares.connections) >= 1


def test_with_enough_descriptors_no_limit_is_lowered() -> None:
    shares = share(65_536, 10_000, 10_000)
    assert (shares.own, shares.reserved) == (OWN, RESERVED)
    assert (shares.connections, shares.journals) == (10_000, 10_000)
    assert shares.lowered(10_000) == ""


def test_a_thousand_clients_may_come_at_once_where_the_limit_is_large() -> None:
    """Half of `own` is the length of the line in which they stand (`Daemon._listen`)."""
    assert share(65_536, 10_000, 10_000).own // 2 >= 1000
    assert share(20_000, 10_000, 10_000).own // 2 >= 500
    assert share(4096, 10_000, 10_000).own == share(1024, 10_000, 10_000).own == 256


def test_the_warning_names_both_numbers_and_the_limit() -> None:
    shares = share(1024, 10_000, 10_000)
    assert 0 < shares.connections < 1024
    line = shares.lowered(10_000)
    assert line.startswith(f"max_connections lowered from 10000 to {shares.connections}: ")
    assert "1024" in line and "\n" not in line


def test_fewer_connections_leave_more_to_the_journals() -> None:
    assert share(1024, 10, 10_000).journals > share(1024, 10_000, 10_000).journals


def test_the_soft_limit_is_raised_as_needed_up_to_the_hard_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = [1024, 524_288]

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        limits[:] = wanted

    monkeypatch.setattr("resource.getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr("resource.setrlimit", set_limit)
    assert raise_file_limit(10_000, 10_000) == 65_536
    assert limits == [65_536, 524_288]
    assert raise_file_limit(200_000, 10_000) > 230_000, "a reload that wants more"
    limits[:] = [256, 256]
    assert raise_file_limit(10_000, 10_000) == 256


@pytest.mark.parametrize("limit", [64, 300, 1024, 4096, 65_536, 1 << 20])
@pytest.mark.parametrize("slices", [2, 16, 64])
@pytest.mark.parametrize("is_fleet", [False, True])
@pytest.mark.parametrize("has_http", [False, True])
def test_what_a_router_lets_in_fits_into_the_limit(
    limit: int, slices: int, is_fleet: bool, has_http: bool
) -> None:
    clients, members, _ = share_of_router(
        limit, 10_000, slices, is_fleet=is_fleet, has_http=has_http
    )
    of_http = clients // HTTP_PART if has_http else 0
    each = 1 + slices if is_fleet else 1
    taken = (clients - of_http) * each + of_http * (1 + slices) + 2 * members
    assert taken <= limit or clients == 1
    assert (members > 0) == is_fleet


def test_a_client_of_memcache_takes_one_descriptor_for_all_slices() -> None:
    shares = share_of_router(20_000, 10_000, 16, is_fleet=False, has_http=False)
    assert (shares.clients, shares.members) == (10_000, 0)


@pytest.mark.parametrize("is_fleet", [False, True])
def test_with_what_a_router_asks_for_it_has_all_that_it_wants(is_fleet: bool) -> None:
    asked = share_of_router(1 << 20, 10_000, 16, is_fleet=is_fleet, has_http=True).wanted
    shares = share_of_router(asked, 10_000, 16, is_fleet=is_fleet, has_http=True)
    assert shares.clients == 10_000
