"""Rows of one id in one task: alike, or not."""

from __future__ import annotations

import pytest

from kestrelpy.spark.write import requests
from kestrelpy.spark.write.requests import Compared


def request(queue: str, id_: str, body: str, key: str = "") -> bytes:
    return f"set {queue}{id_}{key} 0 0 {len(body)}\r\n{body}\r\n".encode()


def test_a_row_that_is_not_like_the_first_of_its_id_differs() -> None:
    found = Compared()
    for each in (
        request("q", "/id=7", "one"), request("q", "/id=7", "one"), request("p", "/id=7", "two"),
        request("q", "", "one"), request("q", "", "two"), request("q", "/id=8", "one"),
    ):  # fmt: skip
        found.add(each)
    assert (found.count, found.names) == (0, [])
    found.add(request("q", "/id=7", "two"))
    found.add(request("q", "/id=7", "ten"))
    found.add(request("q", "/id=8", "one", "/key=k"))
    assert (found.count, found.names) == (3, ["q/id=7", "q/id=8"])


def test_the_newest_ids_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "IDS_MAX", 2)
    found = Compared()
    for id_ in "123":
        found.add(request("q", f"/id={id_}", "one"))
    found.add(request("q", "/id=1", "two"))
    found.add(request("q", "/id=3", "two"))
    assert found.names == ["q/id=3"]
