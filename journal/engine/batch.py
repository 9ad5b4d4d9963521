"""The effect of many operations together: the changes of each file in one commit.

    create a.new, write a 0..4, rename a, write a 4..9   ──▶   create "a", write a 0..9
    create b, write b 0..4, delete b                     ──▶   nothing

One rule: a batch has the state of each file after the last operation, and none from before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from journal.engine.engine import Create, Op, Rename, Write


@dataclass(slots=True)
class Batch:
    """What changes. The writes of a file keep their order; adjacent ones are joined."""

    created: dict[int, tuple[str, int]] = field(default_factory=dict)  # its path and its size
    written: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)  # offset, bytes
    renamed: dict[int, str] = field(default_factory=dict)
    deleted: list[int] = field(default_factory=list)


def batch_of(ops: Iterable[Op]) -> Batch:
    """Return the effect of these operations, in their order."""
    batch = Batch()
    parts = dict[int, list[tuple[int, list[bytes]]]]()
    ends = dict[int, int]()  # by file: where its last write ends
    for op in ops:
        file = op.file
        if isinstance(op, Write):
            if ends.get(file) == op.offset:
                parts[file][-1][1].append(op.data)
            else:
                parts.setdefault(file, []).append((op.offset, [op.data]))
            ends[file] = op.offset + len(op.data)
        elif isinstance(op, Create):
            batch.created[file] = (op.path, op.size)
        elif isinstance(op, Rename):
            if file in batch.created:
                batch.created[file] = (op.path, batch.created[file][1])
            else:
                batch.renamed[file] = op.path
        else:
            parts.pop(file, None)
            ends.pop(file, None)
            batch.renamed.pop(file, None)
            if batch.created.pop(file, None) is None:
                batch.deleted.append(file)
    for file, written in parts.items():
        batch.written[file] = [
            (offset, pieces[0] if len(pieces) == 1 else b"".join(pieces))
            for offset, pieces in written
        ]
    return batch
