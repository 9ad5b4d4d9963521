"""A driver as a process of its own, and the cases that it runs."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Sequence
from typing import Final, Self

from tests.process.clients.steps import hex_of, spelled, steps
from tests.support.raw import Raw, wait_until

ANSWER_SECONDS: Final = 60.0


class Driver:
    """A driver process with a client of its own."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ask(self, step: str) -> str:
        """Return the answer to one step; the first step starts the process."""
        try:
            self.send(step)
            answer = self._answers.get(timeout=ANSWER_SECONDS)
        except (queue.Empty, BrokenPipeError):
            answer = ""
        if not answer:
            self.kill()
            raise AssertionError(f"no answer to {step!r}: the driver ended or stands still")
        return answer.strip()

    def send(self, step: str) -> None:
        """Send a step without a wait for its answer: the driver is killed next."""
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(step + "\n")
        process.stdin.flush()

    def kill(self) -> None:
        """`kill -9`: the next step starts another process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> subprocess.Popen[str]:
        self._process = process = subprocess.Popen(
            self._command, env=self._environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._answers = answers = queue.SimpleQueue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                answers.put(line)
            answers.put("")

        threading.Thread(target=read, daemon=True).start()
        assert self.ask("new") == "ok"
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def run_case(driver: Driver, case: str, name: str) -> str:
    """Run a case on a queue; return `works`, `no <verb>`, or the first other answer."""
    number = ""
    for step, expected in steps(case):
        if step == "die":
            driver.kill()
            continue
        answer = driver.ask(spelled(step, name, number))
        if answer == "lacks":
            return f"no {step.split()[0]}"
        if answer.endswith(" hidden") and "{n}" in expected:
            if case == "token":
                return "no number"  # a client that hides the token cannot name the lease
            number = "0"  # the driver keeps it
            continue
        if not number and "{n}" in expected:
            number = answer.split()[-1]
        if answer != spelled(expected, name, number):
            return f"{step}: {answer}"
    return "works"


def items(raws: Sequence[Raw], name: str) -> tuple[int, int]:
    """Return how many items of a queue are ready and leased, over all daemons."""
    ready = leased = 0
    for raw in raws:
        stats = raw.stats(f"stats {name}".encode())
        ready += int(stats.get(f"queue_{name}_items", 0))
        leased += int(stats.get(f"queue_{name}_leased", 0))
    return ready, leased


def client_error(driver: Driver, raws: Sequence[Raw], name: str) -> str:
    """Return what a refusal does to the library: a second `open` on one connection."""
    one = hex_of(b"one")
    assert driver.ask(f"set {name} {one}") == "true"
    assert driver.ask(f"get {name}/open") == f"value {one}"
    said = driver.ask(f"get {name}/open")
    driver.ask(f"get {name}/close")  # it confirms if the connection is still the same
    wait_until(lambda: items(raws, name)[1] == 0, "the end of the lease")
    return f"{heard(said)}, {'hangs up' if items(raws, name)[0] else 'goes on'}"


def server_error(driver: Driver, raws: Sequence[Raw], name: str) -> str:
    """Return what a daemon that can do nothing now does to the library."""
    one, two = hex_of(b"one"), hex_of(b"two")
    assert driver.ask(f"set {name} {one}") == "true"
    assert driver.ask(f"set {name} {two}") == "true"
    assert driver.ask(f"get {name}/open") == f"value {one}"
    for raw in raws:
        raw.ask(b"status quiescent\r\n", b"END\r\n")
    try:
        said = driver.ask(f"get {name}/close/open")
    finally:
        for raw in raws:
            raw.ask(b"status up\r\n", b"END\r\n")
    if driver.ask(f"get {name}/peek") not in (f"value {one}", f"value {two}"):
        return f"{heard(said)}, holds the server for down"
    driver.ask(f"get {name}/close")  # it confirms if the connection is still the same
    wait_until(lambda: items(raws, name)[1] == 0, "the end of the lease")
    return f"{heard(said)}, {'hangs up' if items(raws, name)[0] == 2 else 'goes on'}"


def heard(answer: str) -> str:
    """Return how a library tells of an error."""
    return "raises" if answer.startswith("error") else f"answers {answer}"


# How a stored value begins, and the name of its form.
_FORMS: Final = (
    (b"(lp0", "pickle"), (b"\x80\x05", "pickle"), (b"\x80\x04", "pickle"), (b'["a",1]', "JSON"),
    (b"a:2:{", "PHP's `serialize()`"), (b"\xac\xed", "Java serialization"), (b"\x1f\x8b", "gzip"),
    (b"\x78\x9c", "zlib"), (b"\x05\x0b", "Storable"), (b"\x04\x08", "Marshal"),
    (b"['a', 1]", "Python's `str()`"), (b"\x11", "big-endian bytes"),
    (b"\xa0\x86\x01\x00", "FastLZ"),
)  # fmt: skip
_PLAIN: Final = {"text": "héllo".encode(), "long": b"x" * 100_000}


def stored_value(driver: Driver, raws: Sequence[Raw], name: str, kind: str) -> str:
    """Return how the library stores a value by itself: as another language gets to see it."""
    said = driver.ask(f"native {name} {kind}")
    if said == "lacks":
        return "no call for it"
    if said.startswith("error"):
        return "refused by the library"
    for raw in raws:
        raw.send(b"get " + name.encode() + b"\r\n")
        if (line := raw.line()) != b"END":
            flags, size = line.split()[2:]
            body = raw.read(int(size))
            raw.expect(b"\r\nEND\r\n")
            return f"{_form(kind, body)}, flags {int(flags)}"
    return f"{said}, but nothing is stored"


def _form(kind: str, body: bytes) -> str:
    if body == b"17":
        return "digits"
    if body == _PLAIN.get(kind):
        return "as it is"
    return next((form for start, form in _FORMS if body.startswith(start)), repr(body[:20]))
