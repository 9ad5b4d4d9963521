"""One process of a fleet: it waits as a standby, claims the slice, and owns it.

    standby ── the owner released it, or committed nothing for `takeover` ──▶ claim ──▶ owner
       ▲                                                                                 │
       └──────────── a new process ◀── it ends: another has claimed, or it was stopped ◀─┘

An owner commits a beat four times in `takeover`. It answers nothing while its last commit is older
than `takeover`, less a margin, by its own clock. So a process that was stopped and wakes hands
nothing out until the engine has said that it still owns the slice.

One rule: clocks decide when a standby claims; the epoch decides whether an owner may still commit.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from journal.engine import (
    SLICE,
    Claim,
    Commits,
    Engine,
    EngineAway,
    EngineFiles,
    Fenced,
    Layout,
    Member,
    Owner,
    Takeover,
)
from journal.errors import DirectoryLocked

log = logging.getLogger("kestrelpy.fleet")

BEATS: Final = 4  # in `takeover`
# Clocks of two machines run at rates that differ by less than this part of `takeover`.
MARGIN: Final = 0.2
LEAVES: Final = 10  # times `takeover`: a member that had to release a slice leaves it that long
ONE_SLICE: Final = Layout(1)
_LOOKS: Final = 10  # the least number of looks of a standby in `takeover`
_LOOK_SECONDS_MAX: Final = 0.1  # the longest time until it sees that an owner released the slice


class OwnerSeen(NamedTuple):
    """The owner as a standby saw it, and since when it has not changed, by the standby's clock."""

    owner: Owner | None
    since_s: float


def look(before: OwnerSeen | None, owner: Owner | None, now_s: float) -> OwnerSeen:
    """Return what is known after one more look at the owner."""
    is_same = (
        before is not None and before.owner is not None and owner is not None
        and (before.owner.epoch, before.owner.seq) == (owner.epoch, owner.seq)
    )  # fmt: skip
    return OwnerSeen(owner, before.since_s if is_same and before is not None else now_s)


def may_claim(
    seen: OwnerSeen, takeover_s: float, now_s: float, member: Member | None = None
) -> bool:
    """True if no member owns the slice, or its owner has been silent for too long.

    An owner may be silent for its own `takeover`, even if this member's is shorter. A member that
    was asked to release the slice leaves it to the others for a while.
    """
    owner, waited_s = seen.owner, now_s - seen.since_s
    if owner is None:
        return True
    takeover_s = max(takeover_s, owner.takeover_s)
    if owner.is_importing:
        return False
    if not owner.has_released:
        return waited_s >= takeover_s
    return not (owner.was_asked and owner.member == member) or waited_s >= LEAVES * takeover_s


def why_other_layout(found: Layout, own: Layout) -> str:
    """Return why a member with this layout is none of this data; "": it is one."""
    if found.slices != own.slices:
        return f"the data is in {found.slices} slices: write slices = {found.slices} in [fleet]"
    if found.groups != own.groups:
        groups = json.dumps(found.groups.split())
        return f"the data has other groups: write groups = {groups} in [fleet]"
    return ""


class Standby(NamedTuple):
    """What a standby says of itself."""

    owner: Owner | None
    trouble: str  # why the engine does not answer
    fault: str = ""  # why this process could not serve
    since: str = ""  # when this process first saw this claim of the owner

    @property
    def sentence(self) -> str:
        """Return why this process does not serve, and which member does."""
        if self.trouble:
            return f"standby: the engine does not answer: {self.trouble}"
        if self.fault:
            return f"standby: {self.fault}"
        if self.owner is None:
            return "standby: nobody owns the data yet"
        if self.owner.is_importing:
            return (
                "standby: a data directory is being moved in; if that was interrupted, "
                "`kestrelpy fleet import` goes on with it, and with "
                "--give-up removes it"
            )
        if self.owner.has_released:
            return f"standby: nobody owns the data: {self.owner.member.name} has released it"
        member = self.owner.member
        at = f" at {member.address}" if member.address else ""
        since = f" since {self.since}" if self.since else ""
        return f"standby of {member.name}{at}{since}: it owns the data, ask there"

    @property
    def owner_address(self) -> str:
        """Return where the owner answers; "": that is not known."""
        if self.owner is None or self.trouble or self.owner.has_released or self.owner.is_importing:
            return ""
        return self.owner.member.address


