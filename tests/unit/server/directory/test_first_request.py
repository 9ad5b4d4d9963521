"""An item that expired while the server was away takes no room any more at the first request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.server_harness import ServerHarness

LIFE_MS = 10_000


def put(s: ServerHarness, body: bytes, options: bytes = b"", life_s: int = 0) -> bytes:
    line = b"set o%b 0 %d %d" % (options, life_s, len(body))
    return s.say("producer", line, body)


def delayed(s: ServerHarness) -> None:
    put(s, b"1", b"/key=A", LIFE_MS // 1000)
    s.say("w", b"get o/open")
    s.say("w", b"get o/abort/delay=100s")


def due_and_expired(s: ServerHarness) -> None:
    put(s, b"1", b"", LIFE_MS // 1000)
    s.say("w", b"get o/open")
    s.say("w", b"get o/abort/delay=9s")


def never_available(s: ServerHarness) -> None:
    put(s, b"1", b"/delay=9s", LIFE_MS // 1000)


def ready(s: ServerHarness) -> None:
    put(s, b"1", b"", LIFE_MS // 1000)


@pytest.mark.parametrize("state", [delayed, due_and_expired, never_available, ready])
@pytest.mark.parametrize("end", ["restart", "kill", "cut_power"])
@pytest.mark.parametrize("snapshot", [True, False])
def test_it_takes_no_room_at_the_first_put(
    state: Callable[[ServerHarness], None], end: str, snapshot: bool
) -> None:
    s = ServerHarness()
    s.set_queue("o", max_items=1)
    state(s)
    assert put(s, b"2") == b"NOT_STORED\r\n"
    if snapshot:
        s.restart()
    s.now_ms += LIFE_MS + 1
    getattr(s, end)()
    assert put(s, b"2") == b"STORED\r\n"
    assert s.say("w", b"get o") == b"VALUE o 0 1\r\n2\r\nEND\r\n"
