"""The loop's side of a fleet: the door is closed while this process does not own the data.

    closed: standby ──claimed──▶ open ──the engine does not answer──▶ closed ──it does──▶ open
                                   └── another process has claimed ──▶ closed, and the process ends

Requests that were under way when the engine fell silent get their answers when the engine has said
that this process still owns the data, or never.

One rule: while the door is closed nothing is executed, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from kestrelpy.aside import TookTooLong, run_aside, run_aside_until
from kestrelpy.fleet.member import FleetMember

log = logging.getLogger("kestrelpy.fleet")

ASKED: Final = "asked to release the data"
HEED_SECONDS: Final = 0.2
LOOK_SECONDS: Final = 0.02
REFUSALS_SECONDS: Final = 60.0  # between two lines on the disk of the cache
RELEASE_SECONDS: Final = 5.0


NOT_LOOKED: Final = "standby: nobody has looked yet who owns the data"


class Membership:
    """Owned by the loop's thread. `close` gets the sentence to say at the door ("": the door is
    open), and the address of the member that serves instead ("": none is known)."""

    def __init__(
        self, member: FleetMember | None, close: Callable[[str, str], None],
        say: Callable[[str], None], end: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`say` tells the operator whose standby this is, `end` ends the process, for this reason.
        Without a member the door is open."""
        self._member = member
        self._close, self._say, self._end = close, say, end
        self._said = ""
        self._was_asked = False  # to release the data
        self._refusals, self._refusals_next_s = 0, 0.0  # of the cache's disk: those that were said
        self.must_end = False

    @property
    def is_fleet(self) -> bool:
        """True if other processes may own the data."""
        return self._member is not None

    @property
    def gate(self) -> Callable[[], bool] | None:
        """The question to ask before anything is sent; None: no other process can own the data."""
        return self.may_answer if self.is_fleet else None

    @property
    def is_fenced(self) -> bool:
        """True if this process owned the data, and no longer does."""
        return self._member is not None and self._member.is_fenced

    @property
    def begins_again(self) -> bool:
        """True if the process is to go on as a standby."""
        return (self.is_fenced or self._was_asked) and not self.must_end

    def may_answer(self) -> bool:
        """True if no other process can own the data now."""
        return self._member is None or self._member.is_sure()

    async def stand_by(self, ending: asyncio.Event) -> bool:
        """Return True when this process owns the data, False when it is to end."""
        member = self._member
        if member is None:
            return True
        while not ending.is_set():
            try:
                standby = await run_aside_until(member.try_to_claim, ending, RELEASE_SECONDS)
            except TookTooLong:  # what it may have claimed, the others take after `takeover`
                return False
            if standby is None:
                return True
            self._close(standby.sentence, standby.owner_address)
            if standby.sentence != self._said:
                self._said = standby.sentence
                self._say(standby.sentence)
            try:
                async with asyncio.timeout(member.pause_s):
                    await ending.wait()
            except TimeoutError:
                continue
        return False

    def open(self) -> None:
        """The data is recovered: serve."""
        self._said = ""
        self._close("", "")

    async def watch(self) -> None:
        """Close the door while the engine does not answer; end when another process owns the data,
        or an operator wants that."""
        await asyncio.gather(self._watch_engine(), self._watch_operator(), self._tell_takeover())

    async def _tell_takeover(self) -> None:
        if self._member is not None:
            await run_aside(self._member.tell_takeover, None)

    async def _watch_engine(self) -> None:
        """Close the door while the engine does not answer."""
        member = self._member
        while member is not None:
            await asyncio.sleep(LOOK_SECONDS)
            trouble = member.trouble
            if trouble != self._said:
                self._said = trouble
                self._close(trouble, "")
                if member.is_fenced:
                    log.critical("%s; this process ends, and answers nothing more", trouble)
                    self._end(trouble)
                    return
                log.warning("%s", trouble or "the engine answers again")

    async def _watch_operator(self) -> None:
        """End this life of the process when an operator asks it to release the data; say what the
        disk of its cache refuses."""
        member = self._member
        while member is not None and not member.is_fenced:
            await asyncio.sleep(HEED_SECONDS)
            self._say_refusals(member, asyncio.get_running_loop().time())
            if await run_aside(member.is_asked_to_release, None):
                self._was_asked = True
                self._end(ASKED)
                return

    def _say_refusals(self, member: FleetMember, now_s: float) -> None:
        """Log now and then that the local disk refuses bytes: reads are slower, nothing is lost."""
        count, reason = member.refusals
        if count > self._refusals and now_s >= self._refusals_next_s:
            self._refusals, self._refusals_next_s = count, now_s + REFUSALS_SECONDS
            log.warning("%s: what the cache has no room for is read from the engine", reason)

    async def release(self) -> None:
        """Let another process claim the data at once."""
        if self._member is not None:
            try:
                await run_aside(self._member.release, RELEASE_SECONDS)
            except TookTooLong:
                log.warning("the engine does not answer: the others wait for `takeover`")
