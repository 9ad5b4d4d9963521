"""After the end of a run: all items are fetched, no client is connected, and nothing is left.

    get until END, everywhere ─▶ hang up ─▶ a while ─▶ look at everything ─▶ restart ─▶ once more

One rule: each attribute that counts or holds something is empty then, or `rest_table` says why not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.drain import Drain
from tests.support.at_rest import left_over

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

# By then work that waits for a moment (a journal that rests, reads that are shared) is done.
_A_WHILE_US: Final = 4_000_000
# Items that are retained for this time or less go meanwhile, each part with a record and a sync.
_RETAINED_US: Final = 5_000_000
_QUIET_US: Final = 1_500_000


class Rest:
    """The last look at one run."""

    def __init__(self, world: Simulation, drain: Drain) -> None:
        """`drain` has been connected until now."""
        self.world = world
        self.drain = drain

    def run(self) -> None:
        """Report a violation if anything is left."""
        for when in ("", ", after a restart"):
            if self._empty() and self._look(when):
                self.world.count("ends with nothing left")
                self.world.restart_cleanly()
            if self.world.checker.violations:
                return

    def _empty(self) -> bool:
        """Fetch all items until none comes, and hang up; return True if that succeeded."""
        world, drain = self.world, self.drain
        books = [*world.checker.books.values()]
        if drain.wire is None or drain.wire.is_closed:
            drain.wire = world.connect()
        assert drain.wire is not None
        for book in books:
            drain.end_pause(book)
        quiet_us = world.timeline.us
        while world.timeline.us < quiet_us + _QUIET_US and not world.checker.violations:
            for book in books:
                if drain.fetch_all(book, "") + drain.fetch_all(book, "dead"):
                    quiet_us = world.timeline.us
            world.timeline.run_until(world.timeline.us + 200_000)
        drain.wire.hang_up()
        return not world.checker.violations

    def _look(self, when: str) -> bool:
        """Return True if nothing is left."""
        world = self.world
        kept_us = (book.rules.retain_us for book in world.checker.books.values())
        goes_us = max((us for us in kept_us if us <= _RETAINED_US), default=0)
        world.timeline.run_until(world.timeline.us + _A_WHILE_US + goes_us)
        if world.daemon is None or world.checker.violations:
            return False
        for complaint in left_over(world.daemon):
            world.checker.complain(f"left{when}: {complaint}")
        return not world.checker.violations
