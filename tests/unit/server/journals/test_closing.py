"""The last line of a server names the journals that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrelpy.server.journals import closing
from kestrelpy.server.journals.closing import close_journals, failed_journals


def broker(*failed: str) -> Any:
    queues = [SimpleNamespace(name=b"well", log=SimpleNamespace(failure=None))]
    for name in failed:
        queues.append(SimpleNamespace(name=name.encode(), log=SimpleNamespace(failure=OSError())))
    return SimpleNamespace(logged=queues)


@pytest.mark.parametrize(
    ("failed", "sentence"),
    [
        ([], ""),
        (["a", "b"], ", after the journals of these failed: a, b"),
        ([str(n) for n in range(12)],
         ", after the journals of these failed: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"),
    ],
)  # fmt: skip
def test_journals_that_failed_are_named_and_many_are_counted(
    failed: list[str], sentence: str
) -> None:
    assert failed_journals(broker(*failed)) == sentence


def test_the_last_record_of_a_journal_is_of_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed_at: list[int] = []
    log = SimpleNamespace(failure=None, journal=SimpleNamespace(
        commit=SimpleNamespace(lsn_in_flight=0),
        close=lambda unix_ms, _: closed_at.append(unix_ms),
    ))  # fmt: skip
    closing_one = broker()
    closing_one.logged[0].log = log
    closing_one.clock = SimpleNamespace(offset_ms=5_000)
    monkeypatch.setattr(closing, "JournalLog", SimpleNamespace)
    monkeypatch.setattr(closing.clock, "now_ms", lambda: 1_000)
    close_journals(closing_one, cast(Any, SimpleNamespace(try_to_save=lambda: None)))
    assert closed_at == [6_000]
