"""Dead letters of many servers go back once: chosen, counted, and through lost replies."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.redrive import Choice, Death, deaths_in, main
from tests.support.daemon import DaemonProcess

STRICT = '[queue_defaults]\nmax_attempts = 1\n[queues.full]\nmax_items = 2\n'


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    with (
        DaemonProcess(tmp_path / "a", config=STRICT) as one,
        DaemonProcess(tmp_path / "b", config=STRICT) as other,
    ):
        yield [one, other]


def servers(daemons: list[DaemonProcess]) -> str:
    return ",".join(f"127.0.0.1:{daemon.port}" for daemon in daemons)


def make_dead_letters(
    daemon: DaemonProcess, queue: str, *bodies: bytes, why: str = "broken"
) -> None:
    """Put items and make each a dead letter."""
    client = daemon.client()
    for body in bodies:
        assert client.set(queue, body)
        assert client.get(f"{queue}/open") == body
        client.get(f"{queue}/abort/dead={why}")
    client.close()


def drained(daemon: DaemonProcess, queue: str) -> list[bytes]:
    """Take every ready item."""
    client = daemon.client()
    bodies = []
    while (body := client.get(queue)) is not None:
        bodies.append(body)
    client.close()
    return bodies


def dead(daemon: DaemonProcess, queue: str) -> int:
    client = daemon.client()
    count = int(client.stats(queue)[f"queue_{queue}_dead".encode()])
    client.close()
    return count


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main([*words, "--json"])
    told = capsys.readouterr()
    assert told.out, told.err
    facts: dict[str, Any] = json.loads(told.out)
    return code, facts


@pytest.mark.slow
def test_dead_letters_of_two_servers_go_back_and_a_second_run_finds_none(
    daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    make_dead_letters(daemons[0], "jobs", b"a1", b"a2")
    make_dead_letters(daemons[1], "jobs", b"b1")
    make_dead_letters(daemons[1], "mail", b"m1")

    dry = run(capsys, "--servers", servers(daemons), "--queues", "jobs", "--dry-run")
    first = run(capsys, "--servers", servers(daemons), "--queues", "jobs")
    again = run(capsys, "--servers", servers(daemons), "--queues", "jobs")

    assert (dry[0], dry[1]["chosen"], dry[1]["redriven"]) == (0, 3, 0)
    assert (first[0], first[1]["redriven"], first[1]["stay"]) == (0, 3, 0)
    assert (again[0], again[1]["chosen"]) == (0, 0)
    assert drained(daemons[0], "jobs") == [b"a1", b"a2"]
    assert drained(daemons[1], "jobs") == [b"b1"]
    assert dead(daemons[1], "mail") == 1


@pytest.mark.slow
def test_the_filter_chooses_by_reason_time_and_attempts(
    daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    make_dead_letters(daemons[0], "jobs", b"1", why="503%20busy")
    make_dead_letters(daemons[0], "jobs", b"2", why="404%20gone")
    client = daemons[0].client()
    died = [value for key, value in client.stats("jobs/dead").items() if b"died_ms" in key]
    client.close()
    where = ["--servers", servers(daemons), "--queues", "jobs"]

    by_reason = run(capsys, *where, "--reason", "50", "--dry-run")[1]
    before = run(capsys, *where, "--died-before", str(died[0]), "--dry-run")[1]
    since = run(capsys, *where, "--died-from", str(died[0]), "--dry-run")[1]
    by_attempts = run(capsys, *where, "--attempts", "2", "--dry-run")[1]

    assert [each["chosen"] for each in (by_reason, before, since, by_attempts)] == [1, 0, 2, 0]
    assert run(capsys, *where, "--reason", "404")[1]["redriven"] == 1
    assert drained(daemons[0], "jobs") == [b"2"]


@pytest.mark.slow
def test_items_that_another_queue_does_not_take_stay_dead_and_exit_code_1(
    daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    make_dead_letters(daemons[0], "jobs", *(b"%d" % n for n in range(5)))

    code, facts = run(capsys, "--servers", servers(daemons), "--queues", "jobs", "--to", "full")

    assert (code, facts["redriven"], facts["stay"]) == (1, 2, 3)
    assert drained(daemons[0], "full") == [b"0", b"1"]
    assert dead(daemons[0], "jobs") == 3


@pytest.mark.slow
def test_a_rate_holds_over_all_servers(
    daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for daemon in daemons:
        make_dead_letters(daemon, "jobs", *(b"%d" % n for n in range(5)))
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)

    facts = run(capsys, "--servers", servers(daemons), "--queues", "jobs", "--rate", "2/s")[1]

    assert facts["redriven"] == 10
    assert len(slept) >= 6
    assert max(slept) > 3.0  # the last two were due five seconds after the first


@contextmanager
def losing_the_first_reply(port: int, meanwhile: Callable[[], object]) -> Iterator[int]:
    """A way to a server on which the reply to the first redrive is lost: its port.

    `meanwhile` is called when the server has carried it out.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    lost: list[bytes] = []

    def back(far: socket.socket, near: socket.socket) -> None:
        with near, far:
            while data := far.recv(1 << 20):
                if lost and not data.startswith(b"STAT") and len(lost) == 1:
                    lost.append(data)
                    meanwhile()
                    near.shutdown(socket.SHUT_RDWR)
                    return
                near.sendall(data)

    def serve() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=forth, args=(near, far), daemon=True).start()
            threading.Thread(target=back, args=(far, near), daemon=True).start()

    def forth(near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(1 << 16):
                if data.startswith(b"redrive") and not lost:
                    lost.append(data)
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
    assert len(lost) == 2, "no reply was lost"


@pytest.mark.slow
@pytest.mark.parametrize("to", [None, "retry"])
def test_a_lost_reply_doubles_nothing_even_if_an_item_died_again_meanwhile(
    daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str], to: str | None
) -> None:
    bodies = [b"%d" % n for n in range(20)]
    make_dead_letters(daemons[0], "jobs", *bodies)

    def die_again() -> None:
        client = daemons[0].client()
        if to is None:
            assert client.get("jobs/open") == b"0"
            client.get("jobs/abort/dead=again")
        client.close()

    with losing_the_first_reply(daemons[0].port, die_again) as port:
        words = ["--servers", f"127.0.0.1:{port}", "--queues", "jobs"]
        words += ["--option", "fetchRetryInterval=1ms"]
        words += [] if to is None else ["--to", to]
        code, facts = run(capsys, *words)

    assert (code, facts["redriven"], facts["stay"]) == (0, 20, 0)
    assert Counter(drained(daemons[0], to or "jobs")) == Counter(bodies[to is None :])
    assert dead(daemons[0], "jobs") == (to is None)


