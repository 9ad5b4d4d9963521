"""Versions of keys, as the clients can know them: how many items were written under a key.

    set|add|cas|replace q/key=K ─▶ STORED: certainly one more
                                ├─▶ refused: none
                                └─▶ no answer: perhaps

So at each moment the version is at least the number of certain writes, and at most the number of
possible ones. The answer to a condition is checked against these two. A version that a client was
told, by an answer or by a look at the key, belongs to that item for good.

One rule: only these clients write a key, so that nothing else makes versions of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.simulation.books import NEVER, Book, Thing
from tests.simulation.requests import Reply, Request
from tests.simulation.shelf import Shelf

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

_PREFIX = "V"


def key_of(queue: str) -> str:
    """Return the key of this queue that is watched. (A moved item keeps its key, so each queue has
    another one.)"""
    return _PREFIX + queue


class Stream:
    """One key of one queue."""

    def __init__(self, checker: Checker, book: Book) -> None:
        self._checker = checker
        self.book = book
        self.may_be: dict[int, Thing] = {}  # written, certainly or perhaps
        self.sure_us: dict[int, int] = {}  # by number: certainly written since then
        self.made: dict[int, Thing] = {}  # by version
        self.version_of: dict[int, int] = {}
        self.known_version = 0  # the highest version that a client was told ...
        self.known_us = NEVER  # ... and since when
        self.is_void = False  # answered writes may be lost

    # -- what is known ----------------------------------------------------------------------

    def _is_sure(self, request: Request) -> bool:
        """True if it certainly belongs to this generation of the queue, and no record is lost."""
        book = self.book
        return not (
            self.is_void or self._checker.was_unreadable
            or request.arrived_us <= book.deleted_us or any(w.verb == "delete" for w in book.wipes)
        )  # fmt: skip

    def _least(self, us: int) -> int:
        """Return how many versions were certainly made before then."""
        count = sum(each < us for each in self.sure_us.values())
        return max(count, self.known_version if self.known_us < us else 0)

    def _most(self, but: Thing | None) -> int:
        """Return how many versions may exist now, without this one."""
        return sum(each is not but and not each.refused for each in self.may_be.values())

    def _tell(self, version: int, thing: Thing, request: Request) -> Iterator[str]:
        """Note that this version is this item; yield the mistakes of that."""
        other = self.made.setdefault(version, thing)
        if other is not thing:
            yield f"{request}: version {version} is {thing}, and was {other}"
        known = self.version_of.setdefault(thing.number, version)
        if known != version:
            yield f"{request}: {thing} made version {version}, and {known} before"
        if version > self.known_version:
            self.known_version, self.known_us = version, request.left_us

    # -- writing ----------------------------------------------------------------------------

    def arrived(self, thing: Thing) -> None:
        """Note that a write has arrived."""
        self.may_be[thing.number] = thing

    def answered(self, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the mistakes of an answer. The caller notes a refusal."""
        thing, word = request.item, reply.word
        assert thing is not None
        if not self._is_sure(request):
            return
        least, most = self._least(request.arrived_us), self._most(thing)
        wanted, verb = request.version, request.verb
        is_full = word == "NOT_STORED" and self.book.rules.max_items is not None
        is_right = True
        if wanted >= 0 and word == "STORED":
            is_right = least <= wanted <= most
        elif wanted >= 0 and word == "NOT_FOUND":
            is_right = least == 0 and wanted > 0 and verb == "cas"
        elif wanted >= 0:  # EXISTS, or NOT_STORED to a set
            is_right = not least == most == wanted and (verb != "cas" or most > 0)
            is_right &= word == ("EXISTS" if verb == "cas" else "NOT_STORED")
        elif verb == "add":
            is_right = least == 0 if word == "STORED" else most > 0
        elif verb == "replace":
            is_right = most > 0 if word == "STORED" else least == 0
        if not (is_right or is_full):
            yield f"{request} answered {reply}, and the version was from {least} to {most}"
        if word != "STORED" and not is_full:  # a refusal rests on what is on disk
            least = 1 if verb == "add" else wanted + 1 if least == wanted else 0
            if least > self.known_version and word != "NOT_FOUND":
                self.known_version, self.known_us = least, request.left_us
        elif word == "STORED":
            self.sure_us[thing.number] = request.left_us
            version = 1 if verb == "add" else wanted + 1
            if version > 0:
                yield from self._tell(version, thing, request)

    # -- looking ----------------------------------------------------------------------------

    def looked(self, request: Request, reply: Reply, shelf: Shelf | None) -> Iterator[str]:
        """Yield the mistakes of a look at the last item of the key, or at that of one version."""
        if not self._is_sure(request):
            return
        due = [] if shelf is None else list(shelf.due(request.arrived_us, request.left_us))
        if reply.word != "VALUE":
            yield from self._nothing(request, [each.thing for each in due])
            return
        thing, version = self.may_be.get(reply.flags), reply.number
        if thing is None or thing.refused:
            yield f"{request} shows item {reply.flags}, which was never stored under that key"
            return
        if reply.body != thing.body:
            yield f"{request} shows {thing} with another body: {reply.body[:60]!r}"
        self.sure_us.setdefault(thing.number, request.left_us)
        least, most = self._least(request.arrived_us), self._most(None)
        if request.at_version not in (0, version):
            yield f"{request} shows version {version}"
        if version > most or (not request.at_version and version < least):
            yield f"{request} shows version {version}, and it was from {least} to {most}"
        yield from self._tell(version, thing, request)

    def _nothing(self, request: Request, due: list[Thing]) -> Iterator[str]:
        version = request.at_version
        if version and self.made.get(version) in due:
            yield f"{request} shows nothing, but {self.made[version]} is version {version}"
        elif not version and self.sure_us and all(each in due for each in self._possible()):
            yield f"{request} shows nothing, but {len(self.sure_us)} were written"

    def _possible(self) -> list[Thing]:
        return [each for each in self.may_be.values() if not each.refused]

    def whole(self, last: int) -> Iterator[str]:
        """Yield the missing versions, after a look at all up to the last one, without writers."""
        if self.is_void or self._checker.was_unreadable:
            return
        gone = [v for v in range(1, last + 1) if v not in self.made]
        if gone:
            yield f"versions {gone} of {self.book.name} were never shown, and {last} is the last"
        for number in self.sure_us:
            if number not in self.version_of:
                yield f"{self.may_be[number]} was stored and has no version"
        things = [self.made[v] for v in range(1, last + 1) if v in self.made]
        for before, behind in pairwise(things):
            if self.sure_us.get(behind.number, NEVER) < before.arrived_us:
                yield f"{before} has a version before {behind}, and was written after it"

    # -- what makes it uncertain ------------------------------------------------------------

    def forget(self) -> None:
        """Note a delete of the queue: versions may begin again, or go on."""
        self.sure_us.clear()
        self.made.clear()
        self.version_of.clear()
        self.known_version, self.known_us = 0, NEVER

    def erase(self, before_us: int) -> None:
        """Note that the queue was certainly deleted: items answered before then are gone."""
        for number, thing in list(self.may_be.items()):
            if 0 < thing.stored_us < before_us:
                del self.may_be[number]