class FleetMember:
    """This process. All but `is_sure` and `trouble` block, and are for a thread of their own."""

    def __init__(
        self, engine: Engine, files: EngineFiles, member: Member, takeover_s: float,
        clock: Callable[[], float] = time.monotonic, is_threaded: bool = True,
        unix_time: Callable[[], float] = time.time, number: int = SLICE, layout: Layout = ONE_SLICE,
    ) -> None:  # fmt: skip
        """It may own the slice `number` of this layout. With `is_threaded` False the caller of a
        wait commits, for tests without threads."""
        self.number = number
        self._layout = layout
        self._are_agreed = False  # True once the engine has said that its layout is the same
        self.files = files
        self.member = member
        self.takeover_s = takeover_s
        self._engine = engine
        self._clock = clock
        self._unix_time = unix_time
        self._standby_of = 0, ""  # the epoch that was seen last, and since when
        self._seen: OwnerSeen | None = None
        self._claimed: Takeover | None = None  # and not told yet
        self._claimed_s = 0.0
        self._notes_next_s = clock()
        self._beat_s = takeover_s / BEATS if is_threaded else 0.0
        self._sure_s = takeover_s * (1 - MARGIN)

    @property
    def pause_s(self) -> float:
        """How long a standby waits between two looks."""
        return min(self.takeover_s / _LOOKS, _LOOK_SECONDS_MAX)

    @property
    def commits(self) -> Commits | None:
        """Those of the owner; None: this process is a standby."""
        return self.files.commits

    def try_to_claim(self) -> Standby | None:
        """Look at the owner, and claim the slice if it is silent for too long; None: claimed."""
        try:
            owner = self._look()
            if fault := self._why_other_slices():
                return Standby(owner, "", fault, self._since(owner))
            now_s = self._clock()
            self._seen = seen = look(self._seen, owner, now_s)
            may = may_claim(seen, self.takeover_s, now_s, self.member)
            fault = self._prepare_cache(may)
            if fault or not may:  # a member that cannot serve does not claim
                return Standby(owner, "", fault, self._since(owner))
            # The claim fails if the owner has committed since: it may be alive.
            known = (owner.epoch, owner.seq) if owner else (0, None)
            claim = self._engine.claim(self.number, self.member, *known)
            self._claimed, self._claimed_s = self._takeover(claim, seen, now_s), now_s
            self._take_over(claim, now_s)
        except Fenced:
            # Another standby was faster, or the owner lives.
            return Standby(owner, "", since=self._since(owner))
        except EngineAway as error:
            return Standby(None, error.strerror or str(error))
        return None

    def _takeover(self, claim: Claim, seen: OwnerSeen, now_s: float) -> Takeover:
        """Return what operators may know of a claim; it does not serve yet."""
        owner = seen.owner
        why = "first" if owner is None else "released" if owner.has_released else "silent"
        before, age_s = (owner.member.name, owner.age_s) if owner is not None else ("", 0.0)
        idle_s = max(age_s, now_s - seen.since_s) if why == "silent" else 0.0
        return Takeover(claim.slice, claim.epoch, self.member, before, why, idle_s, 0.0)

    def tell_takeover(self) -> None:
        """Tell operators, by way of the engine, that this claim has come to serve."""
        claimed, self._claimed = self._claimed, None
        if claimed is not None:
            with contextlib.suppress(EngineAway):  # nothing rests on it
                took_s = self._clock() - self._claimed_s
                self._engine.note_takeover(claimed._replace(took_s=took_s))

    def _since(self, owner: Owner | None) -> str:
        """Return when this process first saw this claim, by its own clock; "": there is none."""
        if owner is None:
            return ""
        if owner.epoch != self._standby_of[0]:
            now = time.gmtime(self._unix_time())
            self._standby_of = owner.epoch, time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
        return self._standby_of[1]

    def _prepare_cache(self, begins: bool) -> str:
        """Lock the cache, and begin with an empty one; return why that is not possible, or ""."""
        try:
            self.files.lock_cache()
            if begins:
                self.files.cache.begin()
        except DirectoryLocked:
            folder = self.files.cache.folder
            return (
                f"its cache cannot be used: {folder}: another kestrelpy is using it; give each "
                "member its own data_dir"
            )
        except OSError as error:
            return f"its cache cannot be used: {error.filename}: {error.strerror}"
        return ""

    def is_asked_to_release(self) -> bool:
        """True if an operator has asked this process, which owns the slice, to release it."""
        commits = self.files.commits
        try:
            owner = self._look()
        except EngineAway:
            return False
        return (
            owner is not None and owner.was_asked and commits is not None
            and owner.epoch == commits.claim.epoch
        )  # fmt: skip

    def _look(self) -> Owner | None:
        """Return who owns the slice, and say now and then that this process is there."""
        now_s = self._clock()
        if now_s >= self._notes_next_s:
            self._notes_next_s = now_s + self.takeover_s
            self._engine.note(self.member, self.takeover_s)
        return self._engine.owners().get(self.number)

    def _why_other_slices(self) -> str:
        """Return why the engine's data is no place for this process; "": it is one. Its layout is
        that of the first member."""
        if not self._are_agreed:
            if why := why_other_layout(self._engine.agree(self._layout), self._layout):
                return why
            self._are_agreed = True
        return ""

    def _take_over(self, claim: Claim, asked_s: float) -> None:
        commits = Commits(
            self._engine, claim, self._beat_s, self._clock, claimed_s=asked_s
        )
        try:
            self.files.take_over(commits)
        except BaseException:
            commits.close()
            raise
        log.info("slice %d is ours: epoch %d", claim.slice, claim.epoch)

    def is_sure(self) -> bool:
        """True if no other member can own the slice now, by the clocks."""
        commits = self.files.commits
        if commits is None:
            return True  # a standby says nothing of the data
        if commits.failure is not None:
            return False
        return self._clock() - commits.sure_since_s < self._sure_s

    @property
    def trouble(self) -> str:
        """Why nothing can be stored or handed out now; "": it can."""
        commits = self.files.commits
        if commits is None:
            return ""
        if commits.failure is not None:
            return f"{commits.failure.strerror}"
        if self.is_sure() and not commits.is_full:
            return ""
        why = commits.trouble or "it has not answered the last commit"
        return f"the engine does not answer: {why}"

    @property
    def refusals(self) -> tuple[int, str]:
        """How often the local disk has refused what is cached there, and the last reason."""
        return self.files.cache.refusals, self.files.cache.refusal

    @property
    def is_fenced(self) -> bool:
        """True if this process owned the slice, and no longer does."""
        return self.files.commits is not None and self.files.commits.failure is not None

    def release(self) -> None:
        """Commit what waits, and let another process claim at once."""
        self.files.close()
        commits = self.files.commits
        if commits is not None:
            commits.close()
            if commits.failure is None:
                try:
                    self._engine.release(commits.claim)
                except OSError as error:  # then the others wait for `takeover`
                    log.warning("the slice was not released: %s", error.strerror)
        self._engine.close()
