"""A journal is read twice, in pieces, and neither bodies nor history count in memory."""

from __future__ import annotations

import errno

import pytest

from kestrelpy.kestrel import DamagedMedium, FilePiece, JournalSource
from tests.support.kestrel import REMOVED, add, left


@pytest.mark.parametrize("piece_bytes", [25, 26, 100, 5000])
def test_bodies_larger_than_a_piece_are_whole(piece_bytes: int) -> None:
    sizes = [0, 1000, 3, 4999, 0]
    data = [b"".join(add(b"%d" % (n % 10) * size) for n, size in enumerate(sizes)), add(b"end")]

    assert [len(body) for body in left(*data, piece_bytes=piece_bytes)] == [*sizes, 3]


def test_a_removed_body_is_never_read() -> None:
    data = add(bytes(1 << 16)) + add(b"kept") + REMOVED
    reads = list[tuple[int, int]]()

    def read(name: str, offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return data[offset : offset + size]

    made = JournalSource([FilePiece("q", len(data))], read, 100)
    made.run()

    assert [item.body for item in made.items()] == [b"kept"]
    assert sum(size for _, size in reads) <= 300


def test_progress_ends_with_all_bytes() -> None:
    data, seen = add(b"x" * 500) * 3, list[int]()
    pieces = [FilePiece("q.1", len(data)), FilePiece("q", len(data))]
    made = JournalSource(pieces, lambda n, o, s: data[o : o + s], 1000)

    made.run(seen.append)

    assert seen[-1] == made.bytes == 2 * len(data)
    assert seen == sorted(seen)


def test_bytes_that_the_disk_has_lost_are_damage_of_their_file_alone() -> None:
    data = add(b"a") + add(b"b")

    def read(name: str, offset: int, size: int) -> bytes:
        if name == "q.1" and offset:
            raise DamagedMedium("Input/output error")
        return data[offset : offset + min(size, 25)]

    made = JournalSource([FilePiece("q.1", len(data)), FilePiece("q", len(data))], read)
    made.run()

    ((name, damage),) = made.damages
    assert (name, damage.offset, damage.reason) == (
        "q.1", 22, "it cannot be read: Input/output error"
    )  # fmt: skip
    assert len(made.replay) == 3


@pytest.mark.parametrize("now", [b"", add(b"a")[:10]])
def test_a_file_that_shrinks_meanwhile_ends_the_reading(now: bytes) -> None:
    data = [add(b"a") + add(b"b")]
    made = JournalSource([FilePiece("q", len(data[0]))], lambda n, o, s: data[0][o : o + s])
    made.run()
    data[0] = now

    with pytest.raises(OSError, match="it changed while it was read") as error:
        list(made.items())
    assert error.value.filename == "q"
    assert error.value.errno != errno.EIO

    with pytest.raises(OSError, match="it changed while it was read"):
        JournalSource(made.pieces, lambda n, o, s: b"").run()
