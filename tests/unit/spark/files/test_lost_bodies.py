"""Items whose bodies are not there any more: a read of items names them before it reads, or the
task does that has their bytes; the audit's baseline names them as well.

    blocks    zeros, ones, other bytes of the journal, at several places of each segment

Promise spark-bodies: zeros, ones, repeated blocks, blocks of another file of the journal and of an
    older state of the file, of 512 bytes, 4 KiB, half and all of each segment but the last; half of
    a segment in an audit.
"""

from __future__ import annotations

import pytest

from journal.format.kinds import Kind
from kestrelpy.spark.files import decode
from kestrelpy.spark.files.plan_items import plan_items
from kestrelpy.spark.jobs.common.baseline import read_states
from kestrelpy.spark.schema import select
from tests.support.memory_disk import MemoryDisk
from tests.unit.journal.tools.test_damaged_blocks import (
    CONTENTS,
    Made,
    contents,
    hit,
    is_beyond_knowing,
    made,
    spans,
)

BODIES = select("items", [("value", "binary")])


def read(disk: MemoryDisk, folder: str) -> tuple[set[bytes], list[str]]:
    """The bodies that a batch reads, and what it says of losses."""
    history = plan_items([folder], disk)
    said = [damage.sentence() for damage in history.damages]
    found: set[bytes] = set()
    for split in history.splits:
        for batch in decode.read(split, BODIES, lambda d: said.append(d.sentence()), files=disk):
            found.update(batch.column("value").to_pylist())
    return found, said


def check(one: Made, disk: MemoryDisk, puts: set[int], where: str) -> None:
    """Check that a batch has each undamaged item and names each lost one, and the baseline too."""
    found, said = read(disk, one.folder)
    lost = {item for item, body in one.live.items() if body not in found}
    assert lost <= puts, f"{where}: {lost - puts} can be read"
    assert said or not lost, f"{where}: {lost} are left out without a word"
    (state,) = read_states(one.folder, disk)
    named = {i for i in lost if any(d.id_first <= i <= d.id_last for d in state.damages)}
    assert named == lost, f"{where}: the audit does not name {lost - named}"


@pytest.mark.parametrize("snapshot", [True, False], ids=["snapshot", "no snapshot"])
@pytest.mark.parametrize("recycled", [True, False], ids=["recycled", "first life"])
def test_of_a_whole_journal_nothing_is_named(recycled: bool, snapshot: bool) -> None:
    one = made(recycled, snapshot)
    assert read(one.disk.kill_clone(), one.folder) == (set(one.live.values()), [])
    assert read_states(one.folder, one.disk)[0].damages == ()


@pytest.mark.parametrize(("snapshot", "kind"), [*((True, k) for k in CONTENTS), (False, "zeros")])
@pytest.mark.parametrize("recycled", [True, False], ids=["recycled", "first life"])
def test_no_item_is_left_out_without_a_word(recycled: bool, snapshot: bool, kind: str) -> None:
    one, count = made(recycled, snapshot), 0
    for name in one.names:
        # Damage at the end of the log looks like the end of a crash.
        if not name.endswith(".segment") or name == one.last:
            continue
        path = f"{one.folder}/{name}"
        for start, end in sorted({*spans(one.disk.size(path))}):
            new = contents(one, name, kind, start, end)
            broken = hit(one, name, start, new) if new else []
            if not broken or is_beyond_knowing(one, name, kind, snapshot, new):
                continue
            disk = one.disk.kill_clone()
            disk.damage(path, start, new)
            lost = {record.item for record in broken if record.kind == Kind.PUT}
            check(one, disk, lost, f"{name} {start} to {end}")
            count += 1
    assert count or kind == "older"
