"""The spec's rules for waiting clients: which is served when, and with which item.

    first come, first served    all that wait for items of one line; for its dead letters, apart
    observers                   stand in no line: each is shown the items after its marker

Where an item and the end of a wait fall on one moment, either may come first: `heard` says which it
was. A peek after a waiter that cannot be served may be shown an item, at once or at its end.

One rule: `serve` serves each waiting client as soon as possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.everything_lines import Item, Line, Place, Store

END = b"END\r\n"
BEAT = b"beat"  # so begins the body of what a schedule puts
Lend = Callable[[Line, Place, str, int | None], None]


@dataclass(eq=False)
class Wait:
    """One request that waits. `how`: open, token, take, peek, dead, observe."""

    who: str
    name: str
    how: str
    until_ms: int
    after: int = 0  # of an observer: a marker of the model
    has_waited: bool = False
    is_done: bool = False
    item: Item | None = None  # the answer; None: END
    place: Place | None = None
    may: list[Item] = field(default_factory=list)  # an observer may have seen these too


class Waits:
    """All waiting clients, in the order in which they came."""

    def __init__(self, lend: Lend) -> None:
        self.all: list[Wait] = []
        self.heard: Callable[[Wait], bytes] = lambda wait: b""
        self._lend = lend

    def of(self, name: str, *hows: str) -> list[Wait]:
        """Return the clients that wait at this line."""
        here = [w for w in self.all if w.name == name and not w.is_done]
        return [w for w in here if not hows or w.how in hows]

    def is_waiting(self, who: str) -> bool:
        return any(w.who == who for w in self.all)

    def serve(self, line: Line, store: Store) -> None:
        """Hand out the available items."""
        for hows in (("open", "token", "take", "peek"), ("dead",)):
            for wait in self.of(line.name, *hows):
                if not self._hand(line, wait):
                    break  # no later one overtakes it
        for wait in self.of(line.name, "observe"):
            items = [place.item for place in line.places]
            if line is store.own and line.rules.retain_ms and not line.rules.retain_bytes:
                items += [item for item in store.retained if not item.may_be_gone]
            behind = [item for item in items if item.marker > wait.after]
            if behind:
                self._answer(wait, min(behind, key=lambda item: item.marker))

    def _hand(self, line: Line, wait: Wait) -> bool:
        """Serve the first in line; False: it cannot be."""
        if wait.how == "peek":
            place = next(line.possible(), None)
        else:
            place = line.lendable() if wait.how != "dead" else line.lendable_dead()
        if place is None:
            return False
        self._answer(wait, place.item)
        wait.place = place
        if wait.how == "take":
            line.places.remove(place)
            for observer in self.of(line.name, "observe"):
                observer.may.append(place.item)
        elif wait.how != "peek":
            by_token = wait.how == "token"
            self._lend(line, place, "token" if by_token else wait.who, 3000 if by_token else None)
        return True

    @staticmethod
    def _answer(wait: Wait, item: Item | None) -> None:
        wait.is_done, wait.item = True, item

    def see(self, wait: Wait, line: Line) -> None:
        """A peek may be shown an item even if another client waits for its lease."""
        place = next(line.possible(), None)
        if place is not None and self.heard(wait) not in (b"", END):
            self._answer(wait, place.item)

    def end(self, name: str) -> None:
        """End the waits of a queue that was deleted."""
        for wait in self.of(name):
            self._answer(wait, None)

    def next_ms(self) -> list[int]:
        return [w.until_ms for w in self.all if not w.is_done and not self._is_served(w)]

    def _is_served(self, wait: Wait) -> bool:
        """True if a schedule has put its item at the last moment: that is looked for next."""
        return b"\r\n" + BEAT in self.heard(wait)

    def end_first(self, now_ms: int) -> None:
        """End the waits that the server ended before the other events of this moment."""
        for wait in self.all:
            if not wait.is_done and wait.until_ms <= now_ms and self.heard(wait) == END:
                self._answer(wait, None)

    def end_last(self, line: Line, now_ms: int) -> None:
        """End the waits that are over without an item."""
        for wait in self.of(line.name):
            if wait.until_ms <= now_ms and not self._is_served(wait):
                if wait.how == "peek":
                    self.see(wait, line)
                self._answer(wait, wait.item)
