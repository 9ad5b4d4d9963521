"""A sync that hangs: the longest wait of any other client.

strace holds every sync of one queue's segment. Meanwhile its peek, stats, and other queues' sets,
opens and confirms are asked one after the other, each timed.

One rule: the worst answer counts, not the median.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable

from bench.daemon import Daemon, Line
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

PAUSE_S = 0.005


def missing() -> str | None:
    """Return one sentence if it cannot be measured here."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian package strace); the hung sync is left out."
    return None


def hung(bench: Bench) -> list[Figure]:
    """Return the worst answers."""
    seconds = bench.sizes.hang_seconds
    where = f"a sync hangs for {seconds:g} s"
    with Daemon(bench.parent, bench.python) as daemon:
        line, setter = daemon.connect(), daemon.connect()
        for queue in (b"slow", b"other"):
            _expect(line.ask(b"set %b 0 0 1\r\nx\r\n" % queue), b"STORED")
        before = _worst(line, time.monotonic() + min(seconds, 3.0))
        [segment] = daemon.data.glob("slow.*/*.segment")
        tracer = subprocess.Popen(
            ["strace", "-f", "-p", str(daemon.pid), "-P", str(segment), "-e", "trace=fdatasync",
             "-e", f"inject=fdatasync:delay_enter={int(seconds * 1e6)}", "-o", "/dev/null"],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert tracer.stderr is not None
            if b"attached" not in (said := tracer.stderr.readline()):
                raise ServerFailed(f"strace may not trace here: {said.decode().strip()}")
            traced = _worst(line, time.monotonic() + 1.0)
            began = time.monotonic()
            setter.send(b"set slow 0 0 1\r\ny\r\n")
            during = _worst(line, began + seconds * 0.9)
            _expect(setter.line(), b"STORED")
            held = time.monotonic() - began
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
    bench.say(f"{where}: the held set took {held:.1f} s")
    figures = [Figure(where, "the set that waits for it", held, "s", at_least=seconds)]
    for name, worst in during.items():
        figures.append(Figure(where, name, worst, "ms", at_most=Goals.answer_ms))
        figures.append(Figure(where, f"{name}, before, traced", traced[name], "ms"))
        figures.append(Figure(where, f"{name}, before, not traced", before[name], "ms"))
    return figures


def _worst(line: Line, until: float) -> dict[str, float]:
    """Return the longest time of each kind of request, in ms."""
    asked: dict[str, Callable[[], None]] = {
        "worst peek of its queue": lambda: _value(line, b"get slow/peek\r\n"),
        "worst stats": lambda: _stats(line),
        "worst set of another queue": lambda: _expect(
            line.ask(b"set other 0 0 1\r\nx\r\n"), b"STORED"
        ),
        "worst open of another queue": lambda: _value(line, b"get other/open\r\n"),
        "worst confirm of another queue": lambda: _expect(
            line.ask(b"get other/close\r\n"), b"END"
        ),
    }
    worst = dict.fromkeys(asked, 0.0)
    while time.monotonic() < until:
        for name, ask in asked.items():
            began = time.monotonic()
            ask()
            worst[name] = max(worst[name], (time.monotonic() - began) * 1000)
        time.sleep(PAUSE_S)
    return worst


def _value(line: Line, request: bytes) -> None:
    if not (answer := line.ask(request)).startswith(b"VALUE "):
        raise ServerFailed(f"{request.decode().strip()}: {answer.decode(errors='replace')}")
    line.rest_of_item()


def _stats(line: Line) -> None:
    line.stats()


def _expect(answer: bytes, wanted: bytes) -> None:
    if answer != wanted:
        raise ServerFailed(f"kestrelpy said {answer.decode(errors='replace')}")
