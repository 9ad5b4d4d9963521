"""The order of connections: at once, in the light queue or in the heavy one.

Promise fair-share: floods of eleven kinds of lines on one and many connections, answered or not;
    lines that cost much; a share by commands and by time on a clock of the test; the whole server
    with crashes and faults; `python -m bench attackers`.
"""

from __future__ import annotations

from kestrelpy.server.shares import (
    DIRECT_SECONDS,
    HEAVY_MS,
    LINE_SECONDS,
    LINE_SECONDS_HURRIED,
    SHARE_SECONDS,
    Shares,
)


class Clock:
    """Seconds, set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Peer:
    """A connection without a socket."""

    def __init__(self, name: str = "", is_long: bool = False) -> None:
        self.name = name
        self.heavy_until_ms = 0
        self.is_lined_up = False
        self.is_long = is_long


def served(shares: Shares, clock: Clock, now_ms: int, each_s: float) -> list[str]:
    """Return the names that one turn takes from the queues, each busy for this long."""
    names = []
    for peer, until in shares.take(now_ms):
        assert isinstance(peer, Peer)
        assert clock.now < until
        names.append(peer.name)
        clock.now += each_s
    return names


def test_a_connection_with_bytes_goes_on_at_once_for_one_share() -> None:
    clock = Clock()
    shares = Shares(clock)

    assert shares.until() == clock.now + SHARE_SECONDS


def test_a_connection_that_used_up_its_share_is_heavy_for_a_while() -> None:
    peer = Peer()

    Shares(Clock()).note_overrun(peer, now_ms=1000)

    assert peer.heavy_until_ms == 1000 + HEAVY_MS


def test_a_turn_carries_out_at_once_for_a_bounded_time_in_all() -> None:
    clock = Clock()
    shares = Shares(clock)
    at_once = 0
    while shares.until():
        at_once += 1
        clock.now += SHARE_SECONDS

    assert at_once == round(DIRECT_SECONDS / SHARE_SECONDS)

    shares.renew()
    assert shares.until() > 0


def test_the_heavy_line_gets_its_part_of_a_turn_however_many_stand_in_it() -> None:
    clock = Clock()
    shares = Shares(clock)
    for number in range(100):
        shares.line_up(Peer(str(number), is_long=True), 0)

    rounds = [served(shares, clock, 0, LINE_SECONDS / 2) for _ in range(3)]

    assert rounds == [["0", "1"], ["2", "3"], ["4", "5"]], "in the order in which they came"


def test_the_heavy_line_gets_less_of_a_turn_while_a_small_request_waits_for_a_sync() -> None:
    clock = Clock()
    shares = Shares(clock)
    shares.line_up(Peer("heavy", is_long=True), 0)

    [(_, until)] = shares.take(0, is_hurried=True)

    assert until == clock.now + LINE_SECONDS_HURRIED


def test_one_of_each_line_has_its_turn_however_long_it_takes() -> None:
    clock = Clock()
    shares = Shares(clock)
    for name in ("light", "light too"):
        shares.line_up(Peer(name), 0)
    for name in ("heavy", "heavy too"):
        shares.line_up(Peer(name, is_long=True), 0)

    assert served(shares, clock, 0, 1.0) == ["light", "heavy"]
    assert served(shares, clock, 0, 1.0) == ["light too", "heavy too"]
    assert not shares


def test_a_connection_that_stood_in_the_heavy_line_stays_heavy() -> None:
    """Otherwise a hundred flooding connections would each have a share at once now and then."""
    clock = Clock()
    shares, peer = Shares(clock), Peer("a")
    shares.note_overrun(peer, now_ms=0)
    shares.line_up(peer, 0)
    later_ms = 10 * HEAVY_MS

    assert served(shares, clock, later_ms, 0.0) == ["a"]

    assert peer.heavy_until_ms > later_ms + 1


def test_no_connection_is_in_a_queue_twice() -> None:
    clock = Clock()
    shares, peer = Shares(clock), Peer("a")

    shares.line_up(peer, 0)
    shares.line_up(peer, 0)

    assert peer.is_lined_up, "what it sent before comes first"
    assert served(shares, clock, 0, 0.0) == ["a"]
    assert served(shares, clock, 0, 0.0) == []
