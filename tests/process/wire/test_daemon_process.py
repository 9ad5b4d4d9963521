"""tests/support/daemon.py: a daemon of a test that comes back on its port, or says why not."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess

TAKEN_SECONDS = 1.5  # a start takes half a second


def test_a_daemon_waits_for_a_port_that_another_process_has_for_a_moment(tmp_path: Path) -> None:
    other = socket.create_server(("127.0.0.1", 0))
    threading.Timer(TAKEN_SECONDS, other.close).start()

    with DaemonProcess(tmp_path / "data", port=other.getsockname()[1]) as daemon:
        assert daemon.client().set("jobs", b"x")
        assert not any("in use" in line for line in daemon.lines)


def test_a_start_that_fails_for_another_reason_says_so(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "data", config="[server]\nno_such_setting = 1\n")

    with pytest.raises(AssertionError, match="no_such_setting"):
        daemon.start()