def test_an_item_that_died_again_is_another_death() -> None:
    stats = {"queue_jobs_dead_7_died_ms": "100", "queue_jobs_dead_7_reason": "50%203",
             "queue_jobs_dead_7_attempts": "2", "queue_jobs_dead_7_state": "dead"}  # fmt: skip
    (first,) = deaths_in(stats, "jobs")
    (again,) = deaths_in({**stats, "queue_jobs_dead_7_died_ms": "200"}, "jobs")

    assert first == Death(7, 100, 2, "50 3")
    assert first != again


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Choice(to="a b"), "--to 'a b' is not the name of a queue"),
        (Choice(to="a\r\nflush_all"), "is not the name of a queue"),
        (Choice(to="a/dead"), "is not the name of a queue"),
        (Choice(to="a+child"), "names a child"),
        (Choice(rate="fast"), "--rate 'fast' must be a whole number"),
    ],
)
def test_bad_input_is_refused_before_a_server_is_asked(choice: Choice, said: str) -> None:
    with pytest.raises(KestrelError, match=said):
        choice.check()


@pytest.mark.slow
def test_a_server_that_is_down_means_that_nothing_moved_anywhere(
    daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    make_dead_letters(daemons[0], "jobs", b"1")
    daemons[1].kill()

    code = main(["--servers", servers(daemons), "--queues", "*", "--option", "fetchRetries=0"])

    told = capsys.readouterr()
    assert code == 2
    assert f"The server 127.0.0.1:{daemons[1].port} cannot be reached" in told.err
    assert dead(daemons[0], "jobs") == 1
