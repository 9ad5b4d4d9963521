"""Stalls of the server: very many queues, children or live items, and one command.

One rule: as in `bench/stalls.py`: one operation, one entry.
"""

from typing import Final

from bench.servers import ServerFailed
from bench.stalls import AT_ONCE, Operation, Stage

QUEUES: Final = 10_000
PIPELINED: Final = 500
CHILDREN: Final = 3_000
LIVE: Final = 3_000_000
# A snapshot comes with 50,000 records at the latest.
SETS_MAX: Final = 120_000
_SET: Final = b"set jobs 0 0 1\r\nx\r\n"


def _queues(stage: Stage) -> None:
    stage.say([b"set q%05d 0 0 1\r\nx\r\n" % n for n in range(stage.count(QUEUES))], b"STORED")


def _reload(stage: Stage) -> None:
    stage.ask(b"reload\r\n", b"Reloaded config.")


def _create(stage: Stage) -> None:
    """Create all in one write, which the server reads as one batch."""
    count = stage.count(PIPELINED)
    stage.line.send(b"".join(b"set q%05d 0 0 1\r\nx\r\n" % n for n in range(count)))
    for _ in range(count):
        stage.expect(b"set q", b"STORED")


def _children(stage: Stage) -> None:
    stage.ask(_SET, b"STORED")
    count = stage.count(CHILDREN)
    stage.say([b"get jobs+c%04d/peek\r\n" % n for n in range(count)], b"END")
    stage.ask(_SET, b"STORED")


def _live(stage: Stage) -> None:
    stage.fill("jobs", stage.count(LIVE))


def _until_snapshot(stage: Stage) -> None:
    """Store items, few at once, until the queue has one more snapshot."""
    before = _snapshots(stage)
    for _ in range(SETS_MAX // AT_ONCE):
        stage.say([_SET] * AT_ONCE, b"STORED")
        if _snapshots(stage) - before:
            return
    raise ServerFailed("no snapshot was written")


def _snapshots(stage: Stage) -> set[str]:
    return {path.name for path in stage.daemon.data.glob("jobs.*/*.snapshot")}


def _at_work(stage: Stage) -> None:
    """Make children that have leased an item each."""
    _children(stage)
    names = [b"jobs+c%04d" % number for number in range(stage.count(CHILDREN))]
    for first in range(0, len(names), AT_ONCE):
        _lease(stage, *names[first : first + AT_ONCE])


def _lease(stage: Stage, *names: bytes) -> None:
    """Lease an item by token from each of these, all in one write."""
    stage.line.send(b"".join(b"gets %b/open/lease=1h\r\n" % name for name in names))
    for name in names:
        if not (answer := stage.line.line()).startswith(b"VALUE "):
            said = answer.decode(errors="replace")
            raise ServerFailed(f"gets {name.decode()}/open/lease=1h: {said}")
        for _ in range(2):
            stage.line.line()


OPERATIONS: Final[dict[str, Operation]] = {
    "reload": Operation("reload with {} queues", QUEUES, _reload, begin=_queues),
    "create": Operation(
        "{} queues created in one pipeline", PIPELINED, _create, is_fresh_each=True
    ),
    "snapshot_children": Operation(
        "a snapshot with {} children", CHILDREN, _until_snapshot, begin=_children
    ),
    "snapshot_at_work": Operation(
        "a snapshot with {} children that leased an item each", CHILDREN, _until_snapshot,
        begin=_at_work,
    ),
    "snapshot_live": Operation(
        "a snapshot with {} live items", LIVE, _until_snapshot, begin=_live
    ),
    "lease_children": Operation(
        "a lease by token beside {} children that leased an item each", CHILDREN,
        lambda stage: _lease(stage, b"jobs"), begin=_at_work,
        prepare=lambda stage: stage.ask(_SET, b"STORED"), rounds=5,
    ),
}  # fmt: skip
