"""Stalls of HTTP: the figures of very many queues, and one request for them.

One rule: as in `bench/stalls.py`: one operation, one entry.
"""

import http.client
from typing import Final

from bench.servers import ServerFailed
from bench.stalls import Operation, Stage

QUEUES: Final = 10_000
ANSWER_LIMIT_S: Final = 60.0


def _queues(stage: Stage) -> None:
    """Make queues that have confirmed one item and hold another."""
    names = [b"q%05d" % number for number in range(stage.count(QUEUES))]
    for _ in range(2):
        stage.say([b"set %b 0 0 1\r\nx\r\n" % name for name in names], b"STORED")
    for name in names:
        stage.line.send(b"get %b\r\n" % name)
        while stage.line.line() != b"END":
            pass


def _get(path: str) -> Operation:
    def run(stage: Stage) -> None:
        asked = http.client.HTTPConnection(
            "127.0.0.1", stage.daemon.http_port or 0, timeout=ANSWER_LIMIT_S
        )
        asked.request("GET", path)
        answer = asked.getresponse()
        size = len(answer.read())
        asked.close()
        if answer.status != 200 or not size:
            raise ServerFailed(f"GET {path}: {answer.status}")

    return Operation(f"GET {path} with {{}} queues", QUEUES, run, begin=_queues, has_http=True)


OPERATIONS: Final[dict[str, Operation]] = {
    "http_stats": _get("/stats.json?limit=10000"),
    "http_queues": _get("/admin/queues?sort=items&order=down&limit=500"),
    "http_search": _get("/admin/queues?search=99"),
    "http_metrics": _get("/metrics"),
    "http_health": _get("/health"),
}
