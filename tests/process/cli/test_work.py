"""`kestrelpy work QUEUE -- CMD`: confirmed when CMD succeeds; else given back, deferred or dead."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.process.cli.command import Command, counts, eventually
from tests.support.daemon import DaemonProcess

# A command that says it has begun, then runs until SIGTERM.
WAITING = ["sh", "-c", "touch begun; until [ -e go ]; do sleep 0.02; done; cat > out"]


def begin(kestrelpy: Command, *words: str) -> subprocess.Popen[bytes]:
    """Start `work` with the waiting command, and see that it has leased an item."""
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
    assert counts(daemon, "badly")["delayed"] == 1  # for --retry-delay
    eventually(lambda: daemon.client().get("badly") == b"again")


def test_a_failed_item_is_tried_again(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("retried", b"x")
    only_twice = ["sh", "-c", "rm tried || ! touch tried"]

    ended = kestrelpy("work", "retried", "--max", "2", "--retry-delay", "50ms", "--", *only_twice)

    assert ended.code == 1  # one of them failed
    assert counts(daemon, "retried")["items"] == 0
    assert counts(daemon, "retried")["canceled_transactions"] == 1


def test_what_failed_max_attempts_times_is_a_dead_letter(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("hopeless", b"x")

    ended = kestrelpy(
        "work", "hopeless", "--max", "2", "--retry-delay", "50ms", "--max-attempts", "2", "--",
        "sh", "-c", "echo no such account >&2; exit 1",
    )  # fmt: skip

    assert "the item is a dead letter after 2 attempts" in ended.err
    said = daemon.client().stats("hopeless/dead")
    assert [word for key, word in said.items() if key.endswith(b"_reason")] == [
        b"no%20such%20account"
    ]


def test_what_failed_as_often_as_the_queue_allows_is_called_a_dead_letter(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("frail-3", b"x")

    ended = kestrelpy("work", "frail-3", "--once", "--", "false")

    assert "the item is a dead letter after 1 attempt\n" in ended.err
    assert counts(daemon, "frail-3")["dead"] == 1


def test_a_failed_item_does_not_hold_up_those_behind_it(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    for body in (b"bad", b"1", b"2"):
        daemon.client().set("behind", body)

    ended = kestrelpy("work", "behind", "--max", "3", "--retry-delay", "1h", "--",
                      "sh", "-c", 'read -r line; echo $line; [ "$line" != bad ]')  # fmt: skip

    assert ended.out == b"bad\n1\n2\n", ended
    assert counts(daemon, "behind")["delayed"] == 1


def test_a_command_knows_its_item_by_its_environment(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("told/key=a,b", b"x")
    daemon.client().set("told", b"y")
    names = ("QUEUE", "ITEM", "ATTEMPTS", "KEY", "DEADLINE")
    script = "; ".join(f'echo "$KESTREL_{name}"' for name in names)

    before = int(time.time())
    first = kestrelpy("work", "told", "--once", "--defer-after", "60s", "--", "sh", "-c", script)
    second = kestrelpy("work", "told", "--once", "--", "sh", "-c", script, KESTREL_KEY="old")

    *facts, deadline = first.out.decode().splitlines()
    assert facts == ["told", "1", "0", "a,b"]
    assert before + 60 <= int(deadline) <= time.time() + 60
    assert second.out == b"told\n2\n0\n\n\n"


def test_a_command_may_leave_its_input_alone(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("unread", b"x" * 1_000_000)

    assert kestrelpy("work", "unread", "--once", "--", "true").code == 0
    assert counts(daemon, "unread")["items"] == 0


def test_once_with_nothing_there_is_exit_code_1(kestrelpy: Command) -> None:
    ended = kestrelpy("work", "nothing", "--once", "--wait", "10ms", "--", "cat")

    assert ended.is_sentence(1), ended
    assert "no queue nothing" in ended.err

    kestrelpy("queues", "create", "nothing")
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
        (["q", "--defer-after", "5", "--", "cat"], '--defer-after: "5" is not a duration'),
        (["q", "--defer-after", "10ms", "--", "cat"], "--defer-after must be at least 1s"),
        (["q", "--delay", "x", "--", "cat"], '--delay: "x" is not a duration'),
        (["q", "--retry-delay", "1", "--", "cat"], '--retry-delay: "1" is not a duration'),
        (["q", "--bury", "65,x", "--", "cat"], "'65,x' is not a list of exit codes"),
        (["q", "--bury", "0", "--", "cat"], "numbers from 1 to 255"),
        (["q", "--bury", "75", "--", "cat"], "exit code 75 defers an item"),
        (["a/b", "--", "cat"], "is not a queue's name"),
        (["a b", "--", "cat"], "is not a queue's name"),
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


def test_sigterm_ends_a_worker_without_an_item_at_once(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("idle", b"x")
    process = kestrelpy.start("work", "idle", "--wait", "10m", "--jobs", "2", "--", "cat")
    eventually(lambda: counts(daemon, "idle")["waiters"] == 2)

    process.send_signal(signal.SIGTERM)
    ended = kestrelpy.finish(process)

    assert (ended.code, ended.err) == (0, ""), ended


def test_after_kill_9_the_item_goes_back_when_its_lease_ends(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("killed", b"survives")
    process = begin(kestrelpy, "killed", "--lease", "1s")
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


def reasons(daemon: DaemonProcess, queue: str) -> list[bytes]:
    """Return the reasons of the dead letters of this queue."""
    said = daemon.client().stats(f"{queue}/dead")
    return [word for key, word in said.items() if key.endswith(b"_reason")]


def test_exit_code_75_puts_the_item_off_and_counts_no_attempt(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("put-off", b"x")

    ended = kestrelpy("work", "put-off", "--once", "--delay", "1s", "--", "sh", "-c", "exit 75")

    assert ended.code == 1, ended
    assert "ended with exit code 75; the item was deferred for 1s" in ended.err
    assert counts(daemon, "put-off")["delayed"] == 1
    assert client.get("put-off/open/t=10s") == b"x"
    assert client.stats("put-off/open")[b"queue_put-off_open_1_attempts"] == 0


def test_a_code_of_bury_makes_a_dead_letter_with_the_last_line_as_reason(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("buried", b"x")
    script = "echo one >&2; echo 'no such account: 7' >&2; echo >&2; exit 65"

    ended = kestrelpy("work", "buried", "--once", "--bury", "2,65", "--", "sh", "-c", script)

    assert ended.code == 1, ended
    assert ended.err.startswith("one\nno such account: 7\n\n")
    assert "ended with exit code 65; the item is a dead letter now" in ended.err
    assert reasons(daemon, "buried") == [b"no%20such%20account:%207"]


def test_without_last_words_the_exit_code_is_the_reason(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("mute", b"x")

    kestrelpy("work", "mute", "--once", "--bury", "2", "--", "sh", "-c", "exit 2")

    assert reasons(daemon, "mute") == [b"ended%20with%20exit%20code%202"]


def test_codes_outside_bury_give_the_item_back(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("others", b"x")

    ended = kestrelpy("work", "others", "--once", "--bury", "65", "--", "sh", "-c", "exit 1")

    assert "the item was given back" in ended.err
    assert reasons(daemon, "others") == []


def test_a_process_that_stays_does_not_delay_the_worker(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    """The process keeps the standard error open that `work` reads."""
    daemon.client().set("left", b"x")
    script = "sleep 60 >/dev/null & echo $! > pid; exit 65"

    ended = kestrelpy("work", "left", "--once", "--bury", "65", "--", "sh", "-c", script)

    assert ended.code == 1, ended
    os.kill(int((kestrelpy.folder / "pid").read_text()), signal.SIGKILL)


# A command that reports SIGTERM, and then ends as told.
TOLD = ["sh", "-c", 'trap "touch told; exit $0" TERM; touch begun; while :; do sleep 0.02; done']


def test_after_its_limit_a_command_gets_sigterm_and_its_item_is_deferred(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("long", b"x")

    ended = kestrelpy("work", "long", "--once", "--defer-after", "1s", "--", *TOLD, "1")

    assert ended.code == 1, ended
    assert "ended with exit code 1; the item was deferred for 10s" in ended.err
    assert client.raw_command(b"retry long 1") == b"OK"
    assert client.get("long/open") == b"x"
    assert client.stats("long/open")[b"queue_long_open_1_attempts"] == 0


def test_a_command_that_succeeds_after_sigterm_confirms(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("in-time", b"x")

    ended = kestrelpy("work", "in-time", "--once", "--defer-after", "1s", "--", *TOLD, "0")

    assert ended.code == 0, ended
    assert counts(daemon, "in-time")["items"] == 0


def test_a_command_without_its_lease_gets_sigterm_and_no_confirm(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("lost", b"x")
    process = kestrelpy.start("work", "lost", "--lease", "1s", "--max", "1", "--", *TOLD, "0")
    eventually((kestrelpy.folder / "begun").exists)
    client.get("lost/abort/token=1")  # as the end of its lease does

    assert client.get("lost/open/t=10000") == b"x"  # another client has it
    ended = kestrelpy.finish(process)

    assert (kestrelpy.folder / "told").exists()
    assert ended.code == 1, ended
    assert "its lease was lost, so the item is not confirmed" in ended.err
    assert counts(daemon, "lost")["open_transactions"] == 1


@pytest.mark.parametrize("how", [["--once"], ["--max", "1"]])
@pytest.mark.parametrize("code", ["0", "65"])
def test_an_end_that_comes_too_late_is_one_line_and_exit_code_1(
    kestrelpy: Command, daemon: DaemonProcess, how: list[str], code: str
) -> None:
    client = daemon.client()
    client.set("late", b"x")
    script = f"touch begun; until [ -e go ]; do sleep 0.02; done; exit {code}"
    process = kestrelpy.start("work", "late", *how, "--bury", "65", "--", "sh", "-c", script)
    eventually((kestrelpy.folder / "begun").exists)
    facts = client.stats("late/open")
    token = next(value for key, value in facts.items() if key.endswith(b"_token"))
    client.get(f"late/abort/token={token}")  # as the end of its lease does
    (kestrelpy.folder / "go").touch()

    ended = kestrelpy.finish(process)

    assert ended.code == 1, ended
    assert ended.err.count("\n") == 1
    assert "lease" in ended.err
    assert client.get("late") == b"x"


def test_processes_of_a_command_get_sigterm_as_well(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("group", b"x")
    script = 'sh -c \'trap "touch told; exit" TERM; while :; do sleep 0.02; done\'; exit 1'

    kestrelpy("work", "group", "--once", "--defer-after", "1s", "--", "sh", "-c", script)

    eventually((kestrelpy.folder / "told").exists)


def test_a_second_signal_is_passed_on(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("twice", b"x")
    process = kestrelpy.start("work", "twice", "--", *TOLD, "1")
    eventually((kestrelpy.folder / "begun").exists)

    process.send_signal(signal.SIGINT)
    assert not (kestrelpy.folder / "told").exists()
    process.send_signal(signal.SIGTERM)
    ended = kestrelpy.finish(process)

    assert (kestrelpy.folder / "told").exists()
    assert ended.code == 0, ended
    eventually(lambda: daemon.client().get("twice") == b"x")


def test_the_item_survives_a_restart_of_the_server(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as other:
        other.client().set("q", b"x")
        server = ["--server", f"127.0.0.1:{other.port}"]
        process = begin(kestrelpy, "q", "--max", "1", *server)

        other.kill()
        other.start()
        (kestrelpy.folder / "go").touch()
        ended = kestrelpy.finish(process)

        assert ended.code == 0, ended
        assert other.client().get("q") is None
        assert counts(other, "q")["open_transactions"] == 0


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
