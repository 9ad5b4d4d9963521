"""What a replicated engine does for a data directory: one fenced commit at a time.

    claim ──▶ epoch 7, seq 41 ──commit──▶ seq 42 ──commit──▶ seq 43 ...
                  │                                            │
      another claims: epoch 8                     from here on: Fenced, nothing is changed

A slice is a data directory that lives in an engine. Its owner commits operations on its files; a
commit happens as a whole or not at all, and the engine itself checks the epoch in the same atomic
step. Every call blocks; the owner calls `commit` from one thread and `read` from any.

One rule: no clock decides whether a commit is safe. An epoch does.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from journal.errors import Unreachable

# A larger write is committed in pieces, so that small writes wait for one piece at most.
PIECE_BYTES: Final = 1 << 20


class Create(NamedTuple):
    """A new file: `size` zeros. No number is ever used for two files of a slice."""

    file: int
    path: str  # within the slice
    size: int


class Write(NamedTuple):
    """Bytes at an offset; after the end of the file they make it longer."""

    file: int
    offset: int
    data: bytes


class Rename(NamedTuple):
    """Another path for a file."""

    file: int
    path: str


class DeleteFile(NamedTuple):
    """The end of a file."""

    file: int


Op = Create | Write | Rename | DeleteFile


class FileFacts(NamedTuple):
    """A file of a slice, as the last commit left it."""

    file: int
    path: str
    size: int  # bytes
    end: int  # of the last written byte: zeros follow it


class Piece(NamedTuple):
    """Bytes of a file of a slice."""

    file: int
    offset: int
    data: bytes


class Member(NamedTuple):
    """A process that may own slices."""

    name: str
    address: str = ""  # where others reach it


class Layout(NamedTuple):
    """How queues are spread over slices: how many there are, and the patterns of groups with blanks
    between them. It is the same for all members, for good."""

    slices: int
    groups: str = ""


class Seat(NamedTuple):
    """A process that may own slices, as it said last. `is_drained`: an operator wants it to own
    none. `waits`: the slices that it is ready to take over."""

    member: Member
    takeover_s: float
    age_s: float  # since it said so, by the engine's clock
    is_drained: bool = False
    waits: tuple[int, ...] = ()


class Takeover(NamedTuple):
    """A claim that came to serve, and why it was made.

    `why`: "first" if nobody owned the slice before, "released" if `before` gave it up, "silent" if
    it said nothing. `idle_s`: how long `before` had committed nothing; `took_s`: from the claim
    until this owner served; `age_s`: since then, by the engine's clock.
    """

    slice: int
    epoch: int
    member: Member
    before: str
    why: str
    idle_s: float
    took_s: float
    age_s: float = 0.0


class Claim(NamedTuple):
    """The right to make the commit `seq` of a slice, until another member claims it."""

    slice: int
    epoch: int
    seq: int

    def after(self) -> Claim:
        """Return the right to the commit after this one."""
        return self._replace(seq=self.seq + 1)


class Owner(NamedTuple):
    """Who claimed a slice last, and how long ago its last commit was by the engine's clock.

    `was_asked`: an operator has asked this owner to release it. `is_importing`: a data directory is
    being moved in, and no daemon may claim the slice. `takeover_s`: how long this owner may be
    silent before others claim the slice, by its own setting; 0: not known.
    """

    member: Member
    epoch: int
    seq: int
    age_s: float
    has_released: bool
    was_asked: bool = False
    is_importing: bool = False
    takeover_s: float = 0.0


class Fenced(Unreachable):
    """Another process has claimed the slice: this one can no longer change it."""

    def __init__(self, number: int, epoch: int, reason: str) -> None:
        super().__init__(errno.ESTALE, reason, f"slice {number}, epoch {epoch}")


class EngineAway(Unreachable):
    """The engine did not answer, or cannot commit now; the outcome of a commit is not known.

    The same call may be repeated, with the same arguments, until it has another outcome.
    """

    def __init__(self, engine: str, reason: str) -> None:
        super().__init__(errno.ENOTCONN, reason, engine)


class EngineFull(EngineAway):
    """The engine has no room for this commit, which is known not to be done. A commit without
    operations may have room, under the same claim."""


class Engine(Protocol):
    """A replicated store of slices. An answered commit is on all the disks that it promises."""

    def claim(
        self, number: int, member: Member, seen: int, seq: int | None = None
    ) -> Claim:
        """Own the slice of this number, whose last claim had the epoch `seen`; 0: there was none.
        With `seq` nothing may have been committed since that either: its owner lives.

        On return no earlier claim can commit any more, and everything that was acknowledged before
        is durable and can be read. Raises Fenced if another process claimed it or its owner
        committed meanwhile, or EngineAway; whether the slice is claimed then, `owners` says.
        """

    def commit(self, at: Claim, ops: Sequence[Op]) -> None:
        """Do all of this, durably, or nothing; without operations it is a beat.

        Raises Fenced, or EngineAway; then it may be called again with the same claim and the same
        operations: they are done once, however often they are asked for. Raises EngineFull where it
        is known that nothing was done.
        """

    def release(self, at: Claim) -> None:
        """Give the slice up: others may claim it at once. Raises Fenced or EngineAway."""

    def files(self, at: Claim) -> list[FileFacts]:
        """Return every file of the slice after the last commit. Raises Fenced or EngineAway."""

    def edges(self, at: Claim, front: int, back: int) -> list[Piece]:
        """Return the first `front` and the last `back` bytes of every file, as `read` does, all in
        one answer, for a takeover. Bytes after the size that a file was made with are left out.
        Raises Fenced or EngineAway."""

    def read(self, at: Claim, file: int, offset: int, size: int) -> bytes:
        """Return `size` bytes of a file, zeros where none were written. They are at least as new
        as the commits before `at.seq`. Raises EngineAway."""

    def owners(self) -> dict[int, Owner]:
        """Return who claimed each slice last. Raises EngineAway."""

    def note(
        self, member: Member, takeover_s: float, waits: Sequence[int] | None = None
    ) -> None:
        """Say that this process may own slices, how long an owner may be silent before it claims
        one, and which it is ready to take over; None: as it said before. Raises EngineAway."""

    def members(self) -> list[Seat]:
        """Return the processes that have said so, by name. Raises EngineAway."""

    def note_takeover(self, takeover: Takeover) -> None:
        """Keep this for operators, with others of the slice; it may be lost. Raises EngineAway."""

    def takeovers(self) -> list[Takeover]:
        """Return the last ones, the newest first. Raises EngineAway."""

    def agree(self, layout: Layout) -> Layout:
        """Say how queues are spread, if nobody has said it yet; return what holds, durably and for
        ever. Raises EngineAway."""

    def close(self) -> None:
        """Let go of the connections. A slice stays claimed."""


class EngineMoment(Engine, Protocol):
    """An engine as of one moment, which commits nothing."""

    def layout(self) -> Layout:
        """Return how queues are spread: over one slice, if nobody has said it. Raises OSError."""
