"""reload, shutdown, status, a journal that fails: what an operator sees on the wire."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until


def connect(daemon: DaemonProcess) -> Raw:
    return Raw(("127.0.0.1", daemon.port))


# -- reload ------------------------------------------------------------------------------------


def test_reload_takes_all_of_a_good_file_and_nothing_of_a_bad_one(tmp_path: Path) -> None:
    config = "[queue_defaults]\nmax_items = 1\n"
    with DaemonProcess(tmp_path / "data", config=config) as daemon, connect(daemon) as raw:
        raw.ask(b"set jobs 0 0 1\r\n1\r\n", b"STORED\r\n")
        raw.ask(b"set jobs 0 0 1\r\n2\r\n", b"NOT_STORED\r\n")

        daemon.config_file.write_text("[queue_defaults]\nmax_items = 2\n")
        raw.ask(b"reload\r\n", b"Reloaded config.\r\n")
        raw.ask(b"set jobs 0 0 1\r\n2\r\n", b"STORED\r\n")
        raw.ask(b"set jobs 0 0 1\r\n3\r\n", b"NOT_STORED\r\n")

        daemon.config_file.write_text("[queue_defaults]\nmax_items = 3\nmax_itms = 4\n")
        raw.send(b"reload\r\nverbosity\r\n")
        line = raw.line().decode()
        assert line.startswith("SERVER_ERROR ")
        assert "max_itms" in line and "max_items" in line and daemon.config_file.name in line
        raw.expect(b"OK\r\n")
        raw.ask(b"set jobs 0 0 1\r\n3\r\n", b"NOT_STORED\r\n")

        daemon.config_file.write_text("[queue_defaults\n")
        raw.send(b"reload\r\n")
        assert b"is not TOML" in raw.line()
        raw.ask(b"set jobs 0 0 1\r\n3\r\n", b"NOT_STORED\r\n")


# -- shutdown and status -----------------------------------------------------------------------


def test_shutdown_is_refused_unless_allowed(daemon: DaemonProcess, raw: Raw) -> None:
    raw.send(b"shutdown\r\n")
    assert raw.line() == b"SERVER_ERROR shutdown is not allowed on this server (allow_shutdown)"
    raw.ask(b"verbosity\r\n", b"OK\r\n")


def test_shutdown_answers_what_is_in_flight_and_ends_with_0(tmp_path: Path) -> None:
    config = "[server]\nallow_shutdown = true\n"
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        with connect(daemon) as raw, connect(daemon) as waiter:
            raw.ask(b"set other 0 0 1 noreply\r\nx\r\nflush other\r\n", b"END\r\n")
            waiter.send(b"get other/t=1m\r\n")
            wait_until(lambda: raw.stats()["queue_other_waiters"] == "1", "a waiter")
            raw.send(b"set jobs 0 0 1\r\nx\r\n" * 100 + b"shutdown\r\nversion\r\n")
            assert raw.rest() == b"STORED\r\n" * 100
            assert waiter.rest() in (b"", b"END\r\n")
        assert daemon.stop() == 0
    with DaemonProcess(tmp_path / "data") as daemon, connect(daemon) as raw:
        assert raw.stats(b"stats jobs")["queue_jobs_items"] == "100"


def test_sigterm_answers_what_is_in_flight_and_counts_no_attempt(tmp_path: Path) -> None:
    config = "[queue_defaults]\nmax_attempts = 1\n"
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        with connect(daemon) as raw:
            raw.ask(b"set jobs 0 0 1\r\nx\r\n", b"STORED\r\n")
            raw.ask(b"get jobs/open\r\n", b"VALUE jobs/open 0 1\r\nx\r\nEND\r\n")
            assert daemon.stop() == 0
            assert raw.rest() == b""
        daemon.start()
        with connect(daemon) as raw:
            raw.ask(b"get jobs/open\r\n", b"VALUE jobs/open 0 1\r\nx\r\nEND\r\n")


def test_status_readonly_and_quiescent(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon, connect(daemon) as raw:
        raw.ask(b"set jobs 0 0 1\r\nx\r\n", b"STORED\r\n")
        raw.ask(b"status readonly\r\nstatus\r\n", b"END\r\nREADONLY\r\n")
        raw.send(b"set jobs 0 0 1\r\ny\r\n")
        assert raw.line().startswith(b"SERVER_ERROR readonly")
        raw.ask(b"get jobs\r\n", b"VALUE jobs 0 1\r\nx\r\nEND\r\n")
        raw.ask(b"status quiescent\r\n", b"END\r\n")
        raw.send(b"get jobs\r\n")
        assert raw.line().startswith(b"SERVER_ERROR quiescent")
        raw.ask(b"status up\r\nset jobs 0 0 1\r\ny\r\n", b"END\r\nSTORED\r\n")


# -- a journal that fails ----------------------------------------------------------------------


def _may_trace() -> str:
    """Why strace cannot be used here; empty if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-f", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "strace may not trace here"


