"""The rights that each command needs, and those that an unknown command needs."""

from __future__ import annotations

from kestrelpy.access import ALL, Need, Role
from kestrelpy.protocol.parse import (
    Confirm,
    Delete,
    Lines,
    Monitor,
    Parser,
    Plain,
    Remove,
    Touch,
    Withdraw,
)
from kestrelpy.protocol.parse.commands import Command
from kestrelpy.protocol.verbs import VERBS, needs

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
        assert needs(VERBS, command, {}) == [Need(role, b"q")], command


def test_who_may_only_read_fetches_nothing_that_others_then_do_not_get() -> None:
    for line, role in (
        (b"get q", WRITE), (b"get q/open", WRITE), (b"get q/close", WRITE),
        (b"get q/close/open", WRITE), (b"get q/abort", WRITE), (b"get q/t=5", WRITE),
        (b"get q/peek", READ), (b"get q/peek/t=5", READ), (b"gets q/peek/after=0", READ),
        (b"get q/dead/peek", READ), (b"get q/dead/open", WRITE),
    ):  # fmt: skip
        parser = Parser(lambda name: 100, Lines())
        parser.feed(line + b"\r\n")
        command = parser.next()
        assert command is not None
        assert needs(VERBS, command, {}) == [Need(role, b"q")], line


def test_a_command_without_a_queue_needs_its_role_in_all_of_them() -> None:
    for verb, role in (
        (b"stats", READ), (b"dump_stats", READ), (b"flush_all", ADMIN), (b"reload", ADMIN),
        (b"shutdown", ADMIN), (b"move", ADMIN), (b"flush", ADMIN),
    ):  # fmt: skip
        assert needs(VERBS, Plain(verb, []), {}) == [Need(role, ALL)], verb
    for word in (b"markers", b"schedules"):
        assert needs(VERBS, Plain(b"stats", [word]), {}) == [Need(READ, ALL)], word
        assert needs(VERBS, Plain(b"dump_stats", [word]), {}) == [Need(READ, ALL)], word
    assert needs(VERBS, Plain(b"quit", []), {}) == []


def test_a_command_that_is_not_known_needs_everything() -> None:
    assert needs(VERBS, Command(), {}) == [Need(ADMIN, ALL)]
    assert needs(VERBS, Plain(b"new", [b"q"]), {}) == [Need(ADMIN, ALL)]
