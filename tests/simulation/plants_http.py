"""Mistakes of the HTTP side, planted like all others.

One rule: as in `plants`, each is a mistake of a tired person, in place of the real code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

from kestrelpy.http.call import Call
from kestrelpy.operations import Rests


def answered_over_http_before_the_sync() -> Any:
    async def until(call: Call, *rests: Rests) -> None:
        return

    return mock.patch.object(Call, "until", until)


def half_of_what_an_answer_rests_on() -> Any:
    real = Call.until

    async def until(call: Call, *rests: Rests) -> None:
        await real(call, *(Rests(each.log, 0, each.written) for each in rests))

    return mock.patch.object(Call, "until", until)


PLANTS_HTTP: Final[tuple[Callable[[], contextlib.AbstractContextManager[object]], ...]] = (
    answered_over_http_before_the_sync, half_of_what_an_answer_rests_on,
)  # fmt: skip
