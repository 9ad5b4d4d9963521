"""Children come by their first mention, and go with their queue when no client uses them.

    fanout_create = false    who names a child that is not there is told so, and makes nothing
    max_queue_age            a child that no client has asked for anything for so long goes, with
                             its items; a waiter, a lease and a pause are uses, and a child with a
                             block stays; then the queue goes, if it is empty

The server looks at its children four times in that age, so what must be there and what must be gone
are that far apart; between them the model takes what it finds.

One rule: an age runs from the last use, or from the start of the server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

import pytest

from tests.model.narrow import Narrow, bodies, measure

AGES: Final = {"none": 1 << 60, "8s": 8000, "20s": 20_000}
CHILDREN: Final = ("jobs+named", "jobs+b", "jobs+c")
_SLACK_MS: Final = 50


@dataclass
class Child:
    """A child, when a client used it last, and until when the server surely saw that."""

    used_ms: int
    seen_ms: int
    items: list[bytes] = field(default_factory=list)
    holder: str = ""
    is_waited: bool = False
    is_paused: bool = False
    begun_ms: int = 0  # when the use that goes on began

    @property
    def is_in_use(self) -> bool:
        return bool(self.holder or self.is_waited or self.is_paused)


class AgesMachine(Narrow):
    """One queue whose children come and go."""

    draws: ClassVar = {
        "max_queue_age": tuple(AGES), "fanout_create": (True, False), "fanout_only": (False, True),
    }  # fmt: skip
    effects: ClassVar = (
        "made", "refused", "gone with items", "named stayed", "kept by a waiter",
        "kept by a lease", "kept by a pause", "queue gone", "queue kept", "restarted", "reloaded",
        "put into a child",
    )  # fmt: skip
    weights: ClassVar = {
        "mention": 6, "put": 5, "put_into_child": 2, "take": 4, "drain": 4, "wait": 9, "open": 6,
        "pause": 3, "leave": 5, "pass_some": 9, "come_again": 1, "reload": 1.5,
    }  # fmt: skip

    def begin(self) -> None:
        self.age, self.creates = self.drawn["max_queue_age"], self.drawn["fanout_create"]
        self.only = self.drawn["fanout_only"]
        self.has_named = self.random.random() < 0.5
        self.children: dict[str, Child] = {}
        self.own: list[bytes] | None = None  # the queue's own items; None: it is not there
        self.made_ms = self.reloaded_ms = 0
        if self.has_named:
            self.stage.set_queue("jobs+named", max_items=1000)
        self.stage.set_queue("jobs", **self.drawn)
        self.check()

    @property
    def now_ms(self) -> int:
        return self.stage.now_ms

    @property
    def age_ms(self) -> int:
        return AGES[self.age]

    # -- what is there ----------------------------------------------------------------------

    def _make(self) -> None:
        if self.own is None:
            self.own, self.made_ms = [], self.now_ms
            if self.has_named:
                self.children["jobs+named"] = Child(self.now_ms, self.now_ms)

    def _name(self, name: str, who: str, line: bytes, body: bytes | None = None) -> bytes | None:
        """Say something that names this child; None: it was refused, as it must be."""
        self._look()
        said = self.ask(who, line, *[body] * (body is not None))
        if name not in self.children and not (name == "jobs+named" and self.has_named):
            if not self.creates:
                assert said.startswith(b"CLIENT_ERROR %b is not there" % name.encode()), said
                self.met.add("refused")
                self._look()
                return None
            self._make()
            self.children[name] = Child(self.now_ms, self.now_ms)
            self.met.add("made")
        self._make()
        if body is None:  # a set asks it for nothing
            self._use(name)
        return said

    def _use(self, name: str) -> None:
        self.children[name].used_ms = self.children[name].seen_ms = self.now_ms

    def check(self) -> None:
        self._served()
        self._look()

    def _look(self) -> None:
        """Check that the queues that must be there are, and that those that must be gone are."""
        there = {each.decode() for each in self.stage.broker.queues}
        for name, child in [*self.children.items()]:
            if child.is_in_use:
                child.used_ms = self.now_ms
            unused_ms = self.now_ms - child.used_ms
            stays = name == "jobs+named" and self.has_named
            old_ms = max(child.used_ms + self.age_ms, self.reloaded_ms)
            is_old = self.now_ms >= old_ms + self.age_ms // 4 + _SLACK_MS and not stays
            if name in there:
                assert not is_old, f"{name} was not used for {unused_ms}ms, and is there"
                self.met.update(["named stayed"] * (stays and unused_ms >= 2 * 8000))
                continue
            may_go = self.now_ms - child.seen_ms >= self.age_ms and not (stays or child.is_in_use)
            assert may_go, f"{name} was used, and is gone: {child}"
            self.met.update(["gone with items"] * bool(child.items))
            del self.children[name]
        extra = there - {*self.children, "jobs"} - ({"jobs+named"} if self.has_named else set())
        assert not extra, f"there is {extra}"
        self._look_at_queue("jobs" in there)

    def _look_at_queue(self, is_there: bool) -> None:
        if self.own is None:
            if is_there:  # a child with a block brings its queue
                assert self.has_named, "jobs is there, and no client named it"
                self._make()
            return
        if not is_there:
            is_free = not self.own and not self.children
            is_old = self.now_ms - self.made_ms >= self.age_ms
            assert is_free and is_old, f"jobs is gone: {self.own}, {self.children}"
            self.own = None
            self.met.add("queue gone")
            return
        self.met.update(["queue kept"] * (self.now_ms - self.made_ms >= 2 * 8000))

    # -- the steps --------------------------------------------------------------------------

    def mention(self) -> None:
        name = self.pick(CHILDREN)
        said = self._name(name, "eye", f"get {name}/peek".encode())
        if said is not None:
            child = self.children[name]
            first = child.items[bool(child.holder) :][:1]
            assert bodies(said) == first, (said, child)

    def put(self) -> None:
        self._look()
        body = self.body()
        assert self.set("prod", "jobs", body) == b"STORED\r\n"
        self._make()
        assert self.own is not None
        self.own += [body] * (not self.only)
        for child in self.children.values():
            child.items.append(body)

    def put_into_child(self) -> None:
        name, body = self.pick(CHILDREN), self.body()
        said = self._name(name, "prod", f"set {name} 0 0 {len(body)}".encode(), body)
        if said is not None:
            assert said == b"STORED\r\n"
            self.children[name].items.append(body)
            self.met.add("put into a child")

    def take(self) -> None:
        name = self.pick(CHILDREN)
        free = self._is_free(name)
        if free:
            said = self._name(name, "kim", f"get {name}".encode())
            if said is not None:
                child = self.children[name]
                assert bodies(said) == child.items[:1], (said, child)
                del child.items[:1]

    def _is_free(self, name: str) -> bool:
        """True if the child has no leases and no waiters, and is not paused."""
        child = self.children.get(name)
        return child is None or not child.is_in_use

    def drain(self) -> None:
        """The queue's own items go, so that it is empty."""
        self._look()
        for body in self.own or []:
            assert bodies(self.ask("kim", b"get jobs")) == [body]
        if self.own is not None:
            self.own = []

    def wait(self) -> None:
        name = self.pick(CHILDREN)
        child = self.children.get(name)
        if child is not None and not child.is_in_use and not child.items:
            self._look()
            if name in self.children:
                self.transcript.append(f"{name} waits")
                self.stage.send(f"waits {name}", f"get {name}/t=1h\r\n".encode())
                child.is_waited, child.begun_ms = True, self.now_ms
                self._use(name)

    def open(self) -> None:
        name = self.pick(CHILDREN)
        child = self.children.get(name)
        if child is not None and not child.is_in_use and child.items:
            said = self._name(name, f"holds {name}", f"get {name}/open".encode())
            if said is not None:
                assert bodies(said) == self.children[name].items[:1]
                child = self.children[name]
                child.holder, child.begun_ms = f"holds {name}", self.now_ms

    def pause(self) -> None:
        name = self.pick(CHILDREN)
        child = self.children.get(name)
        if child is not None and self._is_free(name):
            self._look()
            if name in self.children:
                assert self.ask("op", f"pause {name}".encode()) == b"OK\r\n"
                child.is_paused, child.begun_ms = True, self.now_ms

    def leave(self) -> None:
        """End the use of a child: its lease, its wait or its pause."""
        name = self.pick(CHILDREN)
        child = self.children.get(name)
        if child is None or not child.is_in_use:
            return
        self.met.update(
            [f"kept by a {word}" for word, is_so in (
                ("lease", child.holder), ("waiter", child.is_waited), ("pause", child.is_paused),
            ) if is_so]
        )  # fmt: skip
        for who in (f"waits {name}", f"holds {name}"):
            if who in self.stage.clients:
                self.stage.client(who).take()
                self.stage.hang_up(who)
        if child.is_paused:
            assert self.ask("op", f"resume {name}".encode()) == b"OK\r\n"
        self.transcript.append(f"{name} is left")
        child.used_ms = self.now_ms
        # A use that goes on is seen when the server looks, four times in the age.
        quarter_ms = self.now_ms - self.age_ms // 4
        if child.begun_ms <= quarter_ms:
            child.seen_ms = max(child.seen_ms, quarter_ms)
        child.holder, child.is_waited, child.is_paused = "", False, False

    def pass_some(self) -> None:
        for _ in range(self.pick((1, 5, 12))):
            self.pass_time(2000)
            self._served()
            self._look()

    def _served(self) -> None:
        """Check that the waiting clients were served the items that came."""
        for name, child in self.children.items():
            if child.is_waited and child.items:
                said = self.stage.client(f"waits {name}").take()
                assert bodies(said) == child.items[:1], (name, said)
                del child.items[:1]
                child.is_waited = False

    def come_again(self) -> None:
        self.come_back(self.pick(("restart", "kill", "cut_power")))
        for child in self.children.values():
            child.holder, child.is_waited = "", False
            child.used_ms = child.seen_ms = self.now_ms
        self.made_ms = self.now_ms
        self.met.add("restarted")

    def reload(self) -> None:
        self._look()
        self.age, self.creates = self.pick([*AGES]), self.pick((True, False))
        self.reloaded_ms = self.now_ms
        self.transcript.append(f"= reload {self.age} {self.creates}")
        settings = {"max_queue_age": self.age, "fanout_create": self.creates}
        assert self.stage.reload_with({"jobs": settings}, {})
        self.met.add("reloaded")


@pytest.mark.slow
def test_children_come_by_a_mention_and_go_when_nobody_uses_them() -> None:
    measure(AgesMachine, walks=30, steps=60)
