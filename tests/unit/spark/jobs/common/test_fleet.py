"""The servers of a job: named, asked, and refused before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.fleet import fleet_options, look
from tests.support.daemon import DaemonProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("fleet") / "data") as process:
        client = process.client()
        client.get("jobs+audit/peek")
        for name in ("jobs", "jobs", "mail", "jobs_items"):
            client.set(name, b"12345")
        client.get("jobs/open")
        yield process
        client.close()


def test_a_look_has_each_queue_and_child_by_its_own_figures(daemon: DaemonProcess) -> None:
    (seen,) = look(fleet_options(f"127.0.0.1:{daemon.port}", "jobs*"))

    figures = {name: (f.items, f.leased, f.bytes, f.total_items) for name, f in seen.queues.items()}
    assert figures == {
        "jobs": (1, 1, 5, 2), "jobs+audit": (2, 0, 10, 2), "jobs_items": (1, 0, 5, 1),
    }  # fmt: skip
    assert len(seen.server) > 4


def test_a_child_is_chosen_with_its_queue_or_alone(daemon: DaemonProcess) -> None:
    where = f"127.0.0.1:{daemon.port}"

    (both,) = look(fleet_options(where, "jobs"))
    (alone,) = look(fleet_options(where, "jobs+audit"))

    assert [*both.queues] == ["jobs", "jobs+audit"]
    assert [*alone.queues] == ["jobs+audit"]


def test_one_server_by_two_names_and_an_unknown_queue_are_refused(daemon: DaemonProcess) -> None:
    where = f"127.0.0.1:{daemon.port}"

    with pytest.raises(KestrelError, match=r"are one server .* Name it once\."):
        look(fleet_options(f"{where},localhost:{daemon.port}", "*"))
    with pytest.raises(KestrelError, match=r"There is no queue jibs on 127\.0\.0\.1:"):
        look(fleet_options(where, "jibs"))


def test_a_server_that_is_down_is_an_error_or_left_out(daemon: DaemonProcess) -> None:
    both = f"127.0.0.1:{daemon.port},127.0.0.1:1"
    soon = ["fetchRetries=0"]

    with pytest.raises(KestrelError, match=r"The server 127\.0\.0\.1:1 cannot be reached"):
        look(fleet_options(both, "*", soon))
    assert len(look(fleet_options(both, "*", [*soon, "skipUnreachable=true"]))) == 1


def test_an_option_without_a_value_or_with_a_wrong_name_is_named() -> None:
    with pytest.raises(KestrelError, match=r"--option 'readTimeout' is not understood"):
        fleet_options("a:1", "*", ["readTimeout"])
    with pytest.raises(KestrelError, match=r"no option readTimeuot\. Did you mean readTimeout"):
        fleet_options("a:1", "*", ["readTimeuot=1s"])
