"""The option `--timeout` of a command."""

from __future__ import annotations

import pytest

from kestrelpy.cli.at import At, at
from kestrelpy.cli.errors import CommandError
from kestrelpy.wire.dial import access_of


def test_a_timeout_is_a_duration() -> None:
    assert at("host:1", "1500ms") == At("host:1", 1500, access_of())


@pytest.mark.parametrize("timeout", ["5", "0s", "", "soon"])
def test_any_other_timeout_is_refused_by_its_name(timeout: str) -> None:
    with pytest.raises(CommandError, match=r"^--timeout: "):
        at("host:1", timeout)
