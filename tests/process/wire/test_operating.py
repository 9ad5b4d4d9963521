"""reload, shutdown, status: what an operator sees on the wire. Faults are in tests/faults."""

from __future__ import annotations

from pathlib import Path

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
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
        raw.hang_up()
        daemon.config_file.write_text(config)
        leave_nothing(daemon)


# -- shutdown and status -----------------------------------------------------------------------


def test_shutdown_is_refused_unless_allowed(daemon: DaemonProcess, raw: Raw) -> None:
    raw.send(b"shutdown\r\n")
    assert raw.line() == b"CLIENT_ERROR shutdown is not allowed on this server (allow_shutdown)"
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
    with DaemonProcess(tmp_path / "data") as daemon:
        with connect(daemon) as raw:
            assert raw.stats(b"stats jobs")["queue_jobs_items"] == "100"
        leave_nothing(daemon)


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
        leave_nothing(daemon)


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
        raw.hang_up()
        leave_nothing(daemon)
