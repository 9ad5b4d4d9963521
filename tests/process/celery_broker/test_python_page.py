"""Every program and command of docs/python.md, run as a reader would."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.cli.command import counts, eventually
from tests.support.daemon import DaemonProcess
from tests.support.guarded import PASSWORD, Guarded

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "python.md").read_text()
PROGRAMS = dict(re.findall(r"^`(\w+\.py)`\n```python\n(.*?)^```$", TEXT, re.M | re.S))
COMMANDS = re.findall(r"^```sh\n(.*?)\n```$", TEXT, re.M | re.S)


class Reader:
    """A reader of the page, who types its commands in a folder."""

    def __init__(self, daemon: DaemonProcess, folder: Path) -> None:
        self.daemon, self.folder = daemon, folder
        self.running: list[subprocess.Popen[bytes]] = []

    def put(self, *bodies: str) -> None:
        client = self.daemon.client()
        for body in bodies:
            assert client.set("images", body.encode())
        client.close()

    def save(self, program: str) -> None:
        text = PROGRAMS[program].replace("22133", str(self.daemon.port))
        (self.folder / program).write_text(text)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "out").open("ab") as out:
            process = subprocess.Popen(
                words, cwd=self.folder, stdout=out, stderr=out, process_group=0,
                env={
                    **os.environ, "PYTHONPATH": str(ROOT),
                    "KESTRELPY_SERVER": f"127.0.0.1:{self.daemon.port}",
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                },
            )  # fmt: skip
        self.running.append(process)
        return process

    def run(self, program: str) -> subprocess.Popen[bytes]:
        self.save(program)
        return self.start(sys.executable, program)

    def sees(self, *words: str) -> None:
        """Wait until all of it was printed."""
        out = self.folder / "out"
        try:
            eventually(lambda: all(word in out.read_text() for word in words))
        except AssertionError:
            raise AssertionError(out.read_text()) from None

    def stop(self, process: subprocess.Popen[bytes], by: int = signal.SIGTERM) -> None:
        process.send_signal(by)
        out = self.folder / "out"
        assert process.wait(30) == 0, out.read_text()
        assert "Traceback" not in out.read_text()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with DaemonProcess(tmp_path / "data") as daemon:
        person = Reader(daemon, tmp_path)
        yield person
        for process in person.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)


def test_every_program_and_command_has_a_test_here() -> None:
    assert sorted(PROGRAMS) == [
        "access.py", "facts.py", "guarded.py", "loop.py", "many.py", "run.py", "send.py", "tasks.py"
    ]  # fmt: skip
    assert [command.split()[0] for command in COMMANDS] == ["kestrelpy", "celery"]
    assert TEXT.count("```python") == len(PROGRAMS)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_the_loop_ends_by_a_signal(reader: Reader, by: int) -> None:
    reader.put("a", "b")
    process = reader.run("loop.py")
    reader.sees("handled b'a'", "handled b'b'")
    reader.stop(process, by)
    assert counts(reader.daemon, "images")["leased"] == 0


def test_ctrl_c_without_a_handler_gives_the_item_back(reader: Reader) -> None:
    reader.put("a")
    process = reader.start(sys.executable, "-c", f"""
import time
from kestrelpy.client import Worker
for item in Worker("images", ("127.0.0.1", {reader.daemon.port})):
    print("handled", item.body, flush=True)
    time.sleep(60)
""")
    reader.sees("handled b'a'")

    process.send_signal(signal.SIGINT)

    assert process.wait(30) != 0
    reader.sees("KeyboardInterrupt")
    left = counts(reader.daemon, "images")
    assert (left["items"], left["leased"]) == (1, 0)


def test_run_goes_on_after_exceptions(reader: Reader) -> None:
    reader.put("a", "5")
    process = reader.run("run.py")
    reader.sees("paid 5 attempts 0")
    reader.stop(process, signal.SIGINT)
    assert counts(reader.daemon, "images")["dead"] == 1


def test_the_facts_of_an_item(reader: Reader) -> None:
    reader.put("a")
    assert reader.run("facts.py").wait(30) == 0
    reader.sees("images 1 0 no key True", "<WorkerItem of images: token=")
    assert counts(reader.daemon, "images")["delayed"] == 1


def test_a_command_per_item(reader: Reader) -> None:
    reader.put("a", "b")
    process = reader.start(*shlex.split(COMMANDS[0]))
    reader.sees("images 1: a", "images 2: b")
    reader.stop(process)


def test_many_items_at_a_time(reader: Reader) -> None:
    reader.put(*(str(number) for number in range(30)))
    process = reader.run("many.py")
    reader.sees(*(f"handled b'{number}'" for number in range(30)))
    reader.stop(process, signal.SIGINT)
    assert counts(reader.daemon, "images")["open_transactions"] == 0


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """A daemon with users and TLS, and the files that the page names."""
    made = Guarded(tmp_path, "both")
    (tmp_path / "anna.secret").write_text(PASSWORD + "\n")
    with made.daemon:
        yield made


def test_the_loop_of_a_user(guarded: Guarded, tmp_path: Path) -> None:
    person = Reader(guarded.daemon, tmp_path)
    guarded.put("images", b"a", b"b")
    process = person.run("access.py")
    person.sees("handled b'a'", "handled b'b'")
    person.stop(process)
    assert guarded.counts("images")["leased"] == 0


def test_celery_as_a_user(guarded: Guarded, tmp_path: Path) -> None:
    pytest.importorskip("celery", reason="celery is not installed: pip install 'kestrelpy[celery]'")
    person = Reader(guarded.daemon, tmp_path)
    person.save("guarded.py")
    script = "import guarded; guarded.app.send_task('tasks.greet')"
    assert person.start(sys.executable, "-c", script).wait(30) == 0
    assert guarded.counts("celery")["items"] == 1


def test_celery(reader: Reader) -> None:
    pytest.importorskip("celery", reason="celery is not installed: pip install 'kestrelpy[celery]'")
    reader.save("tasks.py")
    process = reader.start(*shlex.split(COMMANDS[1]))
    assert reader.run("send.py").wait(30) == 0
    reader.sees("hello now", "hello later")
    reader.stop(process)
