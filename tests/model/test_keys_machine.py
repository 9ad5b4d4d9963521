"""A queue that finds the keys of its items in their bodies: `key_format`, `key`, `key_missing`.

    {"a": "x", "to": {"b": 1}}    key = ["a", "/to/b"]  ──▶  the text x, the number 1

    a field is not there       refused, or with key_missing = "free" an item without a key
    a field is no one value    refused in any case, as is a body that does not parse
    key= of the producer       wins, and its values are texts

While an item is leased, those with the same key are skipped; on confirm, the oldest that has become
possible goes first. With `key_match = "any"` one shared value is enough, and a skipped item holds
its place on all its values.

One rule: an item's key is decided when it is stored; restarts and moves keep it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from kestrelpy.core.log.log import JournalLog
from tests.model.narrow import Narrow, bodies, measure
from tests.support.little_memory import little_memory
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

NAMED = {"a": ["a"], "a, b": ["a", "b"], "/to/b": ["/to/b"], "a, /to/b": ["a", "/to/b"]}
Value = tuple[str, str]  # its type, and the value itself
_ABSENT = object()
DOORS = ("jobs", "jobs", "jobs", "all")
WHO = ("anna", "bert", "cleo")


@dataclass(eq=False)
class Item:
    """One item; `holder` is the client that leases it."""

    body: bytes
    key: tuple[Value, ...]
    holder: str = ""


class KeysMachine(Narrow):
    """One queue whose bodies have the keys, and consumers that hold some."""

    draws: ClassVar = {
        "key_format": ("json", "msgpack"), "key": tuple(NAMED), "key_missing": ("reject", "free"),
        "key_match": ("pair", "any"), "key_unordered": (False, True),
        "max_memory": (1, "64MiB"),
    }  # fmt: skip
    effects: ClassVar = (
        "stored", "named", "absent", "no value", "not parsed", "skipped", "none possible",
        "by alias", "by hand-off", "by schedule", "restarted", "tidied", "came back", "child",
    )  # fmt: skip
    weights: ClassVar = {
        "put": 12, "open": 9, "confirm": 5, "give_back": 3, "hand_off": 2, "put_by_schedule": 1,
        "come_again": 1, "tidy_up": 1, "drain_child": 1,
    }  # fmt: skip

    def make_stage(self) -> ServerHarness:
        self.patch = little_memory(300)
        try:
            return ServerHarness()
        except BaseException:
            self.patch.undo()
            raise

    def begin(self) -> None:
        settings = self.drawn | {"key": NAMED[self.drawn["key"]]}
        self.stage.set_queue("jobs", **settings)
        self.stage.set_alias("all", ["jobs"])
        self.items: list[Item] = []
        self.of_child: list[Item] = []
        assert self.ask("eye", b"get jobs+kid/peek") == b"END\r\n"

    # -- bodies and their keys --------------------------------------------------------------

    def _message(self) -> tuple[bytes, tuple[Value, ...] | str]:
        """A body, and the values of its fields or why it has none."""
        self.count += 1
        is_json = self.is_drawn("key_format", "json")
        if self.random.random() < 0.07:
            return (b"{" if is_json else b"\xc1") + b"%d" % self.count, "not parsed"
        values = ("x", "x", "y", "1", 1, True, _ABSENT, None, ["x"])
        a, b, deep = (self.pick(values) for _ in range(3))
        made: dict[str, Any] = {"n": self.count, "a": a, "b": b, "to": {"b": deep}}
        if self.random.random() < 0.1:
            made["to"] = self.pick(([], "x", {}))
            deep = _ABSENT
        there = {name: each for name, each in made.items() if each is not _ABSENT}
        if isinstance(there["to"], dict) and deep is _ABSENT:
            there["to"] = {}
        encode = msgspec.json.encode if is_json else msgspec.msgpack.encode
        found = {"a": a, "b": b, "/to/b": deep}
        wanted = [found[name] for name in NAMED[self.drawn["key"]]]
        return encode(there), self._values(wanted)

    @staticmethod
    def _values(wanted: list[Any]) -> tuple[Value, ...] | str:
        for each in wanted:  # the first that has none says why
            if each is _ABSENT:
                return "absent"
            if isinstance(each, list):
                return "no value"
        return tuple((type(each).__name__, str(each)) for each in wanted)

    def _key(self, values: tuple[Value, ...] | str) -> tuple[Value, ...] | None:
        """Return the key of an item, () for none; None if it is refused."""
        if not isinstance(values, str):
            return values
        self.met.add(values)
        is_free = values == "absent" and self.is_drawn("key_missing", "free")
        return () if is_free else None

    def _matching(self, key: tuple[Value, ...]) -> set[tuple[Value, ...]]:
        """Return the values that two items of one key share."""
        if self.is_drawn("key_match", "any"):
            return {(each,) for each in key}
        ordered = tuple(sorted(key)) if self.drawn["key_unordered"] else key
        return {ordered} if key else set()

    def _possible(self, items: list[Item]) -> Iterator[Item]:
        taken: set[tuple[Value, ...]] = set()
        for item in items:
            taken |= self._matching(item.key) if item.holder else set()
        for item in items:
            if not item.holder:
                values = self._matching(item.key)
                if not values & taken:
                    yield item
                else:
                    self.met.add("skipped")
                taken |= values

    # -- the steps --------------------------------------------------------------------------

    def put(self) -> None:
        body, values = self._message()
        name, options = self.pick(DOORS), ""
        if self.random.random() < 0.2:
            texts = self.pick((["x"], ["x", "y"], ["y", "x"], ["1"]))
            options = f"/key={','.join(texts)}"
            values = tuple(("str", each) for each in texts)
            self.met.add("named")
        self._stored(self.set("prod", f"{name}{options}", body), body, values)
        self.met.update(["by alias"] * (name == "all"))

    def _stored(self, said: bytes, body: bytes, values: tuple[Value, ...] | str) -> bool:
        key = self._key(values)
        if key is None:
            assert said.startswith(b"CLIENT_ERROR queue jobs: the message "), (values, said)
            return False
        assert said == b"STORED\r\n", (values, said)
        self._add(body, key)
        return True

    def _add(self, body: bytes, key: tuple[Value, ...]) -> None:
        self.items.append(Item(body, key))
        self.of_child.append(Item(body, key))
        self.met.add("stored")

    def hand_off(self) -> None:
        """Refused, it confirms nothing."""
        assert self.set("prod", "source", b"s") == b"STORED\r\n"
        assert bodies(self.ask("kim", b"get source/open")) == [b"s"]
        body, values = self._message()
        is_in = self._stored(self.set("kim", "jobs/confirm", body), body, values)
        shown = self.ask("kim", b"get source/abort") + self.ask("kim", b"get source")
        assert bodies(shown) == ([] if is_in else [b"s"]), shown
        self.met.add("by hand-off")

    def put_by_schedule(self) -> None:
        body, values = self._message()
        if not self.is_drawn("key_format", "json"):
            body, values = b"{", "absent"  # a text is a number there
        name = f"beat{self.count}"  # the old one would have missed its times
        self.stage.set_schedule(name, cron="* * * * * *", queue="jobs", body=body.decode())
        self.pass_time(1000)
        self.stage.drop_schedule(name)
        key = self._key(values)
        if key is not None:
            self._add(body, key)
        self.met.add("by schedule")

    def open(self) -> None:
        who = self.pick(WHO)
        if any(item.holder == who for item in self.items):
            return
        item = next(self._possible(self.items), None)
        said = bodies_of(self.ask(who, b"get jobs/open"))
        assert said == ([item.body] if item else []), f"{said}, not {item}"
        if item is not None:
            item.holder = who
        else:
            self.met.add("none possible")

    def confirm(self) -> None:
        who = self.pick(WHO)
        held = next((item for item in self.items if item.holder == who), None)
        assert self.ask(who, b"get jobs/close") == b"END\r\n"
        if held is not None:
            self.items.remove(held)

    def give_back(self) -> None:
        """Hang up: the client's items have their own places again, and are first for their keys."""
        who = self.pick(WHO)
        if who in self.stage.clients:
            self.stage.hang_up(who)
            for item in self.items:
                if item.holder == who:
                    item.holder = ""
                    self.met.add("came back")

    def come_again(self) -> None:
        self.come_back(self.pick(("restart", "kill", "cut_power")))
        for item in self.items:
            item.holder = ""
        self.met.add("restarted")

    def tidy_up(self) -> None:
        log = self.stage.queue("jobs").log
        assert isinstance(log, JournalLog)
        tidy(self.stage, log)
        self.met.add("tidied")

    def drain_child(self) -> None:
        """Drain the child: it has the same keys, and leases of its own."""
        first = self.of_child[:1]
        second: Item | None = None
        said = bodies_of(self.ask("kid", b"get jobs+kid/open"))
        assert said == [item.body for item in first]
        if first:
            first[0].holder = "kid"
            second = next(self._possible(self.of_child), None)
            said = bodies_of(self.ask("boy", b"get jobs+kid"))
            assert said == ([second.body] if second else []), f"{said}, not {second}"
            assert self.ask("kid", b"get jobs+kid/close") == b"END\r\n"
        self.of_child = [item for item in self.of_child if item not in (*first, second)]
        self.met.add("child")

    def end(self) -> None:
        """Confirmed one after the other, all of them come, the oldest that is possible first."""
        for who in WHO:
            if who in self.stage.clients:
                self.stage.hang_up(who)
        for item in self.items:
            item.holder = ""
        for item in self.items:
            assert bodies_of(self.ask("eye", b"get jobs")) == [item.body]
        assert self.ask("eye", b"get jobs") == b"END\r\n"

    def close(self) -> None:
        self.patch.undo()


def bodies_of(answer: bytes) -> list[bytes]:
    """The bodies of an answer, whatever bytes they have."""
    if answer == b"END\r\n":
        return []
    line, rest = answer.split(b"\r\n", 1)
    size = int(line.split()[3])
    assert rest[size:] == b"\r\nEND\r\n", answer
    return [rest[:size]]


@pytest.mark.slow
def test_what_the_body_says_is_the_key_of_its_item() -> None:
    measure(KeysMachine, walks=30, steps=50)
