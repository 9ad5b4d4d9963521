"""A transport: its items for the channels, and its wait for a daemon that is away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("kombu", reason="celery is not installed: pip install 'kestrelpy[celery]'")

from kestrelpy.kombu import transport as module
from kestrelpy.kombu.leases import LeaseKeeper
from kestrelpy.kombu.transport import Transport


class Wires:
    """The answers of one daemon: each a line, or an error."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def ask(self, _: bytes) -> list[Any]:
        found = self.answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return [SimpleNamespace(check=lambda: found)]

    def close(self) -> None:
        pass


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Transport:
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    client = SimpleNamespace(
        hostname="127.0.0.1", port=1, userid=None, password=None, ssl=False, virtual_host="/",
        transport_options={}, transport_cls="kestrelpy", connect_timeout=5, alt=[],
    )  # fmt: skip
    return Transport(client)


def connected_to(made: Transport, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> Wires:
    wires = Wires(*answers)
    monkeypatch.setattr(made, "_connected", lambda: wires)
    return wires


def test_a_daemon_that_never_answered_is_not_waited_for(
    made: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires = connected_to(made, monkeypatch, OSError("away"), "END")
    with pytest.raises(OSError, match="away"):
        made.command(b"version")
    assert wires.answers == ["END"]


def test_a_daemon_that_answered_once_is_waited_for(
    made: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected_to(made, monkeypatch, "VERSION", OSError("away"), OSError("away"), "END")
    assert made.command(b"version") == "VERSION"
    assert made.command(b"get jobs", 600.0) == "END"


def test_an_item_that_is_given_back_is_held_no_more(
    made: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaseKeeper, "_start", lambda _: None)
    made.give_back("jobs", 7)
    assert made.keeper.unanswered == 1
    assert not made.keeper._held
    made.give_back("jobs", 0)  # it was leased without a token
    assert made.keeper.unanswered == 1
