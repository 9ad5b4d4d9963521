"""A replayed queue enters service."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from journal.files import Disk
from journal.write.segment_file import Sizes
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.restart.adoption import Adoption
from tests.support.running import running


async def test_a_queue_with_a_journal_keeps_it_though_it_is_now_said_to_be_in_memory(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
    async with running(tmp_path, config="[queue_defaults]\ndurable = false\n") as server:
        peer = await server.client()
        assert await peer.ask(b"get jobs/peek\r\n") == b"VALUE jobs/peek 0 1\r\n"
        await peer.line()
        await peer.line()
        assert await peer.ask(b"set fresh 0 0 1\r\na\r\n") == b"STORED\r\n"
    assert not [f for f in (tmp_path / "data").iterdir() if f.name.startswith("fresh.")]


async def test_tokens_that_a_damaged_record_may_have_covered_are_not_issued(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        first = await peer.ask(b"gets jobs/open\r\n")
        assert first == b"VALUE jobs/open 0 1 1\r\n"
    (folder,) = [f for f in (tmp_path / "data").iterdir() if f.name.startswith("jobs.")]
    (segment,) = folder.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[64 + 70] ^= 1  # in the checkpoint, the first record after the file's header
    segment.write_bytes(data)
    async with running(tmp_path) as server:
        peer = await server.client()
        answer = await peer.ask(b"gets jobs/open\r\n")
        assert int(answer.split()[4]) > 1 << 32


@pytest.mark.parametrize(
    ("snapshots_unread", "left"), [([], ["used"]), (["a snapshot"], ["obsolete", "used"])]
)
def test_files_of_remembered_ids_go_when_no_snapshot_can_list_them(
    tmp_path: Path, snapshots_unread: list[str], left: list[str]
) -> None:
    """The disk may give another snapshot at the next start, and that one may list them."""
    directory = DataDirectory(Disk(), str(tmp_path), Sizes(2048, 2048, 1 << 20))
    used, obsolete = tmp_path / "used", tmp_path / "obsolete"
    for each in (used, obsolete):
        each.write_bytes(b"")
    chunks = Mock(obsolete=[str(obsolete)], used=[str(used)], damages=[])
    chunks.losses.return_value = []
    recovery = Mock(snapshot=None, snapshots_unread=snapshots_unread)
    replayed = Mock(queue=Mock(next_number=1), recovery=recovery, chunks=chunks)
    Adoption(directory, Mock(), [])._remember(replayed, Mock(), 0)
    assert sorted(each.name for each in tmp_path.iterdir()) == left
