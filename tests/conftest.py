"""Fixtures and settings of every test."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from kestrelpy.compiled import IS_COMPILED
from tests.support import long_tests
from tests.support.compiled import skip_pure
from tests.support.files_together import FilesTogether
from tests.support.soak import SEED_MAX, Soak, share, whole_time
from tests.support.spark_classes import submit_options
from tests.support.spark_fixture import spark  # noqa: F401  # a fixture
from tests.support.under_way import UnderWay

os.environ.setdefault("SPARK_SUBMIT_OPTS", submit_options())

# Machines are noisy: no test fails because it was slow.
settings.register_profile(
    "search", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("house", settings.get_profile("search"), derandomize=True)


# One process has all of a group, in this sequence, and one Spark for it. The first group ends with
# the audit of what its kill tests left.
TOGETHER = (
    ("tests/process/kill", "tests/unit/spark/jobs/audit"),
    ("tests/unit/spark",),
)
# Long files begin first, so that none is left for one process at the end.
FIRST = (
    *TOGETHER[0], *TOGETHER[1], "tests/process/examples/test_pipeline.py", "tests/simulation",
    "tests/model", "tests/process/cli",
)  # fmt: skip


def is_soak(config: pytest.Config) -> bool:
    """True if this run searches for new examples; all other runs have the same ones each time, so
    that the last change broke what fails."""
    return config.getoption("markexpr").startswith("soak")


@pytest.hookimpl(tryfirst=True)  # before hypothesis asks for its seed
def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("search" if is_soak(config) else "house")
    long_tests.begin(config.getoption("markexpr"))
    if is_soak(config) and config.option.hypothesis_seed is None:
        seed = os.environ.get("KESTRELPY_SOAK_SEED") or str(random.randrange(SEED_MAX))
        # The processes that xdist starts inherit it.
        os.environ["KESTRELPY_SOAK_SEED"] = config.option.hypothesis_seed = seed
    if config.getoption("numprocesses", 0):  # None in a process that xdist starts
        config.pluginmanager.register(UnderWay(_write_line(config)))


def _write_line(config: pytest.Config) -> Callable[[str], None]:
    def write(line: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        reporter.ensure_newline()
        reporter.write_line(line, flush=True)

    return write


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long_tests.mark_all(items)
    if "KESTRELPY_COMPILED" in os.environ:
        assert IS_COMPILED, "make test COMPILED=1 runs the wheel, not the sources"
        skip_pure(items)
    if "PYTEST_XDIST_WORKER" in os.environ:  # alone, a process follows the command line
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """Return the item's place among FIRST; sorting by it leaves the rest as it is."""
    for rank, folder in enumerate(FIRST):
        if item.nodeid.startswith(folder):
            return rank
    return len(FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesTogether:
    return FilesTogether(config, log, TOGETHER)


@pytest.fixture
def soak(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Soak]:
    """The seeds of this test, for its share of the time."""
    alike = [each for each in request.session.items if "soak" in getattr(each, "fixturenames", ())]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    seconds = whole_time() * min(workers, len(alike))
    first = int(request.config.option.hypothesis_seed or 0)
    mine = share(first, seconds, alike.index(request.node), len(alike))
    yield mine
    record_property("soak", str(mine))


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight: it is there until the end, and
    each collection that a test asks for would look at a million objects first."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if is_soak(config):
        again = f"make soak SEED={config.option.hypothesis_seed}"
        terminalreporter.write_line(f"soak: {whole_time():.0f} s; the same examples: {again}")
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "soak" and report.when == "teardown":
                    terminalreporter.write_line(f"soak: {report.nodeid}: {value}")


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    """A daemon in this process settles down for good (`kestrelpy.server.process`): then all that
    later tests leave behind would stay."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    if gc.get_threshold() != thresholds:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
