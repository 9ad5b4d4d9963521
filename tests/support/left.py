"""What tests leave behind for others: the folder of a crash, and what its clients were told.

A test that kills daemons hands its journals over to the audit of them all
(`tests/unit/spark/jobs/audit/test_audit_kill.py`), so that they need not be crashed
again for that. A test that finds nothing here crashes one by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_LEFT: dict[str, tuple[Path, Any]] = {}


def leave(name: str, folder: Path, figures: Any) -> None:
    """The data directory is `folder`/data, its archive, if there is one, `folder`/archive."""
    _LEFT[name] = (folder, figures)


def left(name: str) -> tuple[Path, Any] | None:
    """What was left under this name in this run of the tests, if its files are there still."""
    found = _LEFT.get(name)
    return found if found is not None and (found[0] / "data").is_dir() else None
