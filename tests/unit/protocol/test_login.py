"""What each command needs, and what one that nobody thought of needs."""

from __future__ import annotations

from kestrelpy.access import ALL, Need, Role
from kestrelpy.protocol.login import needs
from kestrelpy.protocol.parse import Confirm, Delete, Monitor, Plain, Remove, Touch, Withdraw

READ, WRITE, ADMIN = Role


def test_each_command_needs_a_role_in_its_queue() -> None:
    for command, role in (
        (Delete(b"q", 5, False), WRITE), (Delete(b"q", 0, False), ADMIN),
        (Remove(b"q", 1, False, False), WRITE), (Remove(b"q", 1, True, False), ADMIN),
        (Withdraw(b"q", b"id", False), WRITE), (Touch(b"q", 5, 1, False), WRITE),
        (Monitor(b"q", 1, 1), WRITE), (Confirm(b"q", 1, False), WRITE),
        (Plain(b"stats", [b"q/item=1"]), READ), (Plain(b"flush", [b"q"]), ADMIN),
        (Plain(b"pause", [b"q"]), ADMIN), (Plain(b"retry", [b"q/item=1"]), ADMIN),
    ):
        assert needs(command, {}) == [Need(role, b"q")], command


def test_a_command_without_a_queue_needs_its_role_in_all_of_them() -> None:
    for verb, role in (
        (b"stats", READ), (b"dump_stats", READ), (b"flush_all", ADMIN), (b"reload", ADMIN),
        (b"shutdown", ADMIN), (b"move", ADMIN), (b"flush", ADMIN),
    ):  # fmt: skip
        assert needs(Plain(verb, []), {}) == [Need(role, ALL)], verb
    assert needs(Plain(b"stats", [b"markers"]), {}) == [Need(READ, ALL)]
    assert needs(Plain(b"quit", []), {}) == []


def test_a_command_that_is_not_known_needs_everything() -> None:
    assert needs(object(), {}) == [Need(ADMIN, ALL)]
    assert needs(Plain(b"new", [b"q"]), {}) == [Need(ADMIN, ALL)]
