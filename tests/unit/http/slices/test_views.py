"""The past of several slices is one past."""

from __future__ import annotations

from typing import Any

from kestrelpy.http.slices.views import _past, _place


def history(since_ms: int, **points: list[Any]) -> dict[str, Any]:
    return {"step_ms": 1000, "since_ms": since_ms, "points": points}


def test_points_of_the_same_second_are_added_up_and_the_longest_time_counts() -> None:
    one = history(5000, ready=[1, 2, 3], oldest_ms=[1, 1, 1], disk_free=[9, 9, 9])
    two = history(6010, ready=[10, None, 30], oldest_ms=[5, 5, None], disk_free=[7, 7, 7])
    found = _past([one, two])
    assert (found["since_ms"], found["step_ms"]) == (5000, 1000)
    assert found["points"] == {
        "ready": [1, 12, 3, 30], "oldest_ms": [1, 5, 5, None], "disk_free": [9, 7, 7, 7],
    }  # fmt: skip


def test_the_queue_in_most_trouble_comes_first() -> None:
    rows = [
        {"name": name, "level": level, "dead": dead, "blocked": 0, "oldest_ms": oldest}
        for name, level, dead, oldest in (
            ("well", "ok", 0, 9), ("dead", "ok", 1, 0), ("warned", "warn", 0, 0),
            ("bad", "bad", 0, 0), ("older", "warn", 0, 5),
        )
    ]  # fmt: skip
    rows.sort(key=lambda row: _place(row, "trouble"), reverse=True)
    assert [row["name"] for row in rows] == ["bad", "older", "warned", "dead", "well"]
