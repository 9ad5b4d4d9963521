"""Sets in flight on a real socket, wherever the network cuts them."""

from __future__ import annotations

from tests.support.raw import Raw


def test_sets_in_flight_are_answered_in_sequence_wherever_their_bytes_are_cut(
    raw: Raw, queue: str
) -> None:
    name = queue.encode()
    sets = b"".join(b"set %b 0 0 %d\r\n%b\r\n" % (name, n, b"x" * n) for n in (3, 3, 5, 3))
    for at in range(1, len(sets)):
        raw.send(sets[:at])
        raw.send(sets[at:] + b"version\r\n")
        assert [raw.line() for _ in range(4)] == [b"STORED"] * 4
        assert raw.line().startswith(b"VERSION ")

    for n in (3, 3, 5, 3) * (len(sets) - 1):
        raw.ask(b"get %b\r\n" % name, b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (name, n, b"x" * n))
