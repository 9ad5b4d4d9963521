"""A close by connection that comes after its lease, because somebody was stopped.

Promise: late-confirm.
"""

from __future__ import annotations

from tests.support.server_harness import ServerHarness

EXPIRED = b"CLIENT_ERROR lease expired: the item of jobs is not leased to this connection any more"


def leased() -> ServerHarness:
    server = ServerHarness()
    server.set_queue("jobs", lease="1s")
    server.say("a", b"set jobs 0 0 1", b"x")
    server.say("a", b"get jobs/open")
    return server


def test_a_worker_that_was_stopped_is_refused_though_nobody_had_the_item() -> None:
    server = leased()
    server.now_ms += 2000
    server.work()

    assert server.say("a", b"get jobs/close").startswith(EXPIRED)
    assert server.say("b", b"get jobs") == b"VALUE jobs 0 1\r\nx\r\nEND\r\n"


def test_a_server_that_was_stopped_and_reads_the_close_first_confirms() -> None:
    server = leased()
    server.now_ms += 2000

    assert server.say("a", b"get jobs/close") == b"END\r\n"
    assert server.say("b", b"get jobs") == b"END\r\n"


def test_by_token_the_deadline_decides_though_no_tick_has_run() -> None:
    server = leased()
    server.say("a", b"get jobs/close")
    server.say("a", b"set jobs 0 0 1", b"x")
    token = int(server.say("a", b"gets jobs/open/lease=1s").split()[4])
    server.now_ms += 2000

    assert server.say("a", b"delete jobs/token=%d" % token) == b"NOT_FOUND\r\n"
