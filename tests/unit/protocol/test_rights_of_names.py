"""Each name in a request has its own right, also the second one, and one that is called as a route.

    set q/confirm=source:7      write in q and in source
    set alias                   write in the alias and in each queue of it
    move a b, redrive a b       admin in all queues: both names are anybody's
    stats schedules             all queues, though a queue may be called so; stats schedules/item=1
                                that queue

One rule: a pattern that fits the one name does not open the other.
"""

from __future__ import annotations

from typing import Final

import pytest

from kestrelpy.access import ALL, Grant, Need, Role
from kestrelpy.http.access import need_of
from kestrelpy.protocol.parse import Lines, Parser
from kestrelpy.protocol.verbs import VERBS, needs

READ, WRITE, ADMIN = Role
ALIASES: Final = {b"all": (b"jobs", b"mail")}
# A request, and the rights that it needs.
WIRE: Final[dict[bytes, list[Need]]] = {
    b"set jobs 0 0 1": [Need(WRITE, b"jobs")],
    b"set jobs+kid 0 0 1": [Need(WRITE, b"jobs+kid")],
    b"set jobs/confirm 0 0 1": [Need(WRITE, b"jobs")],  # the open needed a right of its own
    b"set jobs/confirm=mail:7 0 0 1": [Need(WRITE, b"jobs"), Need(WRITE, b"mail")],
    b"set jobs/confirm=mail+kid:7 0 0 1": [Need(WRITE, b"jobs"), Need(WRITE, b"mail+kid")],
    b"set all 0 0 1": [Need(WRITE, b"all"), Need(WRITE, b"jobs"), Need(WRITE, b"mail")],
    b"add all/id=1 0 0 1": [Need(WRITE, b"all"), Need(WRITE, b"jobs"), Need(WRITE, b"mail")],
    b"set jobs/declare 0 0 1": [Need(ADMIN, b"jobs")],
    b"get jobs mail": [Need(WRITE, b"jobs"), Need(WRITE, b"mail")],
    b"get jobs/peek mail/open": [Need(READ, b"jobs"), Need(WRITE, b"mail")],
    b"get jobs+kid/peek": [Need(WRITE, b"jobs+kid")],  # it makes the child
    b"get jobs/dead/peek": [Need(READ, b"jobs")],
    b"delete jobs": [Need(ADMIN, b"jobs")],
    b"delete jobs+kid": [Need(ADMIN, b"jobs+kid")],
    b"delete jobs/token=7": [Need(WRITE, b"jobs")],
    b"delete jobs+kid/upto=7": [Need(WRITE, b"jobs+kid")],
    b"delete jobs/dead/item=7": [Need(ADMIN, b"jobs")],
    b"delete jobs/id=7": [Need(WRITE, b"jobs")],
    b"move jobs mail 7": [Need(ADMIN, ALL)],
    b"redrive jobs all": [Need(ADMIN, ALL)],
    b"redrive jobs all mail": [Need(ADMIN, ALL)],
    b"retry jobs 7": [Need(ADMIN, b"jobs")],
    b"pause schedules": [Need(ADMIN, b"schedules")],
    b"stats schedules": [Need(READ, ALL)],
    b"stats markers": [Need(READ, ALL)],
    b"stats schedules/item=1": [Need(READ, b"schedules")],
    b"stats markers/open": [Need(READ, b"markers")],
    b"stats jobs/token=7": [Need(READ, b"jobs")],
    b"stats jobs+kid": [Need(READ, b"jobs+kid")],
    b"set schedules 0 0 1": [Need(WRITE, b"schedules")],
    b"dump_stats jobs": [Need(READ, ALL)],
}  # fmt: skip
# The same over HTTP: the method, the path, and the right that it needs.
HTTP: Final[dict[tuple[str, str], Need]] = {
    ("POST", "/queues/leases/items"): Need(WRITE, b"leases"),
    ("POST", "/queues/items/leases"): Need(WRITE, b"items"),
    ("DELETE", "/queues/items"): Need(ADMIN, b"items"),
    ("POST", "/queues/jobs+kid/leases"): Need(WRITE, b"jobs+kid"),
    ("POST", "/v2/queues/jobs+kid/claims"): Need(WRITE, b":jobs+kid"),
    ("PATCH", "/queues/leases/leases/7"): Need(WRITE, b"leases"),
    ("POST", "/streams/jobs-7-8"): Need(WRITE, b"jobs"),
    ("POST", "/streams/jobs"): Need(WRITE, b"jobs"),
    ("GET", "/categories/jobs"): Need(READ, b"jobs"),
    ("POST", "/v2/queues/messages/messages"): Need(WRITE, b":messages"),
    ("POST", "/v2/queues/messages/purge"): Need(ADMIN, b":messages"),
    ("PUT", "/v2/queues/claims"): Need(ADMIN, b":claims"),
    ("PATCH", "/v2/queues/claims"): Need(ADMIN, b":claims"),
    ("POST", "/v2/queues/claims/claims"): Need(WRITE, b":claims"),
    ("POST", "/admin/queues/jobs/move"): Need(ADMIN, ALL),
    ("POST", "/admin/queues/jobs/redrive"): Need(ADMIN, ALL),
    ("POST", "/admin/queues/leases/move"): Need(ADMIN, ALL),
    ("DELETE", "/admin/queues/leases/leases/7"): Need(WRITE, b"leases"),
    ("DELETE", "/admin/queues/leases"): Need(ADMIN, ALL),
    ("GET", "/admin/queues/schedules"): Need(READ, ALL),
    ("GET", "/admin/schedules"): Need(READ, ALL),
}  # fmt: skip


@pytest.mark.parametrize("line", WIRE, ids=lambda line: line.decode())
def test_each_name_of_a_line_has_its_right(line: bytes) -> None:
    parser = Parser(lambda name: 100, Lines())
    parser.feed(line + b"\r\nx\r\n")
    command = parser.next()
    assert command is not None
    assert needs(VERBS, command, ALIASES) == WIRE[line]


@pytest.mark.parametrize("request_", HTTP, ids=" ".join)
def test_a_queue_that_is_called_as_a_route_is_a_queue(request_: tuple[str, str]) -> None:
    assert need_of(*request_) == HTTP[request_]


@pytest.mark.parametrize("patterns", [["jobs*"], ["mail*"], ["all", "jobs*"], ["all", "mail*"]])
def test_a_pattern_that_fits_one_name_does_not_open_the_other(patterns: list[str]) -> None:
    grant = Grant("anna", ADMIN, patterns)
    two = [line for line, needed in WIRE.items() if len({need.queue for need in needed}) > 1]
    assert len(two) == 6
    for line in [*two, b"move jobs mail 7", b"redrive jobs all mail", b"stats schedules"]:
        assert not all(grant.may(need) for need in WIRE[line]), line
