"""Crashes that tests leave for other tests: the folder, and the answers that the clients had.

A test that kills daemons hands its journals over to the audit of all crashes
(`tests/unit/spark/jobs/audit/test_audit_kill.py`), so that the audit need not crash daemons again.
A test that finds nothing here crashes one by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_LEFT: dict[str, tuple[Path, Any]] = {}


def leave(name: str, folder: Path, figures: Any) -> None:
    """Leave a crash: the data directory is `folder`/data, its archive, if any, `folder`/archive."""
    _LEFT[name] = (folder, figures)


def left(name: str) -> tuple[Path, Any] | None:
    """Return what a test left under this name in this run, if its files are still there."""
    found = _LEFT.get(name)
    return found if found is not None and (found[0] / "data").is_dir() else None
