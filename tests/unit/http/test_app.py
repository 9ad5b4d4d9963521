"""The routes, put together."""

from __future__ import annotations

from kestrelpy.http.app import body_bytes_max, make_app


def test_the_interface_describes_each_route() -> None:
    paths = make_app().openapi()["paths"]
    assert {"/queues/{queue}/items", "/queues/{queue}/leases"} <= paths.keys()
    for path, methods in paths.items():
        for method, said in methods.items():
            assert said.get("summary"), f"{method} {path}"


def test_only_items_may_be_large() -> None:
    assert body_bytes_max("/queues/a/items") > body_bytes_max("/queues/a/leases")
