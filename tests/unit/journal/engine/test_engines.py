"""Which package has the engine of an address, and what is said where its extra is missing."""

from __future__ import annotations

import sys

import pytest

from journal.engine import NeedsExtra, engine_tools


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [
        ("postgresql://db1/kestrel", "journal.engine.postgres", "fleet"),
        ("s3://bucket/prefix", "journal.engine.object_store.opening", "object-store"),
    ],
)
def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, address: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(NeedsExtra, match=rf"pip install 'kestrelpy\[{extra}\]'"):
        engine_tools(address)
