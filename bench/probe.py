"""A client that asks `version` every millisecond, in a process of its own, and notes each wait.

    parent                        probe
    Probe(port) ----------------> connects, says "ready"
      ...the work...              ask, wait for the answer, pause 1 ms, ask ...
    close stdin ----------------> ends, and sends every (asked at, waited) it noted
      waits(since, until)

All processes share the monotonic clock, so the times tell the parent which waits belong to which of
its operations.

One rule: the loop is closed. A stall of 400 ms is one wait of 400 ms, not 400 waits.
"""

import gc
import socket
import subprocess
import sys
import time
from array import array
from dataclasses import dataclass
from select import select
from types import TracebackType
from typing import BinaryIO, Final, Self, cast

from bench.servers import ROOT, ServerFailed

PAUSE_S: Final = 0.001
END_LIMIT_S: Final = 30.0


@dataclass(frozen=True)
class Wait:
    """One answer: the time of its request, and the seconds it took."""

    asked_s: float
    took_s: float


class Probe:
    """The probe's process, as the bench sees it: `with Probe(port) as probe`, then `waits()`."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.probe", str(port)], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._waits: list[Wait] | None = None
        if self._pipe().readline() != b"ready\n":
            raise ServerFailed("the probe could not connect")

    def waits(self) -> list[Wait]:
        """End the probe; return all it noted."""
        if self._waits is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            found = array("d", self._pipe().read())
            if self._process.wait(END_LIMIT_S) != 0 or len(found) % 2:
                raise ServerFailed("the probe lost its connection")
            self._waits = [Wait(*pair) for pair in zip(found[::2], found[1::2], strict=True)]
        return self._waits

    def _pipe(self) -> BinaryIO:
        assert self._process.stdout is not None
        return cast(BinaryIO, self._process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def main(port: int) -> None:
    """Run the probe until standard input is closed."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = line.makefile("rb")
    gc.disable()
    noted = array("d")
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    while not select([sys.stdin], [], [], PAUSE_S)[0]:
        began = time.monotonic()
        line.sendall(b"version\r\n")
        if not answers.readline().startswith(b"VERSION"):
            sys.exit("kestrelpy closed the connection")
        noted.append(began)
        noted.append(time.monotonic() - began)
    sys.stdout.buffer.write(noted.tobytes())


if __name__ == "__main__":
    main(int(sys.argv[1]))
