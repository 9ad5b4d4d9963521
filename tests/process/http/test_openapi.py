"""The daemon answers as /openapi.json says to every request that schemathesis makes.

No request waits for minutes or ends its own connection (`INSTEAD` in the support has others in
their place); `drain` is asked, and is refused. `GET /events` never ends: its own tests read it, and
`/views` answers with the same members.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kestrelpy.http.app import openapi
from tests.support.daemon import DaemonProcess
from tests.support.described import INSTEAD, Site, answers
from tests.support.soak import Soak

SEED = 18
SCHEDULE = '[schedules.yearly]\ncron = "0 0 1 1 *"\nqueue = "yearly"\n'
EXAMPLES = 18
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in openapi()["paths"].items() for method in methods
    if path != "/events"
]  # fmt: skip
# No answer of these says that it was done.
REFUSED = {
    "POST /admin/drain": {400, 403}, "DELETE /admin/connections/{connection}": {400, 404},
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("described")
    with DaemonProcess(folder / "data", http_port="0", config=SCHEDULE) as running:
        found = Site(f"http://127.0.0.1:{running.http_port}")
        yield found
        assert found.ask("GET", "/health").status_code == 200
        said = "".join(running.lines)
        assert "Traceback" not in said
        assert "bug" not in said


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_as_declared(site: Site, label: str) -> None:
    seen = answers(site, label, first=SEED, count=EXAMPLES)
    if label in REFUSED:
        assert set(seen) <= REFUSED[label]
    else:
        assert any(status < 300 for status in seen), seen


@pytest.mark.soak
def test_every_answer_is_as_declared_for_long(site: Site, soak: Soak) -> None:
    for seed in soak.seeds():
        for label in OPERATIONS:
            answers(site, label, first=seed, count=EXAMPLES)


def test_what_is_not_asked_freely_is_there() -> None:
    assert {label for label, _ in INSTEAD} <= set(OPERATIONS)
