"""Each route of HTTP has a row, which says where the router sends it."""

from __future__ import annotations

import pytest

from kestrelpy.http.app import ROUTES
from kestrelpy.http.routing import Route
from kestrelpy.http.slices.table import ROWS, Anywhere, OfQueue, StartsJob, row_of


def test_each_route_has_a_row_and_each_row_a_route() -> None:
    assert {route.path for route in ROUTES} == set(ROWS)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.label)
def test_a_path_with_a_queue_goes_to_its_slice(route: Route) -> None:
    if "{queue}" in route.path and route.handler.__name__ != "_absent":
        assert isinstance(row_of(route), OfQueue | StartsJob)


def test_a_path_that_is_none_of_ours_is_answered_by_any_slice() -> None:
    assert row_of(None) == Anywhere()