@pytest.mark.slow
def test_after_a_failed_sync_a_queue_acknowledges_nothing_and_others_go_on(tmp_path: Path) -> None:
    reason = _may_trace()
    if reason:
        print(reason)
        pytest.skip(reason)
    data = tmp_path / "data"
    with DaemonProcess(data) as daemon, connect(daemon) as raw:
        for name in (b"bad", b"good"):
            raw.ask(b"set %b 0 0 1\r\n0\r\n" % name, b"STORED\r\n")
            raw.ask(b"set %b 0 0 1\r\n8\r\n" % name, b"STORED\r\n")
        raw.ask(b"get bad/open\r\n", b"VALUE bad/open 0 1\r\n0\r\nEND\r\n")
        [segment] = (data / f"bad.{_generation(data, 'bad')}").glob("*1.segment")
        tracer = subprocess.Popen(
            ["strace", "-f", "-p", str(daemon.pid), "-e", "trace=fdatasync", "-P", str(segment),
             "-e", "inject=fdatasync:error=EIO", "-o", str(tmp_path / "trace")],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert tracer.stderr is not None and b"attached" in tracer.stderr.readline()
        try:
            with connect(daemon) as other:
                other.send(b"set bad 0 0 1\r\n1\r\nset good 0 0 1\r\n1\r\n")
                assert other.line().startswith(b"SERVER_ERROR ")
                other.expect(b"STORED\r\n")
                for request in (
                    b"set bad 0 0 1\r\n2\r\n", b"add bad 0 0 1\r\n2\r\n", b"get bad\r\n",
                    b"get bad/open\r\n", b"get bad/close\r\n", b"flush bad\r\n", b"delete bad\r\n",
                ):  # fmt: skip
                    other.send(request)
                    assert other.line().startswith(b"SERVER_ERROR journal failed"), request
                raw.send(b"get bad/close\r\n")
                assert raw.line().startswith(b"SERVER_ERROR journal failed")
                assert other.stats(b"stats bad")["queue_bad_failed"] == "1"
                raw.ask(b"set good 0 0 1\r\n2\r\n", b"STORED\r\n")
                raw.ask(b"get good\r\n", b"VALUE good 0 1\r\n0\r\nEND\r\n")
                other.ask(b"get bad/peek\r\n", b"VALUE bad/peek 0 1\r\n8\r\nEND\r\n")
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
        wait_until(
            lambda: any("acknowledges nothing until a restart" in li for li in daemon.lines),
            "a log line",
        )
        daemon.kill()
        daemon.start()
        with connect(daemon) as again:
            again.ask(b"get bad/open\r\n", b"VALUE bad/open 0 1\r\n0\r\nEND\r\n")


def _generation(data: Path, name: str) -> str:
    [folder] = data.glob(f"{name}.*")
    return folder.suffix[1:]
