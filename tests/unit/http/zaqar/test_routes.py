"""The busiest routes stand before those of FastAPI, with the same paths and methods."""

from __future__ import annotations

from fastapi.routing import APIRoute

from kestrelpy.http.app import make_app
from kestrelpy.http.zaqar import claims, messages
from kestrelpy.http.zaqar.routes import BUSY_ROUTES


def test_each_busy_route_is_in_the_documentation_as_well() -> None:
    documented = {
        (route.path, method)
        for route in (*messages.router.routes, *claims.router.routes)
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    plain = {(route.path, method) for route in BUSY_ROUTES for method in route.methods or ()}
    assert len(plain) == len(BUSY_ROUTES) == 4
    assert plain < documented
    paths = make_app().openapi()["paths"]
    assert all(method.lower() in paths[path] for path, method in plain)


def test_they_are_asked_first() -> None:
    routes = make_app().router.routes
    assert max(map(routes.index, BUSY_ROUTES)) < next(
        at for at, route in enumerate(routes)
        if type(route).__module__.startswith("fastapi") and not hasattr(route, "name")
    )
