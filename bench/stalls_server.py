"""Stalls of the server: very many queues, children or live items, and one command.

The one rule: as in `bench/stalls.py`: one operation, one entry.
"""

from bench.stalls import Operation, Stage

QUEUES = 10_000
PIPELINED = 500


def _queues(stage: Stage) -> None:
    stage.say([b"set q%05d 0 0 1\r\nx\r\n" % n for n in range(stage.count(QUEUES))], b"STORED")


def _reload(stage: Stage) -> None:
    stage.ask(b"reload\r\n", b"Reloaded config.")


def _create(stage: Stage) -> None:
    """All in one write: the server reads them in one breath."""
    count = stage.count(PIPELINED)
    stage.line.send(b"".join(b"set q%05d 0 0 1\r\nx\r\n" % n for n in range(count)))
    for _ in range(count):
        stage.expect(b"set q", b"STORED")


OPERATIONS: dict[str, Operation] = {
    "reload": Operation("reload with {} queues", QUEUES, _reload, begin=_queues),
    "create": Operation(
        "{} queues created in one pipeline", PIPELINED, _create, is_fresh_each=True
    ),
}
