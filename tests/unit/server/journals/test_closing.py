"""The last line of a server names the journals that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kestrelpy.server.journals.closing import failed_journals


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
