"""Every client library runs the same steps against real daemons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.clients import page
from tests.process.clients.conftest import Drivers, require
from tests.process.clients.driver import (
    Driver,
    client_error,
    run_case,
    server_error,
    stored_value,
)
from tests.process.clients.libraries import BINARY, LIBRARIES, VALUES, Library
from tests.process.clients.steps import CASES
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

pytestmark = pytest.mark.slow

PAIRS = [(library, case) for library in LIBRARIES for case in library.cases()]
REMEDY = "set the client to the text (ASCII) protocol"
BINARIES = [library for library in LIBRARIES if library.instead == BINARY]


@pytest.mark.parametrize(
    ("library", "case"), PAIRS, ids=[f"{library.name}: {case}" for library, case in PAIRS]
)
def test_a_library_does_what_its_row_says(
    library: Library, case: str, drivers: Drivers, raws: list[Raw], queue: str,
    results: page.Results,
) -> None:  # fmt: skip
    driver = drivers.of(library)
    if case in CASES:
        found = run_case(driver, case, queue)
    elif case in VALUES:
        found = stored_value(driver, raws, queue, case)
    else:
        found = (client_error if case == "CLIENT_ERROR" else server_error)(driver, raws, queue)
    results.setdefault(library.name, {})[case] = found

    assert found == library.expected(case)


@pytest.mark.parametrize("library", BINARIES, ids=lambda library: str(library.name))
def test_a_library_of_the_binary_protocol_is_refused_with_a_remedy(
    library: Library, tmp_path: Path, results: page.Results
) -> None:
    require(library)
    # A daemon of its own: it says the same line once a minute.
    with DaemonProcess(tmp_path / "data") as daemon:
        command = [*library.program.command(tmp_path), f"127.0.0.1:{daemon.port}"]
        with Driver(command, library.program.environment) as driver:
            driver.send("set q 00")  # some wait for an answer for good

            wait_until(lambda: any(REMEDY in line for line in daemon.lines), "the remedy")
    results.setdefault(library.name, {})


def test_a_library_that_is_not_there_is_named_with_its_package() -> None:
    absent = [library for library in LIBRARIES if not library.program.version()]
    for library in absent:
        with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="not installed"):
            require(library)
