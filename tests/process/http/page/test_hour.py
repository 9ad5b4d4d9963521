"""A tab that is open for an hour does not grow: 3,600 ticks, by the way that the page takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import CDPSession, Page, Route, expect

from tests.support.daemon import DaemonProcess

EARLY, LATE = 600, 3600  # ticks; the range of five minutes is full after 300
# What may be more at the end: a fifth, and what a browser keeps for itself.
GROWTH, NODES_MORE, BYTES_MORE = 1.2, 50, 300_000
ROWS = 8
Members = dict[str, Any]


def overview(whole: Members, tick: int) -> Members:
    """Return the overview of a tick: new figures, other queues and troubles, a new action."""
    names = [f"q{(tick + each) % 500}" for each in range(ROWS)]
    row = {**next(iter(whole["trouble"]["rows"].values())), "ready": tick, "level": "warn"}
    gone = {f"q{(tick - 1) % 500}": None}
    line = {"level": "warn", "code": f"c{tick % 7}", "text": f"q{tick}: tick", "link": "#/queues"}
    points = dict.fromkeys(whole["append"]["points"], tick % 50)
    at_ms = whole["append"]["at_ms"] + tick * 1000
    return {
        "now_ms": whole["now_ms"] + tick * 1000, "connections": tick,
        "append": {"at_ms": at_ms, "points": points},
        "trouble": {
            "order": names,
            "rows": gone | {
                each: row | {"name": each, "spark": [tick % 9, 3, tick % 5], "why": f"w{tick}"}
                for each in names
            },
        },
        "verdict": {"level": "warn", "lines": [line | {"since_ms": at_ms}] * (1 + tick % 3)},
        "actions": [
            {"at_ms": at_ms, "who": "anna", "what": "pause", "queue": f"q{tick}", "count": None,
             "note": None},
        ],
    }  # fmt: skip


def leases(whole: Members, tick: int) -> Members:
    """Leases with their buttons come and go."""
    row = next(iter(whole["rows"]["rows"].values()))
    ids = [str(tick + each) for each in range(ROWS)]
    now_ms = whole["now_ms"] + tick * 1000
    return {
        "now_ms": now_ms,
        "rows": {
            "order": ids,
            "rows": {str(tick - 1): None}
            | {each: row | {"id": int(each), "ends_ms": now_ms + 5000} for each in ids},
        },
    }


class Replayed:
    """The page's stream, as it is in an hour."""

    def __init__(self, whole: Members, change: Callable[[Members, int], Members]) -> None:
        self.whole, self.change, self.waits = whole, change, list[Route]()

    def take(self, route: Route) -> None:
        """The page asks for its stream."""
        self.waits.append(route)

    def send(self, page: Page, first: int, last: int) -> None:
        """Answer the stream that the page asks for with these ticks, and end it."""
        while not self.waits:
            page.wait_for_timeout(50)
        # The whole view is sent once: the next stream goes on from the state of the first.
        events = ["event: whole\ndata: " + json.dumps(self.whole)] if first == 1 else []
        events += [
            "event: change\ndata: " + json.dumps(self.change(self.whole, tick))
            for tick in range(first, last + 1)
        ]
        body = "".join(f"{each}\n\n" for each in events)
        self.waits.pop().fulfill(body=body, content_type="text/event-stream")


def taken(devtools: CDPSession) -> tuple[int, int, int]:
    """DOM nodes, listeners and bytes of JavaScript's heap that are still in use."""
    devtools.send("HeapProfiler.collectGarbage")
    found = devtools.send("Memory.getDOMCounters")
    heap = devtools.send("Runtime.getHeapUsage")
    return found["nodes"], found["jsEventListeners"], int(heap["usedSize"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "query", "change"),
    [
        ("overview?range=5m", "view=overview&range=5m", overview),
        ("queues/jobs/leases", "view=leases&queue=jobs", leases),
    ],
    ids=["overview", "leases"],
)
def test_a_tab_open_for_an_hour_does_not_grow(
    page: Page, daemon: DaemonProcess, address: str, query: str,
    change: Callable[[Members, int], Members],
) -> None:  # fmt: skip
    client = daemon.client()
    assert client.set("jobs", b"x")
    assert client.gets("jobs/open/lease=10m")[0] == b"x"
    whole: Members = {}
    while not (whole.get("rows") or whole.get("trouble", {"rows": {}}))["rows"]:
        page.wait_for_timeout(50)  # the sampler looks once a second
        with urlopen(f"http://127.0.0.1:{daemon.http_port}/views?{query}", timeout=10) as answer:
            whole = json.load(answer)
    replayed, counts = Replayed(whole, change), list[tuple[int, int, int]]()
    devtools = page.context.new_cdp_session(page)
    page.route("**/events?*", replayed.take)
    page.goto(f"/#/{address}")
    for first, tick in ((1, EARLY), (EARLY + 1, LATE)):
        replayed.send(page, first, tick)
        row = page.locator("tbody tr").filter(
            has_text=f"q{(tick + ROWS - 1) % 500}" if change is overview else str(tick + ROWS - 1)
        )
        expect(row).to_have_count(1, timeout=120_000)
        if change is overview:
            connections = page.locator(".figures > div", has_text="Connections").locator("dd")
            expect(connections).to_have_text(f"{tick:,}", timeout=120_000)
        page.wait_for_timeout(1100)  # marks of changed figures go
        counts.append(taken(devtools))
    early, late = counts
    print(f"{address}: nodes, listeners, bytes: {early} after {EARLY}, {late} after {LATE}")
    for before, after, more in zip(early, late, (NODES_MORE, NODES_MORE, BYTES_MORE), strict=True):
        assert after <= before * GROWTH + more, (early, late)
