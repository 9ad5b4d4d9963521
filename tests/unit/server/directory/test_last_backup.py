"""The note of the last backup is read as it was written, and a bad one is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.files import Disk
from kestrelpy.cli.journals.backup import back_up
from kestrelpy.server.directory import last_backup_ms, note_backup
from tests.support.http_client import web


def test_the_newest_note_counts(tmp_path: Path) -> None:
    assert last_backup_ms(Disk(), str(tmp_path)) is None
    for at_ms in (1_700_000_000_000, 1_700_000_000_001):
        note_backup(Disk(), str(tmp_path), at_ms)
        assert last_backup_ms(Disk(), str(tmp_path)) == at_ms


@pytest.mark.parametrize("text", [b"", b"\n", b"yesterday\n", b"-1\n", b"\xff" * 20, b"9" * 16])
def test_a_note_that_is_no_time_is_none(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "last-backup").write_bytes(text)
    assert last_backup_ms(Disk(), str(tmp_path)) is None


async def test_a_backup_beside_a_daemon_is_shown_with_its_time(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        assert (await server.client.get("/admin/journal")).json()["last_backup_ms"] is None
        source = str(server.daemon.directory.path)
        back_up(Disk(), source, str(tmp_path / "backup"), lambda done, total: None)
        found = (await server.client.get("/admin/journal")).json()["last_backup_ms"]
        assert found > 1_700_000_000_000
        view = (await server.client.get("/views?view=journal")).json()
        assert view["last_backup_ms"] == found
