"""`kestrelpy work QUEUE -- CMD`: confirmed when CMD ends well, given back when not."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Command, counts, eventually
from tests.support.daemon import DaemonProcess

# A command that says it has begun, then takes until it is told to end.
WAITING = ["sh", "-c", "touch begun; until [ -e go ]; do sleep 0.02; done; cat > out"]


def begin(kestrelpy: Command, *words: str) -> subprocess.Popen[bytes]:
    """Start `work` with the command that waits, and see that it has an item in hand."""
    process = kestrelpy.start("work", *words, "--", *WAITING)
    eventually((kestrelpy.folder / "begun").exists)
    return process


def test_a_command_that_ends_well_confirms(kestrelpy: Command, daemon: DaemonProcess) -> None:
    body = bytes(range(256))
    daemon.client().set("well", body)

    ended = kestrelpy("work", "well", "--once", "--", "sh", "-c", "cat; echo; echo err >&2")

    assert (ended.code, ended.out, ended.err) == (0, body + b"\n", "err\n"), ended
    assert counts(daemon, "well")["items"] == counts(daemon, "well")["open_transactions"] == 0
    assert counts(daemon, "well")["canceled_transactions"] == 0


@pytest.mark.parametrize(
    ("script", "said"),
    [("exit 3", "ended with exit code 3"), ("kill -9 $$", "was ended by signal 9")],
)
def test_a_command_that_ends_badly_gives_the_item_back(
    kestrelpy: Command, daemon: DaemonProcess, script: str, said: str
) -> None:
    daemon.client().set("badly", b"again")

    ended = kestrelpy("work", "badly", "--once", "--", "sh", "-c", script)

    assert ended.code == 1
    assert f"{said}; the item was given back" in ended.err
    assert ended.err.count("\n") == 1
    assert daemon.client().get("badly") == b"again"


def test_a_failed_item_is_tried_again(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("retried", b"x")
    only_twice = ["sh", "-c", "rm tried || ! touch tried"]

    ended = kestrelpy("work", "retried", "--max", "2", "--", *only_twice)

    assert ended.code == 1  # one of them failed
    assert counts(daemon, "retried")["items"] == 0
    assert counts(daemon, "retried")["canceled_transactions"] == 1


def test_a_command_may_leave_its_input_alone(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("unread", b"x" * 1_000_000)

    assert kestrelpy("work", "unread", "--once", "--", "true").code == 0
    assert counts(daemon, "unread")["items"] == 0


def test_once_with_nothing_there_is_exit_code_1(kestrelpy: Command) -> None:
    ended = kestrelpy("work", "nothing", "--once", "--wait", "10ms", "--", "cat")

    assert ended.is_sentence(1), ended
    assert "nothing: no item is ready" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["q", "--", "no-such-command"], "no-such-command: there is no such command"),
        (["q", "--wait", "5", "--", "cat"], '--wait: "5" is not a duration'),
        (["q", "--lease", "1", "--", "cat"], '--lease: "1" is not a duration'),
        (["q", "--lease", "10ms", "--", "cat"], "lease must be at least 1s"),
        (["q", "--wait", "0s", "--", "cat"], "wait must be at least 1ms"),
        (["a/b", "--", "cat"], "unknown option b"),
        (["a b", "--", "cat"], "Key contains whitespace"),
    ],
)
def test_wrong_usage_is_one_sentence(kestrelpy: Command, words: list[str], said: str) -> None:
    ended = kestrelpy("work", *words)

    assert ended.is_sentence(2), ended
    assert said in ended.err


def test_a_command_that_cannot_be_run_gives_the_item_back(
    kestrelpy: Command, daemon: DaemonProcess, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    daemon.client().set("unrun", b"x")

    ended = kestrelpy("work", "unrun", "--", str(script))

    assert ended.is_sentence(2), ended
    assert f"{script} cannot be run: No such file or directory" in ended.err
    assert daemon.client().get("unrun") == b"x"


def test_several_jobs_share_the_work_and_do_all_of_it_once(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for number in range(20):
        client.set("shared", b"%d\n" % number)

    ended = kestrelpy("work", "shared", "--jobs", "3", "--max", "12", "--", "cat")
    rest = list(iter(lambda: client.get("shared"), None))

    assert ended.code == 0, ended
    assert len(ended.out.split()) == 12
    assert sorted(map(int, [*ended.out.split(), *rest])) == list(range(20))


def test_max_leaves_the_rest(kestrelpy: Command, daemon: DaemonProcess) -> None:
    client = daemon.client()
    for number in range(5):
        client.set("rest", b"%d\n" % number)

    ended = kestrelpy("work", "rest", "--max", "2", "--", "cat")

    assert (ended.code, ended.out) == (0, b"0\n1\n"), ended
    assert counts(daemon, "rest")["items"] == 3
    assert counts(daemon, "rest")["canceled_transactions"] == 0


def test_sigterm_lets_the_running_command_finish(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("stopped", b"first")
    client.set("stopped", b"second")
    process = begin(kestrelpy, "stopped")

    process.send_signal(signal.SIGTERM)
    (kestrelpy.folder / "go").touch()
    ended = kestrelpy.finish(process)

    assert ended.code == 0, ended
    assert (kestrelpy.folder / "out").read_bytes() == b"first"
    assert client.get("stopped") == b"second"
    assert counts(daemon, "stopped")["canceled_transactions"] == 0


def test_sigterm_ends_an_idle_worker_at_once(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("idle", b"x")
    process = kestrelpy.start("work", "idle", "--wait", "10m", "--jobs", "2", "--", "cat")
    eventually(lambda: counts(daemon, "idle")["waiters"] == 2)

    process.send_signal(signal.SIGTERM)
    ended = kestrelpy.finish(process)

    assert (ended.code, ended.err) == (0, ""), ended


def test_kill_9_gives_the_item_back(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("killed", b"survives")
    process = begin(kestrelpy, "killed")
    assert counts(daemon, "killed")["open_transactions"] == 1

    process.kill()
    (kestrelpy.folder / "go").touch()
    kestrelpy.finish(process)

    assert daemon.client().get("killed/t=10000") == b"survives"


def test_the_lease_is_renewed_while_the_command_runs(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("short", b"x")  # its lease is 1s
    process = begin(kestrelpy, "short", "--lease", "1s", "--max", "1")
    client = daemon.client()
    left_ms = [1000]
    renewals = 0

    def renewed_three_times() -> bool:
        nonlocal renewals
        [now_ms] = [n for key, n in client.stats("short/open").items() if b"lease_left_ms" in key]
        renewals += now_ms > left_ms[0]
        left_ms[0] = now_ms
        return renewals == 3

    eventually(renewed_three_times)  # more than its lease
    (kestrelpy.folder / "go").touch()
    ended = kestrelpy.finish(process)

    assert (ended.code, ended.err) == (0, ""), ended
    assert counts(daemon, "short")["lease_expired"] == 0
    assert counts(daemon, "short")["items"] == 0


def test_it_waits_for_a_server_that_went_away(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as other:
        other.client().set("q", b"before\n")
        server = ["--server", f"127.0.0.1:{other.port}"]
        process = kestrelpy.start("work", "q", "--max", "2", *server, "--", "cat")
        eventually(lambda: counts(other, "q")["waiters"] == 1)

        other.kill()
        other.start()
        other.client().set("q", b"after\n")
        ended = kestrelpy.finish(process)

        assert (ended.code, ended.out) == (0, b"before\nafter\n"), ended
        assert "trying again" in ended.err
        assert counts(other, "q")["items"] == 0
