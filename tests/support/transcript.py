"""Conversations as text files, acted out against a broker, real journals and a hand-moved clock.

    == a title                  a new scene: an empty server
    # a remark
    a> set jobs 0 0 5 | hello   client a sends lines (" | " is a line end, a last one is added)
    a>> set jobs 0 0 5\\nhello\\n bytes as they stand, with Python's escapes and no end added
    a< STORED                   all that a has been sent since the last time, exactly
    a<                          ... nothing
    a<* STAT curr_items 1       these lines are among what was sent
    a< ERROR | (closed)         ... and then the server hung up
    !a                          a hangs up
    ~ 31s                       time passes, and work happens at the moment when it is due
    = queue max_items=2         settings of all queues, `= queue jobs max_items=2` of one
    = server max_open_reads=2   settings of the server
    = alias all mail orders     a name for these queues
    = hold writes               nothing is written until `= go`; `= hold syncs`: nothing synced
    = write   = sync   = go     one write, one sync by hand; as always from now on
    = fail write|sync [FOLDER]  the disk refuses from now on, `= mend`: no more
    = text a                    a is a client of the text port: its lines end in LF alone
    = end a                     a says no more but still listens (half-closed)
    = stop reading a            a reads nothing, `= read a`: again
    = restart | kill | power cut    the server comes back, connections are gone

`{x*70000}` is 70,000 times x, `(empty)` an empty line, `|` without blanks around it itself.

One rule: a scene is the same however its bytes arrive: whole, byte by byte, or cut at random.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from kestrelpy.durations import parse_duration_ms
from tests.support.memory_disk import Fault
from tests.support.server_harness import ServerHarness

WAYS: Final = ("whole", "bytes", "random")
# Of a long request only this much of either end comes byte by byte.
EDGE_BYTES: Final = 8 << 10


@dataclass
class Scene:
    """One scene of a file."""

    file: str
    title: str
    steps: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"

    @property
    def seed(self) -> int:
        """Return what its bytes are cut by: the same in every run."""
        return zlib.crc32(str(self).encode())


def read_scenes(folder: Path) -> Iterator[Scene]:
    """All scenes of all files in `folder`."""
    for path in sorted(folder.glob("*.txt")):
        scene: Scene | None = None
        for number, line in enumerate(path.read_text("ascii").splitlines(), 1):
            if line.startswith("== "):
                if scene is not None:
                    yield scene
                scene = Scene(path.stem, line[3:].strip())
            elif line.strip() and not line.startswith("#"):
                assert scene is not None, f"{path}:{number}: a scene begins with a title, =="
                scene.steps.append((number, line))
        if scene is not None:
            yield scene


def act(
    scene: Scene, way: str, seed: int, make: Callable[[], ServerHarness] = ServerHarness
) -> ServerHarness:
    """Act the scene out; raises AssertionError naming the line."""
    random = Random(seed)
    stage = make()
    told = (0, "", b"")
    for number, line in scene.steps:
        at = f"{scene.file}.txt:{number} ({way}, seed {seed})\n    {line}\n"
        sends = re.fullmatch(r"([a-z])>(>?) ?(.*)", line)
        if sends and told[1] == sends[1]:
            told = (number, sends[1], told[2] + _sent(stage, sends[1], sends[3], bool(sends[2])))
            continue
        if told[1]:
            _deliver(stage, told[1], told[2], way, random)
        told = (0, "", b"")
        if sends:
            waiting = stage.clients.get(sends[1])
            assert waiting is None or not waiting.sent, f"{at}    unexpected: {waiting.sent!r}"
            told = (number, sends[1], _sent(stage, sends[1], sends[3], bool(sends[2])))
        elif hears := re.fullmatch(r"([a-z])<(\*?)(?: (.*))?", line):
            _hear(stage, hears[1], bool(hears[2]), hears[3] or "", at)
        elif line.startswith("!"):
            stage.hang_up(line[1:].strip())
        elif line.startswith("~ "):
            stage.pass_time(parse_duration_ms(line[2:].strip()))
        elif line.startswith("= "):
            _direct(stage, line[2:].strip(), at)
        else:
            raise AssertionError(f"{at}    is no line of a transcript")
    if told[1]:
        _deliver(stage, told[1], told[2], way, random)
    for name, client in stage.clients.items():
        assert not client.sent, f"{scene}: at the end {name} was sent {client.take()!r}"
    return stage


def _deliver(stage: ServerHarness, name: str, data: bytes, way: str, random: Random) -> None:
    at = 0
    while at < len(data):
        size = {"whole": len(data), "bytes": 1}.get(way) or random.choice((1, 2, 3, 7, 50, 5000))
        if way == "bytes" and at >= EDGE_BYTES:
            size = max(len(data) - EDGE_BYTES - at, 1)
        piece = data[at : at + size]
        at += size
        client = stage.client(name)
        if client.closed:
            return
        client.conversation.feed(piece, stage.now_ms)
        if size > 1 or piece == b"\n" or at >= len(data):
            stage.work()


def _hear(stage: ServerHarness, name: str, among: bool, text: str, at: str) -> None:
    client = stage.clients.get(name)
    sent = client.take() if client is not None else b""
    closed = client is not None and client.closed
    parts = text.split(" | ") if text else []
    said_closed = parts[-1:] == ["(closed)"]
    if said_closed:
        parts.pop()
    line_end = _line_end(stage, name)
    expected = _lines(parts, line_end)
    if among:
        lines = sent.split(line_end)
        for line in expected.split(line_end)[:-1]:
            assert line in lines, f"{at}    not there: {line!r}\n    in: {sent!r}"
    else:
        assert sent == expected, f"{at}    was: {_shown(sent, line_end)}"
    assert closed == said_closed, f"{at}    {'closed' if closed else 'not closed'}"


def _direct(stage: ServerHarness, text: str, at: str) -> None:
    verb, _, rest = text.partition(" ")
    words = rest.split()
    if verb in ("queue", "server"):
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        settings = {key: _setting(value) for key, value in pairs.items()}
        names = [word for word in words if "=" not in word]
        if verb == "server":
            stage.set_server(**settings)
        else:
            stage.set_queue(*names, **settings)
        return
    if verb == "schedule":
        name, queue, line = rest.split(maxsplit=2)
        stage.set_schedule(name, queue=queue, cron=line, body=name)
        return
    if verb == "alias":
        stage.set_alias(words[0], words[1:])
        return
    if verb == "reload":
        stage.reload_failure = rest.removeprefix("fails: ")
        return
    if verb == "fail":
        path = f"*/{words[1]}/*.segment" if words[1:] else "*.segment"
        stage.disk.faults.append(Fault(words[0], path, times=1_000_000))
        return
    directions = {
        "hold writes": stage.hold_writes,
        "hold syncs": stage.hold_syncs,
        "write": stage.write_once,
        "sync": stage.sync_once,
        "go": stage.go,
        "mend": stage.disk.faults.clear,
        "restart": stage.restart,
        "kill": stage.kill,
        "power cut": stage.cut_power,
    }
    if text in directions:
        directions[text]()
    elif verb == "text":
        stage.on_text.update(words)
    elif verb == "end":
        stage.end(rest)
    elif text.startswith("stop reading "):
        stage.client(words[-1]).conversation.paused = True
    elif verb == "read":
        stage.client(rest).conversation.paused = False
        stage.work()
    else:
        raise AssertionError(f"{at}    is no direction")


def _line_end(stage: ServerHarness, name: str) -> bytes:
    return b"\n" if name in stage.on_text else b"\r\n"


def _sent(stage: ServerHarness, name: str, text: str, raw: bool) -> bytes:
    return _bytes(text) if raw else _lines(text.split(" | "), _line_end(stage, name))


def _lines(parts: list[str], line_end: bytes) -> bytes:
    return b"".join((b"" if part == "(empty)" else _bytes(part)) + line_end for part in parts)


def _bytes(text: str) -> bytes:
    text = re.sub(r"\{(.+?)\*(\d+)\}", lambda m: m[1] * int(m[2]), text)
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")


def _setting(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    if value.startswith("["):
        return value[1:-1].split(",")
    return int(value) if value.isdigit() else value


def _shown(data: bytes, line_end: bytes) -> str:
    end = line_end.decode()
    text = data.decode("latin-1").removesuffix(end).replace(end, " | ")
    return repr(text if len(text) < 2000 else text[:2000] + "...")
