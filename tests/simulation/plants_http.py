"""Mistakes of the HTTP side, planted like all others.

One rule: as in `plants`: each is one that a tired person could make, where the real code stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

from kestrelpy.http.call import Call
from kestrelpy.http.leases import Taken
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


def kept_though_nobody_received_it() -> Any:
    return mock.patch.object(Taken, "give_back", lambda taken, now_ms: None)


PLANTS_HTTP: Final[tuple[Callable[[], contextlib.AbstractContextManager[object]], ...]] = (
    answered_over_http_before_the_sync, half_of_what_an_answer_rests_on,
    kept_though_nobody_received_it,
)  # fmt: skip
