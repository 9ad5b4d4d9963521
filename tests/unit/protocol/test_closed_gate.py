"""A server without data to serve says why, and shows no figures before a login."""

from __future__ import annotations

from typing import Any

import pytest

from kestrelpy.errors import ServerError
from kestrelpy.protocol.login import ClosedGate
from kestrelpy.protocol.parse import Plain


@pytest.mark.parametrize("needs_login", [False, True])
@pytest.mark.parametrize("verb", [b"version", b"quit", b"stats", b"flush_all", b"reload"])
def test_the_verbs_that_a_standby_admits(needs_login: bool, verb: bytes) -> None:
    talk: Any = None
    gate = ClosedGate("standby of a", needs_login)
    if verb in (b"version", b"quit") or (verb == b"stats" and not needs_login):
        assert gate.admits(talk, Plain(verb, []))
    else:
        with pytest.raises(ServerError, match="standby of a"):
            gate.admits(talk, Plain(verb, []))


@pytest.mark.parametrize("words", [[b"markers"], [b"jobs"], [b"schedules"]])
def test_no_figure_of_a_queue_is_shown_without_the_data(words: list[bytes]) -> None:
    talk: Any = None

    with pytest.raises(ServerError, match="standby of a"):
        ClosedGate("standby of a", False).admits(talk, Plain(b"stats", words))
