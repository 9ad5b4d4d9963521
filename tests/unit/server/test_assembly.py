"""The parts of a server that no daemon has begun: what a new queue gets as its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from journal.files import Disk
from kestrelpy.config import Config
from kestrelpy.core import JournalLog, MemoryLog
from kestrelpy.errors import ServerError
from kestrelpy.server.assembly import ServerParts, assemble
from kestrelpy.server.policies import Policies


def assembled(folder: Path, **queues: dict[str, Any]) -> ServerParts:
    """Return the parts of a server with these queues in its configuration."""
    config = Config.model_validate({"server": {"data_dir": folder}, "queues": queues})
    return assemble(
        Policies(config), Disk(), start_task=lambda work: work.close(), mode=lambda: "up",
        note_damage=lambda damages: None, may_answer=None,
    )  # fmt: skip


async def test_a_queue_has_the_policy_and_the_log_of_its_settings(tmp_path: Path) -> None:
    parts = assembled(tmp_path, brief={"durable": False}, jobs={"max_items": 7})

    brief, jobs = (parts.broker.create(name, 1) for name in (b"brief", b"jobs"))

    assert isinstance(brief.log, MemoryLog)
    assert isinstance(jobs.log, JournalLog)
    assert jobs.policy.max_items == 7
    assert parts.directory.folder(jobs).startswith(str(tmp_path))


async def test_no_queue_is_made_while_another_one_has_no_room(tmp_path: Path) -> None:
    parts = assembled(tmp_path, brief={"durable": False})
    full = parts.broker.create(b"jobs", 1).log
    assert isinstance(full, JournalLog)
    full.no_room = "disk full: no room for the next segment"
    parts.committer.without_room.add(full)

    with pytest.raises(ServerError, match="disk full"):
        parts.broker.create(b"more", 1)
    assert isinstance(parts.broker.create(b"brief", 1).log, MemoryLog)


async def test_no_queue_is_made_after_a_refusal(tmp_path: Path) -> None:
    parts = assembled(tmp_path, brief={"durable": False})
    parts.broker.refusal = "the data directory is another one"
    with pytest.raises(ServerError, match="another one"):
        parts.broker.create(b"brief", 1)
