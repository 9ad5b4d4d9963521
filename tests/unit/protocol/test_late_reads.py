"""A child's reads from the log, while more items arrive that it has not looked at.

Promise: child.
"""

from __future__ import annotations

from unittest import mock

from kestrelpy.core.subscription.subscription import Subscription
from tests.support.server_harness import ServerHarness


class SlowDisk(ServerHarness):
    """Reads left to the log are done when `is_quick`."""

    is_quick = True

    def _read_back(self) -> bool:
        return self.is_quick and super()._read_back()


def test_a_read_beyond_a_childs_items_skips_none_of_them() -> None:
    stage = SlowDisk()
    stage.say("a", b"get orders+audit/peek")
    stage.say("a", b"set orders 0 0 1", b"1")
    stage.is_quick = False
    stage.say("b", b"get orders+audit/t=1h")
    stage.hang_up("b")
    for body in b"234":
        stage.say("a", b"set orders 0 0 1", b"%c" % body)
    stage.is_quick = True
    stage.work()

    for body in b"1234":
        told = stage.say("a", b"get orders+audit")
        assert told == b"VALUE orders+audit 0 1\r\n%c\r\nEND\r\n" % body


def test_a_later_client_gets_the_items_that_waiters_for_a_read_left() -> None:
    stage = SlowDisk()
    stage.say("a", b"get orders+audit/peek")
    for body in b"12":
        stage.say("a", b"set orders 0 0 1", b"%c" % body)
    stage.is_quick = False
    assert stage.say("b", b"get orders+audit/peek/t=1h") == b""
    stage.is_quick = True
    with mock.patch.object(Subscription, "serve", lambda reader, now_ms: None):
        stage.work()

    assert stage.say("c", b"get orders+audit").startswith(b"VALUE orders+audit 0 1\r\n1\r\n")
    assert stage.client("b").take().startswith(b"VALUE orders+audit/peek/t=1h 0 1\r\n1\r\n")
