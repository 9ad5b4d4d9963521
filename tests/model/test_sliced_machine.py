"""A queue in all slices, whose clients put, open, end, wait and hang up, and lose connections to
slices at any moment.

The model is made of the promise: an item that is stored is with one worker at a time, and gone once
it is confirmed; the items of a key come in their order; END is said, and a worker waits, only if no
slice has an item that may go out.

Promise: stored.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kestrelpy.core import KeySettings
from tests.support.machines import has_failed, run, run_for_long
from tests.support.routed_harness import SlicedHarness
from tests.support.soak import Soak

SLICES = (1, 2, 3)
WORKER = st.sampled_from(["a", "b", "c"])
SOME = st.lists(st.sampled_from(SLICES), min_size=1, max_size=4)
END, VALUE = b"END\r\n", b"VALUE "


class SlicedMachine(RuleBasedStateMachine):
    """A router and three slices, and what their clients know."""

    @initialize()
    def begin(self) -> None:
        self.many = SlicedHarness(len(SLICES))
        self.many.sliced[b"jobs"] = KeySettings()
        self.number = 0
        self.left: dict[bytes, bytes] = {}  # the items by body, each with its key, in their order
        self.held: dict[str, bytes] = {}  # the item that a worker has open
        self.waits: dict[str, bool] = {}  # the workers that wait, and whether they open

    def may_go_out(self) -> set[bytes]:
        """The items of which a fetch may return any."""
        seen, found = set[bytes](), set[bytes]()
        for body, key in self.left.items():
            if (not key or key not in seen) and body not in self.held.values():
                found.add(body)
            seen.add(key)
        return found

    # -- producers -------------------------------------------------------------------------------

    def _body(self, key: bytes) -> bytes:
        self.number += 1
        body = b"%d" % self.number
        self.left[body] = key
        return body

    @rule(who=st.sampled_from(["p", "q", "a"]), key=st.sampled_from([b"", b"x", b"y"]))
    def put(self, who: str, key: bytes) -> None:
        if who in self.waits:
            return
        body = self._body(key)
        option = b"/key=" + key if key else b""
        request = b"set jobs%b 0 0 %d\r\n%b\r\n" % (option, len(body), body)
        assert self.many.say(who, request) == b"STORED\r\n"
        self.look()

    def _put_in(self, slices: list[int]) -> None:
        for number in slices:
            body = self._body(b"")
            self.many.slices[number].say("beside", b"set jobs 0 0 %d" % len(body), body)

    @rule(slices=SOME)
    def put_at_once(self, slices: list[int]) -> None:
        self._put_in(slices)
        self.look()

    @rule(slices=SOME, who=WORKER, broken=st.sampled_from(SLICES), hears=st.booleans())
    def put_as_a_connection_breaks(
        self, slices: list[int], who: str, broken: int, hears: bool
    ) -> None:
        if who not in self.waits and who not in self.held:
            self.fetch(who, opens=True, waits=True, closes=False)
        self._put_in([broken, *slices])
        if hears and who in self.many.slices[broken].clients:
            self.many.talk(who).heard(broken, self.many.slices[broken].client(who).take())
        self.break_link(who, broken)

    # -- workers ---------------------------------------------------------------------------------

    @rule(who=WORKER, opens=st.booleans(), waits=st.booleans(), closes=st.booleans())
    def fetch(self, who: str, opens: bool, waits: bool, closes: bool) -> None:
        if who in self.waits:
            return
        closes = closes and opens
        request = b"/close" * closes + b"/open" * opens + b"/t=5s" * waits
        said = self.many.say(who, b"get jobs%b\r\n" % request)
        if who in self.held and not closes:
            assert said == b"CLIENT_ERROR close or abort the open item first\r\n"
            return
        if who in self.held:
            del self.left[self.held.pop(who)]
        self.waits[who] = opens
        if said or not waits:
            self.hear(who, said)
        self.look()

    def hear(self, who: str, said: bytes) -> None:
        """Take the answer to a fetch."""
        opens = self.waits.pop(who)
        if said == END:
            assert not self.may_go_out(), "END, although there is an item"
            return
        assert said.startswith(VALUE) and said.count(VALUE) == 1 and said.endswith(END), said
        body = said.split(b"\r\n")[1]
        assert body in self.may_go_out(), f"{body!r} is with a worker, gone, or not in its turn"
        if opens:
            self.held[who] = body
        else:
            del self.left[body]

    @rule(who=WORKER, how=st.sampled_from([b"close", b"abort", b"defer"]))
    def end(self, who: str, how: bytes) -> None:
        if who in self.waits:
            return
        assert self.many.say(who, b"get jobs/%b\r\n" % how) == END
        body = self.held.pop(who, None)
        if body is not None and how == b"close":
            del self.left[body]
        self.look()

    @rule(who=WORKER)
    def hang_up(self, who: str) -> None:
        self.many.talks.pop(who, None)
        for each in self.many.slices.values():
            if who in each.clients:
                each.hang_up(who)
        self.held.pop(who, None)
        self.waits.pop(who, None)
        self.look()

    @rule(who=WORKER, number=st.sampled_from(SLICES))
    def break_link(self, who: str, number: int) -> None:
        """The connection of a client to a slice ends; its own one goes on if it holds nothing."""
        talk, slice_ = self.many.talk(who), self.many.slices[number]
        if who in slice_.clients:
            slice_.hang_up(who)
            if not talk.can_lose(number):
                self.hang_up(who)
                return
            talk.lose(number)
        said = self.many.say(who, b"")
        if said.startswith(b"SERVER_ERROR"):
            assert self.waits.pop(who) in (True, False)
        elif said:
            self.hear(who, said)
        self.look()

    @rule()
    def pass_time(self) -> None:
        for each in self.many.slices.values():
            each.pass_time(5001)
        self.look()
        assert not self.waits

    def look(self) -> None:
        """Hear those who wait, until nothing comes any more."""
        while any(self._heard(who) for who in [*self.waits]):
            pass
        assert not (self.waits and self.may_go_out()), "a worker waits beside an item"

    def _heard(self, who: str) -> bool:
        said = self.many.say(who, b"")
        if said:
            self.hear(who, said)
        return bool(said)

    def teardown(self) -> None:
        if not hasattr(self, "many") or has_failed():
            return
        for who in ("a", "b", "c"):
            self.hang_up(who)
        while self.left:
            self.fetch("last", opens=False, waits=False, closes=False)
        assert self.many.say("last", b"get jobs\r\n") == END


@pytest.mark.slow
def test_each_item_of_a_sliced_queue_is_once_where_the_answers_say() -> None:
    run(SlicedMachine, 250, 50)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(SlicedMachine, soak)
