"""`sync`, `confirms`, `durable`: the record that each answer waits for, and the loss by power cuts.

    waits for        answers
    the sync         STORED, a refusal that rests on an item, the first mention of a child, flush
    the write        a confirm, a lease by token, touch, a plain get; with confirms = "synced" the
                     sync
    nothing          an open by connection, peek

With `sync` other than "always" the write is enough for all of these; in memory nothing waits. A
kill keeps all written records; a power cut keeps all synced ones and a beginning of the rest; both
keep each record that an answer rested on. An item is shown once its own record could be answered.

One rule: the model is a list of records in their order, and how far these are surely on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

import pytest

from tests.model.narrow import Narrow, bodies, measure

NOTHING, WRITTEN, SYNCED = range(3)
_HELD: Final = {"": SYNCED, "syncs": WRITTEN, "writes": NOTHING}


@dataclass(eq=False)
class Item:
    body: bytes
    record: int  # the number of its put
    id: bytes = b""
    holder: str = ""
    token: int = 0


@dataclass
class Record:
    """One change: an item comes, items go, or neither. `level`: in memory, written or synced."""

    comes: bytes = b""
    goes: list[bytes] = field(default_factory=list)
    level: int = NOTHING


@dataclass
class Pending:
    """An answer that was not given yet."""

    who: str
    said: bytes
    record: int
    needs: int


class SyncMachine(Narrow):
    """One queue on a disk that writes and syncs when the machine lets it."""

    draws: ClassVar = {
        "sync": ("always", "never", "2s"), "confirms": ("written", "synced"),
    }  # fmt: skip
    effects: ClassVar = (
        "put", "duplicate", "take", "open", "token", "close", "abort", "touch", "flush",
        "child", "held", "killed", "cut", "reloaded", "waited for the write",
    )  # fmt: skip
    never: ClassVar = {
        ("sync=never", "waited for the sync"): "it never does",
    }
    weights: ClassVar = {
        "put": 10, "repeat": 3, "take": 3, "open": 4, "end": 5, "end_by_token": 3, "touch": 1,
        "flush": 0.5, "child": 1, "peek": 1, "hold": 5, "go": 3, "kill": 1, "cut": 1.5,
        "reload": 1,
    }  # fmt: skip

    def begin(self) -> None:
        self.sync, self.confirms = self.drawn["sync"], self.drawn["confirms"]
        self.stage.set_queue(**self.drawn)
        self.records: list[Record] = []
        self.items: list[Item] = []
        self.pending: list[Pending] = []
        self.people = 0
        self.held = ""
        self._begin_life()

    def _begin_life(self) -> None:
        """Begin a life: its first token waits for a record of its own."""
        body = self.body()
        assert self.set("first", "jobs", body) == b"STORED\r\n"
        shown = bodies(self.ask("first", b"get jobs/open"))
        assert self.ask("first", b"get jobs/defer") == b"END\r\n"
        self.items.append(Item(body, self._log(comes=body)))
        assert shown == [self.items[0].body]

    # -- records and answers ----------------------------------------------------------------

    @property
    def stored(self) -> int:
        """The level that STORED waits for."""
        return SYNCED if self.sync == "always" else WRITTEN

    @property
    def confirmed(self) -> int:
        return self.stored if self.confirms == "synced" else WRITTEN

    def _log(self, comes: bytes = b"", goes: list[bytes] | None = None) -> int:
        """Add a record; the next turn that may writes or syncs it. Return its number."""
        self.records.append(Record(comes, goes or []))
        self._reach()
        return len(self.records) - 1

    def _reach(self) -> None:
        for record in self.records:
            record.level = max(record.level, _HELD[self.held])

    def _level(self, record: int) -> int:
        """Return the lowest level of the records up to this one."""
        return min((each.level for each in self.records[: record + 1]), default=SYNCED)

    def _say(self, line: bytes, body: bytes | None = None) -> tuple[str, bytes]:
        self.people += 1
        who = f"p{self.people}"
        self.stage.send(who, b"\r\n".join([line, *[body] * (body is not None), b""]))
        said = self.stage.client(who).take()
        self.transcript.append(f"{who}> {line!r} {body!r}  {who}< {said!r}")
        return who, said

    def _expect(self, who: str, said: bytes, wanted: bytes, record: int, needs: int) -> None:
        """This answer is given now if what it waits for is there, or else then."""
        if self._level(record) >= needs:
            assert said.startswith(wanted), f"{who}: {said!r}, not {wanted!r}"
            return
        assert not said, f"{who}: {said!r} before its record"
        self.met.update(["held", *["waited for the write"] * (self.held == "writes")])
        self.pending.append(Pending(who, wanted, record, needs))

    def _answered(self) -> None:
        for each in self.pending[:]:
            said = self.stage.client(each.who).take()
            if self._level(each.record) >= each.needs:
                assert said.startswith(each.said), f"{each}: {said!r}"
                self.pending.remove(each)
            else:
                assert not said, f"{each}: {said!r} before its record"

    def check(self) -> None:
        self._answered()

    # -- the steps --------------------------------------------------------------------------

    def put(self) -> None:
        body, id_ = self.body(), b"%d" % self.count
        who, said = self._say(b"set jobs/id=%b 0 0 %d" % (id_, len(body)), body)
        record = self._log(comes=body)
        self.items.append(Item(body, record, id_))
        self._expect(who, said, b"STORED\r\n", record, self.stored)
        self.met.add("put")

    def repeat(self) -> None:
        """Put a duplicate: its answer rests on the item that was stored before."""
        known = [item for item in self.items if item.id]
        if known:
            item, verb = self.pick(known), self.pick((b"set", b"add"))
            who, said = self._say(b"%b jobs/id=%b 0 0 1" % (verb, item.id), b"x")
            wanted = b"STORED\r\n" if verb == b"set" else b"NOT_STORED\r\n"
            self._expect(who, said, wanted, len(self.records) - 1, self.stored)
            self.met.add("duplicate")

    def _first(self) -> Item | None:
        return next((item for item in self.items if not item.holder), None)

    def peek(self) -> None:
        item = self._first()
        who, said = self._say(b"get jobs/peek")
        wanted = b"VALUE jobs/peek 0 %d\r\n%b\r\n" % (len(item.body), item.body) if item else b"END"
        self._expect(who, said, wanted, item.record if item else -1, self.stored)

    def take(self) -> None:
        item = self._first()
        if item is None:
            return
        who, said = self._say(b"get jobs")
        self.items.remove(item)
        record = self._log(goes=[item.body])
        wanted = b"VALUE jobs 0 %d\r\n%b\r\n" % (len(item.body), item.body)
        # Its put comes first, so both have to be far enough.
        is_shown = self._level(item.record) >= self.stored
        # The answer waits for two records; the log is written or synced up to one record.
        end, needs = (record, self.confirmed) if is_shown else (item.record, self.stored)
        self._expect(who, said, wanted, end, max(needs, self.confirmed))
        self.met.add("take")

    def open(self) -> None:
        item, by_token = self._first(), self.random.random() < 0.4
        if item is None:
            return
        who, said = self._say(b"gets jobs/open" + b"/lease=1h" * by_token)
        record = self._log() if by_token else item.record
        is_shown = self._level(item.record) >= self.stored
        needs = self.confirmed if by_token else NOTHING
        item.holder = who
        if is_shown and self._level(record) >= needs:
            assert bodies(said) == [item.body], said
            item.token = int(said.split()[4])
        else:
            assert not said, said
            end = item.record if not is_shown else record
            needs = self.stored if not is_shown else needs
            self.pending.append(Pending(who, b"VALUE jobs/open", max(end, 0), needs))
            item.holder = f"{who} has not heard"
        self.met.add("token" if by_token else "open")
        if by_token:
            item.holder += " by token"

    def _held_item(self, by_token: bool) -> Item | None:
        found = [
            item for item in self.items
            if item.token and item.holder.endswith(" by token") == by_token
        ]  # fmt: skip
        return self.pick(found) if found else None

    def end(self) -> None:
        item = self._held_item(by_token=False)
        if item is None:
            return
        verb = self.pick((b"close", b"close", b"abort"))
        line = b"get jobs/" + verb
        self.stage.send(item.holder, line + b"\r\n")
        said = self.stage.client(item.holder).take()
        self.transcript.append(f"{item.holder}> {line!r}  < {said!r}")
        self._ended(item, item.holder, said, verb, b"END\r\n")

    def end_by_token(self) -> None:
        item = self._held_item(by_token=True)
        if item is None:
            return
        how = self.pick(("delete", "close", "abort"))
        line = {
            "delete": b"delete jobs/token=%d", "close": b"get jobs/close/token=%d",
            "abort": b"get jobs/abort/token=%d",
        }[how]  # fmt: skip
        who, said = self._say(line % item.token)
        wanted = b"DELETED\r\n" if how == "delete" else b"END\r\n"
        self._ended(item, who, said, b"abort" if how == "abort" else b"close", wanted)

    def _ended(self, item: Item, who: str, said: bytes, verb: bytes, wanted: bytes) -> None:
        if verb == b"close":
            self.items.remove(item)
            record = self._log(goes=[item.body])
        else:
            item.holder, item.token = "", 0
            record = self._log()
        self._expect(who, said, wanted, record, self.confirmed)
        self.met.add(verb.decode())

    def touch(self) -> None:
        item = self._held_item(by_token=True)
        if item is not None:
            who, said = self._say(b"touch jobs/token=%d 1000" % item.token)
            self._expect(who, said, b"TOUCHED\r\n", self._log(), self.confirmed)
            self.met.add("touch")

    def flush(self) -> None:
        who, said = self._say(b"flush jobs")
        gone = [item for item in self.items if not item.holder]
        self.items = [item for item in self.items if item.holder]
        record = self._log(goes=[item.body for item in gone])
        self._expect(who, said, b"END\r\n", record, self.stored)
        self.met.add("flush")

    def child(self) -> None:
        self.count += 1
        who, said = self._say(b"get jobs+c%d/peek" % self.count)
        self._expect(who, said, b"END\r\n", self._log(), self.stored)
        self.met.add("child")

    # -- the disk ---------------------------------------------------------------------------

    def hold(self) -> None:
        self.held = self.pick(("syncs", "syncs", "writes"))
        self.transcript.append(f"= hold {self.held}")
        self.stage.go()
        self.held, held = "", self.held
        self._reach()
        self._answered()
        self.held = held
        (self.stage.hold_syncs if held == "syncs" else self.stage.hold_writes)()

    def go(self) -> None:
        self.held = ""
        self.transcript.append("= go")
        self.stage.go()
        self._reach()

    def reload(self) -> None:
        if self.held or self.pending:
            return
        self.sync = self.pick(("always", "never", "2s"))
        self.confirms = self.pick(("written", "synced"))
        self.transcript.append(f"= reload {self.sync} {self.confirms}")
        self.stage.set_queue(sync=self.sync, confirms=self.confirms)
        self.met.add("reloaded")

    def kill(self) -> None:
        self._die("kill", WRITTEN)
        self.met.add("killed")

    def cut(self) -> None:
        self._die("cut_power", SYNCED)
        self.met.add("cut")

    def _die(self, how: str, least: int) -> None:
        """Restart, and check that a beginning of the records is there, with all sure ones."""
        sure = max((n + 1 for n in range(len(self.records)) if self._level(n) >= least), default=0)
        for client in self.stage.clients.values():
            client.take()
        self.transcript.append(f"= {how}, {sure} of {len(self.records)} are sure")
        if how == "kill":
            self.stage.kill()
        else:
            self.stage.cut_power(self.count if self.random.random() < 0.5 else None)
        self.held = ""
        self.stage.work()
        for _ in range(10):
            self.stage.pass_time(1)
        found = bodies(self.stage.say("look", b"gets jobs/peek/after=0/n=1000"))
        ends = range(sure, len(self.records) + 1) if how != "kill" else [sure]
        possible = [self._after(end) for end in ends]
        assert sorted(found) in [sorted(each) for each in possible], f"{found}, not {possible}"
        self.records = [Record(comes=body, level=SYNCED) for body in found]
        there = {item.body: item for item in self.items}
        self.items = [Item(body, n) for n, body in enumerate(found)]
        for item in self.items:
            item.id = there[item.body].id if item.body in there else b""
        self.pending.clear()
        # Whether a lease by token is over depends on its records: all end here.
        self.pass_time(3_700_000)
        self._begin_life()

    def _after(self, end: int) -> list[bytes]:
        """Return the items that the first `end` records leave."""
        found: list[bytes] = []
        for record in self.records[:end]:
            found += [record.comes] * bool(record.comes)
            found = [body for body in found if body not in record.goes]
        return found

    def close(self) -> None:
        for client in self.stage.clients.values():
            client.take()


@pytest.mark.slow
def test_an_answer_waits_for_what_it_says_and_a_power_cut_takes_nothing_of_that() -> None:
    measure(SyncMachine, walks=30, steps=60)
